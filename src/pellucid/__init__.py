"""Augmentation and warping that gradients pass through."""

from pellucid._version import __version__

__all__ = ["__version__"]

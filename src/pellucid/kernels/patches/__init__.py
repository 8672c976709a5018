"""Patches sampled out of an image through local affine frames, antialiased by a pyramid.

Owns: `patches`, which picks an implementation.
Must not: compute anything itself.
Read next: ``reference.py``.
"""

from __future__ import annotations

from torch import Tensor

from pellucid.kernels.dispatch import choose
from pellucid.kernels.patches import reference
from pellucid.types import Size

__all__ = ["AVAILABLE", "patches"]

AVAILABLE: tuple[str, ...] = ("reference",)


def patches(image: Tensor, frames: Tensor, span: Tensor, *, size: Size, levels: int, impl: str = "auto") -> Tensor:
    """See :func:`pellucid.kernels.patches.reference.patches`; ``impl`` says who computes it."""
    choose(impl, available=AVAILABLE, device=image.device.type)
    return reference.patches(image, frames, span, size=size, levels=levels)

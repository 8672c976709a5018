"""Pointwise tone curves.

Owns: the name `power`.
Must not: mix channels.
Read next: ``reference.py``.
"""

from pellucid.kernels.curve.reference import power

__all__ = ["power"]

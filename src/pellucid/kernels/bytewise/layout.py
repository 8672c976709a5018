"""The contract between lowering and the compiled operations on bytes: their numbers.

Owns: kinds, and how many numbers each has.
Must not: import a compiler.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from pellucid.kernels.curve.layout import AUTOCONTRAST, EQUALIZE, KINDS

__all__ = ["AUTOCONTRAST", "BILINEAR", "COLOR", "CURVES", "EQUALIZE", "NEAREST", "SHARPEN", "count_of"]

CURVES = KINDS
"""The first kinds are those of curves, by name; each has the numbers of ``../curve/layout.py``: amount, gain, gate."""

NEAREST, BILINEAR, COLOR, SHARPEN = range(5, 9)
"""Two interpolations of an affine map (6 numbers) over zeros; matrix, offset and share of the mean luma; a filter of 3 x 3."""


def count_of(kind: int, channels: int) -> int:
    """How many numbers an operation has."""
    return {NEAREST: 6, BILINEAR: 6, COLOR: channels * (channels + 1) + 1, SHARPEN: 9}.get(kind, 3)

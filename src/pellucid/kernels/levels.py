"""Loops that turn bytes into numbers and back, each in one read and one write.

Owns: the arithmetic of ``warp/dtypes.py``, bit for bit.
Must not: know of tensors.
Read next: ``conversion.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, without_refcount

__all__ = ["to_colors", "to_levels"]


@entry
def to_colors(levels, out, start, stop):  # type: ignore[no-untyped-def]
    """Bytes [start, stop) as fractions of 255."""
    levels, out = without_refcount((levels[start:stop], out[start:stop]))  # slices: indices that may be negative are no vectors
    unit = out.dtype.type(1.0 / 255.0)
    for u in range(len(out)):
        out[u] = out.dtype.type(levels[u]) * unit


@entry
def to_levels(numbers, out, start, stop):  # type: ignore[no-untyped-def]
    """Numbers [start, stop) as the nearest of 255 steps, halves to even; 0 for what is none."""
    numbers, out = without_refcount((numbers[start:stop], out[start:stop]))
    cast = numbers.dtype.type
    zero, one, most = cast(0.0), cast(1.0), cast(255.0)
    for u in range(len(out)):
        x = numbers[u]
        x = x if x > zero else zero
        x = x if x < one else one
        out[u] = np.uint8(np.int32(np.rint(x * most)))

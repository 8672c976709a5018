"""Loops that turn bytes into numbers and back, each in one read and one write.

Owns: the arithmetic of ``warp/dtypes.py``, bit for bit.
Must not: know of tensors.
Read next: ``conversion.py``.
"""

import numpy as np

from pellucid.kernels.jit import entry, exact

__all__ = ["level_of", "rounded", "to_colors", "to_levels", "units"]


@exact
def units(x, unit, out):  # type: ignore[no-untyped-def]
    """Multiply levels by the value of one level."""
    cast = type(unit)
    for u in range(len(out)):
        out[u] = cast(x[u]) * unit


@exact
def level_of(y):  # type: ignore[no-untyped-def]
    """The nearest of 255 steps, halves to even; 0 for NaN."""
    zero, one, most = type(y)(0.0), type(y)(1.0), type(y)(255.0)
    y = y if y > zero else zero
    y = y if y < one else one
    return np.uint8(np.int32(np.rint(y * most)))


@exact.noinline
def rounded(x, out):  # type: ignore[no-untyped-def]
    """The nearest step of each number."""
    for u in range(len(out)):
        out[u] = level_of(x[u])


@entry
def to_colors(levels, out, start, stop):  # type: ignore[no-untyped-def]
    """Bytes [start, stop) as fractions of 255."""
    levels, out = levels[start:stop], out[start:stop]  # slices: loops whose index may be negative are not vectorised
    units(levels, out.dtype.type(1.0 / 255.0), out)


@entry
def to_levels(numbers, out, start, stop):  # type: ignore[no-untyped-def]
    """Numbers [start, stop) as levels."""
    rounded(numbers[start:stop], out[start:stop])

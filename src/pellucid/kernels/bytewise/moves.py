"""Warp a picture of bytes by an affine map, with bilinear interpolation.

Owns: the bilinear read over zeros, with the numbers of ``../warp/cpu``, bit for bit.
Must not: know of other maps, or of other borders.
Read next: ``../warp/cpu/coordinates.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import exact, fused
from pellucid.kernels.levels import rounded
from pellucid.kernels.warp.cpu.coordinates import locate
from pellucid.kernels.warp.cpu.gather import gather_staged

__all__ = ["bilinear", "moves_nothing"]


@exact
def moves_nothing(m):  # type: ignore[no-untyped-def]
    """Whether a map is the identity."""
    return m[0] == 1.0 and m[1] == 0.0 and m[2] == 0.0 and m[3] == 0.0 and m[4] == 1.0 and m[5] == 0.0


@fused.noinline
def _laid_out(source, shape, unit, plane):  # type: ignore[no-untyped-def]
    """Write the picture as pixels of three channels and an unread number, with a ring of zeros, as ``quads.py`` reads them."""
    height, width = shape
    wide, cast = 4 * (width + 2), type(unit)
    last = len(source) - 1
    plane[: wide + 4] = cast(0.0)
    for v in range(height):
        start, end = v * width, (v + 1) * width
        a, b, c = source[0][start:end], source[min(last, 1)][start:end], source[last][start:end]
        row = plane[(v + 1) * wide + 4 : (v + 2) * wide + 4]
        for u in range(width):
            row[4 * u], row[4 * u + 1] = cast(a[u]) * unit, cast(b[u]) * unit
            row[4 * u + 2], row[4 * u + 3] = cast(c[u]) * unit, cast(1.0)
        row[4 * width :] = cast(0.0)
    plane[(height + 1) * wide : (height + 2) * wide] = cast(0.0)


@fused.noinline
def _settled(x, y, shape, index):  # type: ignore[no-untyped-def]
    """Turn coordinates into a pixel's index in that plane and the fractions to the next; pixels outside read the zero corner."""
    cast = x.dtype.type
    one, most_x, most_y, wide = cast(1.0), cast(shape[1]), cast(shape[0]), np.int32(shape[1] + 2)
    for u in range(len(index)):
        a, b = x[u], y[u]
        seen = (a >= -one) & (a < most_x) & (b >= -one) & (b < most_y)
        a, b = a if seen else -one, b if seen else -one
        column, row = np.floor(a), np.floor(b)
        x[u], y[u] = a - column, b - row
        index[u] = np.int32(4) * (np.int32(row + one) * wide + np.int32(column + one))


@fused.noinline
def bilinear(source, m, shape, unit, plane, cells, lines, ramp, target):  # type: ignore[no-untyped-def]
    """Interpolate every pixel of the result from the four around the place that the map gives."""
    height, width = shape
    _laid_out(source, shape, unit, plane)
    rows = lines[: 11 * width].reshape(11, width)
    x, y, made, zeros, quads, index = rows[0], rows[1], rows[2:6], rows[6], lines[7 * width : 11 * width], cells[:width]
    zeros[:] = lines.dtype.type(0.0)
    for v in range(height):
        locate(m, v, False, ramp, zeros, x, y, made[0])
        _settled(x, y, shape, index)
        gather_staged(plane, width + 2, 2, index, x, y, None, quads, made[: len(source)], made[3], None)
        for c in range(len(source)):
            rounded(made[c], target[c][v * width : (v + 1) * width])

"""Displacements of a cubic B-spline grid, or of one that is linear between knots, for a block of points in registers.

Owns: the arithmetic of ``geometry/bends.py``: displaced points, and their gradients to points and to the grid.
Must not: know of maps or canvases.
Read next: ``links.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.coordinates import divide

__all__ = ["moved", "on_grid", "share_of", "tilted"]


@triton.jit
def on_grid(x, low, spacing, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where points lie along an axis: knots from the grid's first."""
    return divide(x - low, tl.zeros(x.shape, F) + spacing, F)


@triton.jit
def _cell(place, count):  # type: ignore[no-untyped-def]
    """(the first of the knots that matter along an axis, the position in their cell)."""
    first = tl.minimum(tl.maximum(tl.floor(place), 0.0), count - 4.0)
    return first.to(tl.int32), tl.minimum(tl.maximum(place - first, 0.0), 1.0)


@triton.jit
def _share(t, LINEAR: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weight of knot K of four for the position t in [0, 1] in their cell."""
    near, far = (t, 1.0 - t) if K < 2 else (1.0 - t, t)
    if LINEAR:
        value = far
    elif K % 3 == 0:
        value = far * far * far * (1.0 / 6.0)
    else:
        value = (3.0 * near * near * (near - 2.0) + 4.0) * (1.0 / 6.0)
    return value


@triton.jit
def _rise(t, LINEAR: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The derivative of `_share` by t."""
    near, far = (t, 1.0 - t) if K < 2 else (1.0 - t, t)
    if LINEAR:
        value = tl.full(t.shape, -1.0, t.dtype)
    elif K % 3 == 0:
        value = -0.5 * far * far
    else:
        value = near * (1.5 * near - 2.0)
    return value if K < 2 else -value


@triton.jit
def share_of(place, knot, LINEAR: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weight of any knot along an axis, for places on the grid; ``knot`` counts from the row beyond its first."""
    d = tl.abs(place - (knot - 1.0))
    if LINEAR:
        value = tl.maximum(1.0 - d, 0.0)
    else:
        far = tl.maximum(2.0 - d, 0.0)
        value = tl.where(d < 1.0, 4.0 + 3.0 * d * d * (d - 2.0), far * far * far) * (1.0 / 6.0)
    return value


@triton.jit
def _cells(x, y, grid, given, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """(the first knot that matters to points, their positions across and down in their cells, their places on the grid).

    ``grid``: its first knot and spacing. The ``given`` field are (2, rows, columns) displacements, of which the outer ones are not
    used where the grid is linear.
    """
    a, b = on_grid(x, tl.load(grid), tl.load(grid + 2), F), on_grid(y, tl.load(grid + 1), tl.load(grid + 3), F)
    i, t = _cell(a, given.columns)
    j, r = _cell(b, given.rows)
    return given.field + (j * given.columns + i), t, r, a, b


@triton.jit
def moved(x, y, grid, given, LINEAR: tl.constexpr, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """Points with their displacements added."""
    first, t, r, _, _ = _cells(x, y, grid, given, F)
    BEGIN: tl.constexpr = 1 if LINEAR else 0
    by_x, by_y = tl.zeros(x.shape, F), tl.zeros(x.shape, F)
    for row in tl.static_range(BEGIN, 4 - BEGIN):
        for column in tl.static_range(BEGIN, 4 - BEGIN):
            share = _share(r, LINEAR, row) * _share(t, LINEAR, column)
            knot = first + (row * given.columns + column)
            by_x = tl.fma(share, tl.load(knot), by_x)
            by_y = tl.fma(share, tl.load(knot + given.rows * given.columns), by_y)
    return x + by_x, y + by_y


@triton.jit
def tilted(x, y, to_x, to_y, grid, given, LINEAR: tl.constexpr, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """The gradient of displaced points: (to x, to y, (to the grid's first x, first y, spacing along x, along y)).

    Beyond the grid the displacement does not change with the point.
    """
    first, t, r, a, b = _cells(x, y, grid, given, F)
    BEGIN: tl.constexpr = 1 if LINEAR else 0
    along_x, along_y = tl.zeros(x.shape, F), tl.zeros(x.shape, F)
    for row in tl.static_range(BEGIN, 4 - BEGIN):
        for column in tl.static_range(BEGIN, 4 - BEGIN):
            knot = first + (row * given.columns + column)
            worth = tl.fma(to_x, tl.load(knot), to_y * tl.load(knot + given.rows * given.columns))
            along_x = tl.fma(_share(r, LINEAR, row) * _rise(t, LINEAR, column), worth, along_x)
            along_y = tl.fma(_rise(r, LINEAR, row) * _share(t, LINEAR, column), worth, along_y)
    along_x = tl.where((a > 0.0) & (a < given.columns - 3.0), along_x / tl.load(grid + 2), 0.0)
    along_y = tl.where((b > 0.0) & (b < given.rows - 3.0), along_y / tl.load(grid + 3), 0.0)
    return to_x + along_x, to_y + along_y, (-along_x, -along_y, -along_x * a, -along_y * b)

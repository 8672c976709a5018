"""A strip of points through a cubic B-spline field, forward and backward.

Owns: the arithmetic of ``geometry/bends.py``, compiled, a cell of the grid at a time.
Must not: know of canvases.
Read next: ``links.py``.

Points that follow one another mostly lie in one cell of the grid. There the sixteen knots of either axis are constants, and the
points between two changes of cell are one loop over plain arrays.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.warp.cpu.stages import dot

__all__ = ["bend", "unbend"]


@fused
def _cell(x, y, at, rows, columns, grid):  # type: ignore[no-untyped-def]
    """The cell of point ``at`` (column, row), where it begins (x, y), and the first point behind it that lies in another."""
    cast = x.dtype.type
    zero, one, far = cast(0.0), cast(1.0), cast(np.inf)
    last_i, last_j = cast(columns - 4), cast(rows - 4)
    i = min(max(np.floor((x[at] - grid[0]) / grid[2]), zero), last_i)
    j = min(max(np.floor((y[at] - grid[1]) / grid[3]), zero), last_j)
    left, top = grid[0] + i * grid[2], grid[1] + j * grid[3]
    low_x, high_x = left if i > zero else -far, grid[0] + (i + one) * grid[2] if i < last_i else far
    low_y, high_y = top if j > zero else -far, grid[1] + (j + one) * grid[3] if j < last_j else far
    end = at + 1
    while end < len(x) and x[end] >= low_x and x[end] < high_x and y[end] >= low_y and y[end] < high_y:
        end += 1
    return np.int64(i), np.int64(j), left, top, end


@fused
def _shares(t):  # type: ignore[no-untyped-def]
    """The weights of four knots."""
    cast = type(t)
    one, three, four, six = cast(1.0), cast(3.0), cast(4.0), cast(1.0 / 6.0)
    s = one - t
    return (
        s * s * s * six,
        (three * t * t * (t - cast(2.0)) + four) * six,
        (three * s * s * (s - cast(2.0)) + four) * six,
        t * t * t * six,
    )


@fused
def _slopes(t, scale):  # type: ignore[no-untyped-def]
    """Their derivatives."""
    cast = type(t)
    half, one, two, three = cast(0.5), cast(1.0), cast(2.0), cast(1.5)
    s = one - t
    return -half * s * s * scale, t * (three * t - two) * scale, -s * (three * s - two) * scale, half * t * t * scale


@fused
def _line(a, b, c, d, linear):  # type: ignore[no-untyped-def]
    """Four numbers of a cubic spline: as they are, or those with which it is linear from the second to the third."""
    return (b + b - c if linear else a), b, c, (c + c - b if linear else d)


@fused
def _knots(c, at, columns, linear):  # type: ignore[no-untyped-def]
    """Four rows of four numbers of a cubic spline, from place ``at`` on; of a linear one those that make the same patch."""
    b00, b10, b20, b30 = _line(c[at], c[at + 1], c[at + 2], c[at + 3], linear)
    at += columns
    b01, b11, b21, b31 = _line(c[at], c[at + 1], c[at + 2], c[at + 3], linear)
    at += columns
    b02, b12, b22, b32 = _line(c[at], c[at + 1], c[at + 2], c[at + 3], linear)
    at += columns
    b03, b13, b23, b33 = _line(c[at], c[at + 1], c[at + 2], c[at + 3], linear)
    a, b = _line(b00, b01, b02, b03, linear), _line(b10, b11, b12, b13, linear)
    c, d = _line(b20, b21, b22, b23, linear), _line(b30, b31, b32, b33, linear)
    return (a[0], b[0], c[0], d[0]), (a[1], b[1], c[1], d[1]), (a[2], b[2], c[2], d[2]), (a[3], b[3], c[3], d[3])


@fused
def _unline(weights):  # type: ignore[no-untyped-def]
    """The weights of four knots, as the two have them that :func:`_line` makes them of."""
    for u in range(weights.shape[1]):
        p, q, r, s = weights[0, u], weights[1, u], weights[2, u], weights[3, u]
        weights[0, u] = weights[3, u] = p - p
        weights[1, u], weights[2, u] = p + p + q - s, r + s + s - p


@fused
def _move(c, at, below, columns, linear, left, top, grid, x, y):  # type: ignore[no-untyped-def]
    """Displace points of one cell in place; the knots of x begin ``at``, those of y ``below``."""
    noinline()
    cast = x.dtype.type
    zero, one = cast(0.0), cast(1.0)
    across, down = one / grid[2], one / grid[3]
    ((a00, a01, a02, a03), (a10, a11, a12, a13), (a20, a21, a22, a23), (a30, a31, a32, a33)) = _knots(c, at, columns, linear)
    ((b00, b01, b02, b03), (b10, b11, b12, b13), (b20, b21, b22, b23), (b30, b31, b32, b33)) = _knots(c, below, columns, linear)
    for u in range(len(x)):
        p, q, r, s = _shares(min(max((x[u] - left) * across, zero), one))
        e, f, g, h = _shares(min(max((y[u] - top) * down, zero), one))
        x[u] += (
            e * (p * a00 + q * a01 + r * a02 + s * a03)
            + f * (p * a10 + q * a11 + r * a12 + s * a13)
            + g * (p * a20 + q * a21 + r * a22 + s * a23)
            + h * (p * a30 + q * a31 + r * a32 + s * a33)
        )
        y[u] += (
            e * (p * b00 + q * b01 + r * b02 + s * b03)
            + f * (p * b10 + q * b11 + r * b12 + s * b13)
            + g * (p * b20 + q * b21 + r * b22 + s * b23)
            + h * (p * b30 + q * b31 + r * b32 + s * b33)
        )


@fused
def bend(c, rows, columns, linear, grid, x, y):  # type: ignore[no-untyped-def]
    """Displace a row of finite points in place.

    Args:
        c: the knots' displacements along x, (rows, columns), then along y.
        linear: between knots; the outer ones are then not used.
        grid: x and y of the first knot, and the spacing.
    """
    noinline()
    u = 0
    while u < len(x):
        i, j, left, top, end = _cell(x, y, u, rows, columns, grid)
        at = j * columns + i
        _move(c, at, at + rows * columns, columns, linear, left, top, grid, x[u:end], y[u:end])
        u = end


@fused
def _back(c, at, below, columns, linear, left, top, grid, inner, x, y, gx, gy, weights):  # type: ignore[no-untyped-def]
    """The gradient of displaced points to the points, in place, and (in ``weights``) the shares of their knots.

    Args:
        inner: the interval of positions in the cell, along x and along y, in which the field moves with the point.
    """
    noinline()
    cast = x.dtype.type
    zero, one = cast(0.0), cast(1.0)
    across, down = one / grid[2], one / grid[3]
    low_x, high_x, low_y, high_y = inner
    ((a00, a01, a02, a03), (a10, a11, a12, a13), (a20, a21, a22, a23), (a30, a31, a32, a33)) = _knots(c, at, columns, linear)
    ((b00, b01, b02, b03), (b10, b11, b12, b13), (b20, b21, b22, b23), (b30, b31, b32, b33)) = _knots(c, below, columns, linear)
    for u in range(len(x)):
        i, j = (x[u] - left) * across, (y[u] - top) * down
        p, q, r, s = _shares(min(max(i, zero), one))
        e, f, g, h = _shares(min(max(j, zero), one))
        P, Q, R, S = _slopes(min(max(i, zero), one), across if (i > low_x) & (i < high_x) else zero)
        E, F, G, H = _slopes(min(max(j, zero), one), down if (j > low_y) & (j < high_y) else zero)
        x_by_x = (
            e * (P * a00 + Q * a01 + R * a02 + S * a03)
            + f * (P * a10 + Q * a11 + R * a12 + S * a13)
            + g * (P * a20 + Q * a21 + R * a22 + S * a23)
            + h * (P * a30 + Q * a31 + R * a32 + S * a33)
        )
        y_by_x = (
            e * (P * b00 + Q * b01 + R * b02 + S * b03)
            + f * (P * b10 + Q * b11 + R * b12 + S * b13)
            + g * (P * b20 + Q * b21 + R * b22 + S * b23)
            + h * (P * b30 + Q * b31 + R * b32 + S * b33)
        )
        x_by_y = (
            E * (p * a00 + q * a01 + r * a02 + s * a03)
            + F * (p * a10 + q * a11 + r * a12 + s * a13)
            + G * (p * a20 + q * a21 + r * a22 + s * a23)
            + H * (p * a30 + q * a31 + r * a32 + s * a33)
        )
        y_by_y = (
            E * (p * b00 + q * b01 + r * b02 + s * b03)
            + F * (p * b10 + q * b11 + r * b12 + s * b13)
            + G * (p * b20 + q * b21 + r * b22 + s * b23)
            + H * (p * b30 + q * b31 + r * b32 + s * b33)
        )
        weights[0, u], weights[1, u], weights[2, u], weights[3, u] = p, q, r, s
        to_x, to_y = gx[u], gy[u]
        weights[4, u], weights[5, u], weights[6, u], weights[7, u] = e * to_x, f * to_x, g * to_x, h * to_x
        weights[8, u], weights[9, u], weights[10, u], weights[11, u] = e * to_y, f * to_y, g * to_y, h * to_y
        gx[u] = to_x + to_x * x_by_x + to_y * y_by_x
        gy[u] = to_y + to_x * x_by_y + to_y * y_by_y


@fused
def unbend(c, rows, columns, linear, grid, x, y, gx, gy, to_c, weights):  # type: ignore[no-untyped-def]
    """The gradient of displaced points, to the points (in place) and to the knots (added).

    Args:
        c, rows, columns, linear, grid: as in :func:`bend`.
        x, y: the points before.
        weights: scratch, twelve rows.
    """
    noinline()
    cast = x.dtype.type
    u = 0
    while u < len(x):
        i, j, left, top, end = _cell(x, y, u, rows, columns, grid)
        at, below, n = j * columns + i, (rows + j) * columns + i, end - u
        inner = (
            cast(-1.0 if i > 0 else 0.0),
            cast(2.0 if i < columns - 4 else 1.0),
            cast(-1.0 if j > 0 else 0.0),
            cast(2.0 if j < rows - 4 else 1.0),
        )
        part = weights[:, :n]
        _back(c, at, below, columns, linear, left, top, grid, inner, x[u:end], y[u:end], gx[u:end], gy[u:end], part)
        if linear:
            _unline(part[:4])
            _unline(part[4:8])
            _unline(part[8:])
        for line in range(4):
            for knot in range(4):
                to_c[at + line * columns + knot] += dot(part[knot], part[4 + line])
                to_c[below + line * columns + knot] += dot(part[knot], part[8 + line])
        u = end

"""A strip of points through a cubic B-spline field, forward and backward.

Owns: the arithmetic of ``geometry/bends.py``, compiled; from the knots of a field to polynomials along its columns, and back.
Must not: know of canvases.
Read next: ``links.py``.

In a cell of the grid a displacement is a polynomial in x and in y. The polynomials in y are computed from the knots before anything
is read (``op.py``): each row of cells has, for every column of knots and every power of y, one number for x and one for y. A
point then needs four vectors of eight numbers, those of the four columns around it.
"""

import numpy as np

from pellucid.kernels.jit import entry, fused
from pellucid.kernels.vectors import Array, Lanes, take, woven
from pellucid.kernels.warp.cpu.layout import SPLINES

__all__ = ["bend", "from_polynomials", "polynomials", "unbend"]


def _around(index: Lanes, row: Lanes) -> list[Lanes]:
    """Where the eight numbers around a point begin, for every power of the place in its cell."""
    places = [index]
    for _ in range(3):
        places.append(places[-1] + row)
    return places


def _polynomial(powers: list[Lanes], at: Lanes) -> Lanes:
    value = powers[3]
    for power in powers[2::-1]:
        value = value * at + power
    return value


def _slope(powers: list[Lanes], at: Lanes) -> Lanes:
    """The polynomial's derivative."""
    return (powers[3] * 3.0 * at + (powers[2] + powers[2])) * at + powers[1]


def _shares(linear: Lanes, like: Lanes) -> list[Lanes]:
    """The weights of the columns around a cell, by powers of the place between them."""
    shares = []
    for powers in zip(*SPLINES.values(), strict=True):  # invariant: they are chosen before the loop
        cubic, straight = (like.like([float(weight) for weight in weights for _ in range(2)]) for weights in powers)
        shares.append(linear.choose(straight, cubic))
    return shares


def _total(value: Lanes) -> Lanes:
    """The sum over the four columns."""
    half = value[:4] + value[4:]
    return half[:2] + half[2:]


@woven()
def _displacement(c: Array, index: Lanes, row: Lanes, linear: Lanes, pairs: Array, at: Lanes) -> None:
    """Replace a point's place in its cell, in ``pairs``, by the point's displacement (x, y).

    Args:
        index: of the cell's first number; ``row`` numbers further are those of the next power.
    """
    t, s = pairs.load(at), pairs.load(at + 1)
    powers = [c.load(place, 8) for place in _around(index, row)]
    found = _polynomial(powers, s)
    pairs.store(at, _total(found * _polynomial(_shares(linear, found), t)))


@woven()
def _gradients(c: Array, index: Lanes, row: Lanes, linear: Lanes, pairs: Array, grads: Array, at: Lanes, to_c: Array) -> None:
    """The adjoint of :func:`_displacement`: write the place's gradient to ``pairs``, and add that of the numbers to ``to_c``."""
    t, s, g, places = pairs.load(at), pairs.load(at + 1), grads.load(at, 2)[[0, 1] * 4], _around(index, row)
    powers = [c.load(place, 8) for place in places]
    weights = _shares(linear, g)
    shares, slopes = g * _polynomial(weights, t), g * _slope(weights, t)
    along_x, along_y = _total(_polynomial(powers, s) * slopes), _total(_slope(powers, s) * shares)
    pairs.store(at, take(along_x, along_y, (0, 2)) + take(along_x, along_y, (1, 3)))
    shares, power = shares.to(to_c.zeros(8)), s.to(to_c.zeros(8))
    for place in places:
        to_c.add(place, shares)
        shares = shares * power


@fused.noinline
def _place(x, y, shape, grid, index, pairs):  # type: ignore[no-untyped-def]
    """The cells of points, and where in them they lie: from 0 to 1 along either axis."""
    cast = x.dtype.type
    zero, one = cast(0.0), cast(1.0)
    x0, y0, across, down = grid[0], grid[1], grid[2], grid[3]
    last_i, last_j, step, two = cast(shape[1] - 4), cast(shape[0] - 4), np.int32(8 * shape[1]), np.int32(2)
    for u in range(len(x)):
        a, b = (x[u] - x0) / across, (y[u] - y0) / down
        i, j = min(max(np.floor(a), zero), last_i), min(max(np.floor(b), zero), last_j)
        pairs[2 * u], pairs[2 * u + 1] = min(max(a - i, zero), one), min(max(b - j, zero), one)
        index[u] = np.int32(np.int32(j) * step + np.int32(i) * two)


@fused.noinline
def bend(c, shape, linear, grid, x, y, index, pairs):  # type: ignore[no-untyped-def]
    """Displace a row of finite points in place.

    Args:
        c: the polynomials' numbers.
        shape: rows and columns of knots.
        linear: between knots.
        grid: x and y of the first knot, and the spacing.
        index, pairs: scratch, one integer and two numbers a point.
    """
    _place(x, y, shape, grid, index, pairs)
    row = np.uint64(2 * shape[1])
    for u in range(len(x)):
        _displacement(c, np.uint64(index[u]), row, linear, pairs, np.uint64(2 * u))
    for u in range(len(x)):
        x[u] += pairs[2 * u]
        y[u] += pairs[2 * u + 1]


@fused.noinline
def unbend(c, shape, linear, grid, x, y, gx, gy, to_c, index, pairs, grads):  # type: ignore[no-untyped-def]
    """The gradient of displaced points, to the points (in place) and to the polynomials' numbers (added).

    Args:
        c, shape, linear, grid, index, pairs: as in :func:`bend`.
        x, y: the points before.
        grads: scratch, two numbers a point.
    """
    cast = x.dtype.type
    zero, end_x, end_y = cast(0.0), cast(shape[1] - 3), cast(shape[0] - 3)
    x0, y0, across, down = grid[0], grid[1], grid[2], grid[3]
    _place(x, y, shape, grid, index, pairs)
    for u in range(len(x)):
        grads[2 * u], grads[2 * u + 1] = gx[u], gy[u]
    row = np.uint64(2 * shape[1])
    for u in range(len(x)):
        _gradients(c, np.uint64(index[u]), row, linear, pairs, grads, np.uint64(2 * u), to_c)
    for u in range(len(x)):  # beyond the grid the displacement does not change with the point
        a, b = (x[u] - x0) / across, (y[u] - y0) / down
        gx[u] += pairs[2 * u] / across if (a > zero) & (a < end_x) else zero
        gy[u] += pairs[2 * u + 1] / down if (b > zero) & (b < end_y) else zero


@fused.noinline
def _sum(knots, spline, cell, power, out):  # type: ignore[no-untyped-def]
    a, b, c, d = knots[cell], knots[cell + 1], knots[cell + 2], knots[cell + 3]
    cast = out.dtype.type
    p, q, r, s = cast(spline[power, 0]), cast(spline[power, 1]), cast(spline[power, 2]), cast(spline[power, 3])
    for i in range(len(out)):
        out[i] = p * a[i] + q * b[i] + r * c[i] + s * d[i]


@entry
def polynomials(control, spline, numbers, most, knots):  # type: ignore[no-untyped-def]
    """Fill ``numbers`` (samples, rows of cells * 4 powers * columns * 2), and ``most``, the largest of a sample's knots.

    Args:
        control: (samples, 2, rows, columns).
        spline: the weights of the four knots around a cell, by power.
        knots: scratch of (rows, 2 * columns): x and y side by side, as they are written, or nothing is vectorised.
    """
    rows, columns = control.shape[2:]
    for b in range(len(control)):
        for side in range(2):
            most[b, side] = np.abs(control[b, side]).max()
            for j in range(rows):
                knots[j, side::2] = control[b, side, j]
        at = 0
        for cell in range(rows - 3):
            for power in range(4):
                _sum(knots, spline, cell, power, numbers[b, at : at + 2 * columns])
                at += 2 * columns


@entry
def from_polynomials(numbers, spline, control):  # type: ignore[no-untyped-def]
    """The adjoint: write the gradient of ``control``, given that of ``numbers`` in float64."""
    columns = control.shape[3]
    total = np.empty(control.shape[1:])
    for b in range(control.shape[0]):
        total[:] = 0.0
        for side in range(2):
            at = side
            for cell in range(control.shape[2] - 3):
                for power in range(4):
                    for k in range(4):
                        for i in range(columns):
                            total[side, cell + k, i] += spline[power, k] * numbers[b, at + 2 * i]
                    at += 2 * columns
        control[b] = total

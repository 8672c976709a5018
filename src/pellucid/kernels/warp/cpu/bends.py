"""A strip of points through a cubic B-spline field, forward and backward.

Owns: the arithmetic of ``geometry/bends.py``, compiled.
Must not: know of canvases.
Read next: ``links.py``.

In a cell of the grid a displacement is a polynomial of either position in it. Those in y are made of the knots before anything is
read (``op.py``): each row of cells has, for every column of knots and every power of y, one number for x and one for y. What
a point needs is then four vectors of eight numbers, those of the four columns around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.warp.cpu.layout import SPLINES
from pellucid.kernels.warp.cpu.quads import Vectors

__all__ = ["bend", "unbend"]


class _Knots:
    """The eight numbers around one point, in one function being built: polynomials of the place in the cell."""

    def __init__(self, target: Any, builder: Any, kinds: Any, c: Any, index: Any, row: Any, linear: Any) -> None:
        self.builder = builder
        self.vectors = Vectors(target, builder, kinds[0], c, 8)
        self.places = [index]
        for _ in range(3):
            self.places.append(builder.add(self.places[-1], row))
        shares = []
        for powers in zip(*SPLINES.values(), strict=True):  # invariant: they are chosen before the loop
            cubic, straight = (
                ir.Constant(self.vectors.type, [float(weight) for weight in weights for _ in range(2)]) for weights in powers
            )
            shares.append(builder.select(linear, straight, cubic))
        self.shares = shares

    def polynomial(self, powers: list[Any], at: Any) -> Any:
        """Its value."""
        value = powers[3]
        for power in powers[2::-1]:
            value = self.vectors.add(self.vectors.times(value, at), power)
        return value

    def slope(self, powers: list[Any], at: Any) -> Any:
        """Its derivative."""
        value = self.vectors.times(powers[3], self.vectors.splat(ir.Constant(self.vectors.number, 3.0)))
        twice = self.vectors.add(powers[2], powers[2])
        return self.vectors.add(self.vectors.times(self.vectors.add(self.vectors.times(value, at), twice), at), powers[1])

    def total(self, value: Any) -> Any:
        """The sum over the four columns."""
        for lanes in ((0, 1, 2, 3), (0, 1)):
            first, second = (
                ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), [lane + step for lane in lanes]) for step in (0, len(lanes))
            )
            value = self.vectors.add(*(self.builder.shuffle_vector(value, value, part) for part in (first, second)))
        return value


@intrinsic
def _displacement(context: Any, c: Any, index: Any, row: Any, linear: Any, pairs: Any, at: Any) -> Any:
    """Write the displacement (x, y) of a point to ``pairs``, in the place of where it lies in its cell.

    Args:
        index: of the cell's first number; ``row`` numbers further are those of the next power.
    """
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        knots = _Knots(target, builder, signature.args, *args[:4])
        pair = Vectors(target, builder, signature.args[4], args[4], 2)
        t, s = (knots.vectors.splat(number) for number in pair.numbers(args[5]))
        found = knots.polynomial([knots.vectors.load(place) for place in knots.places], s)
        pair.store(knots.total(knots.vectors.times(found, knots.polynomial(knots.shares, t))), args[5])
        return target.get_dummy_value()

    return types.void(c, index, row, linear, pairs, at), codegen


@intrinsic
def _gradients(context: Any, c: Any, index: Any, row: Any, linear: Any, pairs: Any, grads: Any, at: Any, to_c: Any) -> Any:
    """The adjoint of :func:`_displacement`: what ``grads`` is to the place in the cell, written to ``pairs``, and to ``to_c``."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        knots = _Knots(target, builder, signature.args, *args[:4])
        v = knots.vectors
        pair = Vectors(target, builder, signature.args[4], args[4], 2)
        position = pair.numbers(args[6])
        t, s = (v.splat(number) for number in position)
        g = Vectors(target, builder, signature.args[5], args[5], 2).load(args[6])
        g = builder.shuffle_vector(g, g, ir.Constant(ir.VectorType(ir.IntType(32), 8), [0, 1] * 4))
        rows = [v.load(place) for place in knots.places]
        shares = v.times(g, knots.polynomial(knots.shares, t))
        slopes = v.times(g, knots.slope(knots.shares, t))
        along_x = knots.total(v.times(knots.polynomial(rows, s), slopes))
        along_y = knots.total(v.times(knots.slope(rows, s), shares))
        one = ir.IntType(32)
        firsts = builder.shuffle_vector(along_x, along_y, ir.Constant(ir.VectorType(one, 2), [0, 2]))
        seconds = builder.shuffle_vector(along_x, along_y, ir.Constant(ir.VectorType(one, 2), [1, 3]))
        pair.store(v.add(firsts, seconds), args[6])
        into = Vectors(target, builder, signature.args[7], args[7], 8)
        power = position[1]
        if into.type != v.type:
            shares, power = builder.fpext(shares, into.type), builder.fpext(power, into.number)
        power = into.splat(power)
        for place in knots.places:
            into.store(into.add(into.load(place), shares), place)
            shares = into.times(shares, power)
        return target.get_dummy_value()

    return types.void(c, index, row, linear, pairs, grads, at, to_c), codegen


@fused
def _place(x, y, shape, grid, index, pairs):  # type: ignore[no-untyped-def]
    """The cells of points, and where in them they lie: from 0 to 1 along either axis."""
    noinline()
    cast = x.dtype.type
    zero, one = cast(0.0), cast(1.0)
    x0, y0, across, down = grid[0], grid[1], grid[2], grid[3]
    last_i, last_j, step, two = cast(shape[1] - 4), cast(shape[0] - 4), np.int32(8 * shape[1]), np.int32(2)
    for u in range(len(x)):
        a, b = (x[u] - x0) / across, (y[u] - y0) / down
        i, j = min(max(np.floor(a), zero), last_i), min(max(np.floor(b), zero), last_j)
        pairs[2 * u], pairs[2 * u + 1] = min(max(a - i, zero), one), min(max(b - j, zero), one)
        index[u] = np.int32(np.int32(j) * step + np.int32(i) * two)


@fused
def bend(c, shape, linear, grid, x, y, index, pairs):  # type: ignore[no-untyped-def]
    """Displace a row of finite points in place.

    Args:
        c: the polynomials' numbers.
        shape: rows and columns of knots.
        linear: between knots.
        grid: x and y of the first knot, and the spacing.
        index, pairs: scratch, one integer and two numbers a point.
    """
    noinline()
    _place(x, y, shape, grid, index, pairs)
    row = np.uint64(2 * shape[1])
    for u in range(len(x)):
        _displacement(c, np.uint64(index[u]), row, linear, pairs, np.uint64(2 * u))
    for u in range(len(x)):
        x[u] += pairs[2 * u]
        y[u] += pairs[2 * u + 1]


@fused
def unbend(c, shape, linear, grid, x, y, gx, gy, to_c, index, pairs, grads):  # type: ignore[no-untyped-def]
    """The gradient of displaced points, to the points (in place) and to the polynomials' numbers (added).

    Args:
        c, shape, linear, grid, index, pairs: as in :func:`bend`.
        x, y: the points before.
        grads: scratch, two numbers a point.
    """
    noinline()
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

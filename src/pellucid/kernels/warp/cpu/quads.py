"""Four neighbouring numbers at once: the channels of a pixel and its coverage, as one vector of the processor.

Owns: what is done with the pixels around a point (the nearest, four, or sixteen): interpolate, take slopes, add.
Must not: check bounds; ``staged.py`` lays pixels out so that every index is good.
Read next: ``staged.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pellucid.kernels.narrow import Narrow, widened

__all__ = [
    "Vectors",
    "cubic",
    "cubic_moved",
    "cubic_slopes",
    "cubic_spread",
    "drop",
    "lerp",
    "lift",
    "meet",
    "moved",
    "pick",
    "slopes",
    "spread",
    "take",
]

_FUSED = ("contract",)
_INT = ir.IntType(32)


class Vectors:
    """Vectors at an array's elements, in one function being built."""

    def __init__(self, target: Any, builder: Any, array: Any, value: Any, lanes: int) -> None:
        self.builder = builder
        self.data = target.make_array(array)(target, builder, value).data
        self.number = target.get_data_type(array.dtype)
        self.lanes, self.type = lanes, ir.VectorType(self.number, lanes)
        self.size = array.dtype.bitwidth // 8

    def _at(self, index: Any, step: int) -> Any:
        index = self.builder.add(index, ir.Constant(index.type, step))
        return self.builder.bitcast(self.builder.gep(self.data, [index]), self.type.as_pointer())

    def load(self, index: Any, step: int = 0) -> Any:
        """The vector that begins ``step`` elements behind an index."""
        value = self.builder.load(self._at(index, step))
        value.align = self.size
        return value

    def store(self, value: Any, index: Any, step: int = 0) -> None:
        """Write a vector there."""
        self.builder.store(value, self._at(index, step)).align = self.size

    def numbers(self, index: Any) -> list[Any]:
        """The same, one by one."""
        places = (self.builder.add(index, ir.Constant(index.type, lane)) for lane in range(self.lanes))
        return [self.builder.load(self.builder.gep(self.data, [place])) for place in places]

    def splat(self, number: Any) -> Any:
        """A number in every lane."""
        first = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), number, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, self.lanes), [0] * self.lanes))

    def weight(self, weights: Any, index: Any) -> Any:
        """A number of another array, in every lane."""
        number = self.builder.load(self.builder.gep(weights, [index]))
        return self.splat(number)

    def add(self, a: Any, b: Any) -> Any:
        """The sum, which may become part of a fused multiply-add."""
        return self.builder.fadd(a, b, flags=_FUSED)

    def less(self, a: Any, b: Any) -> Any:
        """The difference, likewise."""
        return self.builder.fsub(a, b, flags=_FUSED)

    def times(self, a: Any, b: Any) -> Any:
        """The product, likewise."""
        return self.builder.fmul(a, b, flags=_FUSED)

    def totals(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The sums of two vectors, each (0 + 2) + (1 + 3): together, so that they share their steps."""
        pairs = self.add(take(self.builder, a, b, (0, 1, 4, 5)), take(self.builder, a, b, (2, 3, 6, 7)))
        sums = self.add(pairs, take(self.builder, pairs, pairs, (1, 1, 3, 3)))
        return tuple(self.builder.extract_element(sums, ir.Constant(_INT, lane)) for lane in (0, 2))


def take(builder: Any, first: Any, second: Any, lanes: Iterable[int]) -> Any:
    """A vector of these lanes of two, counted through both."""
    places = list(lanes)
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(_INT, len(places)), places))


def _prefetch(*, written: bool) -> Any:
    @intrinsic
    def ask(context: Any, row: Any, index: Any) -> Any:
        del context

        def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = signature.args[0]
            make = cgutils.create_struct_proxy(kind) if isinstance(kind, Narrow) else target.make_array(kind)
            place = builder.gep(make(target, builder, args[0]).data, [args[1]])
            place = builder.bitcast(place, ir.IntType(8).as_pointer())
            signature = ir.FunctionType(ir.VoidType(), [place.type, _INT, _INT, _INT])
            fetch = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0i8")
            builder.call(fetch, [place, _INT(int(written)), _INT(3), _INT(1)])
            return target.get_dummy_value()

        return types.void(row, index), codegen

    return ask


soon_read, soon_written = _prefetch(written=False), _prefetch(written=True)
"""Ask for the memory of an array's element before it is needed."""


@intrinsic
def lerp(context: Any, quad: Any, upper: Any, lower: Any, tx: Any, ty: Any, out: Any, at: Any) -> Any:
    """Write to ``out`` what lies between the pixels at ``upper``, right of it, at ``lower`` and right of that."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = Vectors(target, builder, signature.args[0], args[0], 8)
        result = Vectors(target, builder, signature.args[5], args[5], 4)
        upper, lower = (source.load(index) for index in args[1:3])
        pair = source.add(upper, source.times(source.splat(args[4]), source.less(lower, upper)))
        left, right = (take(builder, pair, pair, range(first, first + 4)) for first in (0, 4))
        result.store(result.add(left, result.times(result.splat(args[3]), result.less(right, left))), args[6])
        return target.get_dummy_value()

    return types.void(quad, upper, lower, tx, ty, out, at), codegen


@intrinsic
def slopes(context: Any, quad: Any, upper: Any, lower: Any, tx: Any, ty: Any, grad: Any, at: Any) -> Any:
    """(along x, along y): the gradient ``grad`` of what :func:`lerp` wrote, times its slopes, summed over the four."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = Vectors(target, builder, signature.args[0], args[0], 4)
        across, down = source.splat(args[3]), source.splat(args[4])
        g = Vectors(target, builder, signature.args[5], args[5], 4).load(args[6])
        steps, rows = [], []
        for index in args[1:3]:
            left, right = source.load(index), source.load(index, 4)
            steps.append(source.less(right, left))
            rows.append(source.add(left, source.times(across, steps[-1])))
        along_x = source.add(steps[0], source.times(down, source.less(steps[1], steps[0])))
        found = source.totals(source.times(g, along_x), source.times(g, source.less(rows[1], rows[0])))
        return target.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(quad.dtype, 2)(quad, upper, lower, tx, ty, grad, at), codegen


@intrinsic
def moved(context: Any, quad: Any, upper: Any, lower: Any, tx: Any, ty: Any, dx: Any, dy: Any, out: Any, at: Any) -> Any:
    """Write to ``out`` how what :func:`lerp` wrote changes while its point moves by (dx, dy)."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = Vectors(target, builder, signature.args[0], args[0], 4)
        result = Vectors(target, builder, signature.args[7], args[7], 4)
        across, down, along, below = (source.splat(number) for number in args[3:7])
        steps, rows = [], []
        for index in args[1:3]:
            left, right = source.load(index), source.load(index, 4)
            steps.append(source.less(right, left))
            rows.append(source.add(left, source.times(across, steps[-1])))
        step_x = source.add(steps[0], source.times(down, source.less(steps[1], steps[0])))
        result.store(source.add(source.times(along, step_x), source.times(below, source.less(rows[1], rows[0]))), args[8])
        return target.get_dummy_value()

    return types.void(quad, upper, lower, tx, ty, dx, dy, out, at), codegen


@intrinsic
def spread(context: Any, into: Any, upper: Any, lower: Any, tx: Any, ty: Any, grad: Any, at: Any) -> Any:
    """Add ``grad`` to the four pixels, each its share: the adjoint of :func:`lerp`.

    In ``into`` a pixel has eight numbers: what it got, and what the pixel right of it got from the same readers. Neighbouring
    readers then add to different memory: otherwise each would wait for the store of the one before.
    """
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = Vectors(target, builder, signature.args[0], args[0], 8)
        g = Vectors(target, builder, signature.args[5], args[5], 4).load(args[6])
        g = builder.shuffle_vector(g, g, ir.Constant(ir.VectorType(_INT, 8), [0, 1, 2, 3] * 2))
        one = ir.Constant(pairs.number, 1.0)
        left = builder.insert_element(ir.Constant(pairs.type, ir.Undefined), builder.fsub(one, args[3]), ir.Constant(_INT, 0))
        both = builder.insert_element(left, args[3], ir.Constant(_INT, 1))
        both = builder.shuffle_vector(both, both, ir.Constant(ir.VectorType(_INT, 8), [0] * 4 + [1] * 4))
        share = pairs.times(both, g)
        below = pairs.times(pairs.splat(args[4]), share)
        for index, part in ((args[1], pairs.less(share, below)), (args[2], below)):
            twice = builder.add(index, index)
            pairs.store(pairs.add(pairs.load(twice), part), twice)
        return target.get_dummy_value()

    return types.void(into, upper, lower, tx, ty, grad, at), codegen


@intrinsic
def meet(context: Any, pairs: Any, index: Any, out: Any, at: Any) -> Any:
    """Write to ``out`` all that :func:`spread` added to the pixel at ``index``, which counts eight numbers a pixel."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = Vectors(target, builder, signature.args[0], args[0], 4)
        result = Vectors(target, builder, signature.args[2], args[2], 4)
        result.store(source.add(source.load(args[1], -4), source.load(args[1])), args[3])
        return target.get_dummy_value()

    return types.void(pairs, index, out, at), codegen


@intrinsic
def lift(context: Any, img: Any, first: Any, second: Any, third: Any, unit: Any, out: Any, at: Any) -> Any:
    """Write to ``out`` a pixel whose channels are the numbers of ``img`` at three places, times ``unit``, with full coverage."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        narrow = isinstance(kind, Narrow)
        make = cgutils.create_struct_proxy(kind) if narrow else target.make_array(kind)
        held = make(target, builder, args[0])
        result = Vectors(target, builder, signature.args[5], args[5], 4)
        pixel = ir.Constant(ir.VectorType(held.data.type.pointee, 4), None)
        for lane, place in enumerate(args[1:4]):
            pixel = builder.insert_element(pixel, builder.load(builder.gep(held.data, [place])), _INT(lane))
        if narrow:
            pixel = widened(target, builder, kind.kind, pixel)
        elif isinstance(kind.dtype, types.Integer):
            pixel = builder.uitofp(pixel, result.type)
        if pixel.type != result.type:
            pixel = builder.fpext(pixel, result.type)
        pixel = builder.insert_element(result.times(pixel, result.splat(args[4])), ir.Constant(result.number, 1.0), _INT(3))
        result.store(pixel, args[6])
        return target.get_dummy_value()

    return types.void(img, first, second, third, unit, out, at), codegen


@intrinsic
def pick(context: Any, quad: Any, index: Any, out: Any, at: Any) -> Any:
    """Copy one pixel."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = Vectors(target, builder, signature.args[0], args[0], 4).load(args[1])
        Vectors(target, builder, signature.args[2], args[2], 4).store(value, args[3])
        return target.get_dummy_value()

    return types.void(quad, index, out, at), codegen


@intrinsic
def drop(context: Any, into: Any, index: Any, grad: Any, at: Any) -> Any:
    """Add ``grad`` to one pixel of eight numbers: the adjoint of :func:`pick`."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = Vectors(target, builder, signature.args[0], args[0], 4)
        g = Vectors(target, builder, signature.args[2], args[2], 4).load(args[3])
        twice = builder.add(args[1], args[1])
        found.store(found.add(found.load(twice), g), twice)
        return target.get_dummy_value()

    return types.void(into, index, grad, at), codegen


def _rows(vectors: Vectors, builder: Any, weights: Any, first: int, args: Any) -> list[Any]:
    """Four weights of a pixel: rows ``first`` to first + 3 of a table with ``args[0]`` columns, at column ``args[1]``."""
    found = []
    for k in range(first, first + 4):
        row = builder.mul(args[0], ir.Constant(args[0].type, k))
        found.append(vectors.weight(weights, builder.add(row, args[1])))
    return found


def _sum(vectors: Vectors, weights: list[Any], values: list[Any]) -> Any:
    total = vectors.times(weights[0], values[0])
    for weight, value in zip(weights[1:], values[1:], strict=True):
        total = vectors.add(total, vectors.times(weight, value))
    return total


@intrinsic
def cubic(context: Any, quad: Any, index: Any, row: Any, weights: Any, count: Any, u: Any, out: Any, at: Any) -> Any:
    """Write to ``out`` the weighted sum of the sixteen pixels from ``index`` on.

    Args:
        row: numbers from one row of pixels to the next.
        weights: flat, of 16 rows of ``count``: weights along x, along y, and their slopes.
        u: the column of this pixel's.
    """
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = Vectors(target, builder, signature.args[0], args[0], 4)
        table = target.make_array(signature.args[3])(target, builder, args[3]).data
        across, down = (_rows(source, builder, table, first, args[4:6]) for first in (0, 4))
        sums, start = [], args[1]
        for _ in range(4):
            sums.append(_sum(source, across, [source.load(start, 4 * i) for i in range(4)]))
            start = builder.add(start, args[2])
        Vectors(target, builder, signature.args[6], args[6], 4).store(_sum(source, down, sums), args[7])
        return target.get_dummy_value()

    return types.void(quad, index, row, weights, count, u, out, at), codegen


@intrinsic
def cubic_slopes(context: Any, quad: Any, index: Any, row: Any, weights: Any, count: Any, u: Any, grad: Any, at: Any) -> Any:
    """(along x, along y) of what :func:`cubic` wrote, as :func:`slopes`."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = Vectors(target, builder, signature.args[0], args[0], 4)
        table = target.make_array(signature.args[3])(target, builder, args[3]).data
        across, down, step_x, step_y = (_rows(source, builder, table, first, args[4:6]) for first in (0, 4, 8, 12))
        g = Vectors(target, builder, signature.args[6], args[6], 4).load(args[7])
        sums, steps, start = [], [], args[1]
        for _ in range(4):
            pixels = [source.load(start, 4 * i) for i in range(4)]
            sums.append(_sum(source, across, pixels))
            steps.append(_sum(source, step_x, pixels))
            start = builder.add(start, args[2])
        found = source.totals(*(source.times(g, _sum(source, *pair)) for pair in ((down, steps), (step_y, sums))))
        return target.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(quad.dtype, 2)(quad, index, row, weights, count, u, grad, at), codegen


@intrinsic
def cubic_moved(
    context: Any, quad: Any, index: Any, row: Any, weights: Any, count: Any, u: Any, dx: Any, dy: Any, out: Any, at: Any
) -> Any:
    """Write to ``out`` how what :func:`cubic` wrote changes while its point moves by (dx, dy)."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = Vectors(target, builder, signature.args[0], args[0], 4)
        table = target.make_array(signature.args[3])(target, builder, args[3]).data
        across, down, step_x, step_y = (_rows(source, builder, table, first, args[4:6]) for first in (0, 4, 8, 12))
        sums, steps, start = [], [], args[1]
        for _ in range(4):
            pixels = [source.load(start, 4 * i) for i in range(4)]
            sums.append(_sum(source, across, pixels))
            steps.append(_sum(source, step_x, pixels))
            start = builder.add(start, args[2])
        pairs = zip(args[6:8], ((down, steps), (step_y, sums)), strict=True)
        along, below = (source.times(source.splat(n), _sum(source, *p)) for n, p in pairs)
        Vectors(target, builder, signature.args[8], args[8], 4).store(source.add(along, below), args[9])
        return target.get_dummy_value()

    return types.void(quad, index, row, weights, count, u, dx, dy, out, at), codegen


@intrinsic
def cubic_spread(context: Any, into: Any, index: Any, row: Any, weights: Any, count: Any, u: Any, grad: Any, at: Any) -> Any:
    """Add ``grad`` to the sixteen pixels, of eight numbers each: the adjoint of :func:`cubic`."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = Vectors(target, builder, signature.args[0], args[0], 4)
        table = target.make_array(signature.args[3])(target, builder, args[3]).data
        across, down = (_rows(found, builder, table, first, args[4:6]) for first in (0, 4))
        g = Vectors(target, builder, signature.args[6], args[6], 4).load(args[7])
        start, step = builder.add(args[1], args[1]), builder.add(args[2], args[2])
        for j in range(4):
            share = found.times(down[j], g)
            for i in range(4):
                found.store(found.add(found.load(start, 8 * i), found.times(across[i], share)), start, 8 * i)
            start = builder.add(start, step)
        return target.get_dummy_value()

    return types.void(into, index, row, weights, count, u, grad, at), codegen

"""Four neighbouring numbers at once: the channels of a pixel and its coverage, as one vector of the processor.

Owns: the three things done with the four pixels around a point: interpolate, take slopes, add.
Must not: check bounds; ``staged.py`` lays pixels out so that every index is good.
Read next: ``staged.py``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["lerp", "meet", "slopes", "spread"]

_FUSED = ("contract",)
_INT = ir.IntType(32)


class _Vectors:
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
        value = self.builder.load(self._at(index, step))
        value.align = self.size
        return value

    def store(self, value: Any, index: Any, step: int = 0) -> None:
        self.builder.store(value, self._at(index, step)).align = self.size

    def splat(self, number: Any) -> Any:
        first = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), number, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, self.lanes), [0] * self.lanes))

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=_FUSED)

    def less(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b, flags=_FUSED)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FUSED)

    def total(self, vector: Any) -> Any:
        """(0 + 2) + (1 + 3)."""
        lanes = [self.builder.extract_element(vector, ir.Constant(_INT, k)) for k in range(4)]
        return self.add(self.add(lanes[0], lanes[2]), self.add(lanes[1], lanes[3]))


@intrinsic
def lerp(context: Any, quad: Any, upper: Any, lower: Any, tx: Any, ty: Any, out: Any, at: Any) -> Any:
    """Write to ``out`` what lies between the pixels at ``upper``, right of it, at ``lower`` and right of that."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = _Vectors(target, builder, signature.args[0], args[0], 4)
        result = _Vectors(target, builder, signature.args[5], args[5], 4)
        across, down = source.splat(args[3]), source.splat(args[4])
        rows = []
        for index in args[1:3]:
            left, right = source.load(index), source.load(index, 4)
            rows.append(source.add(left, source.times(across, source.less(right, left))))
        result.store(source.add(rows[0], source.times(down, source.less(rows[1], rows[0]))), args[6])
        return target.get_dummy_value()

    return types.void(quad, upper, lower, tx, ty, out, at), codegen


@intrinsic
def slopes(context: Any, quad: Any, upper: Any, lower: Any, tx: Any, ty: Any, grad: Any, at: Any) -> Any:
    """(along x, along y): the gradient ``grad`` of what :func:`lerp` wrote, times its slopes, summed over the four."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = _Vectors(target, builder, signature.args[0], args[0], 4)
        across, down = source.splat(args[3]), source.splat(args[4])
        g = _Vectors(target, builder, signature.args[5], args[5], 4).load(args[6])
        steps, rows = [], []
        for index in args[1:3]:
            left, right = source.load(index), source.load(index, 4)
            steps.append(source.less(right, left))
            rows.append(source.add(left, source.times(across, steps[-1])))
        along_x = source.add(steps[0], source.times(down, source.less(steps[1], steps[0])))
        found = [source.total(source.times(g, slope)) for slope in (along_x, source.less(rows[1], rows[0]))]
        return target.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(quad.dtype, 2)(quad, upper, lower, tx, ty, grad, at), codegen


@intrinsic
def spread(context: Any, into: Any, upper: Any, lower: Any, tx: Any, ty: Any, grad: Any, at: Any) -> Any:
    """Add ``grad`` to the four pixels, each its share: the adjoint of :func:`lerp`.

    In ``into`` a pixel has eight numbers: what it got, and what the pixel right of it got from the same readers. Neighbouring
    readers then add to different memory: otherwise each would wait for the store of the one before.
    """
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = _Vectors(target, builder, signature.args[0], args[0], 8)
        g = _Vectors(target, builder, signature.args[5], args[5], 4).load(args[6])
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
        source = _Vectors(target, builder, signature.args[0], args[0], 4)
        result = _Vectors(target, builder, signature.args[2], args[2], 4)
        result.store(source.add(source.load(args[1], -4), source.load(args[1])), args[3])
        return target.get_dummy_value()

    return types.void(pairs, index, out, at), codegen

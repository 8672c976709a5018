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

__all__ = ["lerp", "slopes", "spread"]

_FUSED = ("contract",)
_INT = ir.IntType(32)


class _Quads:
    """Vectors of four at an array's elements, in one function being built."""

    def __init__(self, target: Any, builder: Any, array: Any, value: Any) -> None:
        self.builder = builder
        self.data = target.make_array(array)(target, builder, value).data
        self.number = target.get_data_type(array.dtype)
        self.type = ir.VectorType(self.number, 4)
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
        return self.builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, 4), [0] * 4))

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
        source = _Quads(target, builder, signature.args[0], args[0])
        result = _Quads(target, builder, signature.args[5], args[5])
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
        source = _Quads(target, builder, signature.args[0], args[0])
        across, down = source.splat(args[3]), source.splat(args[4])
        g = _Quads(target, builder, signature.args[5], args[5]).load(args[6])
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
    """Add ``grad`` to the four pixels, each its share: the adjoint of :func:`lerp`."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = _Quads(target, builder, signature.args[0], args[0])
        across, down = found.splat(args[3]), found.splat(args[4])
        g = _Quads(target, builder, signature.args[5], args[5]).load(args[6])
        below = found.times(down, g)
        for index, share in ((args[1], found.less(g, below)), (args[2], below)):
            right = found.times(across, share)
            found.store(found.add(found.load(index), found.less(share, right)), index)
            found.store(found.add(found.load(index, 4), right), index, 4)
        return target.get_dummy_value()

    return types.void(into, upper, lower, tx, ty, grad, at), codegen

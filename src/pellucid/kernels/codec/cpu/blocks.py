"""Two blocks of 8 x 8 side by side through the cosine transform, in registers.

Owns: `transform` and `untransform`, in 32-bit integers, rounded as libjpeg rounds, and in floating point, where nothing rounds.
Must not: quantise.
Read next: ``sweep.py``, ``slopes.py``.

The rows of the transform's matrix are symmetric (those of even number) or antisymmetric, so that sums and differences of what lies
opposite come first and halve the products: down the columns by rows, along the rows by lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pellucid.kernels.codec.tables import COSINES
from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.warp.cpu.quads import Vectors, take

__all__ = ["LANES", "transform", "untransform"]

LANES = 16  # the columns of two blocks


class _Arithmetic:
    """Vectors of a row of two blocks, of whole numbers or not."""

    def __init__(self, builder: Any, number: Any) -> None:
        self.builder, self.whole = builder, isinstance(number, ir.IntType)
        self.type = ir.VectorType(number, LANES)
        self.unit = 1 if self.whole else 1 / 8192  # of the matrix's numbers

    def constant(self, lanes: list[Any]) -> Any:
        return ir.Constant(self.type, lanes)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.add(a, b) if self.whole else self.builder.fadd(a, b, flags=("contract",))

    def less(self, a: Any, b: Any) -> Any:
        return self.builder.sub(a, b) if self.whole else self.builder.fsub(a, b, flags=("contract",))

    def sum(self, vectors: list[Any], weights: list[list[int]]) -> Any:
        """The sum of products; a weight for each of eight columns, or one for all."""
        total = None
        for vector, numbers in zip(vectors, weights, strict=True):
            by = self.constant([number * self.unit for number in numbers * (LANES // len(numbers))])
            product = self.builder.mul(vector, by) if self.whole else self.builder.fmul(vector, by, flags=("contract",))
            total = product if total is None else self.add(total, product)
        return total

    def shifted(self, value: Any, bits: int) -> Any:
        """Divided by 2 ** bits and rounded; numbers that are not whole were divided before."""
        if not self.whole:
            return value
        return self.builder.ashr(self.add(value, self.constant([1 << (bits - 1)] * LANES)), self.constant([bits] * LANES))

    def limited(self, value: Any) -> Any:
        """Whole numbers within the range of levels, whose middle is 0."""
        for sign, bound in ((">", -128), ("<", 127)) if self.whole else ():
            limit = self.constant([bound] * LANES)
            value = self.builder.select(self.builder.icmp_signed(sign, value, limit), value, limit)
        return value

    def lanes(self, first: Any, second: Any, order: list[int]) -> Any:
        """For each of a block's eight columns a column of two vectors, those of the second counted from 8 on."""
        places = [at % 8 + 8 * block + (LANES if at >= 8 else 0) for block in range(LANES // 8) for at in order]
        return take(self.builder, first, second, places)


def _along(do: _Arithmetic, row: Any) -> Any:
    """Each row of a block times the matrix, transposed."""
    back = do.lanes(row, row, [7, 6, 5, 4, 3, 2, 1, 0])
    folded = do.lanes(do.add(row, back), do.less(back, row), [0, 1, 2, 3, 12, 13, 14, 15])
    parts = [do.lanes(folded, folded, [j, 7 - j] * 4) for j in range(4)]
    return do.sum(parts, [[COSINES[k][j] for k in range(8)] for j in range(4)])


def _along_back(do: _Arithmetic, row: Any) -> Any:
    """Each row of a block times the matrix."""
    parts = [do.lanes(row, row, [2 * j] * 4 + [2 * j + 1] * 4) for j in range(4)]
    weights = [[COSINES[2 * j][n] for n in range(4)] + [COSINES[2 * j + 1][7 - n] for n in range(4, 8)] for j in range(4)]
    half = do.sum(parts, weights)
    even, odd = do.lanes(half, half, [0, 1, 2, 3, 3, 2, 1, 0]), do.lanes(half, half, [7, 6, 5, 4, 4, 5, 6, 7])
    return do.lanes(do.add(even, odd), do.less(even, odd), [0, 1, 2, 3, 12, 13, 14, 15])


def _down(do: _Arithmetic, rows: list[Any]) -> list[Any]:
    """The matrix times the block."""
    opposite = [(rows[j], rows[7 - j]) for j in range(4)]
    folded = [[do.add(*pair) for pair in opposite], [do.less(*pair) for pair in opposite]]
    return [do.sum(folded[k % 2], [[COSINES[k][j]] for j in range(4)]) for k in range(8)]


def _down_back(do: _Arithmetic, rows: list[Any]) -> list[Any]:
    """The matrix, transposed, times the block."""
    even, odd = ([do.sum(rows[r::2], [[COSINES[k][n]] for k in range(r, 8, 2)]) for n in range(4)] for r in (0, 1))
    pairs = list(zip(even, odd, strict=True))
    return [do.add(*pair) for pair in pairs] + [do.less(*pair) for pair in reversed(pairs)]


def _there(do: _Arithmetic, rows: list[Any]) -> list[Any]:
    rows = [do.shifted(_along(do, row), 11) for row in rows]
    return [do.shifted(row, 15) for row in _down(do, rows)]


def _back(do: _Arithmetic, rows: list[Any]) -> list[Any]:
    rows = [do.shifted(row, 11) for row in _down_back(do, rows)]
    return [do.limited(do.shifted(_along_back(do, row), 18)) for row in rows]


def _tile(function: Any) -> Any:
    @intrinsic
    def apply(context: Any, source: Any, at: Any, pitch: Any, target: Any, place: Any, step: Any) -> Any:
        del context

        def codegen(target_of: Any, builder: Any, signature: Any, args: Any) -> Any:
            ends = [Vectors(target_of, builder, signature.args[k], args[k], LANES) for k in (0, 3)]
            places = [[builder.add(args[k + 1], builder.mul(args[k + 2], args[k + 2].type(y))) for y in range(8)] for k in (0, 3)]
            do = _Arithmetic(builder, ends[0].number)
            for place_of, row in zip(places[1], function(do, [ends[0].load(index) for index in places[0]]), strict=True):
                ends[1].store(row, place_of)
            return target_of.get_dummy_value()

        return types.void(source, at, pitch, target, place, step), codegen

    return apply


_transform, _untransform = _tile(_there), _tile(_back)


@fused
def transform(plane, at, pitch, tile):  # type: ignore[no-untyped-def]
    """Two blocks of a plane, from ``at`` on, into a tile of eight rows: eight times their coefficients."""
    noinline()
    _transform(plane, at, pitch, tile, np.int64(0), np.int64(LANES))


@fused
def untransform(tile, plane, at, pitch):  # type: ignore[no-untyped-def]
    """A tile of coefficients back into the plane: whole numbers from -128 to 127, or eight times what they stand for."""
    noinline()
    _untransform(tile, np.int64(0), np.int64(LANES), plane, at, pitch)

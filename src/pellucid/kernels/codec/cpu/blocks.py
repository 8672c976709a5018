"""The cosine transform of two blocks of 8 x 8 side by side, in registers.

Owns: `transform` and `untransform`, in 32-bit integers, rounded as libjpeg rounds, and in floating point, where nothing rounds.
Must not: quantise.
Read next: ``sweep.py``, ``slopes.py``.

Even rows of the transform's matrix are symmetric, odd ones antisymmetric. So sums and differences of opposite elements come first,
which halves the products: down the columns by rows, along the rows by lanes.
"""

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from pellucid.kernels.codec.tables import COSINES
from pellucid.kernels.jit import fused
from pellucid.kernels.vectors import Array, Lanes, take, woven

__all__ = ["LANES", "transform", "untransform"]

LANES = 16  # the columns of two blocks


def _sum(vectors: list[Lanes], weights: list[list[int]]) -> Lanes:
    """The sum of products with numbers of the matrix; one for each of eight columns, or one for all."""
    products = []
    for vector, numbers in zip(vectors, weights, strict=True):
        lanes = [number if vector.whole else number / 8192 for number in numbers * (LANES // len(numbers))]
        products.append(vector * vector.like(lanes))
    return reduce(add, products)


def _shifted(row: Lanes, bits: int) -> Lanes:
    """Divide integers by 2 ** bits and round; floats stay, as their weights are divided already."""
    return (row + (1 << (bits - 1))).shifted(bits) if row.whole else row


def _lanes(first: Lanes, second: Lanes, order: list[int]) -> Lanes:
    """Pick each block's eight columns from two vectors; ``order`` counts those of the second from 8 on."""
    return take(first, second, (at % 8 + 8 * block + (LANES if at >= 8 else 0) for block in range(LANES // 8) for at in order))


def _along(row: Lanes) -> Lanes:
    """Multiply each row of a block by the transposed matrix."""
    back = _lanes(row, row, [7, 6, 5, 4, 3, 2, 1, 0])
    folded = _lanes(row + back, back - row, [0, 1, 2, 3, 12, 13, 14, 15])
    parts = [_lanes(folded, folded, [j, 7 - j] * 4) for j in range(4)]
    return _sum(parts, [[COSINES[k][j] for k in range(8)] for j in range(4)])


def _along_back(row: Lanes) -> Lanes:
    """Multiply each row of a block by the matrix."""
    parts = [_lanes(row, row, [2 * j] * 4 + [2 * j + 1] * 4) for j in range(4)]
    weights = [[COSINES[2 * j][n] for n in range(4)] + [COSINES[2 * j + 1][7 - n] for n in range(4, 8)] for j in range(4)]
    half = _sum(parts, weights)
    even, odd = _lanes(half, half, [0, 1, 2, 3, 3, 2, 1, 0]), _lanes(half, half, [7, 6, 5, 4, 4, 5, 6, 7])
    return _lanes(even + odd, even - odd, [0, 1, 2, 3, 12, 13, 14, 15])


def _down(rows: list[Lanes]) -> list[Lanes]:
    """Multiply the matrix by the block."""
    opposite = [(rows[j], rows[7 - j]) for j in range(4)]
    folded = [[a + b for a, b in opposite], [a - b for a, b in opposite]]
    return [_sum(folded[k % 2], [[COSINES[k][j]] for j in range(4)]) for k in range(8)]


def _down_back(rows: list[Lanes]) -> list[Lanes]:
    """Multiply the transposed matrix by the block."""
    even, odd = ([_sum(rows[r::2], [[COSINES[k][n]] for k in range(r, 8, 2)]) for n in range(4)] for r in (0, 1))
    pairs = list(zip(even, odd, strict=True))
    return [a + b for a, b in pairs] + [a - b for a, b in reversed(pairs)]


def _forward(rows: list[Lanes]) -> list[Lanes]:
    return [_shifted(row, 15) for row in _down([_shifted(_along(row), 11) for row in rows])]


def _inverse(rows: list[Lanes]) -> list[Lanes]:
    """Decode coefficients; integers are clipped to the range of levels, whose middle is 0."""
    found = [_shifted(_along_back(_shifted(row, 11)), 18) for row in _down_back(rows)]
    return [row.at_least(-128).at_most(127) if row.whole else row for row in found]


def _tile(function: Callable[[list[Lanes]], list[Lanes]]) -> Any:
    @woven()
    def apply(source: Array, at: Lanes, pitch: Lanes, target: Array, place: Lanes, step: Lanes) -> None:
        found = function([source.load(at + pitch * y, LANES) for y in range(8)])
        for y, row in enumerate(found):
            target.store(place + step * y, row)

    return apply


_transform, _untransform = _tile(_forward), _tile(_inverse)


@fused.noinline
def transform(plane, at, pitch, tile):  # type: ignore[no-untyped-def]
    """Transform two blocks of a plane, from ``at`` on, into a tile of eight rows: eight times their coefficients."""
    _transform(plane, at, pitch, tile, np.int64(0), np.int64(LANES))


@fused.noinline
def untransform(tile, plane, at, pitch):  # type: ignore[no-untyped-def]
    """Decode a tile of coefficients into the plane: integers from -128 to 127, or floats, which are eight times too large."""
    _untransform(tile, np.int64(0), np.int64(LANES), plane, at, pitch)

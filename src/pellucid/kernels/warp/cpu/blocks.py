"""Sixteen output pixels at once: bilinear interpolation of pixels that were laid out, taken apart into channels and coverage.

Owns: the gather of a block of output pixels, in vectors of two pixels with their right neighbours, then of four.
Must not: check bounds; ``staged.py`` lays pixels out so that every index is good.
Read next: ``gather.py``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pellucid.kernels.warp.cpu.quads import Vectors, take

__all__ = ["BLOCK", "lerps"]

BLOCK = 16


def _apart(builder: Any, quads: list[Any]) -> list[Any]:
    """From four vectors, whose quad q has the numbers of pixel 4 q + k in vector k, to a vector for each of the numbers."""

    def woven(first: Any, second: Any, lanes: tuple[int, ...]) -> Any:
        return take(builder, first, second, (4 * q + lane for q in range(4) for lane in lanes))

    low, high = ([woven(quads[k], quads[k + 1], lanes) for k in (0, 2)] for lanes in ((0, 16, 1, 17), (2, 18, 3, 19)))
    return [woven(*pair, lanes) for pair in (low, high) for lanes in ((0, 1, 16, 17), (2, 3, 18, 19))]


@intrinsic
def lerps(context: Any, pixels: Any, row: Any, index: Any, tx: Any, ty: Any, u: Any, a: Any, b: Any, c: Any, cover: Any) -> Any:
    """Write what lies between four pixels each, for the output pixels u to u + 15: a, b, c, then ``cover``, which may be one array.

    Args:
        row: numbers from a pixel to the one below.
        index: of the upper left pixel, for each output pixel.
        tx, ty: where between the pixels.
    """
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args
        pair = Vectors(target, builder, kinds[0], args[0], 8)
        blocks = [Vectors(target, builder, kinds[k], args[k], BLOCK) for k in (3, 4, 6, 7, 8, 9)]
        places = target.make_array(kinds[2])(target, builder, args[2]).data
        u, numbers = args[5], blocks[0]
        across, down = (block.load(u) for block in blocks[:2])

        def two(p: int, q: int) -> Any:
            """Two output pixels, each as its left and its right neighbour, between the rows."""
            rows: list[list[Any]] = [[], []]
            for lane in (p, q):
                place = builder.load(builder.gep(places, [builder.add(u, ir.Constant(u.type, lane))]))
                place = builder.zext(place, u.type)
                rows[0].append(pair.load(place))
                rows[1].append(pair.load(builder.add(place, args[1])))
            upper, lower = (take(builder, *found, range(BLOCK)) for found in rows)
            share = take(builder, down, down, [p] * 8 + [q] * 8)
            return numbers.add(upper, numbers.times(share, numbers.less(lower, upper)))

        quads = []
        for k in range(4):
            first, second = two(k, 4 + k), two(8 + k, 12 + k)
            left, right = (
                take(builder, first, second, (8 * p + side + lane for p in range(4) for lane in range(4))) for side in (0, 4)
            )
            share = take(builder, across, across, (4 * p + k for p in range(4) for _ in range(4)))
            quads.append(numbers.add(left, numbers.times(share, numbers.less(right, left))))
        for block, found in zip(blocks[2:], _apart(builder, quads), strict=True):
            block.store(found, u)
        return target.get_dummy_value()

    return types.void(pixels, row, index, tx, ty, u, a, b, c, cover), codegen

"""Sixteen output pixels at once: bilinear interpolation of pixels that were laid out, and the slopes of it.

Owns: what ``quads.py`` does for one point, in vectors of two points with both their neighbours in a row, then of four points.
Must not: check bounds; ``staged.py`` lays pixels out so that every index is good.
Read next: ``gather.py``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pellucid.kernels.warp.cpu.quads import Vectors, take

__all__ = ["BLOCK", "lerps", "slopes_of"]

BLOCK = 16


def _apart(builder: Any, quads: list[Any]) -> list[Any]:
    """From four vectors, whose quad q has the numbers of pixel 4 q + k in vector k, to a vector for each of the numbers."""

    def woven(first: Any, second: Any, lanes: tuple[int, ...]) -> Any:
        return take(builder, first, second, (4 * q + lane for q in range(4) for lane in lanes))

    low, high = ([woven(quads[k], quads[k + 1], lanes) for k in (0, 2)] for lanes in ((0, 16, 1, 17), (2, 18, 3, 19)))
    return [woven(first, second, lanes) for first, second in (low, high) for lanes in ((0, 1, 16, 17), (2, 3, 18, 19))]


class _Corners:
    """The four pixels around each of a block's points, in one function being built."""

    def __init__(self, target: Any, builder: Any, arrays: Any, values: Any, row: Any, u: Any) -> None:
        """Of the arrays of pixels, indices, tx and ty."""
        self.builder, self.row, self.u = builder, row, u
        self.pair = Vectors(target, builder, arrays[0], values[0], 8)
        self.places = target.make_array(arrays[1])(target, builder, values[1]).data
        blocks = [Vectors(target, builder, arrays[k], values[k], BLOCK) for k in (2, 3)]
        self.numbers, (self.across, self.down) = (
            blocks[0],
            (block.load(u) for block in blocks),
        )

    def places_of(self, lane: int) -> tuple[Any, Any]:
        """Where the upper pixels of a point begin, and the lower ones."""
        place = self.builder.load(self.builder.gep(self.places, [self.builder.add(self.u, ir.Constant(self.u.type, lane))]))
        place = self.builder.zext(place, self.u.type)
        return place, self.builder.add(place, self.row)

    def columns(self, p: int, q: int) -> tuple[Any, Any]:
        """Of two points: what lies left and right of them in the row above, and the way from there to the row below."""
        rows = zip(
            *((self.pair.load(place) for place in self.places_of(lane)) for lane in (p, q)),
            strict=True,
        )
        upper, lower = (take(self.builder, first, second, range(BLOCK)) for first, second in rows)
        return upper, self.numbers.less(lower, upper)

    def between(self, p: int, q: int, upper: Any, step: Any) -> Any:
        """What lies left and right of these points in their own row."""
        return self.lerp(upper, take(self.builder, self.down, self.down, [p] * 8 + [q] * 8), step)

    def lerp(self, start: Any, share: Any, step: Any) -> Any:
        """From there, this share of a step."""
        return self.numbers.add(start, self.numbers.times(share, step))

    def sides(self, first: Any, second: Any) -> list[Any]:
        """Of four points in two vectors: what lies left, and what lies right."""
        return [
            take(
                self.builder,
                first,
                second,
                (8 * p + side + c for p in range(4) for c in range(4)),
            )
            for side in (0, 4)
        ]

    def share(self, k: int) -> Any:
        """How far the points 4 q + k lie from left to right."""
        return take(
            self.builder,
            self.across,
            self.across,
            (4 * q + k for q in range(4) for _ in range(4)),
        )


@intrinsic
def lerps(
    context: Any,
    pixels: Any,
    row: Any,
    index: Any,
    tx: Any,
    ty: Any,
    u: Any,
    a: Any,
    b: Any,
    c: Any,
    cover: Any,
) -> Any:
    """Write what lies between four pixels each, for the output pixels u to u + 15: a, b, c, then ``cover``, which may be one array.

    Args:
        row: numbers from a pixel to the one below.
        index: of the upper left pixel, for each output pixel.
        tx, ty: where between the pixels.
    """
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, given = signature.args, [args[0], *args[2:5]]
        around = _Corners(target, builder, [kinds[0], *kinds[2:5]], given, args[1], args[5])
        quads = []
        for k in range(4):
            pairs = (k, 4 + k), (8 + k, 12 + k)
            left, right = around.sides(*(around.between(*pair, *around.columns(*pair)) for pair in pairs))
            quads.append(around.lerp(left, around.share(k), around.numbers.less(right, left)))
        for place, found in enumerate(_apart(builder, quads), 6):
            Vectors(target, builder, kinds[place], args[place], BLOCK).store(found, args[5])
        return target.get_dummy_value()

    return types.void(pixels, row, index, tx, ty, u, a, b, c, cover), codegen


@intrinsic
def slopes_of(
    context: Any,
    pixels: Any,
    row: Any,
    index: Any,
    tx: Any,
    ty: Any,
    u: Any,
    a: Any,
    b: Any,
    c: Any,
    cover: Any,
    x: Any,
    y: Any,
) -> Any:
    """Add to x and y the gradients (a, b, c, cover) of what :func:`lerps` wrote, times its slopes."""
    del context

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, given = signature.args, [args[0], *args[2:5]]
        around = _Corners(target, builder, [kinds[0], *kinds[2:5]], given, args[1], args[5])
        numbers, across, down = around.numbers, [], []
        for k in range(4):
            pairs = (k, 4 + k), (8 + k, 12 + k)
            columns = [around.columns(*pair) for pair in pairs]
            left, right = around.sides(*(around.between(*pair, *found) for pair, found in zip(pairs, columns, strict=True)))
            across.append(numbers.less(right, left))
            left, right = around.sides(*(step for _, step in columns))
            down.append(around.lerp(left, around.share(k), numbers.less(right, left)))
        grads = [Vectors(target, builder, kinds[k], args[k], BLOCK).load(args[5]) for k in range(6, 10)]
        for place, steps in ((10, across), (11, down)):
            parts = [numbers.times(g, step) for g, step in zip(grads, _apart(builder, steps), strict=True)]
            total, into = (
                Vectors(target, builder, kinds[place], args[place], BLOCK),
                args[5],
            )
            found = numbers.add(numbers.add(parts[0], parts[2]), numbers.add(parts[1], parts[3]))
            total.store(numbers.add(total.load(into), found), into)
        return target.get_dummy_value()

    return types.void(pixels, row, index, tx, ty, u, a, b, c, cover, x, y), codegen

"""Four neighbouring numbers at once: the channels of a pixel and its coverage, as one vector of the processor.

Owns: operations on the pixels around a point (the nearest, four, or sixteen): interpolate, take slopes, add;
and the same for sixteen output pixels at once.
Must not: check bounds; ``staged.py`` lays pixels out so that every index is good.
Read next: ``staged.py``.
"""

from functools import reduce
from typing import Any

from pellucid.kernels.vectors import Array, Lanes, take, together, woven

__all__ = [
    *("BLOCK", "cubic", "cubic_moved", "cubic_slopes", "cubic_spread", "drop", "lerp", "lerps", "lift", "meet", "moved"),
    *("pick", "slopes", "slopes_of", "soon_read", "soon_written", "spread"),
]


@woven()
def soon_read(row: Array, index: Lanes) -> None:
    """Prefetch the memory of an array's element, which will be read."""
    row.ask(index, written=False)


@woven()
def soon_written(row: Array, index: Lanes) -> None:
    """Prefetch the memory of an array's element, which will be written."""
    row.ask(index, written=True)


@woven()
def lerp(pixels: Array, upper: Lanes, lower: Lanes, tx: Lanes, ty: Lanes, out: Array, at: Lanes) -> None:
    """Interpolate between the pixels at ``upper``, right of it, at ``lower`` and right of that; write the result to ``out``."""
    above, below = pixels.load(upper, 8), pixels.load(lower, 8)
    pair = above + ty * (below - above)
    left, right = pair[:4], pair[4:]
    out.store(at, left + tx * (right - left))


def _steps(pixels: Array, upper: Lanes, lower: Lanes, tx: Lanes, ty: Lanes) -> tuple[Lanes, Lanes]:
    """The slopes of :func:`lerp`'s result along x and along y."""
    steps, rows = [], []
    for place in (upper, lower):
        left, right = pixels.load(place, 4), pixels.load(place + 4, 4)
        steps.append(right - left)
        rows.append(left + tx * steps[-1])
    return steps[0] + ty * (steps[1] - steps[0]), rows[1] - rows[0]


def _totals(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """The sums of two vectors, each (0 + 2) + (1 + 3): together, so that they share their steps."""
    pairs = take(a, b, (0, 1, 4, 5)) + take(a, b, (2, 3, 6, 7))
    sums = pairs + pairs[1, 1, 3, 3]
    return sums.lane(0), sums.lane(2)


@woven(returns=2)
def slopes(pixels: Array, upper: Lanes, lower: Lanes, tx: Lanes, ty: Lanes, grad: Array, at: Lanes) -> tuple[Lanes, Lanes]:
    """(along x, along y): the gradient ``grad`` of :func:`lerp`'s result, times its slopes, summed over the four."""
    g, (across, down) = grad.load(at, 4), _steps(pixels, upper, lower, tx, ty)
    return _totals(g * across, g * down)


@woven()
def moved(pixels: Array, upper: Lanes, lower: Lanes, tx: Lanes, ty: Lanes, move: Any, out: Array, at: Lanes) -> None:
    """Write to ``out`` the tangent of :func:`lerp`'s result while its point moves by ``move``, (dx, dy)."""
    across, down = _steps(pixels, upper, lower, tx, ty)
    out.store(at, move[0] * across + move[1] * down)


@woven()
def spread(into: Array, upper: Lanes, lower: Lanes, tx: Lanes, ty: Lanes, grad: Array, at: Lanes) -> None:
    """Add ``grad`` to the four pixels, each its share: the adjoint of :func:`lerp`.

    In ``into`` a pixel has eight numbers: its own gradient, and that of the pixel right of it from the same readers. Neighbouring
    readers then add to different memory: otherwise each would wait for the store of the one before.
    """
    g = grad.load(at, 4)
    share = together((1.0 - tx, tx), 8)[[0] * 4 + [1] * 4] * g[[0, 1, 2, 3] * 2]
    below = ty * share
    into.add(upper + upper, share - below)
    into.add(lower + lower, below)


@woven()
def meet(pairs: Array, index: Lanes, out: Array, at: Lanes) -> None:
    """Write to ``out`` all that :func:`spread` added to the pixel at ``index``, which counts eight numbers a pixel."""
    out.store(at, pairs.load(index - 4, 4) + pairs.load(index, 4))


@woven()
def lift(img: Array, first: Lanes, second: Lanes, third: Lanes, unit: Lanes, out: Array, at: Lanes) -> None:
    """Write to ``out`` a pixel whose channels are the numbers of ``img`` at three places, times ``unit``, with full coverage."""
    pixel = img.gathered((first, second, third), 4).to(unit) * unit
    out.store(at, take(pixel, pixel.like(1.0), (0, 1, 2, 4)))


@woven()
def pick(pixels: Array, index: Lanes, out: Array, at: Lanes) -> None:
    """Copy one pixel."""
    out.store(at, pixels.load(index, 4))


@woven()
def drop(into: Array, index: Lanes, grad: Array, at: Lanes) -> None:
    """Add ``grad`` to one pixel of eight numbers: the adjoint of :func:`pick`."""
    into.add(index + index, grad.load(at, 4))


def _rows(weights: Array, count: Lanes, u: Lanes, first: int) -> list[Lanes]:
    """Four weights of a pixel: rows ``first`` to first + 3 of a table with ``count`` columns, at column ``u``."""
    return [weights.load(count * k + u) for k in range(first, first + 4)]


def _sum(weights: list[Lanes], values: list[Lanes]) -> Lanes:
    first, *others = zip(weights, values, strict=True)
    return reduce(lambda total, pair: total + pair[0] * pair[1], others, first[0] * first[1])


def _lines(pixels: Array, index: Lanes, row: Lanes) -> list[list[Lanes]]:
    """The sixteen pixels from ``index`` on, row by row."""
    starts = [index]
    for _ in range(3):
        starts.append(starts[-1] + row)
    return [[pixels.load(start + 4 * i, 4) for i in range(4)] for start in starts]


@woven()
def cubic(pixels: Array, index: Lanes, row: Lanes, weights: Array, count: Lanes, u: Lanes, out: Array, at: Lanes) -> None:
    """Write to ``out`` the weighted sum of the sixteen pixels from ``index`` on.

    Args:
        row: numbers from one row of pixels to the next.
        weights: flat, of 16 rows of ``count``: weights along x, along y, and their slopes.
        u: the column of this pixel's.
    """
    across, down = (_rows(weights, count, u, first) for first in (0, 4))
    out.store(at, _sum(down, [_sum(across, line) for line in _lines(pixels, index, row)]))


def _cubic_steps(pixels: Array, index: Lanes, row: Lanes, weights: Array, count: Lanes, u: Lanes) -> tuple[Lanes, Lanes]:
    """The slopes of :func:`cubic`'s result along x and along y."""
    across, down, step_x, step_y = (_rows(weights, count, u, first) for first in (0, 4, 8, 12))
    lines = _lines(pixels, index, row)
    return _sum(down, [_sum(step_x, line) for line in lines]), _sum(step_y, [_sum(across, line) for line in lines])


@woven(returns=2)
def cubic_slopes(
    pixels: Array, index: Lanes, row: Lanes, weights: Array, count: Lanes, u: Lanes, grad: Array, at: Lanes
) -> tuple[Lanes, Lanes]:
    """(along x, along y) for :func:`cubic`, as :func:`slopes`."""
    g, (across, down) = grad.load(at, 4), _cubic_steps(pixels, index, row, weights, count, u)
    return _totals(g * across, g * down)


@woven()
def cubic_moved(
    pixels: Array, index: Lanes, row: Lanes, weights: Array, count: Lanes, u: Lanes, move: Any, out: Array, at: Lanes
) -> None:
    """Write to ``out`` the tangent of :func:`cubic`'s result, as :func:`moved`."""
    across, down = _cubic_steps(pixels, index, row, weights, count, u)
    out.store(at, move[0] * across + move[1] * down)


@woven()
def cubic_spread(into: Array, index: Lanes, row: Lanes, weights: Array, count: Lanes, u: Lanes, grad: Array, at: Lanes) -> None:
    """Add ``grad`` to the sixteen pixels, of eight numbers each: the adjoint of :func:`cubic`."""
    across, down = (_rows(weights, count, u, first) for first in (0, 4))
    g, start = grad.load(at, 4), index + index
    for share_y in down:
        share = share_y * g
        for i, share_x in enumerate(across):
            into.add(start + 8 * i, share_x * share)
        start = start + (row + row)


BLOCK = 16


def _apart(quads: list[Lanes]) -> list[Lanes]:
    """Transpose four vectors, where quad q of vector k has the numbers of pixel 4 q + k, to a vector for each of the numbers."""

    def woven_in(first: Lanes, second: Lanes, lanes: tuple[int, ...]) -> Lanes:
        return take(first, second, (4 * q + lane for q in range(4) for lane in lanes))

    low, high = ([woven_in(quads[k], quads[k + 1], lanes) for k in (0, 2)] for lanes in ((0, 16, 1, 17), (2, 18, 3, 19)))
    return [woven_in(first, second, lanes) for first, second in (low, high) for lanes in ((0, 1, 16, 17), (2, 3, 18, 19))]


def _sides(first: Lanes, second: Lanes) -> list[Lanes]:
    """Split two vectors, of two points each, into the pixels left and the pixels right of the four points."""
    return [take(first, second, (8 * p + side + c for p in range(4) for c in range(4))) for side in (0, 4)]


class _Corners:
    """The four pixels around each of a block's points, in code that is being generated."""

    def __init__(self, pixels: Array, row: Lanes, index: Array, shares: tuple[Lanes, Lanes], u: Lanes) -> None:
        self.pixels, self.row, self.index, self.u = pixels, row, index, u
        self.across, self.down = shares

    def _columns(self, p: int, q: int) -> tuple[Lanes, Lanes]:
        """For two points: the pixels left and right of them in the row above, and the differences from there to the row below."""
        places = [self.index.load(self.u + lane).to(self.u) for lane in (p, q)]
        upper, lower = (
            take(self.pixels.load(first, 8), self.pixels.load(second, 8), range(BLOCK))
            for first, second in (places, [place + self.row for place in places])
        )
        return upper, lower - upper

    def read(self, k: int) -> tuple[Lanes, Lanes, Lanes, Lanes]:
        """For the points 4 q + k: the values left and right of them, interpolated down to their rows, and the slopes down there."""
        pairs = (k, 4 + k), (8 + k, 12 + k)
        found = [self._columns(*pair) for pair in pairs]
        between = [upper + self.down[[p] * 8 + [q] * 8] * step for (p, q), (upper, step) in zip(pairs, found, strict=True)]
        left, right = _sides(*between)
        down_left, down_right = _sides(*(step for _, step in found))
        return left, right, down_left, down_right

    def share(self, k: int) -> Lanes:
        """How far the points 4 q + k lie from left to right."""
        return self.across[[4 * q + k for q in range(4) for _ in range(4)]]


@woven()
def lerps(
    pixels: Array, row: Lanes, index: Array, tx: Array, ty: Array, u: Lanes, a: Array, b: Array, c: Array, cover: Array
) -> None:
    """Interpolate between four pixels each, for the output pixels u to u + 15; write a, b, c, ``cover``, which may be one array.

    Args:
        row: numbers from a pixel to the one below.
        index: of the upper left pixel, for each output pixel.
        tx, ty: positions between the pixels.
    """
    around, quads = _Corners(pixels, row, index, (tx.load(u, BLOCK), ty.load(u, BLOCK)), u), []
    for k in range(4):
        left, right, _, _ = around.read(k)
        quads.append(left + around.share(k) * (right - left))
    for into, found in zip((a, b, c, cover), _apart(quads), strict=True):
        into.store(u, found)


@woven()
def slopes_of(
    pixels: Array, row: Lanes, index: Array, tx: Array, ty: Array, u: Lanes, grads: tuple[Array, ...], x: Array, y: Array
) -> None:
    """Add to x and y the gradients (a, b, c, cover) of :func:`lerps`' results, times their slopes."""
    around, across, down = _Corners(pixels, row, index, (tx.load(u, BLOCK), ty.load(u, BLOCK)), u), [], []
    for k in range(4):
        left, right, down_left, down_right = around.read(k)
        across.append(right - left)
        down.append(down_left + around.share(k) * (down_right - down_left))
    g = [grad.load(u, BLOCK) for grad in grads]
    for into, steps in ((x, across), (y, down)):
        parts = [grad * step for grad, step in zip(g, _apart(steps), strict=True)]
        into.add(u, (parts[0] + parts[2]) + (parts[1] + parts[3]))

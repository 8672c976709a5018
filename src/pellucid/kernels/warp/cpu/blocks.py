"""Sixteen output pixels at once: bilinear interpolation of pixels that were laid out, and the slopes of it.

Owns: what ``quads.py`` does for one point, in vectors of two points with both their neighbours in a row, then of four points.
Must not: check bounds; ``staged.py`` lays pixels out so that every index is good.
Read next: ``gather.py``.
"""

from pellucid.kernels.vectors import Array, Lanes, take, woven

__all__ = ["BLOCK", "lerps", "slopes_of"]

BLOCK = 16


def _apart(quads: list[Lanes]) -> list[Lanes]:
    """From four vectors, whose quad q has the numbers of pixel 4 q + k in vector k, to a vector for each of the numbers."""

    def woven_in(first: Lanes, second: Lanes, lanes: tuple[int, ...]) -> Lanes:
        return take(first, second, (4 * q + lane for q in range(4) for lane in lanes))

    low, high = ([woven_in(quads[k], quads[k + 1], lanes) for k in (0, 2)] for lanes in ((0, 16, 1, 17), (2, 18, 3, 19)))
    return [woven_in(first, second, lanes) for first, second in (low, high) for lanes in ((0, 1, 16, 17), (2, 3, 18, 19))]


def _sides(first: Lanes, second: Lanes) -> list[Lanes]:
    """Of four points in two vectors: what lies left, and what lies right."""
    return [take(first, second, (8 * p + side + c for p in range(4) for c in range(4))) for side in (0, 4)]


class _Corners:
    """The four pixels around each of a block's points, in one function being written."""

    def __init__(self, pixels: Array, row: Lanes, index: Array, shares: tuple[Lanes, Lanes], u: Lanes) -> None:
        self.pixels, self.row, self.index, self.u = pixels, row, index, u
        self.across, self.down = shares

    def _columns(self, p: int, q: int) -> tuple[Lanes, Lanes]:
        """Of two points: what lies left and right of them in the row above, and the way from there to the row below."""
        places = [self.index.load(self.u + lane).to(self.u) for lane in (p, q)]
        upper, lower = (
            take(self.pixels.load(first, 8), self.pixels.load(second, 8), range(BLOCK))
            for first, second in (places, [place + self.row for place in places])
        )
        return upper, lower - upper

    def read(self, k: int) -> tuple[Lanes, Lanes, Lanes, Lanes]:
        """Of the points 4 q + k: what lies left and right of them in their own rows, and the ways down there."""
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
    """Write what lies between four pixels each, for the output pixels u to u + 15: a, b, c, then ``cover``, which may be one array.

    Args:
        row: numbers from a pixel to the one below.
        index: of the upper left pixel, for each output pixel.
        tx, ty: where between the pixels.
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
    """Add to x and y the gradients (a, b, c, cover) of what :func:`lerps` wrote, times its slopes."""
    around, across, down = _Corners(pixels, row, index, (tx.load(u, BLOCK), ty.load(u, BLOCK)), u), [], []
    for k in range(4):
        left, right, down_left, down_right = around.read(k)
        across.append(right - left)
        down.append(down_left + around.share(k) * (down_right - down_left))
    g = [grad.load(u, BLOCK) for grad in grads]
    for into, steps in ((x, across), (y, down)):
        parts = [grad * step for grad, step in zip(g, _apart(steps), strict=True)]
        into.add(u, (parts[0] + parts[2]) + (parts[1] + parts[3]))

"""Antialiased warps: every output pixel is a weighted mean of all pixels that it spans in the picture.

Owns: the weights of ``../footprint.py`` for a block of pixels, tabulated (affine maps) or by each pixel's shape (homographies and
fields), the sum over them, and its gradients to places and shapes.
Must not: make tables, or know colours.
Read next: ``forward.py``, ``folded.py``.
"""

from collections import namedtuple

import triton
import triton.language as tl

from pellucid.kernels.warp.footprint import PHASES
from pellucid.kernels.warp.triton.blocks import add_scaled, dot, from_sample, load_at, scaled, to_fixed, view, zeros
from pellucid.kernels.warp.triton.coordinates import FAR, FILLED, bump, fold, pixels, rise, within
from pellucid.kernels.warp.triton.links import find

__all__ = [
    *("EDGES", "STEPS", "TABLE", "add_tabled", "at_point", "corners", "look", "read_weighted", "tilt_tabled"),
    *("tilt_weighted", "worth"),
]

TABLE = tl.constexpr(2)
"""The SPAN whose weights are tabulated; 1 is that of crops and resizes, 3 has shapes."""
STEPS, EDGES = tl.constexpr(PHASES), tl.constexpr(PHASES + 1)
"""How many phases there are from one pixel to the next, and how many ends of phases."""


@triton.jit
def _whole(x):  # type: ignore[no-untyped-def]
    """(the pixel at or before a coordinate, how far that lies behind it)."""
    x = tl.minimum(tl.maximum(x, -FAR), FAR)
    pixel = tl.floor(x)
    return pixel.to(tl.int32), x - pixel


@triton.jit
def _phase(t):  # type: ignore[no-untyped-def]
    """(phase, share of the next) of a place between pixels."""
    fine = t * STEPS
    phase = tl.minimum(tl.floor(fine), STEPS - 1.0)
    return phase.to(tl.int32), fine - phase


@triton.jit
def _both(n, down, across, S):  # type: ignore[no-untyped-def]
    """(weight over the parallelogram, weight along the axes) of a pixel so far from the point."""
    turned = bump(tl.abs(n[0] * across + n[1] * down), S.CUBIC, S.TAPS) * bump(tl.abs(n[2] * across + n[3] * down), S.CUBIC, S.TAPS)
    return turned, bump(tl.abs(n[4] * across), S.CUBIC, S.TAPS) * bump(tl.abs(n[5] * down), S.CUBIC, S.TAPS)


@triton.jit
def _furthest(n, most, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """How many pixels before and after a point have weights, in any pixel of a block."""
    area = tl.abs(n[0] * n[3] - n[1] * n[2])
    across = tl.maximum((tl.abs(n[3]) + tl.abs(n[1])) / area, 1.0 / n[4])
    down = tl.maximum((tl.abs(n[0]) + tl.abs(n[2])) / area, 1.0 / n[5])
    far = tl.ceil(tl.maximum(across, down) * (TAPS // 2) + 1e-3)
    return tl.max(tl.where(far < most, far, most).to(tl.int32), 0)


Point = namedtuple("Point", "row column far n")
"""Row and column of the pixel before each point, how many pixels before and after it count, and numbers of the point: where its
weights begin in the table, and places between phases; or its shape's seven, those of both sums of weights, and its place.
"""


@triton.jit
def at_point(given, u, v, found, S):  # type: ignore[no-untyped-def]
    """The points that `find` found.

    The table has, behind how many of them count, a sample's weights, for each phase ``rows`` of ``columns``; or pixels' shapes, of
    which half of ``rows`` is the most that may count: seven numbers each, those of a circle where there is no pixel.
    """
    row, ty = _whole(found.y)
    column, tx = _whole(found.x)
    if S.SPAN == TABLE:
        f, ty = _phase(ty)
        g, tx = _phase(tx)
        far = tl.load(given.table).to(tl.int32)
        n = (1 + (f * (2 * (given.rows // 2)) * EDGES + g) * given.columns, tx, ty)
    else:
        at, plane = v * given.out_width + u, given.out_height.to(tl.int64) * given.out_width
        shape = ()
        for k in tl.static_range(7):
            none = 1.0 if k == 0 or k == 3 or k == 4 or k == 5 else 0.0
            shape = shape + (tl.load(given.table + k * plane + at, mask=found.usable, other=none),)
        far = _furthest(shape, given.rows // 2, S.TAPS)
        turned, straight = zeros(2, S.P, S.F)
        j = 1 - far
        while j <= far:
            i = 1 - far
            while i <= far:
                one, other_one = _both(shape, j - ty, i - tx, S)
                turned += one
                straight += other_one
                i += 1
            j += 1
        share = shape[6]  # type: ignore[misc]
        n = shape + (share / turned, (1.0 - share) / straight, tx, ty, 1.0 / turned, 1.0 / straight)
    return Point(row, column, far, n)


@triton.jit
def corners(point, given, down, across):  # type: ignore[no-untyped-def]
    """(index of a table's number for the pixel so many rows below and columns right, index of that a phase further along y; the
    numbers of the phase before, the next along x, along y, along both).
    """
    table, half, columns = given.table, given.rows // 2, given.columns
    at = point.n[0] + (down + half - 1) * EDGES * columns + across + half - 1
    below = at + 2 * half * EDGES * columns
    a, b, c, d = tl.load(table + at), tl.load(table + at + columns), tl.load(table + below), tl.load(table + below + columns)
    return at, below, (a, b, c, d)


@triton.jit
def show(iy, ix, seen, given, S):  # type: ignore[no-untyped-def]
    """(where pixels are seen, the rows and columns of the picture that the border rule puts there)."""
    if S.MODE == FILLED:
        seen = seen & within(iy, given.height) & within(ix, given.width)
    return seen, fold(iy, given.height, S.MODE), fold(ix, given.width, S.MODE)


@triton.jit
def look(point, given, down, across, usable, S):  # type: ignore[no-untyped-def]
    """(weight, whether it belongs to a pixel of the picture, row, column) so many rows below and columns right of points."""
    n = point.n
    if S.SPAN == TABLE:
        _, _, four = corners(point, given, down, across)
        a, b, c, d = four
        upper, lower = tl.fma(n[1], b - a, a), tl.fma(n[1], d - c, c)
        share = tl.fma(n[2], lower - upper, upper)
    else:
        turned, straight = _both(n, down - n[10], across - n[9], S)
        share = n[7] * turned + n[8] * straight
    seen, iy, ix = show(point.row + down, point.column + across, usable & (share != 0.0), given, S)
    return share, seen, iy, ix


@triton.jit
def read_weighted(image, given, point, usable, S):  # type: ignore[no-untyped-def]
    """(colour, coverage) of points: the means over the pixels that they span, and the weights inside of the picture."""
    far = point.far
    colour, covered = zeros(S.K, S.P, S.F), tl.zeros((S.P,), S.F)
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            share, seen, iy, ix = look(point, given, j, i, usable, S)
            covered += tl.where(seen, share, 0.0)
            colour = add_scaled(colour, share, load_at(image, iy, ix, seen, S.C, S.K, S))
            i += 1
        j += 1
    if S.MODE != FILLED:
        covered = tl.where(usable, 1.0, 0.0).to(S.F)
    return scaled(colour, S.UNIT), covered


@triton.jit
def _along(n0, n1, across, down, S):  # type: ignore[no-untyped-def]
    """(weight, slope) of a pixel so far from the point along one axis of a kernel."""
    t = n0 * across + n1 * down
    return bump(tl.abs(t), S.CUBIC, S.TAPS), rise(t, S.CUBIC, S.TAPS)


@triton.jit
def _add_moments(sums, slope, read, across, down):  # type: ignore[no-untyped-def]
    """Add to the sums of a slope alone, of the slope times its pixel's offset, and of each times the pixel read."""
    bare, bare_x, bare_y, full, full_x, full_y = sums
    right, below, times = slope * across, slope * down, slope * read
    return (
        bare + slope, bare_x + right, bare_y + below,
        full + times, tl.fma(right, read, full_x), tl.fma(below, read, full_y),
    )  # fmt: skip


@triton.jit
def _moved(sums, part, mean):  # type: ignore[no-untyped-def]
    """The gradients (of the place along an axis, of the axis's number across, of that down) from `_add_moments`."""
    bare, bare_x, bare_y, full, full_x, full_y = sums
    return part * (full - mean * bare), part * (full_x - mean * bare_x), part * (full_y - mean * bare_y)


@triton.jit
def worth(image, given, g, total, iy, ix, seen, S):  # type: ignore[no-untyped-def]
    """(total + the gradient of a pixel's weight, where g is that of the colour; where (iy, ix) is a pixel of the picture)."""
    seen, iy, ix = show(iy, ix, seen, given, S)
    return dot(scaled(g, S.UNIT), load_at(image, iy, ix, seen, S.C, S.K, S), total), seen


@triton.jit
def tilt_weighted(image, given, point, usable, g, to_cover, S):  # type: ignore[no-untyped-def]
    """(to x, to y, to the seven numbers of the shape) of each output pixel, of whose colour g is the gradient.

    Both means, over the parallelogram and along the axes, are of weights that are normalised over all they span.
    """
    far, n = point.far, point.n
    one, two, right, below = zeros(6, S.P, S.F), zeros(6, S.P, S.F), zeros(6, S.P, S.F), zeros(6, S.P, S.F)
    turned, straight, zero = zeros(3, S.P, S.F)
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            down, across = j - n[10], i - n[9]
            w_one, s_one = _along(n[0], n[1], across, down, S)
            w_two, s_two = _along(n[2], n[3], across, down, S)
            w_right, s_right = _along(n[4], zero, across, down, S)
            w_below, s_below = _along(zero, n[5], across, down, S)
            some = (tl.abs(w_one * w_two) > 0.0) | (tl.abs(w_right * w_below) > 0.0) | (s_one * w_two != 0.0)
            some = some | (w_one * s_two != 0.0) | (s_right * w_below != 0.0) | (w_right * s_below != 0.0)
            read, seen = worth(image, given, g, zero, point.row + j, point.column + i, usable & some, S)
            if S.MODE == FILLED:
                read = tl.where(seen, read + to_cover, 0.0)
            turned, straight = tl.fma(w_one * w_two, read, turned), tl.fma(w_right * w_below, read, straight)
            one = _add_moments(one, s_one * w_two, read, across, down)
            two = _add_moments(two, w_one * s_two, read, across, down)
            right = _add_moments(right, s_right * w_below, read, across, down)
            below = _add_moments(below, w_right * s_below, read, across, down)
            i += 1
        j += 1
    turned, straight, share = turned * n[11], straight * n[12], n[6]
    to_one, to_0, to_1 = _moved(one, n[7], turned)
    to_two, to_2, to_3 = _moved(two, n[7], turned)
    to_right, to_4, _ = _moved(right, n[8], straight)
    to_below, _, to_5 = _moved(below, n[8], straight)
    to_6 = tl.where((share > 0.0) & (share < 1.0), turned - straight, 0.0)
    to_x = -(n[0] * to_one + n[2] * to_two + n[4] * to_right)
    to_y = -(n[1] * to_one + n[3] * to_two + n[5] * to_below)
    return to_x, to_y, (to_0, to_1, to_2, to_3, to_4, to_5, to_6)


@triton.jit
def _gets(image, given, point, usable, g, to_cover, down, across, S):  # type: ignore[no-untyped-def]
    """(the gradient of the weight of a pixel so many rows down and columns across, whether it counts, and its `corners`)."""
    at, below, four = corners(point, given, down, across)
    a, b, c, d = four
    some = usable & (tl.abs(a) + tl.abs(b) + tl.abs(c) + tl.abs(d) > 0.0)  # a weight beside zeros has no slope
    start = to_cover if S.MODE == FILLED else tl.zeros((S.P,), S.F)
    gets, seen = worth(image, given, g, start, point.row + down, point.column + across, some, S)
    return tl.where(seen, gets, 0.0), seen, at, below, four


@triton.jit
def tilt_tabled(image, given, point, usable, g, to_cover, S):  # type: ignore[no-untyped-def]
    """(to x, to y, the largest gradient of a weight) of each output pixel, where g is its colour's gradient; infinite for NaN."""
    far, n = point.far, point.n
    to_x, to_y, most = zeros(3, S.P, S.F)
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            gets, _, _, _, four = _gets(image, given, point, usable, g, to_cover, j, i, S)
            a, b, c, d = four
            to_x = tl.fma(gets, tl.fma(n[2], (d - c) - (b - a), b - a), to_x)
            to_y = tl.fma(gets, tl.fma(n[1], (d - b) - (c - a), c - a), to_y)
            size = tl.abs(gets)
            most = tl.maximum(most, tl.where(size == size, size, float("inf")))
            i += 1
        j += 1
    return to_x * STEPS, to_y * STEPS, most


@pixels
def add_tabled(source, covers, units, folded, image, given, u, v, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (tile of the output across, down, sample and group): the gradients of a pixel's weights are added, by their shares,
    to the four numbers of the table that each weight lies between.

    source, covers: (sample, channel, output pixel), (sample, group, output pixel), of the source and its coverage; folded: (sample,
    phases, rows, phases, columns) in units of the product of the sample's two ``units``, as `add_folded` takes them.
    """
    out_height, out_width, rows, columns = given.out_height, given.out_width, given.rows, given.columns
    found = find(given, u, v, (u < out_width) & (v < out_height), S)
    point, usable = at_point(given, u, v, found, S), found.usable
    plane = out_width.to(S.INDEX) * out_height
    picture = view(image, given, 0, S)
    one, other = tl.load(units + given.b * 2), tl.load(units + given.b * 2 + 1)
    finite = one == one
    g = load_at(view((source, plane * S.C, plane, out_width, 1), given, 1, S), v, u, usable, S.C, S.K, S)
    g = scaled(scaled(g, one), other)
    covered = from_sample(covers, given.b * S.GROUPS + given.group, plane) + (v.to(S.INDEX) * out_width + u)
    to_cover = tl.load(covered, mask=usable, other=0.0) * one * other
    own = from_sample(folded, given.b, rows * columns * (EDGES * EDGES)) - 1  # before the table stands how many pixels count
    far, tx, ty = point.far, point.n[1], point.n[2]
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            gets, seen, at, below, _ = _gets(picture, given, point, usable, g, to_cover, j, i, S)
            for k in tl.static_range(4):
                share = gets * (tx if k % 2 else 1.0 - tx) * (ty if k // 2 else 1.0 - ty)
                target = own + (below if k // 2 else at) + (k % 2) * columns
                tl.atomic_add(target, tl.where(finite, to_fixed(share), 1), mask=seen, sem="relaxed")
            i += 1
        j += 1

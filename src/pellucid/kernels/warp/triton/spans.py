"""Antialiased warps: every output pixel is a weighted mean of all that it spans in the picture.

Owns: the weights of ``../footprint.py`` for a block of pixels, tabulated (affine maps) or by each pixel's shape (homographies and
fields), the sum over them, and its gradients to places and shapes.
Must not: make tables, or know colours.
Read next: ``forward.py``, ``folded.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.footprint import PHASES
from pellucid.kernels.warp.triton.blocks import add_scaled, load_channels, scaled, zeros
from pellucid.kernels.warp.triton.coordinates import FAR, FILLED, bump, fold, within

__all__ = ["TABLE", "at_point", "look", "read_weighted", "tilt_weighted"]

TABLE, SHAPES = tl.constexpr(2), tl.constexpr(3)
"""How a SPAN has its weights; 1 is that of crops and resizes."""
_STEPS, _EDGES = tl.constexpr(PHASES), tl.constexpr(PHASES + 1)


@triton.jit
def _whole(x):  # type: ignore[no-untyped-def]
    """(the pixel at or before a coordinate, how far that lies behind it)."""
    x = tl.minimum(tl.maximum(x, -FAR), FAR)
    pixel = tl.floor(x)
    return pixel.to(tl.int32), x - pixel


@triton.jit
def _phase(t):  # type: ignore[no-untyped-def]
    """(phase, share of the next) of a place between pixels."""
    fine = t * _STEPS
    phase = tl.minimum(tl.floor(fine), _STEPS - 1.0)
    return phase.to(tl.int32), fine - phase


@triton.jit
def _both(n, down, across, CUBIC: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(over the parallelogram, along the axes) of a pixel so far from the point."""
    turned = bump(tl.abs(n[0] * across + n[1] * down), CUBIC, TAPS) * bump(tl.abs(n[2] * across + n[3] * down), CUBIC, TAPS)
    return turned, bump(tl.abs(n[4] * across), CUBIC, TAPS) * bump(tl.abs(n[5] * down), CUBIC, TAPS)


@triton.jit
def _furthest(n, most, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """How many pixels before and after a point have weights, in any pixel of a block."""
    area = tl.abs(n[0] * n[3] - n[1] * n[2])
    across = tl.maximum((tl.abs(n[3]) + tl.abs(n[1])) / area, 1.0 / n[4])
    down = tl.maximum((tl.abs(n[0]) + tl.abs(n[2])) / area, 1.0 / n[5])
    far = tl.ceil(tl.maximum(across, down) * (TAPS // 2) + 1e-3)
    return tl.max(tl.where(far < most, far, most).to(tl.int32), 0)


@triton.jit
def _shape(table, at, plane, lane):  # type: ignore[no-untyped-def]
    """The seven numbers of output pixels ``at``; a circle where there is none."""
    shape = ()
    for k in tl.static_range(7):
        none = 1.0 if k == 0 or k == 3 or k == 4 or k == 5 else 0.0
        shape = shape + (tl.load(table + k * plane + at, mask=lane, other=none),)
    return shape


@triton.jit
def at_point(  # type: ignore[no-untyped-def]
    x, y, u, v, lane, table, half, columns, out_height, out_width,
    SPAN: tl.constexpr, CUBIC: tl.constexpr, TAPS: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """(row, column of the pixel before each point, how many pixels before and after it count, numbers for `look`).

    ``table``: a sample's weights, 2 ``half`` rows of ``columns`` for each phase, behind how many of them count; or its pixels'
    shapes.
    """
    row, ty = _whole(y)
    column, tx = _whole(x)
    if SPAN == TABLE:
        f, ty = _phase(ty)
        g, tx = _phase(tx)
        far = tl.load(table).to(tl.int32)
        n = (1 + (f * (2 * half) * _EDGES + g) * columns, tx, ty)
    else:
        shape = _shape(table, v * out_width + u, out_height.to(tl.int64) * out_width, lane)
        far = _furthest(shape, half, TAPS)
        turned, straight = tl.zeros(x.shape, F), tl.zeros(x.shape, F)
        j = 1 - far
        while j <= far:
            i = 1 - far
            while i <= far:
                one, other_one = _both(shape, j - ty, i - tx, CUBIC, TAPS)
                turned += one
                straight += other_one
                i += 1
            j += 1
        share = shape[6]
        n = (
            shape[0], shape[1], shape[2], shape[3], shape[4], shape[5], share / turned, (1.0 - share) / straight, tx, ty,
            share, 1.0 / turned, 1.0 / straight,
        )  # fmt: skip
    return row, column, far, n


@triton.jit
def _weigh(n, table, down, across, half, columns, SPAN: tl.constexpr, CUBIC: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weights of the pixels so many rows below and columns right of those that `at_point` gave."""
    if SPAN == TABLE:
        at = table + (n[0] + (down + half - 1) * _EDGES * columns + across + half - 1)
        below = at + 2 * half * _EDGES * columns
        a, b, c, d = tl.load(at), tl.load(at + columns), tl.load(below), tl.load(below + columns)
        upper, lower = tl.fma(n[1], b - a, a), tl.fma(n[1], d - c, c)
        weight = tl.fma(n[2], lower - upper, upper)
    else:
        turned, straight = _both(n, down - n[9], across - n[8], CUBIC, TAPS)
        weight = n[6] * turned + n[7] * straight
    return weight


@triton.jit
def look(  # type: ignore[no-untyped-def]
    n, table, row, column, down, across, usable, half, columns, height, width,
    SPAN: tl.constexpr, CUBIC: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """(weight, whether it is one of a pixel of the picture, row, column) so many rows below and columns right of (row, column)."""
    iy, ix = row + down, column + across
    share = _weigh(n, table, down, across, half, columns, SPAN, CUBIC, TAPS)
    seen = usable & (share != 0.0)
    if MODE == FILLED:
        seen = seen & within(iy, height) & within(ix, width)
    return share, seen, fold(iy, height, MODE), fold(ix, width, MODE)


@triton.jit
def read_weighted(  # type: ignore[no-untyped-def]
    image, stride_c, stride_y, stride_x, first, height, width, x, y, usable, u, v, table, half, columns, out_height, out_width,
    C: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, CUBIC: tl.constexpr, UNIT: tl.constexpr,
    SPAN: tl.constexpr, K: tl.constexpr, P: tl.constexpr, F: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """(colour, coverage) of points: the means over what their pixels span, and the weights inside of the picture."""
    row, column, far, n = at_point(x, y, u, v, usable, table, half, columns, out_height, out_width, SPAN, CUBIC, TAPS, F)
    colour, covered = zeros(K, P, F), tl.zeros((P,), F)
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            share, seen, iy, ix = look(n, table, row, column, j, i, usable, half, columns, height, width, SPAN, CUBIC, TAPS, MODE)
            covered += tl.where(seen, share, 0.0)
            pixels = image + iy.to(INDEX) * stride_y.to(INDEX) + ix.to(INDEX) * stride_x.to(INDEX)
            colour = add_scaled(colour, share, load_channels(pixels, stride_c.to(INDEX), seen, first, C, GROUPS, K, F), K)
            i += 1
        j += 1
    if MODE != FILLED:
        covered = tl.where(usable, 1.0, 0.0).to(F)
    return scaled(colour, UNIT, K), covered


@triton.jit
def _rise(t, CUBIC: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The slope of `bump` at a place on either side."""
    d = tl.abs(t)
    if TAPS == 2:
        value = tl.where(d < 1.0, -1.0, 0.0)
    else:
        inner = d * (3.0 * (CUBIC + 2.0) * d - 2.0 * (CUBIC + 3.0))
        outer = CUBIC * ((3.0 * d - 10.0) * d + 8.0)
        value = tl.where(d < 1.0, inner, tl.where(d < 2.0, outer, 0.0))
    return tl.where(t < 0.0, -value, value)


@triton.jit
def _along(n0, n1, across, down, CUBIC: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(weight, slope) of a pixel so far from the point along one axis of a kernel."""
    t = n0 * across + n1 * down
    return bump(tl.abs(t), CUBIC, TAPS), _rise(t, CUBIC, TAPS)


@triton.jit
def _add_moments(sums, slope, read, across, down):  # type: ignore[no-untyped-def]
    """Sums of a slope alone, times where its pixel lies, and each of them times what was read."""
    bare, bare_x, bare_y, full, full_x, full_y = sums
    right, below, times = slope * across, slope * down, slope * read
    return (
        bare + slope, bare_x + right, bare_y + below,
        full + times, tl.fma(right, read, full_x), tl.fma(below, read, full_y),
    )  # fmt: skip


@triton.jit
def _moved(sums, part, mean):  # type: ignore[no-untyped-def]
    """(what the place along an axis gets, the axis's number across, down) from `_add_moments`."""
    bare, bare_x, bare_y, full, full_x, full_y = sums
    return part * (full - mean * bare), part * (full_x - mean * bare_x), part * (full_y - mean * bare_y)


@triton.jit
def tilt_weighted(  # type: ignore[no-untyped-def]
    image, stride_c, stride_y, stride_x, g, to_cover, first, height, width, x, y, usable, u, v, table, half, columns,
    out_height, out_width, C: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, CUBIC: tl.constexpr,
    UNIT: tl.constexpr, K: tl.constexpr, P: tl.constexpr, F: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """(to x, to y, to the seven numbers of the shape) of each output pixel, of whose colour g is the gradient.

    Both means, over the parallelogram and along the axes, are of weights that are normalised over all they span.
    """
    row, column, far, n = at_point(x, y, u, v, usable, table, half, columns, out_height, out_width, SHAPES, CUBIC, TAPS, F)
    one, two, right, below = zeros(6, P, F), zeros(6, P, F), zeros(6, P, F), zeros(6, P, F)
    turned, straight = tl.zeros((P,), F), tl.zeros((P,), F)
    zero = tl.zeros((P,), F)
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            down, across = j - n[9], i - n[8]
            w_one, s_one = _along(n[0], n[1], across, down, CUBIC, TAPS)
            w_two, s_two = _along(n[2], n[3], across, down, CUBIC, TAPS)
            w_right, s_right = _along(n[4], zero, across, down, CUBIC, TAPS)
            w_below, s_below = _along(zero, n[5], across, down, CUBIC, TAPS)
            iy, ix = row + j, column + i
            seen = usable & ((tl.abs(w_one * w_two) > 0.0) | (tl.abs(w_right * w_below) > 0.0) | (s_one * w_two != 0.0))
            seen = seen | (usable & ((w_one * s_two != 0.0) | (s_right * w_below != 0.0) | (w_right * s_below != 0.0)))
            if MODE == FILLED:
                seen = seen & within(iy, height) & within(ix, width)
            pixels = image + fold(iy, height, MODE).to(INDEX) * stride_y.to(INDEX)
            pixels += fold(ix, width, MODE).to(INDEX) * stride_x.to(INDEX)
            values = load_channels(pixels, stride_c.to(INDEX), seen, first, C, GROUPS, K, F)
            read = zero
            for c in tl.static_range(K):
                read = tl.fma(g[c] * UNIT, values[c], read)
            if MODE == FILLED:
                read = tl.where(seen, read + to_cover, 0.0)
            turned, straight = tl.fma(w_one * w_two, read, turned), tl.fma(w_right * w_below, read, straight)
            one = _add_moments(one, s_one * w_two, read, across, down)
            two = _add_moments(two, w_one * s_two, read, across, down)
            right = _add_moments(right, s_right * w_below, read, across, down)
            below = _add_moments(below, w_right * s_below, read, across, down)
            i += 1
        j += 1
    turned, straight, share = turned * n[11], straight * n[12], n[10]
    to_one, to_0, to_1 = _moved(one, n[6], turned)
    to_two, to_2, to_3 = _moved(two, n[6], turned)
    to_right, to_4, _ = _moved(right, n[7], straight)
    to_below, _, to_5 = _moved(below, n[7], straight)
    to_6 = tl.where((share > 0.0) & (share < 1.0), turned - straight, 0.0)
    to_x = -(n[0] * to_one + n[2] * to_two + n[4] * to_right)
    to_y = -(n[1] * to_one + n[3] * to_two + n[5] * to_below)
    return to_x, to_y, (to_0, to_1, to_2, to_3, to_4, to_5, to_6)

"""Crops and resizes: every output pixel is a mean over the columns and rows that it spans, by weights along each axis.

Owns: where outputs lie on an axis and what their weights sum to (`spread`), the sum over a pixel's span, and its gradients.
Must not: know colours.
Read next: ``forward.py``, ``gather.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.launching import kernel
from pellucid.kernels.warp.triton.blocks import add_scaled, dot, load_at, only, scaled, zeros
from pellucid.kernels.warp.triton.coordinates import FILLED, bump, rise

__all__ = ["AXES", "NUMBERS_EACH", "axis_of", "place", "read_span", "spread", "tap", "tilt_span"]

AXES = tl.constexpr(1)
"""The SPAN of crops and resizes."""
NUMBERS_EACH = tl.constexpr(3)
"""Of every column and row of the output `spread` writes its centre, 1 / the sum of its weights (0: it reads nothing), and whether
it sees the picture at all: columns and then rows, number by number.
"""


@triton.jit
def axis_of(mapping, window, axis, SHARP: tl.constexpr):  # type: ignore[no-untyped-def]
    """(scale, shift, low, high, size) of an axis: its map, its window, and the width of its kernel in pixels of the input."""
    scale, shift = tl.load(mapping + axis * 4), tl.load(mapping + axis * 3 + 2)
    low, high = tl.load(window + axis), tl.load(window + axis + 2)
    size = tl.maximum(tl.where(tl.abs(scale) < float("inf"), tl.abs(scale), 1.0), 1.0)
    return scale, shift, low, high, size * 0.0 + 1.0 if SHARP else size


@triton.jit
def shared(pixel, low, high):  # type: ignore[no-untyped-def]
    """How much of a pixel lies in the window."""
    return tl.maximum(tl.minimum(pixel + 0.5, high + 0.5) - tl.maximum(pixel - 0.5, low - 0.5), 0.0)


@triton.jit
def tap(i, span, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weight of pixel i, not normalised. ``span``: (centre, 1 / the kernel's width, the window's low and high edge, length)."""
    centre, inverse, low, high, length = span
    pixel = i.to(centre.dtype)
    weight = bump(tl.abs((pixel - centre) * inverse), -0.5, TAPS) * shared(pixel, low, high)
    return tl.where(i < length, weight, 0.0)


@triton.jit
def _first(centre, size, length, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The first pixel that may count."""
    return tl.minimum(tl.maximum(tl.ceil(centre - size * (TAPS // 2)), 0.0), length).to(tl.int32)


@triton.jit
def _most(size, length, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The most pixels that a sample's outputs may span."""
    return tl.minimum(tl.floor(size * TAPS) + 1.0, length).to(tl.int32)


@kernel
def spread(  # type: ignore[no-untyped-def]
    mapping, window, table, height, width, out_height, out_width, map_step, window_step, S: tl.constexpr
):
    """Program (sample, axis, block of P outputs along it): write their numbers."""
    b, axis = tl.program_id(0).to(tl.int64), tl.program_id(1)
    u = tl.program_id(2) * S.P + tl.arange(0, S.P)
    scale, shift, low, high, size = axis_of(mapping + b * map_step, window + b * window_step, axis, S.SHARP)
    outputs, length = tl.where(axis == 0, out_width, out_height), tl.where(axis == 0, width, height)
    centre = scale * u.to(S.F) + shift
    low, high = tl.zeros((S.P,), S.F) + low, tl.zeros((S.P,), S.F) + high
    finite = (tl.abs(centre) < float("inf")) & (low == low) & (high == high)
    centre, low, high = tl.where(finite, centre, 0.0), tl.where(finite, low, 0.0), tl.where(finite, high, 0.0)
    seen = finite
    if S.MODE == FILLED:
        seen = finite & (centre >= low - 0.5) & (centre < high + 0.5)
    centre = tl.minimum(tl.maximum(centre, low - 0.5), high + 0.5)
    first, count, inverse = _first(centre, size, length, S.TAPS), _most(size, length, S.TAPS), 1.0 / size
    total = tl.zeros((S.P,), S.F)
    k = count * 0
    while k < count:
        total += tap(first + k, (centre, inverse, low, high, length), S.TAPS)
        k += 1
    reads = seen & (total > 0.0)
    each = out_width + out_height
    at = table + b * each * NUMBERS_EACH + axis * out_width + u
    valid = u < outputs
    tl.store(at, centre, mask=valid)
    tl.store(at + each, tl.where(reads, 1.0 / tl.where(reads, total, 1.0), 0.0), mask=valid)
    tl.store(at + each * 2, tl.where(seen, 1.0, 0.0).to(S.F), mask=valid)


@triton.jit
def place(table, at, each, valid):  # type: ignore[no-untyped-def]
    """(centre, 1 / the sum of the weights, whether it sees the picture) of columns or rows ``at``."""
    centre = tl.load(table + at, mask=valid, other=0.0)
    share, seen = tl.load(table + at + each, mask=valid, other=0.0), tl.load(table + at + each * 2, mask=valid, other=0.0)
    return centre, share, seen


@triton.jit
def _along(given, at, drawn, axis, length, S):  # type: ignore[no-untyped-def]
    """Of columns or rows ``at``: 1 / the sum of the weights, whether they see the picture, the first pixel that they span, how many
    they span at most, and the span of a `tap` there.
    """
    _, _, low, high, size = axis_of(given.mapping, given.window, axis, S.SHARP)
    centre, share, seen = place(given.table, at + axis * given.out_width, given.out_width + given.out_height, drawn)
    return share, seen, _first(centre, size, length, S.TAPS), _most(size, length, S.TAPS), (centre, 1.0 / size, low, high, length)


@triton.jit
def read_span(image, given, u, v, drawn, S):  # type: ignore[no-untyped-def]
    """(colour, coverage) of the output pixels (u, v): the means over the pixels that they span, and 1 where they see the picture.

    ``image`` is a `View`; `spread` wrote the ``given`` table.
    """
    share_x, seen_x, first_x, count_x, span_x = _along(given, u, drawn, 0, given.width, S)
    share_y, seen_y, first_y, count_y, span_y = _along(given, v, drawn, 1, given.height, S)
    reads = share_x * share_y != 0.0
    colour = zeros(S.K, S.P, S.F)
    j = count_y * 0
    while j < count_y:
        down = tap(first_y + j, span_y, S.TAPS)
        seen = reads & (down != 0.0)
        sums = zeros(S.K, S.P, S.F)
        i = count_x * 0
        while i < count_x:
            across = tap(first_x + i, span_x, S.TAPS)
            sums = add_scaled(sums, across, load_at(image, first_y + j, first_x + i, seen & (across != 0.0), S.C, S.K, S))
            i += 1
        colour = add_scaled(colour, down, sums)
        j += 1
    return only(reads, scaled(colour, share_x * share_y * S.UNIT)), seen_x * seen_y


@triton.jit
def _slopes(i, span, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(`tap`, its slopes along the centre, the kernel's width, the window's low and high edge); ties as torch shares them."""
    centre, inverse, low, high, length = span
    pixel = i.to(centre.dtype)
    t = (pixel - centre) * inverse
    share, value = shared(pixel, low, high), tl.where(i < length, bump(tl.abs(t), -0.5, TAPS), 0.0)
    along = -share * tl.where((i < length) & (t != 0.0), rise(t, -0.5, TAPS), 0.0) * inverse
    start, stop = pixel - low, high - pixel
    by_low = tl.where(start < 0.0, 1.0, tl.where(start == 0.0, 0.5, 0.0))
    by_high = tl.where(stop < 0.0, 1.0, tl.where(stop == 0.0, 0.5, 0.0))
    counted = tl.where(share > 0.0, value, 0.0)
    return value * share, (along, along * t, -counted * by_low, counted * by_high)


@triton.jit
def _kept(to_centre, raw, low, high):  # type: ignore[no-untyped-def]
    """Split the centre's gradient: (to the centre, to the window's low edge, to its high edge), which may clamp the centre."""
    a, b = low - 0.5, high + 0.5
    above = tl.maximum(raw, a)
    within = to_centre * tl.where(above < b, 1.0, tl.where(above == b, 0.5, 0.0))
    inside = within * tl.where(raw > a, 1.0, tl.where(raw == a, 0.5, 0.0))
    return inside, within - inside, to_centre - within


@triton.jit
def _to_axis(slopes, totals, mean, share, at, given, axis, SHARP: tl.constexpr):  # type: ignore[no-untyped-def]
    """(to the scale, the shift, the low edge, the high edge) from the sums over a pixel's span of `_slopes` times the pixels read.

    ``totals``: the sums of `_slopes` alone; ``mean``: the mean of the pixels read; ``share``: 1 / the sum of the weights.
    """
    scale, shift, low, high, _ = axis_of(given.mapping, given.window, axis, SHARP)
    to = scaled(add_scaled(slopes, -mean, totals), share)
    place = at.to(mean.dtype)
    to_centre, to_low, to_high = _kept(to[0], scale * place + shift, low, high)
    wider = tl.where(tl.abs(scale) >= 1.0, tl.where(scale > 0.0, 1.0, -1.0), 0.0)
    to_scale = to_centre * place
    if not SHARP:
        to_scale += to[1] * wider
    return to_scale, to_centre, to_low + to[2], to_high + to[3]


@triton.jit
def tilt_span(image, given, g, u, v, drawn, S):  # type: ignore[no-untyped-def]
    """(to scale, shift, low edge, high edge along x; the same along y) of each output pixel, of whose colour g is the gradient."""
    share_x, _, first_x, count_x, span_x = _along(given, u, drawn, 0, given.width, S)
    share_y, _, first_y, count_y, span_y = _along(given, v, drawn, 1, given.height, S)
    reads = share_x * share_y != 0.0
    along_x, along_y, total_x, total_y = zeros(4, S.P, S.F), zeros(4, S.P, S.F), zeros(4, S.P, S.F), zeros(4, S.P, S.F)
    total, one = tl.zeros((S.P,), S.F), tl.full((S.P,), 1.0, S.F)
    j = count_y * 0
    while j < count_y:
        iy = first_y + j
        down, slopes_y = _slopes(iy, span_y, S.TAPS)
        total_y = add_scaled(total_y, one, slopes_y)
        sums, read = zeros(4, S.P, S.F), tl.zeros((S.P,), S.F)
        i = count_x * 0
        while i < count_x:
            ix = first_x + i
            across, slopes_x = _slopes(ix, span_x, S.TAPS)
            if j == 0:
                total_x = add_scaled(total_x, one, slopes_x)
            seen = reads & (iy < given.height) & (ix < given.width) & (tl.abs(iy - span_y[0]) * span_y[1] < S.TAPS // 2)
            seen = seen & (tl.abs(ix - span_x[0]) * span_x[1] < S.TAPS // 2)
            value = dot(g, load_at(image, iy, ix, seen, S.C, S.K, S), tl.zeros((S.P,), S.F))
            read = tl.fma(across, value, read)
            sums = add_scaled(sums, value, slopes_x)
            i += 1
        total = tl.fma(down, read, total)
        along_x, along_y = add_scaled(along_x, down, sums), add_scaled(along_y, read, slopes_y)
        j += 1
    share = share_x * share_y * S.UNIT
    to_x = _to_axis(along_x, total_x, total * share_x, share, u, given, 0, S.SHARP)
    to_y = _to_axis(along_y, total_y, total * share_y, share, v, given, 1, S.SHARP)
    return only(reads, to_x), only(reads, to_y)

"""Integer images: every output pixel is a copy of its nearest input pixel, or the fill.

Owns: the compiled loop for masks; integers of one width share it, whatever their sign.
Must not: interpolate.
Read next: ``op.py``.
"""

import numpy as np

from pellucid.kernels.jit import entry, exact, fused
from pellucid.kernels.stages.sums import copy
from pellucid.kernels.warp.cpu.coordinates import BORDER, FILLED, boxes, displace, fold, half_up, locate, nearer, rule_of
from pellucid.kernels.warp.cpu.links import Points, follow
from pellucid.kernels.warp.cpu.strips import at_sample

__all__ = ["copy_labels", "copy_plainly"]

_FEW = 1 << 31  # places in a plane that 32 bits hold
_FAR = 1 << 20


@fused.noinline
def _nearest(x, y, call, window, index):  # type: ignore[no-untyped-def]
    """The offset of the pixel nearest to each coordinate, or -1 where nothing of the image is seen."""
    cast, whole, held = x.dtype.type, index.dtype.type, rule_of(call, window) != FILLED
    (low_x, high_x, low_y, high_y), (first_x, last_x, first_y, last_y) = boxes(call, window, cast)
    stride_x, stride_y, none = whole(call.stride_x), whole(call.stride_y), whole(-1)
    zero, most_x, most_y = cast(0.0), cast(call.width - 1), cast(call.height - 1)
    half_x, half_y = half_up(call.width, cast), half_up(call.height, cast)
    for u in range(len(x)):
        a, b = x[u], y[u]
        seen = (a > low_x) & (a < high_x) & (b > low_y) & (b < high_y)
        column, row = np.floor(min(max(a, first_x), last_x) + half_x), np.floor(min(max(b, first_y), last_y) + half_y)
        seen &= held | ((column >= zero) & (column <= most_x) & (row >= zero) & (row <= most_y))
        column, row = min(max(column, zero), most_x), min(max(row, zero), most_y)
        at = whole(np.int32(row if seen else zero)) * stride_y + whole(np.int32(column if seen else zero)) * stride_x
        index[u] = at if seen else none


@fused.noinline
def _nearest_folded(x, y, call, index):  # type: ignore[no-untyped-def]
    """As `_nearest` under a rule that folds, which shows the image everywhere."""
    cast, whole, mode, width, height = x.dtype.type, index.dtype.type, call.mode, call.width, call.height
    zero, far, half_x, half_y = cast(0.0), cast(np.inf), half_up(width, cast), half_up(height, cast)
    for u in range(len(x)):
        seen = (abs(x[u]) < far) & (abs(y[u]) < far)
        a, b = nearer(x[u] if seen else zero, width, mode), nearer(y[u] if seen else zero, height, mode)
        i, j = fold(np.int64(np.floor(a + half_x)), width, mode), fold(np.int64(np.floor(b + half_y)), height, mode)
        index[u] = whole(j * call.stride_y + i * call.stride_x) if seen else whole(-1)


@fused.noinline
def _copy(img, base, index, fill, out):  # type: ignore[no-untyped-def]
    zero = index.dtype.type(0)
    for u in range(len(index)):
        found = img[base + np.uint64(max(index[u], zero))]
        out[u] = found if index[u] >= zero else fill


@fused
def _look(img, call, window, fill, x, y, index, out):  # type: ignore[no-untyped-def]
    """Copy the pixels nearest to a row of coordinates into the same row of all channels."""
    if rule_of(call, window) > BORDER:
        _nearest_folded(x, y, call, index)
    else:
        _nearest(x, y, call, window, index)
    for c in range(len(fill)):
        _copy(img, np.uint64(call.base + c * call.stride_c), index, fill[c], out[c * call.out_height])


@exact.noinline
def _places(m, v, ramp, last, half, held, strides, index):  # type: ignore[no-untyped-def]
    """As `locate` and `_nearest` for an affine map, in one loop and in 32 bits."""
    cast = m.dtype.type
    zero, far, top = cast(0.0), cast(np.inf), cast(v)
    last_x, last_y, half_x, half_y = last[0], last[1], half[0], half[1]
    m0, m3, a, d = m[0], m[3], m[1] * top + m[2], m[4] * top + m[5]
    sx, sy, none = np.int32(strides[0]), np.int32(strides[1]), np.int32(-1)
    for u in range(len(ramp)):
        x, y = m0 * ramp[u] + a, m3 * ramp[u] + d
        finite = (abs(x) < far) & (abs(y) < far)
        column, row = np.floor(x + half_x), np.floor(y + half_y)
        seen = finite & (held | ((column >= zero) & (column <= last_x) & (row >= zero) & (row <= last_y)))
        column, row = min(max(column, zero), last_x), min(max(row, zero), last_y)
        index[u] = np.int32(row if seen else zero) * sy + np.int32(column if seen else zero) * sx if seen else none


@exact
def _line(m, v, width, last, half, held, strides, index, ramp):  # type: ignore[no-untyped-def]
    """(first, end) of a row's pixels that see the image, and the place in memory that the first one reads.

    The place is -1 where they do not read one place after another; ``index`` then has all places. Both coordinates are monotonous
    along a row, so that all pixels between two which see the image see it, too.
    """
    cast = m.dtype.type
    zero, one, top = cast(0.0), cast(1.0), cast(v)
    if m[0] == one and m[3] == zero and strides[0] == 1 and not held:
        # Rounded twice, a pixel's place is off by far less than this, and so every one is a pixel after the one before.
        a, d = m[1] * top + m[2] + half[0], m[4] * top + m[5] + half[1]
        spare, column, row = (abs(a) + cast(width) + cast(2.0)) * cast(2.0**-20), np.floor(a), np.floor(d)
        if a - column > spare and column + one - a > spare and abs(a) < cast(_FAR):
            if not (row >= zero and row <= last[1]):
                return 0, 0, 0
            shift = np.int64(column)
            first = min(max(-shift, 0), width)
            return first, max(min(width, np.int64(last[0]) + 1 - shift), first), np.int64(row) * strides[1] + shift + first
    _places(m, v, ramp, last, half, held, strides, index)
    first, end = 0, width
    while first < end and index[first] < 0:
        first += 1
    while first < end and index[end - 1] < 0:
        end -= 1
    return first, end, -1


@fused
def _fill_ends(fill, first, end, row):  # type: ignore[no-untyped-def]
    for u in range(first):
        row[u] = fill
    for u in range(end, len(row)):
        row[u] = fill


@fused.noinline
def _gather(img, base, index, row):  # type: ignore[no-untyped-def]
    for u in range(len(row)):
        row[u] = img[base + np.uint64(np.uint32(index[u]))]


@fused.noinline
def copy_plainly(img, call, pictures, maps, fills, ramp, cells, out, start, stop):  # type: ignore[no-untyped-def]
    """Copy rows under affine maps: some of them at a time, a channel after the other, while the places are in the closest cache."""
    cast, width, height, channels = ramp.dtype.type, call.out_width, call.out_height, call.channels
    held = call.mode == BORDER
    most = len(cells) // width
    ends, r = np.empty((most, 3), np.int64), start
    while r < stop:
        b, v = r // height, r % height
        call = at_sample(call, pictures, b)
        last, strides = (cast(call.width - 1), cast(call.height - 1)), (call.stride_x, call.stride_y)
        half = half_up(call.width, cast), half_up(call.height, cast)
        count = min(most, height - v, stop - r)
        for k in range(count):
            first, end, at = _line(
                maps[b * call.map_step], v + k, width, last, half, held, strides, cells[k * width : (k + 1) * width], ramp
            )
            ends[k, 0], ends[k, 1], ends[k, 2] = first, end, at
        for c in range(channels):
            base, fill = call.base + c * call.stride_c, fills[b * call.param_step, c]
            for k in range(count):
                row, first, end, at = out[(b * channels + c) * height + v + k], ends[k, 0], ends[k, 1], ends[k, 2]
                _fill_ends(fill, first, end, row)
                if at >= 0:
                    copy(img[base + at : base + at + end - first], row[first:end])
                else:
                    _gather(img, np.uint64(base), cells[k * width + first : k * width + end], row[first:end])
        r += count


@entry
def copy_labels(img, call, rows, fields, chain, out, floats, index, cells, start, stop):  # type: ignore[no-untyped-def]
    """Compute the output rows start <= b * height + v < stop; the parameters are the fills: the image's, then the canvases'."""
    pictures, maps, windows, fills, _ = rows
    channels, height, width, mode = call.channels, call.out_height, call.out_width, call.mode
    lines, pairs = floats[: 8 * width].reshape(8, width), floats[8 * width :]
    ramp, zeros, x, y, w = lines[0], lines[1], lines[2], lines[3], lines[4]
    for u in range(width):
        ramp[u], zeros[u] = u, 0
    numbers = np.zeros(0 if chain is None else len(chain.kinds), floats.dtype)
    for k in range(len(numbers)):
        numbers[k] = k + 1
    plain = chain is None and not call.projective and fields.size == 0
    small = True
    for k in range(len(pictures)):
        one = at_sample(call, pictures, k)
        small = small and (one.height - 1) * one.stride_y + (one.width - 1) * one.stride_x < _FEW
    if plain and small and windows.shape[1] == 0 and mode <= BORDER:
        copy_plainly(img, call, pictures, maps, fills, ramp, cells, out, start, stop)
        return
    for r in range(start, stop):
        b = r // height
        v = r - b * height
        call = at_sample(call, pictures, b)
        window, fill = windows[b * call.window_step], fills[b * call.param_step]
        m, cut = maps[b * call.map_step], False
        if chain is None:
            locate(m, v, call.projective, ramp, zeros, x, y, w)
            if fields.size > 0:
                displace(fields, 2 * b * call.field_step, v * width, width, width, x, y)
        else:  # the ground has one channel, the number of the canvas whose fill shows: edges are hard
            points = Points(ramp, zeros, x, y, w)
            cut = follow(chain, m, b, v, (height, width), numbers, 1, points, cells[:width], pairs, lines[5:])
        top = b * channels * height + v
        if small:  # 32-bit places: more of them fit a vector
            _look(img, call, window, fill[:channels], x, y, cells[:width], out[top:])
        else:
            _look(img, call, window, fill[:channels], x, y, index, out[top:])
        for c in range(channels if cut else 0):
            row = out[top + c * height]
            for u in range(width):
                if lines[7, u] > 0:
                    row[u] = fill[np.int64(lines[7, u]) * channels + c]

"""One row of one read: its share at each pixel, its pixels, and the gradients of both.

Owns: the arithmetic of a row; the reference's coordinates bit for bit.
Must not: know in which order reads are blended.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.jit import exact, fused
from pellucid.kernels.levels import units
from pellucid.kernels.stages.sums import copy

__all__ = [
    *("AXIS", "cut", "give", "give_whole", "lay", "read", "read_straight", "read_whole", "rest", "slopes_of_share"),
    *("span", "tap", "to_box", "to_map", "to_plane", "whole"),
]

(PLACE, FIRST, NEAR, FAR, AXIS) = range(5)
_FAR = float(1 << 22)  # sums of whole numbers below are exact in float32


@exact
def _cover(place, low, high, edge):  # type: ignore[no-untyped-def]
    """How much of a pixel lies between two places, as in ``geometry/rectangles.py``."""
    cast = type(low)
    zero, half, one = cast(0.0), cast(0.5), cast(1.0)
    centre = cast(place) + half
    if edge == zero:
        return one if (centre >= low) & (centre < high) else zero
    entered, left = (centre - low) / edge + half, (centre - high) / edge + half
    return min(max(entered, zero), one) - min(max(left, zero), one)


@exact
def _column(place, width):  # type: ignore[no-untyped-def]
    return np.int64(min(max(np.ceil(place), type(place)(0.0)), type(place)(width)))


@exact.noinline
def span(opacity, box, k, covers, edge, y, width, line):  # type: ignore[no-untyped-def]
    """Where read k shows in row y: (first column, column behind the last, share, whether the share varies). A share that varies
    is written to ``line``.
    """
    cast = opacity.dtype.type
    zero, half = cast(0.0), cast(0.5)
    if covers and k == 0:
        return np.int64(0), np.int64(width), cast(1.0), False
    share = opacity[k]
    if len(box) == 0:
        return np.int64(0), np.int64(0 if share == zero else width), share, False
    x0, y0, x1, y1 = box[k]
    share_y = _cover(y, y0, y1, edge)
    reach = half * edge
    if share == zero or share_y == zero or not (x0 < x1):
        return np.int64(0), np.int64(0), zero, False
    first, last = _column(x0 - reach - half, width), _column(x1 + reach - half, width)
    if edge == zero:
        return first, last, share * share_y, False
    for u in range(first, last):
        line[u] = share * (share_y * _cover(u, x0, x1, edge))
    return first, last, zero, True


@fused.noinline
def cut(plane, first, last, share, line, varies):  # type: ignore[no-untyped-def]
    """Change the result of `span` for a read whose share is multiplied by a row of a plane."""
    cast = line.dtype.type
    zero, one = cast(0.0), cast(1.0)
    while first < last and plane[first] == zero:
        first += 1
    while first < last and plane[last - 1] == zero:
        last -= 1
    if not varies:
        holes = 0
        for u in range(first, last):
            holes += plane[u] != one
        if holes == 0:
            return first, last, share, False
        for u in range(first, last):
            line[u] = share
    for u in range(first, last):
        line[u] *= plane[u]
    return first, last, zero, True


@fused
def whole(m):  # type: ignore[no-untyped-def]
    """Whether a read only moves whole pixels."""
    one, zero, far = m.dtype.type(1.0), m.dtype.type(0.0), m.dtype.type(_FAR)
    straight = (m[0] == one) & (m[1] == zero) & (m[3] == zero) & (m[4] == one)
    return straight & (abs(m[2]) < far) & (abs(m[5]) < far) & (m[2] == np.floor(m[2])) & (m[5] == np.floor(m[5]))


@fused
def _seen(shift, first, last, width):  # type: ignore[no-untyped-def]
    """The columns of [first, last) whose source pixel, ``shift`` columns to the right, lies in the picture."""
    low = min(max(-shift, first), last)
    return low, max(min(width - shift, last), low)


@fused
def read_whole(img, at, shape, unit, dx, dy, ground, y, first, last, lines):  # type: ignore[no-untyped-def]
    """Read columns first to last of a read that moves whole pixels; ``at`` is where its picture begins."""
    height, width = shape
    inside = 0 <= y + dy < height
    low, high = _seen(dx, first, last, width) if inside else (first, first)
    for c in range(len(lines)):
        begin = at + (c * height + y + dy) * width + dx
        line = lines[c]
        line[first:low] = ground[c]
        units(img[begin + low : begin + high], unit, line[low:high])
        line[high:last] = ground[c]


@exact.noinline
def _places(m, y, first, x, down):  # type: ignore[no-untyped-def]
    """Where the pixels of a row read, from column ``first`` on."""
    cast = x.dtype.type
    across, along = m[1] * cast(y) + m[2], m[4] * cast(y) + m[5]
    for u in range(len(x)):
        x[u] = m[0] * cast(first + u) + across
        down[u] = m[3] * cast(first + u) + along


@fused.noinline
def _settle(place, first, near, far, length):  # type: ignore[no-untyped-def]
    """Find the two pixels that each place lies between along one axis, and their weights; pixels outside of the picture weigh 0.

    The first is chosen such that the second exists, too, if the axis has two pixels at all.
    """
    cast = place.dtype.type
    zero, one, before, after, last = cast(0.0), cast(1.0), cast(-2.0), cast(length), cast(max(length - 2, 0))
    for u in range(len(place)):
        inside = place[u] if place[u] > -one else before
        place[u] = inside if inside < after else after
    for u in range(len(place)):
        first[u] = min(max(np.floor(place[u]), zero), last)
    for u in range(len(place)):
        distance = abs(place[u] - first[u])
        near[u] = one - distance if distance < one else zero
    for u in range(len(place)):
        distance = abs(place[u] - (first[u] + one))
        far[u] = one - distance if distance < one else zero
    if length == 1:
        far[:] = zero


@fused.noinline
def tap(m, y, first, last, shape, taps, index):  # type: ignore[no-untyped-def]
    """Write for a row's pixels the lines PLACE, FIRST, NEAR and FAR of each axis to ``taps``, and the first pixel to ``index``."""
    width = np.int32(shape[1])
    across, down = taps[:AXIS], taps[AXIS:]
    _places(m, y, first, across[PLACE][first:last], down[PLACE][first:last])
    for lines, length in ((across, shape[1]), (down, shape[0])):
        _settle(lines[PLACE][first:last], lines[FIRST][first:last], lines[NEAR][first:last], lines[FAR][first:last], length)
    column, row, into = across[FIRST][first:last], down[FIRST][first:last], index[first:last]
    for u in range(len(into)):
        into[u] = np.int32(np.int32(row[u]) * width + np.int32(column[u]))


@fused
def _steps(shape):  # type: ignore[no-untyped-def]
    """Steps in memory to the second neighbour along each axis; 0 if there is none."""
    return np.uint64(1 if shape[1] > 1 else 0), np.uint64(shape[1] if shape[0] > 1 else 0)


@fused
def read(img, at, shape, unit, ground, first, last, taps, index, lines):  # type: ignore[no-untyped-def]
    """Interpolate columns first to last of a read."""
    cast = taps.dtype.type
    left, right, upper, lower = taps[NEAR], taps[FAR], taps[AXIS + NEAR], taps[AXIS + FAR]
    across, down = _steps(shape)
    for c in range(len(lines)):
        base = np.uint64(at + c * shape[0] * shape[1])
        _mean(img, base, across, down, index[first:last], left[first:last], right[first:last], upper[first:last],
              lower[first:last], cast(unit), ground[c], lines[c][first:last])  # fmt: skip


@fused.noinline
def _mean(img, base, across, down, index, left, right, upper, lower, unit, outside, line):  # type: ignore[no-untyped-def]
    cast = line.dtype.type
    zero, one = cast(0.0), cast(1.0)
    for u in range(len(line)):
        i = base + np.uint64(index[u])
        j = i + down
        top = left[u] * cast(img[i]) + right[u] * cast(img[i + across])
        bottom = left[u] * cast(img[j]) + right[u] * cast(img[j + across])
        cover = (left[u] + right[u]) * (upper[u] + lower[u])
        mixed = (upper[u] * top + lower[u] * bottom) * unit + (one - cover) * outside
        line[u] = mixed if cover > zero else outside


@fused.noinline
def read_straight(m, img, at, shape, unit, ground, y, first, last, taps, index, lines):  # type: ignore[no-untyped-def]
    """Interpolate a read whose rows run along the picture's rows, which are mixed first: two pixels are looked up, not four."""
    cast, (height, width) = taps.dtype.type, shape
    across, down, into, mixed = taps[:AXIS], taps[AXIS:], index[first:last], taps[AXIS + PLACE][:width]
    _places(m, y, first, across[PLACE][first:last], down[PLACE][first:last])
    _settle(across[PLACE][first:last], across[FIRST][first:last], across[NEAR][first:last], across[FAR][first:last], width)
    one = down[PLACE][first : first + 1], down[FIRST][:1], down[NEAR][:1], down[FAR][:1]
    _settle(one[0], one[1], one[2], one[3], height)
    column = across[FIRST][first:last]
    for u in range(len(into)):
        into[u] = np.int32(column[u])
    upper, lower, row = down[NEAR, 0], down[FAR, 0], np.int64(down[FIRST, 0])
    beside, below = _steps(shape)
    for c in range(len(lines)):
        begin = at + (c * height + row) * width
        other = begin + np.int64(below)
        _mix(img[begin : begin + width], img[other : other + width], upper * cast(unit), lower * cast(unit), mixed)
        left, right = across[NEAR][first:last], across[FAR][first:last]
        _between(mixed, beside, into, left, right, upper + lower, ground[c], lines[c][first:last])


@fused.noinline
def _mix(a, b, upper, lower, out):  # type: ignore[no-untyped-def]
    cast = out.dtype.type
    for u in range(len(out)):
        out[u] = upper * cast(a[u]) + lower * cast(b[u])


@fused.noinline
def _between(row, beside, index, left, right, vertical, outside, line):  # type: ignore[no-untyped-def]
    zero, one = line.dtype.type(0.0), line.dtype.type(1.0)
    for u in range(len(line)):
        i = np.uint64(index[u])
        cover = (left[u] + right[u]) * vertical
        mean = left[u] * row[i] + right[u] * row[i + beside] + (one - cover) * outside
        line[u] = mean if cover > zero else outside


@fused.noinline
def lay(lines, above, first, last, share, line, varies):  # type: ignore[no-untyped-def]
    """Blend a read over the lines below it, as ``torch.lerp`` does; pixels that do not show pass on no NaN."""
    half, one, zero = line.dtype.type(0.5), line.dtype.type(1.0), line.dtype.type(0.0)
    for c in range(len(lines)):
        below, over = lines[c][first:last], above[c][first:last]
        if varies:
            shares = line[first:last]
            for u in range(len(below)):
                w, a, b = shares[u], below[u], over[u]
                mixed = a + w * (b - a) if w < half else b - (b - a) * (one - w)
                below[u] = a if w == zero else (b if w == one else mixed)
        elif share == one:
            copy(over, below)
        elif share < half:
            for u in range(len(below)):
                below[u] += share * (over[u] - below[u])
        else:
            for u in range(len(below)):
                below[u] = over[u] + (one - share) * (below[u] - over[u])


@fused.noinline
def rest(factor, first, last, share, line, varies, low, high):  # type: ignore[no-untyped-def]
    """Multiply columns low to high of ``factor`` by the share that a read leaves to those below it."""
    one, low, high = factor.dtype.type(1.0), max(first, low), min(last, high)
    left, shares = factor[low:high], line[low:high]
    if varies:
        for u in range(len(left)):
            left[u] *= one - shares[u]
    else:
        for u in range(len(left)):
            left[u] *= one - share


@fused.noinline
def give_whole(into, at, shape, channels, dx, dy, grad, begin, y, first, last, weight):  # type: ignore[no-untyped-def]
    """Add a row's gradient, weighted, to the whole pixels that it had read.

    Args:
        into: the gradient of the pictures, flat, and ``at`` where that of this one begins.
        grad: of the result, flat, and ``begin`` where that of this sample begins.
    """
    height, width = shape
    cast = weight.dtype.type
    if not 0 <= y + dy < height:
        return
    low, high = _seen(dx, first, last, width)
    for c in range(channels):
        start, goal = begin + (c * height + y) * width, at + (c * height + y + dy) * width + dx
        upstream, target, shares = grad[start + low : start + high], into[goal + low : goal + high], weight[low:high]
        for u in range(len(target)):
            target[u] += shares[u] * cast(upstream[u])


@fused.noinline
def give(into, at, shape, channels, grad, begin, y, first, last, weight, taps, index):  # type: ignore[no-untyped-def]
    """Add a row's gradient, weighted, to the four pixels that each of its pixels was interpolated from."""
    height, width = shape
    cast = weight.dtype.type
    left, right, upper, lower = taps[NEAR], taps[FAR], taps[AXIS + NEAR], taps[AXIS + FAR]
    across, down = _steps(shape)
    for c in range(channels):
        base, start = np.uint64(at + c * height * width), begin + (c * height + y) * width
        upstream = grad[start : start + width]
        for u in range(first, last):
            i, g = base + np.uint64(index[u]), weight[u] * cast(upstream[u])
            j, above, below = i + down, upper[u] * g, lower[u] * g
            into[i] += left[u] * above
            into[i + across] += right[u] * above
            into[j] += left[u] * below
            into[j + across] += right[u] * below


@fused
def finite(value):  # type: ignore[no-untyped-def]
    """Replace NaN and infinity by numbers, as ``torch.nan_to_num`` does."""
    cast = type(value)
    if np.isnan(value):
        return cast(0.0)
    most = np.finfo(cast).max
    return min(max(value, -most), most)


@fused.noinline
def slopes_of_share(above, lines, grad, first, last, found):  # type: ignore[no-untyped-def]
    """The gradient of a read's share in each pixel: upstream times the difference between the read and what it covers."""
    found[first:last] = found.dtype.type(0.0)
    for c in range(len(lines)):
        over, below, upstream, into = above[c][first:last], lines[c][first:last], grad[c][first:last], found[first:last]
        for u in range(len(into)):
            into[u] += upstream[u] * (finite(over[u]) - finite(below[u]))


@fused.noinline
def to_box(opacity, box, k, edge, y, first, last, slope, into):  # type: ignore[no-untyped-def]
    """Add a row's part in the gradients of a read's opacity (the first number) and of its rectangle (the next four)."""
    if len(box) == 0:
        total = 0.0
        for u in range(first, last):
            total += np.float64(slope[u])
        into[0] += total
        return
    x0, y0, x1, y1 = box[k]
    share = np.float64(opacity[k])
    share_y, up, down = _cover(y, y0, y1, edge), _fades(y, y0, edge), _fades(y, y1, edge)
    total = left = right = 0.0
    for u in range(first, last):
        here = np.float64(slope[u])
        total += here * np.float64(_cover(u, x0, x1, edge))
        left += here * _fades(u, x0, edge)
        right += here * _fades(u, x1, edge)
    into[0] += total * np.float64(share_y)
    into[1] -= share * left * np.float64(share_y)
    into[2] -= share * total * up
    into[3] += share * right * np.float64(share_y)
    into[4] += share * total * down


@fused.noinline
def to_plane(plane, first, last, share, line, varies, slope, into):  # type: ignore[no-untyped-def]
    """Write a row's gradient of the plane to ``into``; turn ``slope`` into the gradient of the share before the plane."""
    into[:] = into.dtype.type(0.0)
    for u in range(first, last):
        into[u] = (line[u] if varies else share) * slope[u]
    for u in range(len(slope)):
        slope[u] *= plane[u]


@exact
def _fades(place, end, edge):  # type: ignore[no-untyped-def]
    """The slope with which a rectangle fades at a pixel."""
    cast = type(end)
    zero, half, one = cast(0.0), cast(0.5), cast(1.0)
    if edge == zero:
        return 0.0
    entered = (cast(place) + half - end) / edge + half
    return 1.0 / np.float64(edge) if (entered >= zero) & (entered <= one) else 0.0


@fused
def _slopes(place, first, length):  # type: ignore[no-untyped-def]
    """The slopes of two neighbours' weights in the place."""
    i, j = np.floor(place), first
    near = -1.0 if j == i else (1.0 if j == i + 1 else 0.0)
    far = 1.0 if j == i else (-1.0 if j + 1 == i else 0.0)
    return near, far if length > 1 else 0.0


@fused.noinline
def to_map(  # type: ignore[no-untyped-def]
    img, at, shape, unit, ground, y, first, last, share, line, varies, grad, taps, index, into
):
    """Add a row's part in the gradient of a read's map, six numbers."""
    height, width = shape
    cast = taps.dtype.type
    left, right, upper, lower = taps[NEAR], taps[FAR], taps[AXIS + NEAR], taps[AXIS + FAR]
    across, down = _steps(shape)
    by_x = by_y = x_alone = y_alone = 0.0
    for u in range(first, last):
        to_left, to_right = _slopes(taps[PLACE, u], taps[FIRST, u], width)
        to_upper, to_lower = _slopes(taps[AXIS + PLACE, u], taps[AXIS + FIRST, u], height)
        along_x = along_y = 0.0
        for c in range(len(grad)):
            i, outside = np.uint64(at + c * height * width + index[u]), ground[c]
            j = i + down
            a, b = finite(cast(img[i]) * unit - outside), finite(cast(img[i + across]) * unit - outside)
            d, e = finite(cast(img[j]) * unit - outside), finite(cast(img[j + across]) * unit - outside)
            upstream = np.float64(grad[c, u])
            along_x += upstream * (upper[u] * (to_left * a + to_right * b) + lower[u] * (to_left * d + to_right * e))
            along_y += upstream * (to_upper * (left[u] * a + right[u] * b) + to_lower * (left[u] * d + right[u] * e))
        weight = np.float64(line[u]) if varies else np.float64(share)
        along_x, along_y = along_x * weight, along_y * weight
        by_x, x_alone = by_x + along_x * u, x_alone + along_x
        by_y, y_alone = by_y + along_y * u, y_alone + along_y
    into[0] += by_x
    into[1] += x_alone * y
    into[2] += x_alone
    into[3] += by_y
    into[4] += y_alone * y
    into[5] += y_alone

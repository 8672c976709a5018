"""Staging: the part of a sample that a band of output rows reads, laid out so that a pixel is one vector.

Owns: how much is staged at once, the layout (three channels and the coverage per pixel, channels beyond three in further planes),
and the adjoint for gradients.
Must not: know colours or coordinates' rules; coordinates are clamped and classified before they are read.
Read next: ``gather.py``.

A plane has a ring around the staged pixels, one pixel wide (three for cubic interpolation): zeros (coverage 0) where the image
fades outside, the nearest pixel where coordinates are clamped. Under a rule that folds, pixels outside are staged as they will be
seen. Below are rows of zeros, for output pixels that see nothing, so that reading needs no branch.
"""

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.warp.cpu.coordinates import BORDER, FILLED, boxes, fold, rule_of
from pellucid.kernels.warp.cpu.layout import COLUMNS, LEFT, LINES, PLANE, RING, ROWS, STAGED, TOP, X, Y
from pellucid.kernels.warp.cpu.quads import meet, soon_read
from pellucid.kernels.warp.layout import CANVASES, LINK

__all__ = ["choose_band", "clear", "stage", "unstage", "unstaged_rows"]

_FOLDS, _HARD, _BEND = CANVASES["reflection"], CANVASES["hard"], CANVASES["bend"]
_LINE = 64  # bytes of a cache line
_MOST = 1e6  # further away, corners are not trusted
_ROUNDED = 1e-6  # of the terms of a sum: more than what float32 loses
_WORTH = 12  # most pixels to stage per output pixel; beyond it, copying the pixels around each point is cheaper
_CLOSE = 1 << 17  # most numbers of a band: they stay in the second cache while the output streams through it
_AHEAD = 8  # rows by which a field is prefetched
_OFTEN = 2  # a larger band is good, too, if smaller ones would stage every pixel more often than this


@fused.noinline
def _least(row):  # type: ignore[no-untyped-def]
    """The smallest number of a row, which is overwritten: halves are compared, so that it is vectorised."""
    n = len(row)
    while n > 1:
        half = (n + 1) // 2
        first, second = row[: n - half], row[half:n]
        for u in range(n - half):
            first[u] = second[u] if second[u] < first[u] else first[u]
        n = half
    return row[0]


@fused.noinline
def _shifts(field, at, rows, width, step, low, high):  # type: ignore[no-untyped-def]
    """The least and the largest displacement along one axis in some rows of a field; those that are not finite do not count.

    Args:
        low, high: scratch of ``width``.
    """
    zero, far = field.dtype.type(0.0), field.dtype.type(np.inf)
    low[:] = far
    high[:] = far
    for k in range(rows):
        line = field[at + k * step : at + k * step + width]
        for u in range(0, width if k + _AHEAD < rows else 0, _LINE // field.itemsize):
            soon_read(field, at + (k + _AHEAD) * step + u)
        for u in range(len(line)):
            a = line[u]
            low[u] = a if (a < low[u]) & (a > -far) else low[u]
            high[u] = -a if (-a < high[u]) & (a < far) else high[u]
    least, most = _least(low), -_least(high)
    return (least, most) if least <= most else (zero, zero)


@fused
def _span(low, high, back, mode, length):  # type: ignore[no-untyped-def]
    """The pixels [first, end) that coordinates from ``low`` to ``high`` read; only rules that fold read outside of the image."""
    first, end = np.int64(np.floor(low)) - back, np.int64(np.floor(high)) + 2 + back
    if mode <= BORDER:
        first, end = max(first, np.int64(0)), min(end, np.int64(length))
    return first, end


@fused
def _extent(box, shape, mode, back, ring):  # type: ignore[no-untyped-def]
    """What is staged for a box: x and y of the first pixel, columns and lines with the ring."""
    left, right = _span(box[0], box[1], back, mode, shape[1])
    top, bottom = _span(box[2], box[3], back, mode, shape[0])
    columns, lines = max(right - left, 1) + 2 * ring, max(bottom - top, 1) + 2 * ring
    if mode <= BORDER:
        left, top = min(left, shape[1] - 1), min(top, shape[0] - 1)
    return left, top, columns, lines


@fused.noinline
def _judge(call, box, rule, pixels, rows, strip):  # type: ignore[no-untyped-def]
    """Whether a band of so many rows and output pixels is good to stage; if it is, or is one strip, it is written to the frame."""
    frame, taps, planes = strip.frame, call.taps, (call.channels + 2) // 3
    back, ring = (1, 3) if taps == 4 else (0, 1)  # pixels further than two, and the ring they need
    left, top, columns, lines = _extent(box, (call.height, call.width), rule, back, ring)
    plane = 4 * columns * (lines + 2 + 2 * back)
    fits = planes * plane <= len(strip.quad) and columns * lines <= _WORTH * (pixels + 64)
    good = fits and (planes * plane <= _CLOSE or columns * lines >= _OFTEN * pixels)
    if good or rows <= call.strip:
        if not fits:
            columns, lines, plane = taps, taps, 0
        frame[ROWS], frame[STAGED], frame[LEFT], frame[TOP] = rows, 1 if fits else 0, left, top
        frame[COLUMNS], frame[LINES], frame[PLANE], frame[RING] = columns, lines, plane, ring
    return good


@fused
def _excess(low, high, first, last):  # type: ignore[no-untyped-def]
    """How far an interval reaches beyond a canvas."""
    return max(max(first - low, high - last), 0.0)


@fused
def _around(xs, ys, room):  # type: ignore[no-untyped-def]
    """The box (x0, x1, y0, y1) of four corners and the room around them."""
    x0, x1 = min(min(xs[0], xs[1]), min(xs[2], xs[3])), max(max(xs[0], xs[1]), max(xs[2], xs[3]))
    y0, y1 = min(min(ys[0], ys[1]), min(ys[2], ys[3])), max(max(ys[0], ys[1]), max(ys[2], ys[3]))
    return x0 - room[0], x1 + room[0], y0 - room[1], y1 + room[1]


@fused
def _point(n, x, y, projective):  # type: ignore[no-untyped-def]
    """Map a point: its place, the sizes of the terms added up, and the sign of its denominator, 0 where that is not sure."""
    a, b = n[0] * x + n[1] * y + n[2], n[3] * x + n[4] * y + n[5]
    lost_x, lost_y = abs(n[0] * x) + abs(n[1] * y) + abs(n[2]), abs(n[3] * x) + abs(n[4] * y) + abs(n[5])
    if not projective:
        return a, b, lost_x, lost_y, 1.0
    w, part = n[6] * x + n[7] * y + n[8], abs(n[6] * x) + abs(n[7] * y) + abs(n[8])
    a, b, sign = a / w, b / w, (1.0 if w > 0.05 * part else (-1.0 if -w > 0.05 * part else 0.0))
    return a, b, (lost_x + abs(a) * part) / abs(w), (lost_y + abs(b) * part) / abs(w), sign


@fused
def _mapped(n, xs, ys, room):  # type: ignore[no-untyped-def]
    """Map four corners and the room around them; the room is not finite where nothing bounds it."""
    projective = len(n) > 6 and not (n[6] == 0 and n[7] == 0 and n[8] == 1)
    if projective and room[0] + room[1] > 0.0:  # no single linear map moves the room: map the corners of the box with it
        x0, x1, y0, y1 = _around(xs, ys, room)
        xs, ys, room = (x0, x1, x0, x1), (y0, y0, y1, y1), (0.0, 0.0)
    a, b, c, d = (
        _point(n, xs[0], ys[0], projective), _point(n, xs[1], ys[1], projective),
        _point(n, xs[2], ys[2], projective), _point(n, xs[3], ys[3], projective),
    )  # fmt: skip
    room_x, room_y = abs(n[0]) * room[0] + abs(n[1]) * room[1], abs(n[3]) * room[0] + abs(n[4]) * room[1]
    room_x += _ROUNDED * max(max(a[2], b[2]), max(c[2], d[2]))
    room_y += _ROUNDED * max(max(a[3], b[3]), max(c[3], d[3]))
    if abs(a[4] + b[4] + c[4] + d[4]) < 4.0:
        room_x = room_y = np.inf
    return (a[0], b[0], c[0], d[0]), (a[1], b[1], c[1], d[1]), (room_x, room_y)


@fused.noinline
def _reach(call, sample, fields, chain, spot, rows, strip):  # type: ignore[no-untyped-def]
    """The box (x0, x1, y0, y1) of what so many rows from the spot's on may read, clamped as :func:`boxes` says.

    The corners bound it where denominators keep their sign. At a canvas a point moves only so far as the corners lie outside of it
    (where it folds, twice as far; where it shows fill, by less than a pixel if the point still shows something of the source), and
    by no more than the largest displacement.
    """
    b, width, cast = spot.b, spot.width, strip.rows.dtype.type
    _, limits = boxes(call, sample.window, cast)
    x0, x1, y0, y1 = float(spot.first), float(spot.first + width - 1), float(spot.v), float(spot.v + rows - 1)
    xs, ys, room = (x0, x1, x0, x1), (y0, y0, y1, y1), (0.0, 0.0)
    if chain is not None:
        links = chain.links[b * chain.step]
        for k in range(len(chain.kinds) - 1, -1, -1):
            xs, ys, room = _mapped(links[k, : LINK - 4], xs, ys, room)
            x0, x1, y0, y1 = _around(xs, ys, room)
            held_x = _excess(x0, x1, links[k, LINK - 4], links[k, LINK - 2])
            held_y = _excess(y0, y1, links[k, LINK - 3], links[k, LINK - 1])
            if chain.kinds[k] >= _BEND:  # no displacement is larger than the largest of a knot
                held_x, held_y = chain.most[b * chain.control_step, 0] * 1.0, chain.most[b * chain.control_step, 1] * 1.0
            elif chain.kinds[k] == FILLED or chain.kinds[k] == _HARD:
                held_x, held_y = min(held_x, 1.0), min(held_y, 1.0)
            times = 2.0 if chain.kinds[k] == _FOLDS else 1.0
            room = room[0] + times * held_x, room[1] + times * held_y
    xs, ys, room = _mapped(sample.m, xs, ys, room)
    x0, x1, y0, y1 = _around(xs, ys, room)
    if fields is not None and fields.size > 0:
        row, at = 2 * b * call.field_step, spot.v * call.out_width + spot.first
        low, high = strip.rows[X][:width], strip.rows[Y][:width]
        least, most = _shifts(fields[row], at, rows, width, call.out_width, low, high)
        x0, x1 = x0 + least, x1 + most
        least, most = _shifts(fields[row + 1], at, rows, width, call.out_width, low, high)
        y0, y1 = y0 + least, y1 + most
    if not (abs(x0) + abs(x1) + abs(y0) + abs(y1) < _MOST):
        return limits
    low_x, high_x, low_y, high_y = limits
    if rule_of(call, sample.window) > BORDER and (x0 < low_x or x1 > high_x or y0 < low_y or y1 > high_y):
        return limits
    return (
        min(max(cast(x0), low_x), high_x), min(max(cast(x1), low_x), high_x),
        min(max(cast(y0), low_y), high_y), min(max(cast(y1), low_y), high_y),
    )  # fmt: skip


@fused
def choose_band(call, sample, fields, chain, spot, last, strip):  # type: ignore[no-untyped-def]
    """Decide how many rows from the spot's on (at most to ``last``) go through one staging, and where its pixels lie: from many
    rows to fewer.

    Args:
        fields: displacements (None: there are none, and the map is affine).
        chain: canvases, or None.
    """
    step, rule, rows = call.strip, rule_of(call, sample.window), last - spot.v
    if strip.frame[ROWS] > 0:  # at most twice what fitted last time
        rows = min(rows, 2 * strip.frame[ROWS])
    elif fields is not None and fields.size > 0:  # each try reads that much of the field
        rows = min(rows, max(_CLOSE // 4 // spot.width // step, 1) * step)
    while True:
        box = _reach(call, sample, fields, chain, spot, rows, strip)
        if _judge(call, box, rule, rows * spot.width, rows, strip) or rows <= step:
            return
        rows = max(step, (rows // 2 + step - 1) // step * step)


@fused.inlined
def _pixels(img, at, steps, unit, out):  # type: ignore[no-untyped-def]
    """Lay out pixels with full coverage; ``steps``: to the second and the third number of a pixel, and to the next pixel."""
    cast, (second, third, step) = out.dtype.type, steps
    row = img[at:]
    for u in range(len(out) // 4):
        k = u * step
        p, q, r = cast(row[np.uint64(k)]), cast(row[np.uint64(k + second)]), cast(row[np.uint64(k + third)])
        out[4 * u], out[4 * u + 1], out[4 * u + 2], out[4 * u + 3] = p * unit, q * unit, r * unit, cast(1.0)


@fused
def _row(img, at, strides, count, unit, out):  # type: ignore[no-untyped-def]
    """Lay out one row of up to three channels; the last channel also stands in for missing ones."""
    sc, sx = strides
    second, third = sc * min(count - 1, 1), sc * min(count - 1, 2)
    if sx == 1:
        _pixels(img, at, (second, third, 1), unit, out)
    elif sx == 3 and sc == 1 and count == 3:  # numbers that are known while compiling make vectors of the loop
        _pixels(img, at, (1, 2, 3), unit, out)
    else:
        _pixels(img, at, (second, third, sx), unit, out)


@fused
def _outside(img, at, strides, count, unit, mode, width, x, out):  # type: ignore[no-untyped-def]
    """Lay out pixels of one row from column x on, all of them outside of the image."""
    cast = out.dtype.type
    if mode == FILLED:
        out[:] = cast(0.0)
        return
    sc, sx = strides
    for u in range(len(out) // 4):
        k = at + fold(x + u, width, mode) * sx
        for c in range(3):
            out[4 * u + c] = cast(img[k + min(c, count - 1) * sc]) * unit
        out[4 * u + 3] = cast(1.0)


@fused
def _overlap(first, count, length):  # type: ignore[no-untyped-def]
    """Which of ``count`` pixels from ``first`` on lie in an image of this length, as [low, high)."""
    low = min(max(-first, 0), count)
    return low, max(min(length - first, count), low)


@fused
def _announce(img, at, strides, count, n):  # type: ignore[no-untyped-def]
    """Prefetch a row of up to three channels."""
    sc, sx = strides
    if sx > 4:  # more memory than the row's
        return
    for c in range(1 if sc == 1 else count):
        for u in range(0, n * sx, _LINE // img.itemsize):
            soon_read(img, at + c * sc + u)


@fused.noinline
def stage(img, call, mode, frame, quad):  # type: ignore[no-untyped-def]
    """Fill ``quad`` with the band's pixels, in units of the result; ``mode`` as `rule_of` says it."""
    columns, lines, plane, ring = frame[COLUMNS], frame[LINES], frame[PLANE], frame[RING]
    height, width, unit, sc, sy, sx = call.height, call.width, call.unit, call.stride_c, call.stride_y, call.stride_x
    row, x = 4 * columns, frame[LEFT] - ring
    low, high = _overlap(x, columns, width)
    for k in range((call.channels + 2) // 3):
        count = min(call.channels - 3 * k, 3)
        for j in range(plane // row):
            out = quad[k * plane + j * row : k * plane + (j + 1) * row]
            y = frame[TOP] + j - ring
            if j >= lines or (mode == FILLED and (y < 0 or y >= height)):
                out[:] = quad.dtype.type(0.0)
                continue
            at = call.base + 3 * k * sc + fold(y, height, mode) * sy
            _announce(img, at + (x + low) * sx + 2 * sy, (sc, sx), count, high - low)
            _outside(img, at, (sc, sx), count, unit, mode, width, x, out[: 4 * low])
            _row(img, at + (x + low) * sx, (sc, sx), count, unit, out[4 * low : 4 * high])
            _outside(img, at, (sc, sx), count, unit, mode, width, x + high, out[4 * high :])


@fused.noinline
def clear(gradient, call, cleared, first, last):  # type: ignore[no-untyped-def]
    """Write zeros to rows of a sample's part of ``gradient`` until the rows first to last are ``cleared``; returns those that are.

    So zeros are written just before gradients are added to them, while they are in a close cache.
    """
    zero = gradient.dtype.type(0.0)
    width, (low, high) = call.width, cleared
    if low == high:
        low = high = first
    first, last = min(first, low), max(last, high)
    for c in range(call.channels):
        at = call.own + c * call.height * width
        gradient[at + first * width : at + low * width] = zero
        gradient[at + high * width : at + last * width] = zero
    return first, last


@fused
def unstaged_rows(mode, frame, height):  # type: ignore[no-untyped-def]
    """The rows of the image that :func:`unstage` may add to."""
    if mode > BORDER:
        return np.int64(0), np.int64(height)
    first = min(max(frame[TOP] - frame[RING], 0), height - 1)
    return first, max(min(frame[TOP] - frame[RING] + frame[LINES], height), first + 1)


@fused
def _add_outside(pairs, at, first, last, x, width, mode, count, plane, quads, gradient, own):  # type: ignore[no-untyped-def]
    """Add a row's staged gradients of pixels outside of the image to those they fold to."""
    for u in range(first, last):
        meet(pairs, at + 8 * u, quads, 0)
        to = own + fold(x + u, width, mode)
        for lane in range(count):
            gradient[to + lane * plane] += quads[lane]


@fused.noinline
def unstage(call, mode, strip, quads, gradient):  # type: ignore[no-untyped-def]
    """Add the staged gradients, two numbers for each of a pixel's, to the sample's part of ``gradient``.

    Args:
        mode: as `rule_of` says it.
        strip: of whose stage's gradients the first eight numbers are no pixel's.
        quads: scratch of at least a pixel.
    """
    height, width, channels, own, pairs, frame = call.height, call.width, call.channels, call.own, strip.into, strip.frame
    columns, lines, plane, ring = frame[COLUMNS], frame[LINES], frame[PLANE], frame[RING]
    piece, x = len(quads) // 4, frame[LEFT] - ring
    low, high = _overlap(x, columns, width)
    # Nothing reaches a ring that fades, and two clamped pixels never differ from the edge.
    folds = mode > BORDER or (mode == BORDER and ring > 1)
    for k in range((channels + 2) // 3):
        count = min(channels - 3 * k, 3)
        for j in range(lines):
            y = frame[TOP] + j - ring
            if (y < 0 or y >= height) and not folds:
                continue
            from_row = 8 + 2 * k * plane + 8 * j * columns
            to_row = own + (3 * k * height + fold(y, height, mode)) * width
            for first in range(low, high, piece):
                n = min(piece, high - first)
                for u in range(n):
                    # What the pixel's own readers gave, and those of the pixel before it.
                    meet(pairs, from_row + 8 * (first + u), quads, 4 * u)
                at = to_row + x + first
                a, b, c = (
                    gradient[at:],
                    gradient[at + height * width * min(count - 1, 1) :],
                    gradient[at + height * width * (count - 1) :],
                )
                if count == 3:
                    for u in range(n):
                        a[u] += quads[4 * u]
                        b[u] += quads[4 * u + 1]
                        c[u] += quads[4 * u + 2]
                else:
                    for lane in range(count):
                        for u in range(n):
                            gradient[at + lane * height * width + u] += quads[4 * u + lane]
            if folds:
                for first, last in ((0, low), (high, columns)):
                    _add_outside(
                        pairs, from_row, first, last, x, width, mode, count, height * width, quads, gradient, to_row
                    )  # fmt: skip

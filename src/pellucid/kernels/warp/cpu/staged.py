"""Staging: the part of a sample that a band of output rows reads, laid out so that a pixel is one vector.

Owns: how much is staged at once, the layout (three channels and the coverage per pixel, channels beyond three in further planes),
and the way back for gradients.
Must not: know colours or coordinates' rules; whoever reads has clamped and classified.
Read next: ``gather.py``.

A plane has a ring around what is staged, one pixel wide (three for cubic interpolation): nothing (coverage 0) where what lies
outside fades, the nearest pixel where coordinates are clamped. Under a rule that folds, what lies outside is laid out as it will be
seen. Below are rows of nothing, for output pixels that see nothing, so that reading needs no branch.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import exact, fused, noinline
from pellucid.kernels.warp.cpu.coordinates import BORDER, FILLED, fold
from pellucid.kernels.warp.cpu.layout import (
    ACROSS,
    COLUMNS,
    DOWN,
    LEFT,
    LINES,
    PLANE,
    RING,
    ROWS,
    STAGED,
    TOP,
    US,
    Spot,
    Strip,
    X,
    Y,
)
from pellucid.kernels.warp.cpu.links import find
from pellucid.kernels.warp.cpu.quads import meet, soon_read
from pellucid.kernels.warp.layout import CANVASES, LINK

__all__ = ["choose_band", "clear", "stage", "unstage", "unstaged_rows"]

_FOLDS, _HARD, _BEND = CANVASES["reflection"], CANVASES["hard"], CANVASES["bend"]
_LINE = 64  # bytes that memory comes in
_MOST = 1e6  # further away, corners are not trusted
_WORTH = 12  # more pixels to stage per output pixel, and laying out those around each point is cheaper
_CLOSE = 1 << 17  # so many numbers stay in the second cache while the output streams through it,
_OFTEN = 2  # unless smaller bands would stage every pixel more often than this


@exact
def _corners(m, v, rows, us, limits):  # type: ignore[no-untyped-def]
    """The box (x0, x1, y0, y1) of what an affine map reads for rows v to v + rows in these columns, clamped to ``limits``.

    Rounding keeps order, so that the corners bound exactly what is between.
    """
    noinline()
    cast = us.dtype.type
    low_x, high_x, low_y, high_y = limits
    x0, x1, y0, y1 = high_x, low_x, high_y, low_y
    for line in (cast(v), cast(v + rows - 1)):
        for column in (us[0], us[len(us) - 1]):
            a, b = m[0] * column + (m[1] * line + m[2]), m[3] * column + (m[4] * line + m[5])
            if not (abs(a) < cast(np.inf) and abs(b) < cast(np.inf)):
                return limits
            x0, x1, y0, y1 = min(x0, a), max(x1, a), min(y0, b), max(y1, b)
    x0, x1 = min(max(x0, low_x), high_x), min(max(x1, low_x), high_x)
    y0, y1 = min(max(y0, low_y), high_y), min(max(y1, low_y), high_y)
    return x0, x1, y0, y1


@fused
def _least(row):  # type: ignore[no-untyped-def]
    """The smallest number of a row, which is overwritten: halves are compared, so that it is vectorised."""
    noinline()
    n = len(row)
    while n > 1:
        half = (n + 1) // 2
        first, second = row[: n - half], row[half:n]
        for u in range(n - half):
            first[u] = second[u] if second[u] < first[u] else first[u]
        n = half
    return row[0]


@fused
def _clamp(x, y, limits, negative_x, negative_y):  # type: ignore[no-untyped-def]
    """Clamp coordinates, and write them negated; those that are nowhere become the least in neither."""
    noinline()
    cast = x.dtype.type
    far = cast(np.inf)
    low_x, high_x, low_y, high_y = limits
    for u in range(len(x)):
        a, b = x[u], y[u]
        seen = (abs(a) < far) & (abs(b) < far)
        a, b = min(max(a, low_x), high_x), min(max(b, low_y), high_y)
        x[u], negative_x[u] = a if seen else high_x, -a if seen else -low_x
        y[u], negative_y[u] = b if seen else high_y, -b if seen else -low_y


@fused
def _walk(call, m, fields, chain, b, v, strip, limits):  # type: ignore[no-untyped-def]
    """The same box for the strip that begins at row v, pixel by pixel: any map, displacements, canvases."""
    rows, us = strip.rows, strip.rows[US]
    spot = Spot(b, v, np.int64(us[0]), np.int64(us[len(us) - 1] - us[0]) + 1)
    find(
        call,
        m,
        m[:0],
        fields,
        chain,
        spot,
        Strip(rows, strip.kind, strip.index, strip.frame, strip.quad, strip.into, strip.own[:2]),
    )
    _clamp(rows[X], rows[Y], limits, rows[ACROSS], rows[DOWN])
    return _least(rows[X]), -_least(rows[ACROSS]), _least(rows[Y]), -_least(rows[DOWN])


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


@fused
def _judge(call, box, mode, pixels, rows, strip):  # type: ignore[no-untyped-def]
    """Whether a band of so many rows and output pixels is good to stage; if it is, or is one strip, the frame says so."""
    noinline()
    frame, taps, planes = strip.frame, call.taps, (call.channels + 2) // 3
    back, ring = (1, 3) if taps == 4 else (0, 1)  # pixels further than two, and the ring they need
    left, top, columns, lines = _extent(box, (call.height, call.width), mode, back, ring)
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
def _reach(chain, m, b, v, rows, us, limits):  # type: ignore[no-untyped-def]
    """The box of what rows v to v + rows may show through canvases, and whether the corners bound it.

    They do where the denominator keeps its sign, all maps but the output's own are affine, and no canvas folds: then a point moves
    only so far at a canvas as the corners lie outside of it, and where that shows fill, by less than a pixel if it still shows
    something of the source.
    """
    noinline()
    links, last = chain.links[b * chain.step], len(chain.kinds) - 1
    bounded = len(m) == 6 or (m[6] == 0 and m[7] == 0 and m[8] == 1)
    out = links[last]
    xs, ys = np.empty(4), np.empty(4)
    sign = 0.0
    for corner in range(4):
        line, column = float(v + (rows - 1) * (corner // 2)), float(us[(len(us) - 1) * (corner % 2)])
        w = out[6] * column + (out[7] * line + out[8])
        sign = w if corner == 0 else sign
        terms = abs(out[6] * column) + abs(out[7] * line) + abs(out[8])
        if not (w * sign > 0.0 and abs(w) > 0.05 * terms):
            return False, limits
        xs[corner] = (out[0] * column + out[1] * line + out[2]) / w
        ys[corner] = (out[3] * column + out[4] * line + out[5]) / w
    room_x = room_y = 0.0
    for k in range(last, -1, -1):
        if chain.kinds[k] >= _BEND:  # no displacement is larger than the largest of a knot
            room_x, room_y = room_x + chain.most[b * chain.control_step, 0], room_y + chain.most[b * chain.control_step, 1]
        else:
            x0, y0, x1, y1 = links[k, LINK - 4], links[k, LINK - 3], links[k, LINK - 2], links[k, LINK - 1]
            held_x = _excess(xs.min() - room_x, xs.max() + room_x, x0, x1)
            held_y = _excess(ys.min() - room_y, ys.max() + room_y, y0, y1)
            if chain.kinds[k] == FILLED or chain.kinds[k] == _HARD:
                held_x, held_y = min(held_x, 1.0), min(held_y, 1.0)
            bounded &= chain.kinds[k] != _FOLDS or held_x + held_y == 0.0
            room_x, room_y = room_x + held_x, room_y + held_y
        n = links[k - 1] if k > 0 else m
        bounded &= k == 0 or (n[6] == 0 and n[7] == 0 and n[8] == 1)
        for corner in range(4):
            x, y = xs[corner], ys[corner]
            xs[corner], ys[corner] = n[0] * x + n[1] * y + n[2], n[3] * x + n[4] * y + n[5]
        room_x, room_y = abs(n[0]) * room_x + abs(n[1]) * room_y, abs(n[3]) * room_x + abs(n[4]) * room_y
    x0, x1, y0, y1 = xs.min(), xs.max(), ys.min(), ys.max()
    if not (bounded and abs(x0) + abs(x1) + abs(y0) + abs(y1) + room_x + room_y < _MOST):
        return False, limits
    # Some more for rounding: coordinates are computed in fewer bits.
    low_x, high_x, low_y, high_y = limits
    room_x, room_y = room_x + 0.1 + 1e-4 * max(-x0, x1), room_y + 0.1 + 1e-4 * max(-y0, y1)
    cast = us.dtype.type
    x0, x1 = min(max(cast(x0 - room_x), low_x), high_x), min(max(cast(x1 + room_x), low_x), high_x)
    y0, y1 = min(max(cast(y0 - room_y), low_y), high_y), min(max(cast(y1 + room_y), low_y), high_y)
    return True, (x0, x1, y0, y1)


@fused
def _halve(call, m, chain, b, mode, v, last, limits, strip):  # type: ignore[no-untyped-def]
    """Where corners tell what is read: from many rows to fewer."""
    noinline()
    us, step = strip.rows[US], call.strip
    rows, mine = last - v, np.int64(us[len(us) - 1] - us[0]) + 1
    if strip.frame[ROWS] > 0:  # what fitted last time, twice over
        rows = min(rows, 2 * strip.frame[ROWS])
    while True:
        if chain is None:
            box = _corners(m, v, rows, us, limits)
        else:
            _, box = _reach(chain, m, b, v, rows, us, limits)
        if _judge(call, box, mode, rows * mine, rows, strip) or rows <= step:
            return
        rows = max(step, (rows // 2 + step - 1) // step * step)


@fused
def _grow(call, m, fields, chain, b, mode, v, last, limits, strip):  # type: ignore[no-untyped-def]
    """Any other map: strip by strip, once, as far as it pays."""
    noinline()
    us, step = strip.rows[US], call.strip
    rows, mine = min(step, last - v), np.int64(us[len(us) - 1] - us[0]) + 1
    x0, x1, y0, y1 = limits[1], limits[0], limits[3], limits[2]
    while True:
        a0, a1, b0, b1 = _walk(call, m, fields, chain, b, v + rows - min(step, rows), strip, limits)
        x0, x1, y0, y1 = min(x0, a0), max(x1, a1), min(y0, b0), max(y1, b1)
        good = _judge(call, (x0, x1, y0, y1), mode, rows * mine, rows, strip)
        if not good or v + rows >= last:
            return
        rows = min(rows + step, last - v)


@fused
def choose_band(call, m, fields, chain, b, mode, v, last, limits, strip):  # type: ignore[no-untyped-def]
    """Decide how many rows from v on (at most to ``last``) go through one staging, and where its pixels lie.

    Args:
        fields: displacements (None: there are none, and the map is affine).
        chain: canvases, or None.
        mode: FILLED where what lies outside fades, BORDER where coordinates are clamped, or a border rule that folds.
        limits: (low x, high x, low y, high y) that coordinates are clamped to before they are read, or what they must lie in
            to see anything.
    """
    if chain is not None:
        bounded, _ = _reach(chain, m, b, v, last - v, strip.rows[US], limits)
        if bounded:
            _halve(call, m, chain, b, mode, v, last, limits, strip)
        else:
            _grow(call, m, fields, chain, b, mode, v, last, limits, strip)
    elif fields is None:
        _halve(call, m, chain, b, mode, v, last, limits, strip)
    elif call.projective or fields.size > 0:
        _grow(call, m, fields, chain, b, mode, v, last, limits, strip)
    else:
        _halve(call, m, chain, b, mode, v, last, limits, strip)


@fused
def _row(img, at, strides, count, unit, out):  # type: ignore[no-untyped-def]
    """Lay one row of up to three channels out as pixels with full coverage; the last channel also stands in for missing ones."""
    cast = out.dtype.type
    sc, sx = strides
    a, b, c = img[at:], img[at + sc * min(count - 1, 1) :], img[at + sc * min(count - 1, 2) :]
    n = len(out) // 4
    one = cast(1.0)
    if sx == 1:
        for u in range(n):
            out[4 * u], out[4 * u + 1], out[4 * u + 2] = cast(a[u]) * unit, cast(b[u]) * unit, cast(c[u]) * unit
            out[4 * u + 3] = one
    elif sx == 3 and sc == 1 and count == 3:
        for u in range(n):
            p, q, r = cast(a[3 * u]), cast(a[3 * u + 1]), cast(a[3 * u + 2])
            out[4 * u], out[4 * u + 1], out[4 * u + 2], out[4 * u + 3] = p * unit, q * unit, r * unit, one
    elif sx == 4 and sc == 1 and count == 3:  # as Pillow keeps colours; what else a pixel holds is not looked at
        for u in range(n):
            p, q, r = cast(a[4 * u]), cast(a[4 * u + 1]), cast(a[4 * u + 2])
            out[4 * u], out[4 * u + 1], out[4 * u + 2], out[4 * u + 3] = p * unit, q * unit, r * unit, one
    else:
        for u in range(n):
            k = u * sx
            out[4 * u], out[4 * u + 1], out[4 * u + 2] = cast(a[k]) * unit, cast(b[k]) * unit, cast(c[k]) * unit
            out[4 * u + 3] = one


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
    """Ask for a row of up to three channels."""
    sc, sx = strides
    if sx > 4:  # more memory than the row's
        return
    for c in range(1 if sc == 1 else count):
        for u in range(0, n * sx, _LINE // img.itemsize):
            soon_read(img, at + c * sc + u)


@fused
def stage(img, call, mode, frame, quad):  # type: ignore[no-untyped-def]
    """Fill ``quad`` with the band's pixels, in units of the result; ``mode`` as in :func:`choose_band`."""
    noinline()
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


@fused
def clear(gradient, call, cleared, first, last):  # type: ignore[no-untyped-def]
    """Write zeros to rows of a sample's part of ``gradient`` until the rows first to last are ``cleared``; returns those that are.

    So zeros are written just before what is added to them, while they are close.
    """
    noinline()
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


@fused
def unstage(call, mode, strip, quads, gradient):  # type: ignore[no-untyped-def]
    """Add the staged gradients, two numbers for each of a pixel's, to the sample's part of ``gradient``.

    Args:
        mode: as in :func:`choose_band`.
        strip: of whose stage's gradients the first eight numbers are no pixel's.
        quads: scratch of at least a pixel.
    """
    noinline()
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

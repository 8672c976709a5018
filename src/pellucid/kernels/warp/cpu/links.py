"""A strip of output pixels through a chain of canvases, forward and backward.

Owns: the arithmetic of ``../chain.py``, compiled, a strip at a time.
Must not: read an image.
Read next: ``coordinates.py``.

A strip's chain has rows of its own: the share of the source, a canvas's cover, the channels of the ground; and for backward, for
each canvas the points on it (x, y), the denominator there (0: nowhere) and the share beyond.
"""

from typing import Any, NamedTuple

import numpy as np

from pellucid.kernels.jit import exact, fused, summing
from pellucid.kernels.stages.sums import copy, dot, row_sum
from pellucid.kernels.warp.cpu.bends import bend, unbend
from pellucid.kernels.warp.cpu.coordinates import displace, locate
from pellucid.kernels.warp.cpu.layout import ACROSS, DENOMINATOR, DOWN, US, VS, X, Y
from pellucid.kernels.warp.layout import CANVASES, LINK

__all__ = ["Points", "blend", "find", "follow", "trace_back", "unblend", "undivide"]

_FILLED, _BORDER, _REFLECTION, _HARD = CANVASES["zeros"], CANVASES["border"], CANVASES["reflection"], CANVASES["hard"]
_BEND, _KINK = CANVASES["bend"], CANVASES["kink"]
_MOST = 1e38  # the slope at a point that is further away overflows


@exact
def _unmoved(m):  # type: ignore[no-untyped-def]
    """Whether a map is the identity."""
    found = True
    for i in range(min(len(m), 9)):
        found &= m[i] == m.dtype.type(1.0 if i % 4 == 0 else 0.0)
    return found


@exact.noinline
def _project(m, x, y, w):  # type: ignore[no-untyped-def]
    """Map a row of points in place; a point without an image becomes infinite. ``w`` are the denominators, 0 there.

    Returns whether any point has no image.
    """
    cast, lost = x.dtype.type, False  # a count would be wider than the points, of which fewer then fit a vector
    zero, one, far, most = cast(0.0), cast(1.0), cast(np.inf), cast(_MOST)
    m0, m1, m2, m3, m4, m5 = m[0], m[1], m[2], m[3], m[4], m[5]
    m6, m7, m8 = zero, zero, one
    if len(m) > 6:
        m6, m7, m8 = m[6], m[7], m[8]
    if m6 == zero and m7 == zero and m8 == one:
        for u in range(len(x)):
            a, b = m0 * x[u] + (m1 * y[u] + m2), m3 * x[u] + (m4 * y[u] + m5)
            known = abs(a) + abs(b) < far
            x[u], y[u], w[u] = a if known else far, b if known else far, one if known else zero
            lost |= not known
    else:
        for u in range(len(x)):
            z = m6 * x[u] + (m7 * y[u] + m8)
            a, b = (m0 * x[u] + (m1 * y[u] + m2)) / z, (m3 * x[u] + (m4 * y[u] + m5)) / z
            known = (abs(a) + abs(b) < far) & (abs(a) + abs(b) < most * abs(z))
            x[u], y[u], w[u] = a if known else far, b if known else far, z if known else zero
            lost |= not known
    return lost


@exact
def _fold(x, length, half):  # type: ignore[no-untyped-def]
    """A coordinate reflected onto a canvas of this length."""
    period = length + length
    t = x + half
    t -= np.floor(t / period) * period
    return t - half if t < length else period - t - half


@fused.noinline
def _cross(x, y, w, covers, window, kind):  # type: ignore[no-untyped-def]
    """Write how much of each of a row of points a canvas covers, and clamp the points to it."""
    cast = x.dtype.type
    zero, one, half = cast(0.0), cast(1.0), cast(0.5)
    x0, y0, x1, y1 = window[0], window[1], window[2], window[3]
    for u in range(len(x)):
        known, a, b = w[u] != zero, x[u], y[u]
        a, b = a if known else zero, b if known else zero
        cover = one if known else zero
        if kind == _FILLED:
            across, down = min(a - x0, x1 - a), min(b - y0, y1 - b)
            cover *= max(one + min(across, zero), zero) * max(one + min(down, zero), zero)
        elif kind == _HARD:
            seen = (a >= x0 - half) & (a < x1 + half) & (b >= y0 - half) & (b < y1 + half)
            cover = cover if seen else zero
        elif kind == _REFLECTION:
            a, b = _fold(a, x1 + one, half), _fold(b, y1 + one, half)
        covers[u] = cover
        x[u], y[u] = min(max(a, x0), x1), min(max(b, y0), y1)


@summing.noinline
def _lost(w):  # type: ignore[no-untyped-def]
    """How many of a row of points are nowhere."""
    zero, one = w.dtype.type(0.0), w.dtype.type(1.0)
    count = zero
    for u in range(len(w)):
        count += one if w[u] == zero else zero
    return count


@summing.noinline
def _beyond(x, y, w, window, sloped):  # type: ignore[no-untyped-def]
    """How many of a row of points are nowhere or outside of a canvas; ``sloped``: or on its end, which has the slopes outside."""
    cast = x.dtype.type
    zero, one, far = cast(0.0), cast(1.0), cast(np.inf)
    x0, y0, x1, y1 = window[0], window[1], window[2], window[3]
    if not sloped:
        x1, y1 = np.nextafter(x1, far), np.nextafter(y1, far)
    count = zero
    for u in range(len(x)):
        inside = (w[u] != zero) & (x[u] >= x0) & (x[u] < x1) & (y[u] >= y0) & (y[u] < y1)
        count += zero if inside else one
    return count


@fused.noinline
def _hold(x, y, window):  # type: ignore[no-untyped-def]
    """Clamp a row of points to a canvas."""
    x0, y0, x1, y1 = window[0], window[1], window[2], window[3]
    for u in range(len(x)):
        x[u], y[u] = min(max(x[u], x0), x1), min(max(y[u], y0), y1)


@fused
def _known(x, y, w, share):  # type: ignore[no-untyped-def]
    """Set the coordinates and the shares, or the gradients, of points that are nowhere to 0."""
    zero = x.dtype.type(0.0)
    for u in range(len(x)):
        known, a, b, part = w[u] != zero, x[u], y[u], share[u]
        x[u], y[u], share[u] = a if known else zero, b if known else zero, part if known else zero


@fused
def _arrived(chain, b, k, links, strip, grounds, px, py):  # type: ignore[no-untyped-def]
    """Compute again where the points of canvas k went on from, clamped or displaced."""
    own, grid, kind = strip.own, links[k, LINK - 4 :], chain.kinds[k]
    kept, cover = own[2 + grounds + 4 * k :], own[1]
    copy(kept[0], px)
    copy(kept[1], py)
    if kind < _BEND:
        _cross(px, py, kept[2], cover, grid, kind)
        return
    _known(px, py, kept[2], cover)
    bend(chain.control[b * chain.control_step], chain.knots, kind == _KINK, grid, px, py, strip.index, own[:2].reshape(-1))


@fused
def _share_out(share, cover):  # type: ignore[no-untyped-def]
    """Split the share in place: into what a canvas leaves to those below, and in ``cover`` what it shows of its fill."""
    one = share.dtype.type(1.0)
    for u in range(len(share)):
        beyond = share[u]
        share[u], cover[u] = beyond * cover[u], beyond * (one - cover[u])


@fused
def _lay(uncovered, fill, ground):  # type: ignore[no-untyped-def]
    for u in range(len(ground)):
        ground[u] += uncovered[u] * fill


@fused
def _copy(us, vs, v, x, y):  # type: ignore[no-untyped-def]
    top = x.dtype.type(v)
    for u in range(len(x)):
        x[u], y[u] = us[u], vs[u] + top


@fused
def _hide(share, x):  # type: ignore[no-untyped-def]
    """Make points without a share of the source infinite, so that they read nothing of it."""
    zero, far = x.dtype.type(0.0), x.dtype.type(np.inf)
    for u in range(len(x)):
        a, part = x[u], share[u]
        x[u] = a if part > zero else far


@fused
def _keep(x, y, w, share, kept):  # type: ignore[no-untyped-def]
    for u in range(len(x)):
        kept[0, u], kept[1, u], kept[2, u], kept[3, u] = x[u], y[u], w[u], share[u]


@fused
def _begin(own, grounds):  # type: ignore[no-untyped-def]
    """Before any canvas: all of the source, and nothing else."""
    own[0, :] = own.dtype.type(1.0)
    for c in range(grounds):
        own[2 + c, :] = own.dtype.type(0.0)


class Points(NamedTuple):
    """A row of output pixels (us, v + vs), where they read, and what that was divided by."""

    us: Any
    vs: Any
    x: Any
    y: Any
    w: Any


@fused
def _is_closed(link, kind, frame):  # type: ignore[no-untyped-def]
    """Whether points lie on a canvas as on the one beyond, whose ends are ``frame``: a closed gate."""
    same = (link[LINK - 4] == frame[0]) & (link[LINK - 3] == frame[1]) & (link[LINK - 2] == frame[2]) & (link[LINK - 1] == frame[3])
    return same & (kind < _BEND) and _unmoved(link)


@fused
def _onto(link, kind, frame, x, y, w):  # type: ignore[no-untyped-def]
    """Map points from the canvas beyond, whose ends are ``frame``, onto the next. Returns whether any has no image."""
    held = abs(frame[0]) + abs(frame[1]) + abs(frame[2]) + abs(frame[3]) < x.dtype.type(np.inf)  # all points lie on a canvas
    if held and kind >= _BEND and _unmoved(link):
        w[:] = x.dtype.type(1.0)
        return False
    return _project(link[: LINK - 4], x, y, w)


@fused
def _fill(cover, fills, own):  # type: ignore[no-untyped-def]
    """Lay a canvas's fill, as far as it shows, on the ground."""
    for c in range(len(fills)):
        if fills[c] != fills.dtype.type(0.0):
            _lay(cover, fills[c], own[2 + c])


@fused.noinline
def follow(chain, m, b, v, size, fills, grounds, points, index, pairs, own):  # type: ignore[no-untyped-def]
    """Where output pixels read the source, and by how much; the rest is ``fills`` of the canvases.

    Returns whether there may be such a rest; if not, the chain's rows for the share and the ground are not written. Canvases that
    hold a whole strip cost a comparison.

    Args:
        chain: the call's; ``m`` is the sample's map of the source from the first canvas.
        size: (height, width) of the output.
        fills: of the canvases one after the other, ``grounds`` channels each.
        points: the `Points`, whose last three rows are written.
        index, pairs: scratch of ``bend``.
        own: the rows of the strip's chain.
    """
    x, y, w, cast = points.x, points.y, points.w, points.x.dtype.type
    share, cover, canvases, cut = own[0], own[1], len(chain.kinds), False
    links, keeps = chain.links[b * chain.step], len(own) > 2 + grounds
    if keeps:
        _begin(own, grounds)
    _copy(points.us, points.vs, v, x, y)
    frame = cast(0.0), cast(0.0), cast(size[1] - 1), cast(size[0] - 1)
    for k in range(canvases - 1, -1, -1):
        window, kind = links[k, LINK - 4 :], chain.kinds[k]
        if not keeps and _is_closed(links[k], kind, frame):
            continue
        lost = _onto(links[k], kind, frame, x, y, w)
        if keeps:
            _keep(x, y, w, share, own[2 + grounds + 4 * k :])
        bends, holds = kind >= _BEND, kind == _BORDER and not lost
        cuts = lost if bends else not holds and (kind == _REFLECTION or _beyond(x, y, w, window, keeps) > cast(0.0))
        if cuts and not (cut or keeps):
            _begin(own, grounds)
        cut |= cuts
        if bends:
            if cuts:
                _known(x, y, w, share)
            bend(chain.control[b * chain.control_step], chain.knots, kind == _KINK, window, x, y, index, pairs)
        elif cuts:
            _cross(x, y, w, cover, window, kind)
            _share_out(share, cover)
            _fill(cover, fills[k * grounds : (k + 1) * grounds], own)
        elif holds:
            _hold(x, y, window)
        frame = window[0], window[1], cast(np.nan) if bends else window[2], window[3]  # nan: what bends is no canvas
    if keeps or not _unmoved(m):
        _project(m, x, y, w)
    if cut:
        _hide(share, x)
    return cut


@fused
def find(call, m, fills, fields, chain, spot, strip):  # type: ignore[no-untyped-def]
    """Find where a strip reads, through canvases: write its coordinates, denominators and the rows of its canvases.

    Returns whether the canvases may show fill.

    Args:
        fills: of the canvases, or empty.
        fields, chain: the call's displacements and canvases, or None.
        strip: whose index and shares of places are scratch.
    """
    rows, b, v = strip.rows, spot.b, spot.v
    if chain is None:
        locate(m, v, call.projective, rows[US], rows[VS], rows[X], rows[Y], rows[DENOMINATOR])
        if fields is not None and fields.size > 0:
            at = v * call.out_width + spot.first
            displace(fields, 2 * b * call.field_step, at, spot.width, call.out_width, rows[X], rows[Y])
        return False
    size, grounds = (call.out_height, call.out_width), call.out_channels if len(fills) > 0 else 0
    points = Points(rows[US], rows[VS], rows[X], rows[Y], rows[DENOMINATOR])
    return follow(chain, m, b, v, size, fills, grounds, points, strip.index, rows[ACROSS:US].reshape(-1), strip.own)


@fused
def blend(share, ground, grounds, rows, result):  # type: ignore[no-untyped-def]
    """Blend the pixels found, by their share, over the ground (which may have no channels), in place."""
    zero = share.dtype.type(0.0)
    for c in range(rows):
        row = result[c]
        for u in range(len(row)):
            part, value = share[u], row[u]  # read in any case, or nothing is vectorised
            row[u] = value * part if part > zero else zero
        if grounds > 0:
            under = ground[c]
            for u in range(len(row)):
                row[u] += under[u]


@fused
def unblend(share, g, found, rows, to_found, to_share):  # type: ignore[no-untyped-def]
    """The gradients of the pixels found and of their share."""
    zero = share.dtype.type(0.0)
    to_share[:] = zero
    for c in range(rows):
        x, y, z = g[c], found[c], to_found[c]
        for u in range(len(x)):
            part, a, shown = share[u], x[u], x[u] * y[u]
            to_share[u] += shown if part > zero else zero
            z[u] = a * part if part > zero else zero


@fused
def _side(x, low, high, kind, one, half):  # type: ignore[no-untyped-def]
    """One axis of a canvas: cover, its slope, that of the clamped point, and its slopes to the rectangle's two ends.

    Slopes are taken from the right.
    """
    zero = one - one
    cover, slope, turn = one, zero, one
    if kind == _HARD:
        cover = one if (x >= low - half) & (x < high + half) else zero
    elif kind == _FILLED:
        before, after = (x < low) & (x >= low - one), (x >= high) & (x <= high + one)
        beside = (x >= low - one) & (x <= high + one)
        cover = one + min(min(x - low, high - x), zero) if beside else zero
        slope = one if before else (-one if after else zero)
    elif kind == _REFLECTION:
        length = high + one
        t = x + half
        t -= np.floor(t / (length + length)) * (length + length)
        x, turn = (t - half if t < length else length + length - t - half), (one if t < length else -one)
    below, above = x < low, x >= high
    turn = zero if below | above else turn
    return cover, slope, turn, one if below else zero, one if above else zero


@summing.noinline
def _slopes(x, y, w, beyond, window, kind, shown, to_rest, cover, gx, gy):  # type: ignore[no-untyped-def]
    """Turn the gradient of points clamped to a canvas into that of points on it. Returns the gradient of its rectangle.

    Args:
        shown: the gradient of a unit of uncovered share; ``cover`` becomes the share that is uncovered.
        to_rest: the gradient of the share that is left below, which becomes that of the share beyond.
    """
    cast = gx.dtype.type
    zero, one, half = cast(0.0), cast(1.0), cast(0.5)
    x0, y0, x1, y1 = window[0], window[1], window[2], window[3]
    s0 = s1 = s2 = s3 = zero
    for u in range(len(x)):
        known, a, b = w[u] != zero, x[u], y[u]
        cover_x, slope_x, turn_x, low_x, high_x = _side(a if known else zero, x0, x1, kind, one, half)
        cover_y, slope_y, turn_y, low_y, high_y = _side(b if known else zero, y0, y1, kind, one, half)
        covered = cover_x * cover_y if known else zero
        rest, fill, share = to_rest[u], shown[u], beyond[u]
        to_cover = share * (rest - fill)
        to_cover = to_cover if known else zero
        to_rest[u] = rest * covered + fill * (one - covered)
        cover[u] = share * (one - covered)
        # What the ends of the rectangle do to the cover is the opposite of what the point does.
        ends_x, ends_y = to_cover * slope_x * cover_y, to_cover * slope_y * cover_x
        a, b = gx[u], gy[u]
        a, b = a if known else zero, b if known else zero
        s0 += a * low_x - (ends_x if slope_x > zero else zero)
        s1 += b * low_y - (ends_y if slope_y > zero else zero)
        s2 += a * high_x - (ends_x if slope_x < zero else zero)
        s3 += b * high_y - (ends_y if slope_y < zero else zero)
        gx[u], gy[u] = a * turn_x + ends_x, b * turn_y + ends_y
    return s0, s1, s2, s3


@fused
def undivide(x, y, w, gx, gy, gw):  # type: ignore[no-untyped-def]
    """The gradient of mapped points, to the map's three rows at the points they came from."""
    zero, one = gx.dtype.type(0.0), gx.dtype.type(1.0)
    for u in range(len(x)):
        a, b, px, py, divisor = gx[u], gy[u], x[u], y[u], w[u]
        seen = (a != zero) | (b != zero)
        share = one / (divisor if seen else one)
        a, b = a * share, b * share
        gx[u], gy[u] = a, b
        gw[u] = -(a * (px if seen else zero) + b * (py if seen else zero))


@fused
def _onwards(m, gx, gy, gw):  # type: ignore[no-untyped-def]
    zero = gx.dtype.type(0.0)
    m0, m1, m3, m4, m6, m7 = m[0], m[1], m[3], m[4], zero, zero
    if len(m) > 6:
        m6, m7 = m[6], m[7]
    for u in range(len(gx)):
        a, b, c = gx[u], gy[u], gw[u]
        gx[u], gy[u] = a * m0 + b * m3 + c * m6, a * m1 + b * m4 + c * m7


@fused.noinline
def _pull(m, px, py, x, y, w, gx, gy, gw, sums):  # type: ignore[no-untyped-def]
    """The gradient of mapped points, to the map and, in place, to the points (px, py) they came from."""
    undivide(x, y, w, gx, gy, gw)
    for k, g in ((0, gx), (3, gy), (6, gw)):
        if k < len(m):
            sums[k] += dot(g, px)
            sums[k + 1] += dot(g, py)
            sums[k + 2] += row_sum(g)
    _onwards(m, gx, gy, gw)


@fused
def _over(chain, b, k, grounds, strip, fills, g, rests, along, wanted, into):  # type: ignore[no-untyped-def]
    """Turn the gradient of points that go on from canvas k into that of points on it."""
    (to_rest, shown), (gx, gy), (moves, colors), (_, to_links, to_fills, to_knots) = rests, along, wanted, into
    own, kind, zero = strip.own, chain.kinds[k], gx.dtype.type(0.0)
    kept, links = own[2 + grounds :], chain.links[b * chain.step]
    x, y, w, window = kept[4 * k], kept[4 * k + 1], kept[4 * k + 2], links[k, LINK - 4 :]
    s0 = s1 = s2 = s3 = zero
    if kind >= _BEND:
        if _lost(w) > zero:
            _known(gx, gy, w, to_rest)
            _known(x, y, w, own[1])
        if moves:
            control, pairs, grads = chain.control[b * chain.control_step], own[:2].reshape(-1), strip.rows[ACROSS:US].reshape(-1)
            unbend(control, chain.knots, kind == _KINK, window, x, y, gx, gy, to_knots, strip.index, pairs, grads)
        return
    if kind == _REFLECTION or _beyond(x, y, w, window, True) > zero:
        shown[:] = zero
        for c in range(grounds):
            if fills[k * grounds + c] != zero:
                fill, row = fills[k * grounds + c], g[c]
                for u in range(len(row)):
                    shown[u] += fill * row[u]
        s0, s1, s2, s3 = _slopes(x, y, w, kept[4 * k + 3], window, kind, shown, to_rest, own[1], gx, gy)
        if colors:
            for c in range(grounds):
                to_fills[k * grounds + c] += dot(g[c], own[1])
    if moves:
        sums = to_links[k]
        sums[LINK - 4] += s0
        sums[LINK - 3] += s1
        sums[LINK - 2] += s2
        sums[LINK - 1] += s3


@fused.noinline
def trace_back(chain, sample, spot, grounds, strip, g, rests, along, gw, wanted, into):  # type: ignore[no-untyped-def]
    """The gradients of maps, rectangles, fills and knots, from those of coordinates (gx, gy), of their share and of the result (g).

    Args:
        strip: as :func:`follow` left it; its index, shares of places and first two rows of canvases are scratch.
        rests: the gradient of the share, and a row of scratch; overwritten.
        along: (gx, gy); overwritten.
        gw: scratch.
        wanted: whether maps and rectangles, and whether fills want theirs.
        into: where those of the map, the canvases, the fills and the knots go.
    """
    rows, b, (moves, _), (gx, gy), (to_map, to_links, _, _) = strip.rows, spot.b, wanted, along, into
    canvases, links, px, py = len(chain.kinds), chain.links[b * chain.step], rows[ACROSS], rows[DOWN]
    if moves:
        _arrived(chain, b, 0, links, strip, grounds, px, py)
        _pull(sample.m, px, py, rows[X], rows[Y], rows[DENOMINATOR], gx, gy, gw, to_map)
    for k in range(canvases):
        _over(chain, b, k, grounds, strip, sample.fills, g, rests, along, wanted, into)
        if not moves:
            continue
        if k + 1 < canvases:
            _arrived(chain, b, k + 1, links, strip, grounds, px, py)
        else:
            _copy(rows[US], rows[VS], spot.v, px, py)
        kept = strip.own[2 + grounds + 4 * k :]
        _pull(links[k, : LINK - 4], px, py, kept[0], kept[1], kept[2], gx, gy, gw, to_links[k])

"""Output pixels through a chain of canvases, row by row, forward and backward.

Owns: the arithmetic of ``../reference.py``, compiled.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``../../warp/cpu/coordinates.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, exact, fused, noinline

__all__ = ["backward", "forward", "lay_over"]

_FILLED, _REFLECTION, _HARD = 0, 2, 3  # and 1: border


@exact
def _unmoved(m):  # type: ignore[no-untyped-def]
    """Whether a map moves nothing."""
    found = True
    for i in range(9):
        found &= m[i] == m.dtype.type(1.0 if i % 4 == 0 else 0.0)
    return found


@exact
def _same(first, second):  # type: ignore[no-untyped-def]
    """Whether two rectangles are one."""
    found = True
    for i in range(4):
        found &= first[i] == second[i]
    return found


@exact
def _project(m, x, y):  # type: ignore[no-untyped-def]
    """A row of points through a map, in place; infinite where they have no image."""
    noinline()
    cast = x.dtype.type
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8]
    if m6 == cast(0.0) and m7 == cast(0.0) and m8 == cast(1.0):
        for u in range(len(x)):
            a, b = x[u], y[u]
            x[u], y[u] = m0 * a + (m1 * b + m2), m3 * a + (m4 * b + m5)
    else:
        far = cast(np.inf)
        for u in range(len(x)):
            a, b = x[u], y[u]
            w = m6 * a + (m7 * b + m8)
            here_x, here_y = (m0 * a + (m1 * b + m2)) / w, (m3 * a + (m4 * b + m5)) / w
            known = abs(here_x / w) + abs(here_y / w) < far
            x[u], y[u] = here_x if known else far, here_y if known else far


@exact
def _folded(x, length, half):  # type: ignore[no-untyped-def]
    """A coordinate reflected onto a canvas."""
    period = length + length
    t = x + half
    t -= np.floor(t / period) * period
    return t - half if t < length else period - t - half


@fused
def _cross(x, y, covers, window, mode):  # type: ignore[no-untyped-def]
    """A row of points on a canvas: how much of each it covers, and the points clamped to it."""
    noinline()
    cast = x.dtype.type
    zero, one, half, far = cast(0.0), cast(1.0), cast(0.5), cast(np.inf)
    x0, y0, x1, y1 = window[0], window[1], window[2], window[3]
    for u in range(len(x)):
        a, b = x[u], y[u]
        known = (abs(a) < far) & (abs(b) < far)
        a, b = a if known else zero, b if known else zero
        cover = one if known else zero
        if mode == _FILLED:
            across, down = min(a - x0, x1 - a), min(b - y0, y1 - b)
            cover *= max(one + min(across, zero), zero) * max(one + min(down, zero), zero)
        elif mode == _HARD:
            seen = (a >= x0 - half) & (a < x1 + half) & (b >= y0 - half) & (b < y1 + half)
            cover = cover if seen else zero
        elif mode == _REFLECTION:
            a, b = _folded(a, x1 + one, half), _folded(b, y1 + one, half)
        covers[u] = cover
        x[u], y[u] = min(max(a, x0), x1), min(max(b, y0), y1)


@entry
def forward(maps, windows, fills, kinds, width, places, share, ground, room, start, stop):  # type: ignore[no-untyped-def]
    """Rows [start, stop) of all samples' output rows.

    Args:
        maps, windows, fills: (b, k + 1, 9), (b, k, 4), (b, k, c).
        kinds: the canvases' modes.
        places, share, ground: (b, 2, h w), (b, h w), (b, c, h w), the last zero.
        room: (2, width or 4).
    """
    height, canvases, channels = share.shape[1] // width, len(kinds), fills.shape[2]
    cast = maps.dtype.type
    one = cast(1.0)
    cover, last = room[0], room[1][:4]
    for line in range(start, stop):
        sample, v = line // height, line % height
        at = v * width
        x, y = places[sample, 0, at : at + width], places[sample, 1, at : at + width]
        rest = share[sample, at : at + width]
        for u in range(width):
            x[u], y[u], rest[u] = cast(u), cast(v), one
        last[0], last[1], last[2], last[3] = cast(0.0), cast(0.0), cast(width - 1), cast(height - 1)
        for k in range(canvases - 1, -1, -1):
            window = windows[sample, k]
            same = _same(window, last)
            for i in range(4):
                last[i] = window[i]
            if same and _unmoved(maps[sample, k + 1]):  # a closed gate: the points lie here as they lay on the canvas beyond
                continue
            _project(maps[sample, k + 1], x, y)
            _cross(x, y, cover, window, kinds[k])
            for c in range(channels):
                fill = fills[sample, k, c]
                if fill != cast(0.0):
                    under = ground[sample, c, at : at + width]
                    for u in range(width):
                        under[u] += rest[u] * (one - cover[u]) * fill
            for u in range(width):
                rest[u] *= cover[u]
        _project(maps[sample, 0], x, y)


@entry
def lay_over(found, share, ground, start, stop):  # type: ignore[no-untyped-def]
    """In place: the shares of what was found, over the ground (without channels: over nothing), for samples [start, stop)."""
    zero = found.dtype.type(0.0)
    for sample in range(start, stop):
        part = share[sample if share.shape[0] > 1 else 0]
        for c in range(found.shape[1]):
            line = found[sample, c]
            if ground.shape[1] > 0:
                under = ground[sample if ground.shape[0] > 1 else 0, c]
                for u in range(len(line)):
                    line[u] = (line[u] * part[u] if part[u] > zero else zero) + under[u]
            else:
                for u in range(len(line)):
                    line[u] = line[u] * part[u] if part[u] > zero else zero


@fused
def _side(x, low, high, mode):  # type: ignore[no-untyped-def]
    """One axis of a canvas: cover, its slope, the clamped point, its slope, and the slopes to the rectangle's two ends.

    Slopes are taken from the right.
    """
    cover, slope = 1.0, 0.0
    if mode == _HARD:
        cover = 1.0 if low - 0.5 <= x < high + 0.5 else 0.0
    elif mode == _FILLED and x < low:
        cover, slope = (1.0 + x - low, 1.0) if x >= low - 1.0 else (0.0, 0.0)
    elif mode == _FILLED and x >= high:
        cover, slope = (1.0 + high - x, -1.0) if x <= high + 1.0 else (0.0, 0.0)
    turn = 1.0
    if mode == _REFLECTION:
        period = 2.0 * (high + 1.0)
        t = x + 0.5
        t -= np.floor(t / period) * period
        x, turn = (t - 0.5, 1.0) if t < high + 1.0 else (period - t - 0.5, -1.0)
    if x < low:
        return cover, slope, low, 0.0, 1.0, 0.0
    if x < high:
        return cover, slope, x, turn, 0.0, 0.0
    return cover, slope, high, 0.0, 0.0, 1.0


@fused
def _sides(x, y, window, mode):  # type: ignore[no-untyped-def]
    return _side(x, float(window[0]), float(window[2]), mode), _side(y, float(window[1]), float(window[3]), mode)


@fused
def _point(m, x, y):  # type: ignore[no-untyped-def]
    """A point through a map, the denominator, and whether there is such a point."""
    w = m[6] * x + (m[7] * y + m[8])
    a, b = (m[0] * x + (m[1] * y + m[2])) / w, (m[3] * x + (m[4] * y + m[5])) / w
    return a, b, w, abs(a / w) + abs(b / w) < np.inf


@fused
def _pull(m, x, y, a, b, w, ga, gb, sums):  # type: ignore[no-untyped-def]
    """The gradient of a mapped point (a, b), to the map and to the point (x, y) it came from."""
    ga, gb = ga / w, gb / w
    gw = -(ga * a + gb * b)
    sums[0] += ga * x
    sums[1] += ga * y
    sums[2] += ga
    sums[3] += gb * x
    sums[4] += gb * y
    sums[5] += gb
    sums[6] += gw * x
    sums[7] += gw * y
    sums[8] += gw
    return ga * m[0] + gb * m[3] + gw * m[6], ga * m[1] + gb * m[4] + gw * m[7]


@entry
def backward(  # type: ignore[no-untyped-def]
    maps, windows, fills, kinds, width, grads, sums, states, start, stop
):
    """Samples [start, stop).

    Args:
        grads: of places, share and ground.
        sums: float64 and zero: the gradients of maps, windows and fills.
        states: (k + 1, 4) keeps a pixel's way: per canvas where the point fell, the denominator (0: nowhere), and the share beyond.
    """
    to_places, to_share, to_ground = grads
    map_sums, window_sums, fill_sums = sums
    canvases, channels = len(kinds), fills.shape[2]
    for sample in range(start, stop):
        for p in range(to_share.shape[2]):
            x, y, rest = float(p % width), float(p // width), 1.0
            for k in range(canvases - 1, -1, -1):
                a, b, w, known = _point(maps[sample, k + 1], x, y)
                if not known:
                    a, b, w = 0.0, 0.0, 0.0
                states[k, 0], states[k, 1], states[k, 2], states[k, 3] = a, b, w, rest
                along, down = _sides(a, b, windows[sample, k], kinds[k])
                rest *= along[0] * down[0] if known else 0.0
                x, y = along[2], down[2]
            a, b, w, known = _point(maps[sample, 0], x, y)
            gx = gy = 0.0
            if known:
                gx, gy = _pull(
                    maps[sample, 0], x, y, a, b, w, to_places[sample, 0, p], to_places[sample, 1, p], map_sums[sample, 0]
                )
            to_rest = float(to_share[sample, 0, p])
            for k in range(canvases):
                a, b, w, beyond = states[k, 0], states[k, 1], states[k, 2], states[k, 3]
                along, down = _sides(a, b, windows[sample, k], kinds[k])
                cover = along[0] * down[0] if w != 0.0 else 0.0
                shown = 0.0
                for c in range(channels):
                    shown += to_ground[sample, c, p] * fills[sample, k, c]
                    fill_sums[sample, k, c] += to_ground[sample, c, p] * beyond * (1.0 - cover)
                to_cover = beyond * (to_rest - shown)
                to_rest = to_rest * cover + shown * (1.0 - cover)
                into = window_sums[sample, k]
                # What the ends of the rectangle do to the cover is the opposite of what the point does.
                ends_x, ends_y = to_cover * along[1] * down[0], to_cover * down[1] * along[0]
                into[0] += gx * along[4] - (ends_x if along[1] > 0.0 else 0.0)
                into[1] += gy * down[4] - (ends_y if down[1] > 0.0 else 0.0)
                into[2] += gx * along[5] - (ends_x if along[1] < 0.0 else 0.0)
                into[3] += gy * down[5] - (ends_y if down[1] < 0.0 else 0.0)
                gx, gy = gx * along[3] + ends_x, gy * down[3] + ends_y
                if w == 0.0:
                    gx, gy = 0.0, 0.0
                    continue
                x, y = float(p % width), float(p // width)
                if k + 1 < canvases:
                    before, above = _sides(states[k + 1, 0], states[k + 1, 1], windows[sample, k + 1], kinds[k + 1])
                    x, y = before[2], above[2]
                gx, gy = _pull(maps[sample, k + 1], x, y, a, b, w, gx, gy, map_sums[sample, k + 1])

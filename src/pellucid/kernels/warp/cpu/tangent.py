"""The output and how it changes while the picture changes and the points move at which it is read: forward-mode differentiation.

Owns: the order of phases; what holds a point still.
Must not: know how the colours change: the pass is linear in them.
Read next: ``sweep.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, fused, noinline, without_refcount
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.stages.chain import FIRST_MIX
from pellucid.kernels.warp.cpu.coordinates import BORDER, FILLED, displace, locate
from pellucid.kernels.warp.cpu.gather import gather_moved, gather_moved_edge
from pellucid.kernels.warp.cpu.staged import stage
from pellucid.kernels.warp.cpu.stages import mix
from pellucid.kernels.warp.cpu.strips import (
    COLUMNS,
    ROWS,
    STAGED,
    at_sample,
    copy_pixels,
    folds,
    is_copy,
    lay_out,
    next_band,
    parameter_places,
    read_strip,
    rule_of,
    settle_strip,
    store_strip,
    strip_at,
    write_pixels,
)

__all__ = ["tangent"]


@fused
def _move(d, v, projective, us, vs, x, y, w, dx, dy):  # type: ignore[no-untyped-def]
    """How the points that ``locate`` found move while the map changes by d."""
    noinline()
    top = us.dtype.type(v)
    for u in range(len(us)):
        row = vs[u] + top
        dx[u] = d[0] * us[u] + (d[1] * row + d[2])
        dy[u] = d[3] * us[u] + (d[4] * row + d[5])
    if projective:
        for u in range(len(us)):
            change = d[6] * us[u] + (d[7] * (vs[u] + top) + d[8])
            dx[u] = (dx[u] - x[u] * change) / w[u]
            dy[u] = (dy[u] - y[u] * change) / w[u]


@fused
def _hold(kind, x, low, high, low_moved, high_moved, last, clamped, dx):  # type: ignore[no-untyped-def]
    """A point beyond the window moves with its edge; one that sees nothing, or is clamped to the image, does not move."""
    noinline()
    zero = dx.dtype.type(0.0)
    for u in range(len(x)):
        step = low_moved if x[u] < low else (high_moved if x[u] > high else dx[u])
        a = min(max(x[u], low), high)
        still = (kind[u] == 0) | (clamped & (kind[u] == 2) & ((a < zero) | (a >= last)))
        dx[u] = zero if still else step


@fused
def _add(source, target):  # type: ignore[no-untyped-def]
    noinline()
    for c in range(len(target)):
        for u in range(len(target[c])):
            target[c][u] += source[c][u]


@entry
def tangent(  # type: ignore[no-untyped-def]
    img, change, call, rows, differences, fields, moves, out, along, room, cubics, edge, start, stop
):
    """Compute strips start to stop.

    Args:
        change: of the image, laid out as it is; empty where there is none.
        differences: parameters whose offsets stand for offset - fill, and whose fills are zero.
        moves: how maps, windows and displacements change: a row per sample of the first two, the last as ``fields``; empty where
            they do not, the maps' too where no point moves.
        out, along: the result, and its change.
    """
    channels, out_channels, taps = call.channels, call.out_channels, call.taps
    wide = max(channels, out_channels)
    matrix, offset, _, _, _, _, _ = parameter_places(call.flags, channels, out_channels)
    height = 19 + 4 * wide
    changes, points_move = len(change) > 0, moves[0].size > 0
    img, change, out, along = numbers(img), numbers(change), steps(out), steps(along)
    maps, windows, params = without_refcount(rows.maps), without_refcount(rows.windows), without_refcount(rows.params)
    pictures = without_refcount(rows.pictures)
    floats, quad, other, frame = without_refcount(room.floats), without_refcount(room.quad), without_refcount(room.into), room.frame
    index, kind = without_refcount(room.index), without_refcount(room.kind)
    cast, whole_line = floats.dtype.type, np.int64(0)
    far, unit, cubic = cast(np.inf), call.unit, call.cubic
    before, band = (0, 0), 0
    for r in range(start, stop):
        b, v, first, width = strip_at(call, r)
        call = at_sample(call, pictures, b)
        shape, strides = (call.height, call.width), (np.uint64(call.stride_c), np.uint64(call.stride_x), np.uint64(call.stride_y))
        n = min(call.strip, call.out_height - v) * width
        strip = floats[: n * height].reshape(height, n)
        if before != (n, first):
            write_pixels(strip, first, width)
            before = (n, first)
        m, window, p = maps[b * call.map_step], windows[b * call.window_step], params[b * call.param_step]
        difference = differences[b * call.param_step]
        base = np.uint64(call.base)
        whole = is_copy(call, m, fields, None, window)
        if v == 0 or r == start:
            frame[ROWS] = band = 0
        if v >= band:
            end = min(call.out_height, v + (stop - r) * call.strip)
            own = strip[17 + 4 * wide :]
            next_band(img, call, unit, m, fields, None, window, b, v, end, strip, index[:n], own, frame, quad, True)
            if changes and frame[STAGED] == 1:
                across = (call.stride_c, call.stride_y, call.stride_x)
                stage(change, call.base, channels, shape, across, unit, rule_of(call, window), frame, other)
            band = v + frame[ROWS]
        x, y, cover, dx, dy, moved_cover = strip[0], strip[1], strip[7], strip[13], strip[14], strip[15]
        quads = floats[9 * n : 13 * n]
        source, changed = strip[16 : 16 + wide], strip[16 + wide : 16 + 2 * wide]
        moved, result = strip[16 + 2 * wide : 16 + 3 * wide], strip[16 + 3 * wide : 16 + 4 * wide]
        locate(m, v, call.projective, strip[4], strip[5], x, y, strip[6])
        if points_move:
            _move(moves[0][b], v, call.projective, strip[4], strip[5], x, y, strip[6], dx, dy)
        at = v * call.out_width + first
        if fields is not None and fields.size > 0:
            displace(fields, 2 * b * call.field_step, at, width, call.out_width, x, y)
            if moves[2].size > 0:
                displace(moves[2], 2 * b, at, width, call.out_width, dx, dy)
        here, where = kind[:n], index[:n]
        settle_strip(call, None, v, window, strip, frame, here, where)
        read = source[:channels]
        place = (whole_line, whole_line, width)
        if changes:
            read_strip(
                change, call, cubic, unit, base, window, strip, frame, other, cubics, quads, here, where, changed[:channels],
                edge, None,
            )  # fmt: skip
            if whole:
                copy_pixels(change, call, unit, m, v, first, width, n // width, changed, place, cover)
        read_strip(img, call, cubic, unit, base, window, strip, frame, quad, cubics, quads, here, where, read, edge, None)
        moved_cover[:] = cast(0.0)
        if points_move:
            rule = rule_of(call, window)
            low_x, low_y, high_x, high_y, by_left, by_top, by_right, by_bottom = -far, -far, far, far, far, far, far, far
            if len(window) == 4:
                low_x, low_y, high_x, high_y = window[0], window[1], window[2], window[3]
                edges = moves[1][b]
                by_left, by_top, by_right, by_bottom = edges[0], edges[1], edges[2], edges[3]
            clamped = rule == BORDER and taps == 2
            _hold(here, x, low_x, high_x, by_left, by_right, cast(call.width - 1), clamped, dx)
            _hold(here, y, low_y, high_y, by_top, by_bottom, cast(call.height - 1), clamped, dy)
            for k in range((channels + 2) // 3):
                pixels = lay_out(img, call, unit, base, window, strip, frame, here, k, quad)
                part = moved[3 * k : min(3 * k + 3, channels)]
                gather_moved(pixels, frame[COLUMNS], taps, where, strip[2], strip[3], dx, dy, cubics, quads, part, moved_cover)
            if rule != FILLED:
                moved_cover[:] = cast(0.0)
            if edge is not None and folds(call, window):
                gather_moved_edge(
                    img, base, channels, shape, strides[0], strides[1], strides[2], unit, taps, cubic, call.mode, window, x, y, dx,
                    dy, here, edge[0], edge[1], edge[2], moved, moved_cover,
                )  # fmt: skip
            if changes:
                _add(changed[:channels], moved[:channels])
        if whole:
            copy_pixels(img, call, unit, m, v, first, width, n // width, source, place, cover)
        following = moved if points_move else changed
        if call.flags & FIRST_MIX:
            mix(p, matrix, offset, offset + out_channels, cover, source, channels, result, out_channels)
            store_strip(result, out, b * out_channels, at, width, call.out_width, out_channels)
            mix(difference, matrix, offset, offset + out_channels, moved_cover, following, channels, result, out_channels)
            store_strip(result, along, b * out_channels, at, width, call.out_width, out_channels)
        else:
            store_strip(source, out, b * out_channels, at, width, call.out_width, out_channels)
            store_strip(following, along, b * out_channels, at, width, call.out_width, out_channels)

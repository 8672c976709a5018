"""Forward-mode differentiation: the output and its tangent, from those of the picture and of the points at which it is read.

Owns: the order of phases; the rules that hold a point still.
Must not: know how the colours change: the pass is linear in them.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.color.cpu.paint import first_mix
from pellucid.kernels.jit import entry, fused
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.stages.sums import add_rows, store
from pellucid.kernels.warp.cpu import strips
from pellucid.kernels.warp.cpu.coordinates import FILLED, displace, held_beyond, locate, rule_of, settle
from pellucid.kernels.warp.cpu.copies import copy_strip
from pellucid.kernels.warp.cpu.gather import gather_moved
from pellucid.kernels.warp.cpu.layout import ACROSS, COLUMNS, COVER, DENOMINATOR, DOWN, ROWS, STAGED, US, VS, Strip, X, Y
from pellucid.kernels.warp.cpu.staged import stage

__all__ = ["tangent"]


@fused.noinline
def _move(d, v, projective, us, vs, x, y, w, dx, dy):  # type: ignore[no-untyped-def]
    """The tangents of the points that ``locate`` found, from the map's tangent d."""
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


@fused.noinline
def _hold(seen, x, window, moved, held, dx):  # type: ignore[no-untyped-def]
    """A point beyond the window moves with its edge; one that sees nothing, or that the rule holds, does not move.

    Args:
        window, moved, held: the low and the high edge, how they move, and between what coordinates a point is not held.
    """
    zero, (low, high), (low_moved, high_moved), (first, last) = dx.dtype.type(0.0), window, moved, held
    for u in range(len(x)):
        step = low_moved if x[u] < low else (high_moved if x[u] > high else dx[u])
        a = min(max(x[u], low), high)
        dx[u] = zero if (seen[u] == 0) | ((a < first) | (a >= last)) else step


@fused
def _find(call, sample, fields, moves, spot, strip, dx, dy):  # type: ignore[no-untyped-def]
    """Find where a strip reads, and the tangents of its points."""
    rows, m, b, v, width = strip.rows, sample.m, spot.b, spot.v, spot.width
    x, y, us, vs, w, at = rows[X], rows[Y], rows[US], rows[VS], rows[DENOMINATOR], v * call.out_width + spot.first
    locate(m, v, call.projective, us, vs, x, y, w)
    if moves[0].size > 0:
        _move(moves[0][b], v, call.projective, us, vs, x, y, w, dx, dy)
    if fields is not None and fields.size > 0:
        displace(fields, 2 * b * call.field_step, at, width, call.out_width, x, y)
        if moves[2].size > 0:
            displace(moves[2], 2 * b, at, width, call.out_width, dx, dy)
    settle(call, sample.window, strip)


@fused
def _read_moved(img, call, sample, moves, spot, strip, cubics, lay):  # type: ignore[no-untyped-def]
    """The tangents of a strip's pixels and of its coverage, from those of its points."""
    rows, window, rule, cast = strip.rows, sample.window, rule_of(call, sample.window), strip.rows.dtype.type
    dx, dy, cover, moved = rows[lay.moves], rows[lay.moves + 1], rows[lay.moved_cover], rows[lay.moved : lay.result]
    far = cast(np.inf)
    low_x, low_y, high_x, high_y = -far, -far, far, far
    by_left, by_top, by_right, by_bottom = low_x, low_y, high_x, high_y
    if len(window) == 4:
        low_x, low_y, high_x, high_y = window[0], window[1], window[2], window[3]
        edges = moves[1][spot.b]
        by_left, by_top, by_right, by_bottom = edges[0], edges[1], edges[2], edges[3]
    first_x, last_x, first_y, last_y = held_beyond(call, window, cast)
    _hold(strip.seen, rows[X], (low_x, high_x), (by_left, by_right), (first_x, last_x), dx)
    _hold(strip.seen, rows[Y], (low_y, high_y), (by_top, by_bottom), (first_y, last_y), dy)
    for k in range((call.channels + 2) // 3):
        pixels, part = strips.lay_out(img, call, window, strip, k), moved[3 * k : min(3 * k + 3, call.channels)]
        columns, quads = strip.frame[COLUMNS], strips.quads_of(strip)
        gather_moved(pixels, columns, strip.index, rows[ACROSS], rows[DOWN], dx, dy, cubics, quads, part, cover)
    if rule != FILLED:
        cover[:] = cast(0.0)


@entry
def tangent(  # type: ignore[no-untyped-def]
    img, change, call, rows, differences, fields, moves, out, along, room, cubics, start, stop
):
    """Compute strips start to stop.

    Args:
        change: the image's tangent, laid out as it is; empty where there is none.
        differences: parameters whose offsets stand for offset - fill, and whose fills are zero.
        moves: tangents of maps, windows and displacements: a row per sample of the first two, the last as ``fields``; empty where
            they do not change, the maps' too where no point moves.
        out, along: the result, and its tangent.
    """
    changes, points_move, channels, outputs = len(change) > 0, moves[0].size > 0, call.channels, call.out_channels
    img, change, out, along = numbers(img), numbers(change), steps(out), steps(along)
    colors, lay, frame, zero = rows.colors, room.rows, room.frame, np.int64(0)
    before, band = (0, 0), 0
    for r in range(start, stop):
        spot = strips.spot_of(call, r)
        v, width, call = spot.v, spot.width, strips.at_sample(call, rows.pictures, spot.b)
        sample, n = strips.sample_of(call, rows, spot.b), min(call.strip, call.out_height - v) * width
        strip = strips.cut_out(room, n)
        other = Strip(strip.rows, strip.seen, strip.index, frame, strip.into, strip.into, strip.own)
        if before != (n, spot.first):
            strips.write_pixels(strip.rows, spot)
            before = (n, spot.first)
        whole = strips.is_copy(call, sample, fields, None)
        if v == 0 or r == start:
            frame[ROWS] = band = 0
        if v >= band:
            strips.next_band(img, call, sample, fields, None, spot, min(call.out_height, v + (stop - r) * call.strip), strip, True)
            if changes and frame[STAGED] == 1:
                stage(change, call, rule_of(call, sample.window), frame, strip.into)
            band = v + frame[ROWS]
        cover, moved_cover, result = strip.rows[COVER], strip.rows[lay.moved_cover], strip.rows[lay.result : lay.canvases]
        source, changed = strip.rows[lay.source : lay.source + channels], strip.rows[lay.changed : lay.changed + channels]
        moved = strip.rows[lay.moved : lay.moved + channels]
        _find(call, sample, fields, moves, spot, strip, strip.rows[lay.moves], strip.rows[lay.moves + 1])
        if changes:
            strips.read_strip(change, call, sample.window, other, cubics, changed, None)
            if whole:
                copy_strip(change, call, sample.m, spot, n // width, changed, (zero, zero, width), cover)
        strips.read_strip(img, call, sample.window, strip, cubics, source, None)
        moved_cover[:] = strip.rows.dtype.type(0.0)
        if points_move:
            _read_moved(img, call, sample, moves, spot, strip, cubics, lay)
            if changes:
                add_rows(changed, moved)
        if whole:
            copy_strip(img, call, sample.m, spot, n // width, source, (zero, zero, width), cover)
        following, place = moved if points_move else changed, strips.place_of(call, spot)
        if colors.mixes:
            first_mix(colors, sample.p, cover, source, result)
            store(result, out, place, outputs)
            first_mix(colors, differences[spot.b * call.param_step], moved_cover, following, result)
            store(result, along, place, outputs)
        else:
            store(source, out, place, outputs)
            store(following, along, place, outputs)

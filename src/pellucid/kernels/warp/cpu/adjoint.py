"""The backward pass: strip by strip, after recomputing what forward did.

Owns: the order of phases, and the sums over coordinates that give gradients of maps and windows.
Must not: know of tensors; everything comes as flat arrays, and named numbers.
Read next: ``op.py``.
"""

import numpy as np

from pellucid.kernels.color.cpu.paint import back, first_back, first_mix, keep
from pellucid.kernels.jit import entry, fused
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.stages.sums import copy_rows, dot, load, row_sum, store
from pellucid.kernels.warp.cpu import strips
from pellucid.kernels.warp.cpu.coordinates import held_beyond, locate, rule_of
from pellucid.kernels.warp.cpu.copies import add_strip, copy_strip
from pellucid.kernels.warp.cpu.footprint import add_table
from pellucid.kernels.warp.cpu.gather import weigh
from pellucid.kernels.warp.cpu.layout import ACROSS, COVER, DENOMINATOR, DOWN, ONES, PLANE, ROWS, STAGED, US, VS, X, Y
from pellucid.kernels.warp.cpu.links import blend, trace_back, unblend, undivide
from pellucid.kernels.warp.cpu.staged import clear, unstage, unstaged_rows
from pellucid.kernels.warp.cpu.stretched import add_stretched

__all__ = ["backward", "round_into"]


@fused.noinline
def _to_cover(p, offset, fill, g, rows, to_cover):  # type: ignore[no-untyped-def]
    """The gradient of the coverage, through offset and fill."""
    to_cover[:] = p.dtype.type(0.0)
    for o in range(rows):
        weight, row = p[offset + o] - p[fill + o], g[o]
        for u in range(len(row)):
            to_cover[u] += weight * row[u]


@fused.noinline
def _keep(low, high, first, last, x, along):  # type: ignore[no-untyped-def]
    """Zero the gradient where the border rule clamped a coordinate; before it, the window clamps to ``low`` and ``high``."""
    zero = along.dtype.type(0.0)
    for u in range(len(x)):
        a = min(max(x[u], low), high)
        along[u] = zero if (a < first) | (a >= last) else along[u]


@fused.noinline
def _window_sums(sums, low, high, low_at, high_at, x, along):  # type: ignore[no-untyped-def]
    """Where the window clamped a coordinate, the gradient belongs to the window's edge."""
    zero = along.dtype.type(0.0)
    for u in range(len(x)):
        if x[u] < low:
            sums[low_at] += along[u]
            along[u] = zero
        elif x[u] > high:
            sums[high_at] += along[u]
            along[u] = zero


@fused.inlined
def _held(call, window, spot, strip, sums, along):  # type: ignore[no-untyped-def]
    """Where the image or the window clamped a point, drop its gradient, or give it to the window's edge."""
    x, y, zero, two = strip.rows[X], strip.rows[Y], np.int64(0), np.int64(2)  # variables: literals would be compiled once more
    cast = x.dtype.type
    low_x, low_y, high_x, high_y = -cast(np.inf), -cast(np.inf), cast(np.inf), cast(np.inf)
    if len(window) == 4:
        low_x, low_y, high_x, high_y = window[0], window[1], window[2], window[3]
    first_x, last_x, first_y, last_y = held_beyond(call, window, cast)
    if abs(first_x) < cast(np.inf):
        _keep(low_x, high_x, first_x, last_x, x, along[0])
        _keep(low_y, high_y, first_y, last_y, y, along[1])
    if len(window) == 4:
        _window_sums(sums.windows[spot.b], low_x, high_x, zero, two, x, along[0])
        _window_sums(sums.windows[spot.b], low_y, high_y, zero + 1, two + 1, y, along[1])


@fused.noinline
def _map_sums(sums, v, projective, rows, along, third):  # type: ignore[no-untyped-def]
    """Add a strip's gradients of the nine numbers of the map."""
    us, vs = rows[US], rows[VS]
    if projective:
        undivide(rows[X], rows[Y], rows[DENOMINATOR], along[0], along[1], third)
    for k, row in ((0, along[0]), (3, along[1]), (6, third)):
        if k < 6 or projective:
            whole = row_sum(row)
            sums[k] += dot(row, us)
            sums[k + 1] += np.float64(whole) * v + dot(row, vs)
            sums[k + 2] += whole


@fused.inlined
def _again(img, call, colors, lay, bends, sample, spot, strip, tables, shapes, cubics, chain, what):  # type: ignore[no-untyped-def]
    """Recompute what backward reads of a strip; ``what``: whether it is copied, cut by canvases, and kept with all its steps."""
    whole, cut, all_of_it = what
    rows, cover, zero, outputs = strip.rows, strip.rows[COVER], np.int64(0), call.out_channels
    source, mixed = rows[lay.source : lay.source + call.channels], rows[lay.shown - outputs : lay.shown]
    if whole:
        copy_strip(img, call, sample.m, spot, len(cover) // spot.width, source, (zero, zero, spot.width), cover)
    else:
        strips.read_whole(img, call, sample, tables, shapes, spot, strip, cubics, source, None)
    if colors.mixes:
        first_mix(colors, sample.p, cover, source, mixed)
    if chain is not None:
        shown = rows[lay.shown : lay.later]
        copy_rows(mixed, shown, outputs)
        if cut:
            blend(strip.own[0], strip.own[2:], colors.grounds, outputs, shown)
    keep(colors, sample.p, bends, rows[ONES], rows[lay.later - outputs :], all_of_it)


@fused.inlined
def _unread(img, call, lay, sample, spot, strip, tables, shapes, cubics, shares, again, sums):  # type: ignore[no-untyped-def]
    """The gradients of coordinates, footprints and the image, from that of the pixels read."""
    rows, to_cover, along = strip.rows, strip.rows[lay.to_cover], strip.rows[lay.along : lay.third]
    to_source, to_table = rows[lay.to_source : lay.grad], sums.tables[spot.b if shares[1] else 0]
    if tables is not None:
        add_table(img, call, tables, spot.b, shares, strip, to_source, to_cover, sums.image, to_table, along)
    elif shapes is not None:
        add_stretched(img, call, shapes, spot, shares, strip, to_source, to_cover, sums.image, to_table, along)
    else:
        if cubics is not None and not again:
            weigh(rows[ACROSS], rows[DOWN], call.cubic, cubics)
        nothing = rows[lay.nothing]
        strips.scatter_strip(img, call, sample.window, strip, cubics, shares, to_source, to_cover, nothing, sums.image, along)


@fused.inlined
def _to_moves(call, rows, lay, sample, spot, strip, fields, chain, needs, sums, g):  # type: ignore[no-untyped-def]
    """The gradients of maps, canvases and fields, from those of the coordinates."""
    b, along, third, grounds = spot.b, strip.rows[lay.along : lay.third], strip.rows[lay.third], rows.colors.grounds
    _, needs_map, needs_params, needs_field = needs
    if needs_field:
        at, two = spot.v * call.out_width + spot.first, np.int64(2)
        store(along, sums.fields, (2 * b, at, spot.width, call.out_width), two)
    row = b if needs_map else 0
    if chain is not None:
        if needs_map or (needs_params and grounds > 0):
            rests, table = (strip.rows[lay.shares], strip.rows[lay.shares + 1]), sums.tables[b if needs_map or needs_field else 0]
            into = sums.maps[row], sums.links[row], sums.params[b if needs_params else 0, rows.colors.fills :], table
            trace_back(chain, sample, spot, grounds, strip, g, rests, (along[0], along[1]), third, (needs_map, needs_params), into)
    elif needs_map:
        if fields is not None and fields.size > 0 and call.projective:  # again the coordinates before the field moved them
            us, vs = strip.rows[US], strip.rows[VS]
            locate(sample.m, spot.v, call.projective, us, vs, strip.rows[X], strip.rows[Y], strip.rows[DENOMINATOR])
        _map_sums(sums.maps[row], spot.v, call.projective, strip.rows, along, third)


@fused.inlined
def _recoloured(grad, call, colors, lay, bends, sample, spot, strip, chain, cut, needs, sums, place):  # type: ignore[no-untyped-def]
    """Pass the result's gradient on to the pixels read, their coverage and the colours; returns that of the canvases' blend."""
    rows, p, outputs, needs_params = strip.rows, sample.p, call.out_channels, needs[2]
    g, spare, to_params = rows[lay.grad : lay.spare], rows[lay.spare : lay.scratch], sums.params[spot.b if needs_params else 0]
    load(grad, place, g, outputs)
    kept, scratch = rows[lay.later - outputs :], rows[lay.scratch : lay.source]
    shown, spare = back(colors, p, bends, rows[ONES], kept, g, spare, scratch, to_params, needs_params)
    g = shown
    if chain is not None and cut:
        unblend(strip.own[0], shown, rows[lay.shown - outputs : lay.shown], outputs, spare, rows[lay.shares])
        g = spare
    if colors.mixes and (needs[1] or needs[3]):
        _to_cover(p, colors.offset, colors.offset + outputs, g, outputs, rows[lay.to_cover])
    source, to_source = rows[lay.source : lay.source + call.channels], rows[lay.to_source : lay.grad]
    first_back(colors, p, rows[COVER], source, g, to_source, to_params, needs_params)
    return shown


@entry
def backward(  # type: ignore[no-untyped-def]
    grad, img, call, rows, fields, chain, tables, shapes, needs, sums, room, cubics, bends, start, stop
):
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map or window or canvases or table, parameters, field).

    Args:
        grad: of the output, (batch * channels, height * width).
    """
    grad, img = numbers(grad), numbers(img)
    colors, lay, frame, into = rows.colors, room.rows, room.frame, room.into
    shares, zero, nothing = (needs[0], needs[1] or needs[3]), np.int64(0), room.floats.dtype.type(0.0)
    again = needs[2] or colors.deep > 0 or (chain is not None and shares[1])  # pixels are read again; else at most their slopes
    reads = shares[1] or again
    cleared, before, band, cut = (zero, zero), (0, 0), 0, False
    parts = (call.out_height + call.strip - 1) // call.strip * call.blocks
    for r in range(start * parts, stop * parts):
        spot = strips.spot_of(call, r)
        call = strips.at_sample(call, rows.pictures, spot.b)
        sample, n = strips.sample_of(call, rows, spot.b), min(call.strip, call.out_height - spot.v) * spot.width
        strip, place = strips.cut_out(room, n), strips.place_of(call, spot)
        if before[0] != n or (before[1] != spot.first and not call.still):
            strips.write_pixels(strip.rows, spot)
            strip.rows[lay.to_cover] = strip.rows[lay.nothing] = nothing
            before = (n, spot.first)
        if spot.v == 0:
            frame[ROWS] = band = 0
            if spot.first == 0:
                cleared = (zero, zero)
        whole = not shares[1] and strips.is_copy(call, sample, fields, chain)  # a copy has no slopes
        if tables is None and shapes is None and not whole and spot.v >= band:
            strips.next_band(img, call, sample, fields, chain, spot, call.out_height, strip, reads)
            band = spot.v + frame[ROWS]
            if frame[STAGED] == 1 and needs[0]:
                into[: 8 + 2 * ((call.channels + 2) // 3) * frame[PLANE]] = nothing
        strips.announce(grad, place, n // spot.width, call.out_channels)
        if not whole:
            cut = strips.find_strip(call, sample, fields, chain, tables, shapes, spot, strip)
        if again:
            what = whole, cut, needs[2]
            _again(img, call, colors, lay, bends, sample, spot, strip, tables, shapes, cubics, chain, what)
        g = _recoloured(grad, call, colors, lay, bends, sample, spot, strip, chain, cut, needs, sums, place)
        staged = tables is None and shapes is None and not whole and frame[STAGED] == 1
        if needs[0] and not staged:
            cleared = clear(sums.image, call, cleared, zero, call.height)
        if whole and needs[0]:
            add_strip(sums.image, call, sample.m, spot, strip.rows[lay.to_source : lay.grad])
        if not whole:
            _unread(img, call, lay, sample, spot, strip, tables, shapes, cubics, shares, again, sums)
        if shares[1]:
            if tables is None and shapes is None:
                _held(call, sample.window, spot, strip, sums, strip.rows[lay.along : lay.third])
            _to_moves(call, rows, lay, sample, spot, strip, fields, chain, needs, sums, g)
        if staged and needs[0] and spot.v + call.strip >= band:
            top, bottom = unstaged_rows(rule_of(call, sample.window), frame, call.height)
            cleared = clear(sums.image, call, cleared, top, bottom)
            unstage(call, rule_of(call, sample.window), strip, strips.quads_of(strip), sums.image)
        if needs[0] and (r + 1) % parts == 0:
            cleared = clear(sums.image, call, cleared, zero, call.height)


@entry
def round_into(source, target):  # type: ignore[no-untyped-def]
    """Write numbers into an array of narrower ones."""
    target = steps(target)
    for u in range(len(source)):
        target[u] = source[u]

"""The entry points: the output strip by strip, forward, with its tangent, and backward.

Owns: the order of steps in a strip, and, backward, the recomputation of what forward did.
Must not: know of tensors; everything comes as flat arrays, and `META` positions name the integers.
Read next: ``weights.py``.

A row of the output is two sums: over the few rows of the image that it covers, along memory; then, within that one row, over the
few pixels that each of its pixels covers. So the only thing between image and output is a row in the first cache.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, fused, noinline, without_refcount
from pellucid.kernels.narrow import steps
from pellucid.kernels.resize.cpu.colors import paint, paint_backward, repaint
from pellucid.kernels.resize.cpu.dots import FEW, across_many, by_output
from pellucid.kernels.resize.cpu.layout import META
from pellucid.kernels.resize.cpu.lines import across, add_row, combine, correlate, dot_row, scatter
from pellucid.kernels.resize.cpu.weights import spread, spread_backward, spread_moved, turn
from pellucid.kernels.stages.chain import CLIP, CURVE, FIRST_MIX, HUE, SHARP

__all__ = [
    *("CHANNELS", "FLAGS", "MAP_STRIDE", "OUT_CHANNELS", "OUT_HEIGHT", "OUT_WIDTH", "STRIP", "WINDOW_STRIDE"),
    *(
        "backward",
        "cover_strip",
        "dual",
        "forward",
        "lines_of",
        "prepare",
        "read_row",
        "sample_of",
        "store",
        "sum_across",
        "uncover",
    ),
]

(BASE, STEP, OWN, OWN_STEP, STRIDE_C, STRIDE_Y, STRIDE_X, HEIGHT, WIDTH, CHANNELS, OUT_CHANNELS, OUT_HEIGHT, OUT_WIDTH) = range(13)
(CUBIC, FILLED, FLAGS, MAP_STRIDE, WINDOW_STRIDE, PARAM_STRIDE, STRIP) = range(13, META)


@fused
def sample_of(metas, b):  # type: ignore[no-untyped-def]
    """The integers of a sample, where its picture begins, and where its gradient does."""
    meta = metas[b if len(metas) > 1 else 0]
    return meta, meta[BASE] + b * meta[STEP], meta[OWN] + b * meta[OWN_STEP]


@fused
def prepare(meta, m, window, places, tables, index, rows, room):  # type: ignore[no-untyped-def]
    """Fill a sample's tables.

    Args:
        m, window: the sample's map and window.
        places: (first_x, count_x, first_y, count_y).
        tables: (weights_x, seen_x, weights_y, seen_y, weights_x output by output).
        index: where each output's first pixel lies in a line.
        rows: all lines of a strip; what lies behind their last pixel is set to 0.
        room: how many pixels a line has room for.

    Returns:
        The taps along x and y, the first column that is read, how many are, and whether every output pixel sees something.
    """
    noinline()
    first, count, first_y, count_y = places
    weights, seen, weights_y, seen_y, turned = tables
    cubic, filled, sharp = meta[CUBIC] != 0, meta[FILLED] != 0, meta[FLAGS] & SHARP != 0
    taps = spread(m[0], m[2], window[0], window[2], meta[WIDTH], cubic, filled, sharp, first, count, weights, seen)
    taps_y = spread(m[4], m[5], window[1], window[3], meta[HEIGHT], cubic, filled, sharp, first_y, count_y, weights_y, seen_y)
    start, stop = meta[WIDTH], np.int64(0)
    for u in range(len(first)):
        if count[u] > 0:
            start, stop = min(start, first[u]), max(stop, first[u] + count[u])
    start, n = (start, stop - start) if stop > start else (np.int64(0), np.int64(0))
    together, step = lines_of(meta)
    for u in range(len(first)):
        index[u] = np.uint64((first[u] - start) * step if count[u] > 0 else 0)
    channels = meta[CHANNELS]
    lines = 1 if together else channels
    for r in range(len(rows)):
        for line in range(lines):
            begin = line * room + n * step
            rows[r, begin : begin + taps * step] = rows.dtype.type(0.0)
    if taps > FEW:
        by_output(weights, taps, turned[: len(first) * ((taps + 7) // 8 * 8)])
    whole = True
    for u in range(len(seen)):
        whole = whole and seen[u] != 0
    for v in range(len(seen_y)):
        whole = whole and seen_y[v] != 0
    return taps, taps_y, start, n, whole


@fused
def lines_of(meta):  # type: ignore[no-untyped-def]
    """(whether channels lie next to each other in memory and are summed as one line, the step between a channel's pixels there).

    There may be other numbers between pixels, up to four in all: they are summed and not looked at.
    """
    channels, across = meta[CHANNELS], meta[STRIDE_X]
    together = channels > 1 and meta[STRIDE_C] == 1 and (across == channels or channels < across <= 4)
    return together, across if together else np.int64(1)


@fused
def read_row(img, meta, unit, base, v, start, n, first, count, weights, w, spare, line, room):  # type: ignore[no-untyped-def]
    """Sum the image's rows under output row v into a line."""
    noinline()
    outputs, taps = meta[OUT_HEIGHT], count[v]
    for k in range(taps):
        w[k] = weights[k * outputs + v] * unit
    together, step = lines_of(meta)
    at = base + first[v] * meta[STRIDE_Y] + start * meta[STRIDE_X]
    if together:
        combine(img, at, np.int64(1), meta[STRIDE_Y], w[:taps], spare, line[: n * step - (step - meta[CHANNELS])])
        return
    for c in range(meta[CHANNELS]):
        combine(img, at + c * meta[STRIDE_C], meta[STRIDE_X], meta[STRIDE_Y], w[:taps], spare, line[c * room : c * room + n])


@fused
def sum_across(line, plane, step, low, n, first, index, tables, taps, channels, out, at):  # type: ignore[no-untyped-def]
    """The sums within a line of n pixels from column ``low`` on, into ``out`` from place ``at`` on."""
    noinline()
    if taps <= FEW:
        across(line, plane, np.uint64(step), index, tables[0], taps, channels, out, at)
        return
    for c in range(channels):
        channel = line[c * plane :]
        if step > 1:
            channel = tables[6]
            for x in range(n):
                channel[x] = line[c + x * step]
        across_many(channel, low, tables[4], taps, first, out[c][at : at + len(index)])


@fused
def cover_strip(seen, seen_y, v, width, cover):  # type: ignore[no-untyped-def]
    """Which pixels of a strip see something."""
    noinline()
    for i in range(len(cover)):
        cover[i] = seen[i % width] * seen_y[v + i // width]


@fused
def uncover(cover, rows, count):  # type: ignore[no-untyped-def]
    """Set to 0 what sees nothing."""
    noinline()
    zero = cover.dtype.type(0.0)
    for c in range(count):
        row = rows[c]
        for i in range(len(cover)):
            row[i] = row[i] if cover[i] != zero else zero


@fused
def store(source, target, first, at, rows):  # type: ignore[no-untyped-def]
    noinline()
    for o in range(rows):
        x, y = source[o], target[first + o][at:]
        for u in range(len(x)):
            y[u] = x[u]


@fused
def _load(source, first, at, target, rows):  # type: ignore[no-untyped-def]
    noinline()
    for o in range(rows):
        x, y = source[first + o][at:], target[o]
        for u in range(len(y)):
            y[u] = x[u]


@entry
def forward(img, metas, unit, maps, windows, params, bends, out, floats, lines, room, places, index, tables, start, stop):  # type: ignore[no-untyped-def]
    """Compute strips start to stop, each some whole rows of a sample, into ``out`` (batch * channels, height * width).

    Args:
        bends: None where there is no curve among the colours, which is not compiled then.
    """
    meta, base, _ = sample_of(metas, np.int64(0))
    width, channels, out_channels, flags = meta[OUT_WIDTH], meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    wide = max(channels, out_channels)
    strips = (meta[OUT_HEIGHT] + meta[STRIP] - 1) // meta[STRIP]
    img, metas, maps, windows, params, floats, lines = without_refcount((img, metas, maps, windows, params, floats, lines))
    index, places, tables, out = without_refcount(index), without_refcount(places), without_refcount(tables), steps(out)
    (first, _, first_y, count_y), (_, seen, weights_y, seen_y, _, w, spare), rows = places, tables, lines[:1]
    one = floats.dtype.type(1.0)
    step, plane = np.int64(0), room
    before, sample = np.int64(0), np.int64(-1)
    taps, low, n, whole = np.int64(0), np.int64(0), np.int64(0), True
    for r in range(start, stop):
        b = r // strips
        v = (r - b * strips) * meta[STRIP]
        count_here = min(meta[STRIP], meta[OUT_HEIGHT] - v)
        here = count_here * width
        strip = floats[: here * (2 + 2 * wide)].reshape(2 + 2 * wide, here)
        cover, ones, source, result = strip[0], strip[1], strip[2 : 2 + wide], strip[2 + wide :]
        if b != sample or here != before:
            if b != sample:
                meta, base, _ = sample_of(metas, b)
                _, step = lines_of(meta)
                plane = np.int64(1) if step > 1 else room
                m, window = maps[b * meta[MAP_STRIDE]], windows[b * meta[WINDOW_STRIDE]]
                taps, _, low, n, whole = prepare(meta, m, window, places, tables[:5], index, rows, room)
            cover[:] = one
            ones[:] = one
            sample, before = b, here
        read = source if flags & FIRST_MIX else result
        for row in range(count_here):
            read_row(img, meta, unit, base, v + row, low, n, first_y, count_y, weights_y, w, spare, rows[0], room)
            sum_across(rows[0], plane, step, low, n, first, index, tables, taps, channels, read, row * width)
        if not whole:
            cover_strip(seen, seen_y, v, width, cover)
            uncover(cover, read, channels)
        p = params[b * meta[PARAM_STRIDE]]
        painted = paint(p, flags, bends, channels, out_channels, cover, ones, source, result)
        store(painted, out, b * out_channels, v * width, out_channels)


@fused
def _add(source, target, start, stop):  # type: ignore[no-untyped-def]
    noinline()
    for i in range(start, stop):
        target[i] += source[i]


@entry
def dual(  # type: ignore[no-untyped-def]
    img, change, metas, unit, maps, windows, params, others, moves, out, along, floats, lines, room, places, index, tables, moved,
    start, stop,
):  # fmt: skip
    """The same as forward, and how the result changes, ``along``, while the image, the map and the window do.

    Args:
        change: of the image, laid out as it is; empty where there is none.
        others: parameters of which the matrix alone counts.
        moves: of maps and windows, a row per sample; without rows where they do not change.
        lines: three.
        moved: room for the changes of the tables: of x, of y, of x output by output.
    """
    meta, base, _ = sample_of(metas, np.int64(0))
    width, channels, out_channels, flags = meta[OUT_WIDTH], meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    wide, cubic, sharp = max(channels, out_channels), meta[CUBIC] != 0, meta[FLAGS] & SHARP != 0
    strips = (meta[OUT_HEIGHT] + meta[STRIP] - 1) // meta[STRIP]
    changes, points_move = len(change) > 0, len(moves[0]) > 0
    img, change, metas, maps, windows, params, floats = without_refcount((img, change, metas, maps, windows, params, floats))
    lines, others, index, places, tables = without_refcount((lines, others, index, places, tables))
    (first, count, first_y, count_y), (_, seen, weights_y, seen_y, _, w, spare) = places, tables
    moved_x, moved_y, turned = without_refcount(moved)
    by_x = moved_x, tables[1], tables[2], tables[3], turned, tables[5], tables[6]
    out, along = steps(out), steps(along)
    one, zero = floats.dtype.type(1.0), floats.dtype.type(0.0)
    step, plane = np.int64(0), room
    before, sample = np.int64(0), np.int64(-1)
    taps, taps_y, low, n, whole = np.int64(0), np.int64(0), np.int64(0), np.int64(0), True
    for r in range(start, stop):
        b = r // strips
        v = (r - b * strips) * meta[STRIP]
        count_here = min(meta[STRIP], meta[OUT_HEIGHT] - v)
        here = count_here * width
        strip = floats[: here * (3 + 5 * wide)].reshape(3 + 5 * wide, here)
        cover, ones, nothing, source, result = strip[0], strip[1], strip[2], strip[3 : 3 + wide], strip[3 + wide : 3 + 2 * wide]
        changed, shown, near = strip[3 + 2 * wide : 3 + 3 * wide], strip[3 + 3 * wide : 3 + 4 * wide], strip[3 + 4 * wide :]
        if b != sample or here != before:
            if b != sample:
                meta, base, _ = sample_of(metas, b)
                _, step = lines_of(meta)
                plane = np.int64(1) if step > 1 else room
                m, window = maps[b * meta[MAP_STRIDE]], windows[b * meta[WINDOW_STRIDE]]
                taps, taps_y, low, n, whole = prepare(meta, m, window, places, tables[:5], index, lines, room)
                if points_move:
                    by, edge = moves[0][b], moves[1][b]
                    spread_moved(
                        m[0], m[2], window[0], window[2], by[0], by[2], edge[0], edge[2], cubic, sharp, first, count, taps, moved_x
                    )
                    spread_moved(
                        m[4], m[5], window[1], window[3], by[4], by[5], edge[1], edge[3], cubic, sharp, first_y, count_y, taps_y,
                        moved_y,
                    )  # fmt: skip
                    if taps > FEW:
                        by_output(moved_x, taps, turned[: len(first) * ((taps + 7) // 8 * 8)])
            cover[:] = one
            ones[:] = one
            nothing[:] = zero
            sample, before = b, here
        read = source if flags & FIRST_MIX else result
        follow = changed if flags & FIRST_MIX else shown
        for row in range(count_here):
            at, line, other, last = row * width, lines[0], lines[1], lines[2]
            read_row(img, meta, unit, base, v + row, low, n, first_y, count_y, weights_y, w, spare, line, room)
            sum_across(line, plane, step, low, n, first, index, tables, taps, channels, read, at)
            if points_move:
                sum_across(line, plane, step, low, n, first, index, by_x, taps, channels, near, at)
                read_row(img, meta, unit, base, v + row, low, n, first_y, count_y, moved_y, w, spare, other, room)
            if changes:
                read_row(change, meta, unit, base, v + row, low, n, first_y, count_y, weights_y, w, spare, last, room)
                if points_move:
                    _add(last, other, np.int64(0), np.int64(len(other)))
                else:
                    other = last
            sum_across(other, plane, step, low, n, first, index, tables, taps, channels, follow, at)
            if points_move:
                for c in range(channels):
                    _add(near[c], follow[c], at, at + width)
        if not whole:
            cover_strip(seen, seen_y, v, width, cover)
            uncover(cover, read, channels)
            uncover(cover, follow, channels)
        p, q = params[b * meta[PARAM_STRIDE]], others[b * meta[PARAM_STRIDE]]
        store(
            paint(p, flags, None, channels, out_channels, cover, ones, source, result),
            out,
            b * out_channels,
            v * width,
            out_channels,
        )
        store(
            paint(q, flags, None, channels, out_channels, nothing, ones, changed, shown),
            along,
            b * out_channels,
            v * width,
            out_channels,
        )


@entry
def backward(  # type: ignore[no-untyped-def]
    grad,
    img,
    metas,
    unit,
    maps,
    windows,
    params,
    bends,
    needs,
    to_image,
    to_maps,
    to_windows,
    to_params,
    floats,
    lines,
    room,
    places,
    index,
    tables,
    turned,
    sums,
    start,
    stop,
):
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map or window, parameters).

    Args:
        grad: of the output, (batch * channels, height * width).
        to_image: flat, contiguous; this call owns the part of its samples.
        to_maps, to_windows, to_params: float64, one row per sample.
        lines: a line for each row of a strip, and two more: the gradient of a row, and of a line.
        turned: (low, high, low as an index, table) of :func:`pellucid.kernels.resize.cpu.weights.turn`.
        sums: float64, the gradients of the two tables of weights.
    """
    meta, base, own = sample_of(metas, np.int64(0))
    width, channels, out_channels, flags = meta[OUT_WIDTH], meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    needs_image, needs_map, needs_params = needs
    reads = needs_map or needs_params or flags & (HUE | CLIP | CURVE) != 0
    strips = (meta[OUT_HEIGHT] + meta[STRIP] - 1) // meta[STRIP]
    grad, img, maps, windows, params, floats, lines = without_refcount((grad, img, maps, windows, params, floats, lines))
    to_image, to_maps, to_windows, to_params = without_refcount((to_image, to_maps, to_windows, to_params))
    metas, index, places, tables, (sums_x, sums_y) = without_refcount((metas, index, places, tables, sums))
    (first, count, first_y, count_y), (weights, seen, weights_y, seen_y, _, w, line_room) = places, tables
    near, high, backwards, table = without_refcount(turned)
    read_lines, upstream, line = lines[: meta[STRIP]], lines[meta[STRIP]], lines[meta[STRIP] + 1]
    one, zero = floats.dtype.type(1.0), floats.dtype.type(0.0)
    one_step = np.uint64(1)
    step, plane, area = np.int64(0), room, np.int64(0)
    taps, taps_y, low, n, whole, turned_taps = np.int64(0), np.int64(0), np.int64(0), np.int64(0), True, np.int64(0)
    before, many = np.int64(0), 4 * out_channels if bends is None else 5 * out_channels + 4
    height = 3 + 2 * channels + many + 2 * out_channels
    for r in range(start * strips, stop * strips):
        b = r // strips
        v = (r - b * strips) * meta[STRIP]
        count_here = min(meta[STRIP], meta[OUT_HEIGHT] - v)
        here = count_here * width
        strip = floats[: here * height].reshape(height, here)
        cover, ones, along, k = strip[0], strip[1], strip[2], 3
        source, to_source = strip[k : k + channels], strip[k + channels : k + 2 * channels]
        k += 2 * channels
        kept, k = strip[k : k + many], k + many
        g, spare = strip[k : k + out_channels], strip[k + out_channels :]
        p, m, window = params[b * meta[PARAM_STRIDE]], maps[b * meta[MAP_STRIDE]], windows[b * meta[WINDOW_STRIDE]]
        if v == 0:
            meta, base, own = sample_of(metas, b)
            _, step = lines_of(meta)
            plane, area = np.int64(1) if step > 1 else room, meta[HEIGHT] * meta[WIDTH]
            taps, taps_y, low, n, whole = prepare(meta, m, window, places, tables[:5], index, read_lines, room)
            turned_taps = turn(first, count, weights, low, n, near, high, table)
            for x in range(n):
                backwards[x] = np.uint64(near[x])
            for c in range(channels):  # behind a row: taps that are not there read 0
                upstream[c * (width + turned_taps) + width : (c + 1) * (width + turned_taps)] = zero
            if needs_image:
                to_image[own : own + channels * area] = zero
            if needs_map:
                sums_x[: taps * width] = 0.0
                sums_y[: taps_y * meta[OUT_HEIGHT]] = 0.0
        if v == 0 or here != before:
            cover[:] = one
            ones[:] = one
            before = here
        if not whole:
            cover_strip(seen, seen_y, v, width, cover)
        if reads:
            for row in range(count_here):
                into = read_lines[row]
                read_row(img, meta, unit, base, v + row, low, n, first_y, count_y, weights_y, w, line_room, into, room)
                sum_across(into, plane, step, low, n, first, index, tables, taps, channels, source, row * width)
            if not whole:
                uncover(cover, source, channels)
            repaint(p, flags, channels, out_channels, cover, ones, source, kept)
        _load(grad, b * out_channels, v * width, g, out_channels)
        to_p = to_params[b if needs_params else 0]
        paint_backward(
            p, flags, bends, channels, out_channels, cover, ones, source, kept, g, spare, along, to_source, to_p, needs_params
        )
        if not needs_image and not needs_map:
            continue
        if not whole:
            uncover(cover, to_source, channels)
        pitch = width + turned_taps
        for row in range(count_here):
            at = row * width
            for c in range(channels):
                copy = upstream[c * pitch : c * pitch + width]
                part = to_source[c][at : at + width]
                for u in range(width):
                    copy[u] = part[u]
                if needs_map:
                    correlate(copy, read_lines[row][c * plane :], index, np.uint64(step), taps, sums_x)
            into = line[: channels * n].reshape(channels, n)
            if turned_taps > 0:
                across(upstream, pitch, one_step, backwards[:n], table, turned_taps, channels, into, np.int64(0))
            else:
                for c in range(channels):
                    scatter(upstream[c * pitch :], first, count, low, weights, into[c])
            for k in range(count_y[v + row]):
                y, weight = first_y[v + row] + k, weights_y[k * meta[OUT_HEIGHT] + v + row]
                for c in range(channels):
                    if needs_image:
                        to = own + c * area + y * meta[WIDTH] + low
                        add_row(weight, into[c], to_image[to : to + n])
                    if needs_map:
                        at = base + c * meta[STRIDE_C] + y * meta[STRIDE_Y] + low * meta[STRIDE_X]
                        total = dot_row(img, at, meta[STRIDE_X], into[c])
                        sums_y[k * meta[OUT_HEIGHT] + v + row] += np.float64(total) * unit
        if needs_map and v + count_here == meta[OUT_HEIGHT]:
            cubic, sharp, to_map, to_window = meta[CUBIC] != 0, flags & SHARP != 0, to_maps[b], to_windows[b]
            spread_backward(m[0], m[2], window[0], window[2], cubic, sharp, first, count, sums_x, to_map, 0, 2, to_window, 0, 2)
            top, bottom = window[1], window[3]
            spread_backward(m[4], m[5], top, bottom, cubic, sharp, first_y, count_y, sums_y, to_map, 4, 5, to_window, 1, 3)

"""The entry points: the output strip by strip, forward, with its tangent, and backward.

Owns: the order of steps in a strip, and, backward, the recomputation of what forward did.
Must not: know of tensors; everything comes as flat arrays, and named numbers.
Read next: ``weights.py``.

A row of the output is two sums: over the few rows of the image that it covers, along memory; then, within that one row, over the
few pixels that each of its pixels covers. So the only thing between image and output is a row in the first cache.
"""

from typing import Any, NamedTuple

import numpy as np

from pellucid.kernels.color.cpu.paint import back, first_back, first_mix, keep, paint
from pellucid.kernels.interleaving import together
from pellucid.kernels.jit import entry, fused
from pellucid.kernels.narrow import steps
from pellucid.kernels.resize.cpu.lines import FEW, across, across_many, add_row, by_output, combine, correlate, dot_row, scatter
from pellucid.kernels.resize.cpu.weights import spread, spread_backward, spread_moved, turn
from pellucid.kernels.stages.sums import add_rows, load, store

__all__ = [
    "backward",
    "cover_strip",
    "dual",
    "forward",
    "give",
    "give_back",
    "prepare",
    "read",
    "strip_at",
    "turn_across",
    "uncover",
]


class Sample(NamedTuple):
    """Where a sample's picture lies, and its gradient, and what its tables say.

    Args:
        base, own: where the picture and its gradient begin.
        strides: of channels, rows and columns.
        taps: along x and y.
        low, count: the first column that is read, and how many are.
        plane, step: in a line, from channel to channel, and from pixel to pixel.
        whole: whether every output pixel sees something.
    """

    base: Any
    own: Any
    strides: Any
    height: Any
    width: Any
    taps: Any
    low: Any
    count: Any
    plane: Any
    step: Any
    whole: Any


@fused
def strip_at(call, r):  # type: ignore[no-untyped-def]
    """(sample, first row of the result, number of rows) of strip r."""
    strips = (call.height + call.strip - 1) // call.strip
    v = r % strips * call.strip
    return r // strips, v, min(call.strip, call.height - v)


@fused
def _placed(call, given, b, room, axis):  # type: ignore[no-untyped-def]
    """For an axis (scale, shift, first and last pixel of the window), and each output's (first pixel, number of pixels)."""
    m, window, places = given.maps[b * call.map_step], given.windows[b * call.window_step], room.places
    return (m[4 * axis], m[2 + 3 * axis], window[axis], window[2 + axis]), (places[2 * axis], places[2 * axis + 1])


@fused
def _spread(call, given, b, room, axis, length, weights, seen):  # type: ignore[no-untyped-def]
    (scale, shift, low, high), (first, count) = _placed(call, given, b, room, axis)
    return spread(scale, shift, low, high, length, call.cubic, call.filled, call.sharp, first, count, weights, seen)


@fused.noinline
def prepare(call, given, b, room, rows):  # type: ignore[no-untyped-def]
    """Fill a sample's tables; ``rows``: the lines that will be read, which are set to 0 behind their last pixel."""
    picture, channels = given.pictures[b if len(given.pictures) > 1 else 0], given.colors.channels
    height, width, strides = picture[7], picture[8], (picture[4], picture[5], picture[6])
    (first, count, _, _), tables = room.places, room.tables
    taps = _spread(call, given, b, room, 0, width, tables.across, tables.seen)
    taps_y = _spread(call, given, b, room, 1, height, tables.down, tables.seen_down)
    start, stop = width, np.int64(0)
    for u in range(len(first)):
        if count[u] > 0:
            start, stop = min(start, first[u]), max(stop, first[u] + count[u])
    start, n = (start, stop - start) if stop > start else (np.int64(0), np.int64(0))
    # Interleaved channels are summed as one line, with unused numbers between pixels, up to four in all.
    together = channels > 1 and strides[0] == 1 and (strides[2] == channels or channels < strides[2] <= 4)
    step, plane = (strides[2], np.int64(1)) if together else (np.int64(1), call.line)
    for u in range(len(first)):
        room.index[u] = np.uint64((first[u] - start) * step if count[u] > 0 else 0)
    for r in range(len(rows)):
        for line in range(1 if together else channels):
            begin = line * call.line + n * step
            rows[r, begin : begin + taps * step] = rows.dtype.type(0.0)
    if taps > FEW:
        by_output(tables.across, taps, tables.turned[: len(first) * ((taps + 7) // 8 * 8)])
    whole = True
    for seen in (tables.seen, tables.seen_down):
        for u in range(len(seen)):
            whole = whole and seen[u] != 0
    base, own = picture[0] + b * picture[1], picture[2] + b * picture[3]
    return Sample(base, own, strides, height, width, (taps, taps_y), start, n, plane, step, whole)


@fused.inlined
def _read_row(img, call, sample, channels, v, room, down, line):  # type: ignore[no-untyped-def]
    """Sum the image's rows under output row v into a line, by weights ``down``."""
    (_, _, first, count), w, n, step = room.places, room.tables.weights, sample.count, sample.step
    taps, (stride_c, stride_y, stride_x) = count[v], sample.strides
    for k in range(taps):
        w[k] = down[k * call.height + v] * call.unit
    at = sample.base + first[v] * stride_y + sample.low * stride_x
    if sample.plane == 1:
        combine(img, at, np.int64(1), stride_y, w[:taps], room.tables.spare, line[: n * step - (step - channels)])
        return
    for c in range(channels):
        combine(img, at + c * stride_c, stride_x, stride_y, w[:taps], room.tables.spare, line[c * call.line : c * call.line + n])


@fused.inlined
def _sum_across(line, sample, room, weights, turned, channels, out, at):  # type: ignore[no-untyped-def]
    """Write sums within a line to ``out`` from place ``at`` on, by weights; ``turned`` are the same, output by output."""
    taps, step = sample.taps[0], sample.step
    if taps <= FEW:
        across(line, sample.plane, np.uint64(step), room.index, weights, taps, channels, out, at)
        return
    for c in range(channels):
        channel = line[c * sample.plane :]
        if step > 1:
            channel = room.tables.spare
            for x in range(sample.count):
                channel[x] = line[c + x * step]
        across_many(channel, sample.low, turned, taps, room.places[0], out[c][at : at + len(room.index)])


@fused.inlined
def read(img, call, sample, channels, v, room, lines, out):  # type: ignore[no-untyped-def]
    """Read the rows of a strip, from row v of the result on, each into a line (one line may do for all), and on into ``out``."""
    tables, width = room.tables, call.width
    for row in range(len(out[0]) // width):
        line = lines[row if len(lines) > 1 else 0]
        _read_row(img, call, sample, channels, v + row, room, tables.down, line)
        _sum_across(line, sample, room, tables.across, tables.turned, channels, out, row * width)


@fused.noinline
def cover_strip(sample, tables, v, width, cover):  # type: ignore[no-untyped-def]
    """Write which pixels of a strip see something, unless all do."""
    for i in range(0 if sample.whole else len(cover)):
        cover[i] = tables.seen[i % width] * tables.seen_down[v + i // width]


@fused.noinline
def uncover(sample, cover, rows, count):  # type: ignore[no-untyped-def]
    """Set the pixels that see nothing to 0."""
    if sample.whole:
        return
    zero = cover.dtype.type(0.0)
    for c in range(count):
        row = rows[c]
        for i in range(len(cover)):
            row[i] = row[i] if cover[i] != zero else zero


@entry
def forward(given, call, bends, out, turns, room, start, stop):  # type: ignore[no-untyped-def]
    """Compute strips start to stop, each some whole rows of a sample, into ``out`` (batch * channels, height * width).

    Args:
        bends: None where there is no curve among the colours, which is not compiled then.
        turns: None, or for an interleaved ``out`` (batch, height * width * channels) a tuple with an entry for each channel, and
            scratch for a strip in planes.
    """
    final, out, zero = out, steps(out if turns is None else turns[1]), np.int64(0)
    colors, rows, lines, width = given.colors, room.rows, room.lines[:1], call.width
    one, before = room.floats.dtype.type(1.0), np.int64(0)
    known, _, _ = strip_at(call, start)
    sample = prepare(call, given, known, room, lines)
    for r in range(start, stop):
        b, v, count = strip_at(call, r)
        here = count * width
        strip = room.floats[: here * rows.height].reshape(rows.height, here)
        cover, ones, source, result = strip[rows.cover], strip[rows.ones], strip[rows.source : rows.result], strip[rows.result :]
        if b != known:
            sample = prepare(call, given, b, room, lines)
        if b != known or here != before:
            cover[:] = one
            ones[:] = one
            known, before = b, here
        found = source if colors.mixes else result
        read(given.img, call, sample, colors.channels, v, room, lines, found)
        cover_strip(sample, room.tables, v, width, cover)
        uncover(sample, cover, found, colors.channels)
        p = given.params[b * call.param_step]
        if colors.mixes:
            first_mix(colors, p, cover, source, result)
        place = (b * colors.outputs, v * width, width, width) if turns is None else (zero, zero, width, width)
        paint(colors, p, bends, ones, result, source, out, place)
        if turns is not None:
            give(turns, here, final[b], v * width)


@fused
def give(turns, count, out, at):  # type: ignore[no-untyped-def]
    """Interleave a strip of so many pixels into a sample's, from pixel ``at`` on."""
    cells, made = turns
    together(made.reshape(made.size), 0, made.shape[1], count, cells, out[at * len(cells) :])


@fused.inlined
def _read_moved(given, change, call, sample, v, room, moves, moved, found, follow, near):  # type: ignore[no-untyped-def]
    """Read a strip into ``found``, and its tangent into ``follow``."""
    img, channels, width, tables = given.img, given.colors.channels, call.width, room.tables
    line, other, last, moving = room.lines[0], room.lines[1], room.lines[2], len(moves[0]) > 0
    for row in range(len(found[0]) // width):
        at, follows = row * width, other
        _read_row(img, call, sample, channels, v + row, room, tables.down, line)
        _sum_across(line, sample, room, tables.across, tables.turned, channels, found, at)
        if moving:
            _sum_across(line, sample, room, moved[0], moved[2], channels, near, at)
            _read_row(img, call, sample, channels, v + row, room, moved[1], other)
        if len(change) > 0:
            _read_row(change, call, sample, channels, v + row, room, tables.down, last)
            if moving:
                add_rows(room.lines[2:3], room.lines[1:2])
            else:
                follows = last
        _sum_across(follows, sample, room, tables.across, tables.turned, channels, follow, at)
        if moving:
            for c in range(channels):
                add_rows(near[c : c + 1, at : at + width], follow[c : c + 1, at : at + width])


@fused
def _move_tables(call, given, sample, moves, b, room, moved):  # type: ignore[no-untyped-def]
    """Write the tangents of a sample's weights, from those of its map and window."""
    by, edge, (across, down, turned) = moves[0][b], moves[1][b], moved
    for axis in range(2):
        (scale, shift, low, high), (first, count) = _placed(call, given, b, room, axis)
        spread_moved(
            scale, shift, low, high, by[4 * axis], by[2 + 3 * axis], edge[axis], edge[2 + axis], call.cubic, call.sharp,
            first, count, sample.taps[axis], across if axis == 0 else down,
        )  # fmt: skip
    if sample.taps[0] > FEW:
        by_output(across, sample.taps[0], turned[: call.width * ((sample.taps[0] + 7) // 8 * 8)])


@entry
def dual(given, change, call, others, moves, out, along, room, moved, start, stop):  # type: ignore[no-untyped-def]
    """Do as `forward`, and write to ``along`` the result's tangent, from those of the image, the map and the window.

    Args:
        change: the image's tangent, laid out as it is; empty where there is none.
        others: parameters of which the matrix alone counts.
        moves: tangents of maps and windows, a row per sample; without rows where they do not change.
        room: with three lines.
        moved: scratch for the tangents of the tables: of x, of y, of x output by output.
    """
    colors, rows, width, out, along = given.colors, room.rows, call.width, steps(out), steps(along)
    one, before, known = room.floats.dtype.type(1.0), np.int64(0), np.int64(-1)
    sample = prepare(call, given, strip_at(call, start)[0], room, room.lines)
    for r in range(start, stop):
        b, v, count = strip_at(call, r)
        here = count * width
        strip = room.floats[: here * rows.height].reshape(rows.height, here)
        cover, nothing, near = strip[rows.cover], strip[rows.nothing], strip[rows.near :]
        source, result = strip[rows.source : rows.result], strip[rows.result : rows.nothing]
        changed, shown = strip[rows.changed : rows.shown], strip[rows.shown : rows.near]
        if b != known:
            sample = prepare(call, given, b, room, room.lines)
            if len(moves[0]) > 0:
                _move_tables(call, given, sample, moves, b, room, moved)
        if b != known or here != before:
            cover[:] = one
            nothing[:] = one - one
            known, before = b, here
        found, follow = (source, changed) if colors.mixes else (result, shown)
        _read_moved(given, change, call, sample, v, room, moves, moved, found, follow, near)
        cover_strip(sample, room.tables, v, width, cover)
        uncover(sample, cover, found, colors.channels)
        uncover(sample, cover, follow, colors.channels)
        if colors.mixes:
            first_mix(colors, given.params[b * call.param_step], cover, source, result)
            first_mix(colors, others[b * call.param_step], nothing, changed, shown)
        place = b * colors.outputs, v * width, width, width
        store(result, out, place, colors.outputs)
        store(shown, along, place, colors.outputs)


@fused.inlined
def turn_across(call, sample, channels, room, turned, upstream):  # type: ignore[no-untyped-def]
    """Transpose a sample's table across. Returns its number of taps, 0 if there are too many."""
    first, count, _, _ = room.places
    n, width = sample.count, call.width
    taps = turn(first, count, room.tables.across, sample.low, n, turned.low, turned.high, turned.table)
    for x in range(n):
        turned.index[x] = np.uint64(turned.low[x])
    for c in range(channels):  # taps beyond the end of a row read 0
        upstream[c * (width + taps) + width : (c + 1) * (width + taps)] = upstream.dtype.type(0.0)
    return taps


@fused.inlined
def _give_down(given, call, sample, v, needs, room, turned, line, to_image):  # type: ignore[no-untyped-def]
    """Pass a line's gradient on to the rows of the image that it sums and to the weights down."""
    _, _, first, count = room.places
    stride_c, stride_y, stride_x = sample.strides
    n, area = sample.count, sample.height * sample.width
    for k in range(count[v]):
        y, weight = first[v] + k, room.tables.down[k * call.height + v]
        for c in range(given.colors.channels):
            if needs[0]:
                to = sample.own + c * area + y * sample.width + sample.low
                add_row(weight, line[c], to_image[to : to + n])
            if needs[1]:
                at = sample.base + c * stride_c + y * stride_y + sample.low * stride_x
                turned.down[k * call.height + v] += np.float64(dot_row(given.img, at, stride_x, line[c])) * call.unit


@fused.inlined
def give_back(given, call, sample, v, needs, room, turned, taps, to_source, to_image):  # type: ignore[no-untyped-def]
    """Pass a strip's gradient on to the image and to the weights of both axes."""
    width, channels, n = call.width, given.colors.channels, sample.count
    upstream, line, pitch = room.lines[call.strip], room.lines[call.strip + 1], width + taps
    first, count, _, _ = room.places
    into = line[: channels * n].reshape(channels, n)
    for row in range(len(to_source[0]) // width):
        for c in range(channels):
            copy, part = upstream[c * pitch : c * pitch + width], to_source[c][row * width : (row + 1) * width]
            for u in range(width):
                copy[u] = part[u]
            if needs[1]:
                read_line = room.lines[row][c * sample.plane :]
                correlate(copy, read_line, room.index, np.uint64(sample.step), sample.taps[0], turned.across)
        if taps > 0:
            across(upstream, pitch, np.uint64(1), turned.index[:n], turned.table, taps, channels, into, np.int64(0))
        else:
            for c in range(channels):
                scatter(upstream[c * pitch :], first, count, sample.low, room.tables.across, into[c])
        _give_down(given, call, sample, v + row, needs, room, turned, into, to_image)


@fused
def _to_map(given, call, b, room, turned, sums):  # type: ignore[no-untyped-def]
    """Pass the gradients of a sample's weights on to its map and window."""
    for axis in range(2):
        (scale, shift, low, high), (first, count) = _placed(call, given, b, room, axis)
        along = turned.across if axis == 0 else turned.down
        spread_backward(scale, shift, low, high, call.cubic, call.sharp, first, count, along, sums.maps[b], sums.windows[b], axis)


@entry
def backward(grad, given, call, bends, needs, sums, room, turned, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map or window, parameters).

    Args:
        grad: of the output, (batch * channels, height * width).
        room: with a line for each row of a strip, and two more: the gradient of a row, and of a line.
    """
    colors, rows, width, lines = given.colors, room.rows, call.width, room.lines[: call.strip]
    channels, outputs = colors.channels, colors.outputs
    reads, one, before = needs[1] or needs[2] or colors.deep > 0, room.floats.dtype.type(1.0), np.int64(0)
    for b in range(start, stop):
        p, to_params = given.params[b * call.param_step], sums.params[b if needs[2] else 0]
        sample = prepare(call, given, b, room, lines)
        taps = turn_across(call, sample, channels, room, turned, room.lines[call.strip])
        if needs[0]:
            sums.image[sample.own : sample.own + channels * sample.height * sample.width] = one - one
        if needs[1]:
            turned.across[: sample.taps[0] * width] = 0.0
            turned.down[: sample.taps[1] * call.height] = 0.0
        for v in range(0, call.height, call.strip):
            here = min(call.strip, call.height - v) * width
            strip = room.floats[: here * rows.height].reshape(rows.height, here)
            cover, ones, scratch = strip[rows.cover], strip[rows.ones], strip[rows.scratch : rows.source]
            source, kept = strip[rows.source : rows.source + channels], strip[rows.later - outputs :]
            to_source, g, spare = strip[rows.to_source : rows.grad], strip[rows.grad : rows.spare], strip[rows.spare : rows.scratch]
            if v == 0 or here != before:
                cover[:] = one
                ones[:] = one
                before = here
            cover_strip(sample, room.tables, v, width, cover)
            if reads:
                read(given.img, call, sample, channels, v, room, lines, source)
                uncover(sample, cover, source, channels)
                if colors.mixes:
                    first_mix(colors, p, cover, source, strip[rows.mixed : rows.mixed + outputs])
                keep(colors, p, bends, ones, kept, needs[2])
            load(grad, (b * outputs, v * width, width, width), g, outputs)
            g, spare = back(colors, p, bends, ones, kept, g, spare, scratch, to_params, needs[2])
            first_back(colors, p, cover, source, g, to_source, to_params, needs[2])
            if needs[0] or needs[1]:
                uncover(sample, cover, to_source, channels)
                give_back(given, call, sample, v, needs, room, turned, taps, to_source, sums.image)
        if needs[1]:
            _to_map(given, call, b, room, turned, sums)

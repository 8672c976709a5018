"""The compiled passes: the result row by row, and its gradients to the pictures and to the table of reads.

Owns: the order in which reads are blended, and what a thread may write.
Must not: allocate.
Read next: ``rows.py``.
"""

from typing import Any, NamedTuple

import numpy as np

from pellucid.kernels.jit import entry, fused
from pellucid.kernels.layers.cpu import rows
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.stages.sums import copy

__all__ = ["Call", "Reads", "Room", "forward", "to_numbers", "to_sources"]


class Call(NamedTuple):
    """What one call's rows share.

    Args:
        channels, height, width: of every picture.
        covers, edge: as the reference takes them.
        copies: whether the result has the pictures' dtype, so that copied pixels need no arithmetic.
        unit: the value of 1 in the pictures: 1 / 255 for bytes.
    """

    channels: int
    height: int
    width: int
    covers: bool
    copies: bool
    edge: Any
    unit: Any


class Reads(NamedTuple):
    """The table: for every sample and read the distance to its source, opacity, rectangle and map; the plane; the ground's colours.

    Absent rectangles or maps have no rows, and an absent plane has no pixels.
    """

    offset: Any
    opacity: Any
    box: Any
    maps: Any
    plane: Any
    ground: Any


class Room(NamedTuple):
    """A thread's scratch: the lines of `rows.tap` and its index, two lines of shares, lines of pictures; four numbers per read."""

    taps: Any
    index: Any
    shares: Any
    lines: Any
    spans: Any


@fused
def _span(call, reads, i, k, y, line):  # type: ignore[no-untyped-def]
    """As `rows.span`, for a read of a sample, and cut by the plane if it is the last."""
    first, last, share, varies = rows.span(reads.opacity[i], reads.box[i], k, call.covers, call.edge, y, call.width, line)
    if len(reads.plane[i]) > 0 and k == reads.opacity.shape[1] - 1:
        return rows.cut(reads.plane[i, y], first, last, share, line, varies)
    return first, last, share, varies


@fused
def _shift(reads, i, k):  # type: ignore[no-untyped-def]
    """Whether a read moves whole pixels, and how many of them to the right and down it looks."""
    if len(reads.maps[i]) == 0:
        return True, np.int64(0), np.int64(0)
    m = reads.maps[i, k]
    if rows.whole(m):
        return True, np.int64(m[2]), np.int64(m[5])
    return False, np.int64(0), np.int64(0)


@fused.noinline
def _show(img, call, reads, i, k, y, first, last, room, lines):  # type: ignore[no-untyped-def]
    """Read columns first to last of row y of read k of sample i."""
    shape = call.height, call.width
    at = (i + reads.offset[i, k]) * call.channels * call.height * call.width
    moves, dx, dy = _shift(reads, i, k)
    if moves:
        rows.read_whole(img, at, shape, call.unit, dx, dy, reads.ground, y, first, last, lines)
        return
    m = reads.maps[i, k]
    if (m[1] == 0) & (m[3] == 0):
        rows.read_straight(m, img, at, shape, call.unit, reads.ground, y, first, last, room.taps, room.index, lines)
        return
    rows.tap(m, y, first, last, shape, room.taps, room.index)
    rows.read(img, at, shape, call.unit, reads.ground, first, last, room.taps, room.index, lines)


@fused.noinline
def _look(call, reads, i, y, spans, line):  # type: ignore[no-untyped-def]
    """Write each read's span in a row: first column, column behind the last, whether it hides those below (1) or varies (2), and
    whether it moves whole pixels of its picture. Returns the last read that hides the whole row; -1: the ground shows.
    """
    lowest, one, zero = np.int64(-1), line.dtype.type(1.0), line.dtype.type(0.0)
    for k in range(len(spans)):
        first, last, share, varies = _span(call, reads, i, k, y, line)
        own = spans[k]
        own[0], own[1], own[2] = first, last if varies or share != zero else first, 2 if varies else (1 if share == one else 0)
        if last > first:
            moves, dx, dy = _shift(reads, i, k)
            own[3] = 1 if moves & (0 <= y + dy < call.height) & (first + dx >= 0) & (last + dx <= call.width) else 0
        if own[2] == 1 and first == 0 and last == call.width:
            lowest = np.int64(k)
    return lowest


@fused
def _straight(call, spans, lowest):  # type: ignore[no-untyped-def]
    """Whether a row only copies pieces of rows of pictures: side by side from the left, or one covering another."""
    reach = np.int64(0)
    for k in range(max(lowest, 0), len(spans)):
        first, last, kind, inside = spans[k]
        if last > first:
            if kind != 1 or inside != 1:
                return False
            reach = max(reach, last) if first <= reach else reach
    return call.copies and reach == call.width


@entry
def forward(img, call, reads, out, room, start, stop):  # type: ignore[no-untyped-def]
    """Rows start to stop of all samples, into ``out``, flat."""
    raw, raw_out, img, out = img, out, numbers(img), steps(out)
    channels, height, width = call.channels, call.height, call.width
    line, under, above, spans = room.shares[0], room.lines[:channels], room.lines[channels:], room.spans
    for r in range(start, stop):
        i, y = r // height, r % height
        lowest = _look(call, reads, i, y, spans, line)
        straight = _straight(call, spans, lowest)
        if lowest < 0 and not straight:
            for c in range(channels):
                under[c, :width] = reads.ground[c]
        for k in range(max(lowest, 0), len(spans)):
            first, last, kind, _ = spans[k]
            if last <= first:
                continue
            if straight:
                _, dx, dy = _shift(reads, i, k)
                for c in range(channels):
                    at = ((i + reads.offset[i, k]) * channels + c) * height + y + dy
                    to, fro = ((i * channels + c) * height + y) * width, at * width + dx
                    copy(raw[fro + first : fro + last], raw_out[to + first : to + last])
            elif kind == 1:
                _show(img, call, reads, i, k, y, first, last, room, under)
            else:
                _show(img, call, reads, i, k, y, first, last, room, above)
                _, _, share, varies = _span(call, reads, i, k, y, line)
                rows.lay(under, above, first, last, share, line, varies)
        if not straight:
            for c in range(channels):
                at = ((i * channels + c) * height + y) * width
                copy(under[c], out[at : at + width])


@entry
def to_sources(grad, call, reads, order, begins, into, room, start, stop):  # type: ignore[no-untyped-def]
    """The gradients of pictures start to stop, which this thread alone writes, read by read in the table's order.

    Args:
        order: the places (sample * reads + read) in the table, source by source, and ``begins`` where each source's begin.
        into: flat, in the dtype in which everything is computed.
    """
    grad = numbers(grad)
    channels, height, width = call.channels, call.height, call.width
    count, shape, size = reads.opacity.shape[1], (height, width), channels * height * width
    line, factor = room.shares[0], room.shares[1]
    for j in range(start, stop):
        into[j * size : (j + 1) * size] = into.dtype.type(0.0)
        for entry_ in range(begins[j], begins[j + 1]):
            i, k = order[entry_] // count, order[entry_] % count
            for y in range(height):
                first, last, share, varies = _span(call, reads, i, k, y, line)
                if last <= first:
                    continue
                for u in range(first, last):
                    factor[u] = line[u] if varies else share
                for above in range(k + 1, count):
                    low, high, part, fades = _span(call, reads, i, above, y, line)
                    rows.rest(factor, low, high, part, line, fades, first, last)
                moves, dx, dy = _shift(reads, i, k)
                if moves:
                    rows.give_whole(into, j * size, shape, channels, dx, dy, grad, i * size, y, first, last, factor)
                else:
                    rows.tap(reads.maps[i, k], y, first, last, shape, room.taps, room.index)
                    rows.give(into, j * size, shape, channels, grad, i * size, y, first, last, factor, room.taps, room.index)


@fused
def _lines(stack, place, channels):  # type: ignore[no-untyped-def]
    """A line for each channel, at a place of a stack of such: the ground, then a read and the result with it, read by read."""
    return stack[place * channels : (place + 1) * channels]


@fused.noinline
def _stack(img, call, reads, i, y, room, stack):  # type: ignore[no-untyped-def]
    """Compute a row again, and keep each read and what it covers."""
    channels, line = call.channels, room.shares[0]
    for c in range(channels):
        stack[c, : call.width] = reads.ground[c]
    for k in range(len(reads.opacity[i])):
        below, above = _lines(stack, 2 * k, channels), _lines(stack, 2 * k + 1, channels)
        after = _lines(stack, 2 * k + 2, channels)
        _show(img, call, reads, i, k, y, 0, call.width, room, above)
        for c in range(channels):
            copy(below[c], after[c])
        first, last, share, varies = _span(call, reads, i, k, y, line)
        rows.lay(after, above, first, last, share, line, varies)


@fused.noinline
def _to_read(img, call, reads, i, k, y, room, stack, upstream, sums, cut_out):  # type: ignore[no-untyped-def]
    """Pass a row's gradient on to the numbers of read k, and turn it into that of what the read covers."""
    channels, height, width, line, slope = call.channels, call.height, call.width, room.shares[0], room.shares[1]
    if not (call.covers and k == 0):
        below, above = _lines(stack, 2 * k, channels), _lines(stack, 2 * k + 1, channels)
        rows.slopes_of_share(above, below, upstream, 0, width, slope)
        if len(reads.plane[i]) > 0 and k == reads.opacity.shape[1] - 1:  # the last read's share before the plane cuts it
            low, high, part, fades = rows.span(reads.opacity[i], reads.box[i], k, call.covers, call.edge, y, width, line)
            rows.to_plane(reads.plane[i, y], low, high, part, line, fades, slope, cut_out[i, y])
        rows.to_box(reads.opacity[i], reads.box[i], k, call.edge, y, 0, width, slope, sums)
    first, last, share, varies = _span(call, reads, i, k, y, line)
    if len(reads.maps[i]) > 0 and last > first:
        at, shape = (i + reads.offset[i, k]) * channels * height * width, (height, width)
        rows.tap(reads.maps[i, k], y, first, last, shape, room.taps, room.index)
        rows.to_map(
            img, at, shape, call.unit, reads.ground, y, first, last, share, line, varies, upstream, room.taps, room.index, sums[5:]
        )
    for c in range(channels):
        rows.rest(upstream[c], first, last, share, line, varies, 0, width)


@entry
def to_numbers(grad, img, call, reads, sums, cut_out, room, start, stop):  # type: ignore[no-untyped-def]
    """The gradients of the table's rows of samples start to stop: opacity, four numbers of the rectangle, six of the map; and of
    the plane.

    The slope of a read's share is the difference between the read and what it covers, so each row is first computed again.
    """
    grad, img = numbers(grad), numbers(img)
    channels, height, width = call.channels, call.height, call.width
    cast, upstream, stack = room.lines.dtype.type, room.lines[:channels], room.lines[channels:]
    for i in range(start, stop):
        sums[i, :, :] = 0.0
        for y in range(height):
            for c in range(channels):
                at = ((i * channels + c) * height + y) * width
                for u in range(width):
                    upstream[c, u] = cast(grad[at + u])
            _stack(img, call, reads, i, y, room, stack)
            for k in range(reads.opacity.shape[1] - 1, -1, -1):
                _to_read(img, call, reads, i, k, y, room, stack, upstream, sums[i, k], cut_out)

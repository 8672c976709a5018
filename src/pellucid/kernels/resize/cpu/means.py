"""Resize, take the mean of the result, and apply the colours that depend on it.

Owns: the entry point; a sample's pixels lie in the second cache in between, strip by strip.
Must not: differ from a resize, a mean and a pass of colours one after the other.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.color.cpu.paint import first_whole, paint
from pellucid.kernels.color.sums import wide_sum
from pellucid.kernels.jit import entry, exact
from pellucid.kernels.narrow import steps
from pellucid.kernels.resize.cpu.sweep import cover_strip, give, prepare, read, strip_at, uncover

__all__ = ["ALL", "COLORS", "PIXELS", "settle"]

ALL, PIXELS, COLORS = range(3)
"""What a call does: whole samples; strips of all samples up to their resized pixels; or strips from there to their colours."""


@exact.noinline
def _colors_at(numbers, slopes, sums, count, p):  # type: ignore[no-untyped-def]
    """Write a sample's colours at its mean to p, from the sums of its rows, channel after channel."""
    cast, channels = p.dtype.type, slopes.shape[1]
    means = np.empty(channels)
    for c in range(channels):
        total = 0.0
        for y in range(sums.shape[1]):
            total += sums[c, y]
        means[c] = total / count
    for k in range(len(p)):
        number = numbers[k]
        for c in range(channels):
            number += slopes[k, c] * means[c]
        p[k] = cast(number)


@entry
def settle(given, call, slopes, bends, out, kept, sums, p, what, turns, room, start, stop):  # type: ignore[no-untyped-def]
    """Compute samples start to stop, or so many strips, each some whole rows of a sample, into ``out``.

    Args:
        given: whose parameters are each sample's colours at a mean of zero, in float64.
        slopes: what each channel of the mean adds to them.
        bends: None where there is no curve among the colours, which is not compiled then.
        kept: a row for each sample's pixels; one row does for whole samples.
        sums: (rows of ``kept``, channels, height), of each line of the result.
        p: scratch for the colours of one sample.
        what: as the names above say.
        turns: as for `forward`.
        room: whose rows are a strip's ones, and its colours.
    """
    final, out, zero = out, steps(out if turns is None else turns[1]), np.int64(0)
    width, height, colors, lines, rows = call.width, call.height, given.colors, room.lines[:1], room.rows
    channels, wide, full = colors.channels, rows.height - rows.result, call.strip * width
    strips, ones = (height + call.strip - 1) // call.strip, room.floats[:full]
    ones[:] = p.dtype.type(1.0)
    start, stop = (start * strips, stop * strips) if what == ALL else (start, stop)
    for b in range(start // strips, (stop + strips - 1) // strips):
        low, high = max(start - b * strips, 0), min(stop - b * strips, strips)
        own, lines_of_sums = (kept[0], sums[0]) if what == ALL else (kept[b], sums[b])
        if what != COLORS:
            sample = prepare(call, given, b, room, lines)
            for r in range(b * strips + low, b * strips + high):
                _, v, count = strip_at(call, r)
                here, at = count * width, v // call.strip * wide * full
                strip = own[at : at + channels * here].reshape(channels, here)
                read(given.img, call, sample, channels, v, room, lines, strip)
                cover = room.floats[full : full + here]
                cover_strip(sample, room.tables, v, width, cover)
                uncover(sample, cover, strip, channels)
                for c in range(channels):
                    for row in range(count):
                        lines_of_sums[c, v + row] = wide_sum(strip[c, row * width : (row + 1) * width])
        if what != PIXELS:
            _colors_at(given.params[b], slopes[b], lines_of_sums, np.float64(width * height), p)
            for r in range(b * strips + low, b * strips + high):
                _, v, count = strip_at(call, r)
                here, at = count * width, v // call.strip * wide * full
                source = own[at : at + wide * here].reshape(wide, here)
                result = room.floats[full : full + wide * here].reshape(wide, here)
                first_whole(colors, p, ones[:here], p.dtype.type(1.0), source, result)
                place = (b * colors.outputs, v * width, width, width) if turns is None else (zero, zero, width, width)
                paint(colors, p, bends, ones[:here], result, source, out, place)
                if turns is not None:
                    give(turns, here, final[b], v * width)

"""Resize, take the mean of the result, and apply the colours that depend on it; and the backward of that.

Owns: the entry points; a sample's pixels lie in the second cache in between, strip by strip.
Must not: differ from a resize, a mean and a pass of colours one after the other.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.color.cpu.paint import back, first_back, first_mix, first_whole, keep, paint
from pellucid.kernels.color.sums import wide_sum
from pellucid.kernels.jit import entry, exact, fused
from pellucid.kernels.narrow import steps
from pellucid.kernels.resize.cpu.layout import ALL, COLORS, PIXELS
from pellucid.kernels.resize.cpu.sweep import cover_strip, give, give_back, prepare, read, strip_at, turn_across, uncover
from pellucid.kernels.stages.sums import copy_rows, load

__all__ = ["settle", "unsettle"]


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


@fused.inlined
def _read_strip(given, call, sample, v, room, lines, cover, strip, sums):  # type: ignore[no-untyped-def]
    """Read the pixels of a strip, from row v of the result on, and sum each of its lines."""
    width, channels = call.width, given.colors.channels
    read(given.img, call, sample, channels, v, room, lines, strip)
    cover_strip(sample, room.tables, v, width, cover)
    uncover(sample, cover, strip, channels)
    for c in range(channels):
        for row in range(len(cover) // width):
            sums[c, v + row] = wide_sum(strip[c, row * width : (row + 1) * width])


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
                _read_strip(given, call, sample, v, room, lines, room.floats[full : full + here], strip, lines_of_sums)
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


@fused.inlined
def _recoloured(grad, given, call, b, v, bends, p, pixels, room, to_params, to_pixels):  # type: ignore[no-untyped-def]
    """Take a strip's gradient from the result to its resized pixels, and add to the gradient of the colours."""
    colors, rows, width, here = given.colors, room.rows, call.width, len(pixels[0])
    channels, outputs = colors.channels, colors.outputs
    strip = room.floats[: here * rows.height].reshape(rows.height, here)
    ones, scratch, kept = strip[rows.ones], strip[rows.scratch : rows.source], strip[rows.later - outputs :]
    source, g, spare = strip[rows.source : rows.source + channels], strip[rows.grad : rows.spare], strip[rows.spare : rows.scratch]
    ones[:] = p.dtype.type(1.0)
    copy_rows(pixels, source, channels)
    if colors.mixes:
        first_mix(colors, p, ones, source, strip[rows.mixed : rows.mixed + outputs])
    keep(colors, p, bends, ones, kept, True)
    load(grad, (b * outputs, v * width, width, width), g, outputs)
    g, spare = back(colors, p, bends, ones, kept, g, spare, scratch, to_params, True)
    first_back(colors, p, ones, source, g, to_pixels, to_params, True)


@entry
def unsettle(grad, given, call, slopes, bends, needs, image, kept, sums, p, to_params, room, turned, start, stop):  # type: ignore[no-untyped-def]
    """Write to ``image`` the gradients of the samples' pictures, from those of what `settle` makes of them.

    Args:
        grad: of the result, (batch * outputs, height * width).
        needs: as for `backward`: the image alone.
        kept: room for a sample's pixels and for their gradients, two rows.
        sums, p: as for `settle`, of one sample.
        to_params: room for the gradients of the colours of one, in float64.
        room: as for `backward`.
    """
    width, height, colors, lines, rows = call.width, call.height, given.colors, room.lines[: call.strip], room.rows
    channels, count = colors.channels, np.float64(width * height)
    for b in range(start, stop):
        sample = prepare(call, given, b, room, lines)
        taps = turn_across(call, sample, channels, room, turned, room.lines[call.strip])
        image[sample.own : sample.own + channels * sample.height * sample.width] = p.dtype.type(0.0)
        for v in range(0, height, call.strip):
            first, last = v * width, min(v + call.strip, height) * width
            pixels = kept[0, channels * first : channels * last].reshape(channels, last - first)
            _read_strip(given, call, sample, v, room, lines, room.floats[: last - first], pixels, sums)
        _colors_at(given.params[b], slopes[b], sums, count, p)
        to_params[:] = 0.0
        for v in range(0, height, call.strip):
            first, last = v * width, min(v + call.strip, height) * width
            pixels = kept[0, channels * first : channels * last].reshape(channels, last - first)
            to_pixels = kept[1, channels * first : channels * last].reshape(channels, last - first)
            _recoloured(grad, given, call, b, v, bends, p, pixels, room, to_params, to_pixels)
        for c in range(channels):
            total = 0.0
            for k in range(len(to_params)):
                total += to_params[k] * slopes[b, k, c]
            sums[c, 0] = total / count
        for v in range(0, height, call.strip):
            first, last = v * width, min(v + call.strip, height) * width
            to_pixels = kept[1, channels * first : channels * last].reshape(channels, last - first)
            for c in range(channels):
                share, row = p.dtype.type(sums[c, 0]), to_pixels[c]
                for u in range(len(row)):
                    row[u] += share
            cover = room.floats[rows.cover * (last - first) : (rows.cover + 1) * (last - first)]
            cover_strip(sample, room.tables, v, width, cover)
            uncover(sample, cover, to_pixels, channels)
            give_back(given, call, sample, v, needs, room, turned, taps, to_pixels, image)

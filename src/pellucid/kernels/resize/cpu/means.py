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
from pellucid.kernels.resize.cpu.sweep import cover_strip, give, give_back, prepare, read, turn_across, uncover
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


@fused
def _strip_of(kept, call, wide, v, rows):  # type: ignore[no-untyped-def]
    """The strip from row v of the result on, among a sample's kept pixels, where each strip has room for ``wide`` channels."""
    here, at = min(call.strip, call.height - v) * call.width, v * wide * call.width
    return kept[at : at + rows * here].reshape(rows, here)


@fused.inlined
def _keep_pixels(given, call, b, first, last, room, wide, kept, sums):  # type: ignore[no-untyped-def]
    """Resize the rows first to last of a sample, and keep their pixels and the sum of each."""
    full, lines = call.strip * call.width, room.lines[:1]
    sample = prepare(call, given, b, room, lines)
    for v in range(first, last, call.strip):
        strip = _strip_of(kept, call, wide, v, given.colors.channels)
        _read_strip(given, call, sample, v, room, lines, room.floats[full : full + len(strip[0])], strip, sums)


@fused.inlined
def _paint_pixels(given, call, b, first, last, room, wide, kept, p, bends, out, final, turns):  # type: ignore[no-untyped-def]
    """Apply the colours p to the kept rows first to last of a sample, and write them to the result."""
    width, colors, full, zero = call.width, given.colors, call.strip * call.width, np.int64(0)
    for v in range(first, last, call.strip):
        source = _strip_of(kept, call, wide, v, wide)
        here = len(source[0])
        ones, result = room.floats[:here], room.floats[full : full + wide * here].reshape(wide, here)
        first_whole(colors, p, ones, p.dtype.type(1.0), source, result)
        place = (b * colors.outputs, v * width, width, width) if turns is None else (zero, zero, width, width)
        paint(colors, p, bends, ones, result, source, out, place)
        if turns is not None:
            give(turns, here, final[b], v * width)


@entry
def settle(given, call, slopes, bends, out, kept, sums, p, what, turns, room, start, stop):  # type: ignore[no-untyped-def]
    """Compute samples start to stop, or so many strips, each some whole rows of a sample, into ``out``.

    The colours need the mean of a whole sample, so its resized pixels are kept until all of its lines are summed.

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
    final, out = out, steps(out if turns is None else turns[1])
    wide, strips = room.rows.height - room.rows.result, (call.height + call.strip - 1) // call.strip
    room.floats[: call.strip * call.width] = p.dtype.type(1.0)
    start, stop = (start * strips, stop * strips) if what == ALL else (start, stop)
    for b in range(start // strips, (stop + strips - 1) // strips):
        first, last = max(start - b * strips, 0) * call.strip, min((stop - b * strips) * call.strip, call.height)
        pixels, lines = (kept[0], sums[0]) if what == ALL else (kept[b], sums[b])
        if what != COLORS:
            _keep_pixels(given, call, b, first, last, room, wide, pixels, lines)
        if what != PIXELS:
            _colors_at(given.params[b], slopes[b], lines, np.float64(call.width * call.height), p)
            _paint_pixels(given, call, b, first, last, room, wide, pixels, p, bends, out, final, turns)


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


@fused
def _to_mean(to_params, slopes, c):  # type: ignore[no-untyped-def]
    """The gradient of a channel's mean, from those of the colours that it adds to."""
    total = 0.0
    for k in range(len(to_params)):
        total += to_params[k] * slopes[k, c]
    return total


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
    width, height, lines, channels = call.width, call.height, room.lines[: call.strip], given.colors.channels
    count = np.float64(width * height)
    for b in range(start, stop):
        sample = prepare(call, given, b, room, lines)
        taps = turn_across(call, sample, channels, room, turned, room.lines[call.strip])
        image[sample.own : sample.own + channels * sample.height * sample.width] = p.dtype.type(0.0)
        for v in range(0, height, call.strip):
            pixels = _strip_of(kept[0], call, channels, v, channels)
            _read_strip(given, call, sample, v, room, lines, room.floats[: len(pixels[0])], pixels, sums)
        _colors_at(given.params[b], slopes[b], sums, count, p)
        to_params[:] = 0.0
        for v in range(0, height, call.strip):
            pixels = _strip_of(kept[0], call, channels, v, channels)
            to_pixels = _strip_of(kept[1], call, channels, v, channels)
            _recoloured(grad, given, call, b, v, bends, p, pixels, room, to_params, to_pixels)
        for c in range(channels):
            sums[c, 0] = _to_mean(to_params, slopes[b], c) / count
        for v in range(0, height, call.strip):
            to_pixels = _strip_of(kept[1], call, channels, v, channels)
            here = len(to_pixels[0])
            for c in range(channels):
                share, row = p.dtype.type(sums[c, 0]), to_pixels[c]
                for u in range(here):
                    row[u] += share
            cover = room.floats[room.rows.cover * here : (room.rows.cover + 1) * here]
            cover_strip(sample, room.tables, v, width, cover)
            uncover(sample, cover, to_pixels, channels)
            give_back(given, call, sample, v, needs, room, turned, taps, to_pixels, image)

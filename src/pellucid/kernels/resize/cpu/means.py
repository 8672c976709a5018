"""A resize, the mean of what it makes, and the colours that depend on it.

Owns: the entry point; a sample's pixels lie in the second cache in between, strip by strip.
Must not: differ from a resize, a mean and a pass of colours one after the other.
Read next: ``sweep.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.color.sums import row_sum
from pellucid.kernels.jit import entry, exact, fused, noinline, without_refcount
from pellucid.kernels.narrow import steps
from pellucid.kernels.resize.cpu.sweep import (
    CHANNELS,
    FLAGS,
    MAP_STRIDE,
    OUT_CHANNELS,
    OUT_HEIGHT,
    OUT_WIDTH,
    STRIP,
    WINDOW_STRIDE,
    cover_strip,
    lines_of,
    prepare,
    read_row,
    sample_of,
    store,
    sum_across,
    uncover,
)
from pellucid.kernels.stages.chain import CLIP, HUE, LAST_MIX, SECOND_MIX
from pellucid.kernels.warp.cpu.hue import hue
from pellucid.kernels.warp.cpu.stages import bend, clip, finish, mix, mix_whole
from pellucid.kernels.warp.cpu.strips import parameter_places

__all__ = ["ALL", "COLORS", "PIXELS", "settle"]

ALL, PIXELS, COLORS = range(3)
"""What a call does: samples from their pixels to their colours; strips of all samples up to their pixels; or on from there."""


@exact
def _colors_at(numbers, slopes, sums, count, p):  # type: ignore[no-untyped-def]
    """Write a sample's colours at its mean to p, from the sums of its rows, channel after channel."""
    noinline()
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


@fused
def _paint(p, flags, bends, channels, out_channels, ones, source, result, out, first, at):  # type: ignore[no-untyped-def]
    """A strip's colours, into the output from place ``at`` of its rows on; what was in ``source`` is lost."""
    noinline()
    matrix, offset, hue_shift, second, curve, last, _ = parameter_places(flags, channels, out_channels)
    one, size, n = p.dtype.type(1.0), out_channels * out_channels, len(ones)
    if (matrix >= 0) & (channels == 3) & (out_channels == 3):
        mix_whole(p, matrix, offset, one, source[0], source[1], source[2], result)
    else:
        mix(p, matrix, offset, offset + out_channels, ones, source, channels, result, out_channels)
    if flags & HUE:
        hue(p[hue_shift], result, source)
        source, result = result, source
    if flags & SECOND_MIX:
        bias = second + size
        mix(p, second, bias, bias + out_channels, ones, result, out_channels, source, out_channels)
        source, result = result, source
    if bends is None and flags & LAST_MIX and out_channels == 3:
        finish(p, last, last + size, flags & CLIP != 0, result, out, first, at, n, n)
        return
    if flags & CLIP:
        clip(result, source, out_channels)
        source, result = result, source
    if bends is not None:
        bend(p, curve, flags, result, source, out_channels)
        source, result = result, source
    if flags & LAST_MIX:
        bias = last + size
        mix(p, last, bias, bias + out_channels, ones, result, out_channels, source, out_channels)
        source, result = result, source
    store(result, out, first, at, out_channels)


@entry
def settle(  # type: ignore[no-untyped-def]
    img, metas, unit, maps, windows, numbers, slopes, bends, out, kept, sums, p, what, floats, lines, room, places, index, tables,
    start, stop,
):  # fmt: skip
    """Compute samples start to stop, or so many strips, each some whole rows of a sample, into ``out``.

    Args:
        numbers, slopes: of each sample its colours' numbers at a mean of zero, and what each channel of the mean adds to them.
        bends: None where there is no curve among the colours, which is not compiled then.
        kept: a row for each sample's pixels; one row does for whole samples.
        sums: (rows of ``kept``, channels, height), of each line of the result.
        p: room for the colours of one.
        what: as the names above say.
        floats: room for a strip of colours, and of ones.
    """
    meta, _, _ = sample_of(metas, np.int64(0))
    width, height, channels, out_channels = meta[OUT_WIDTH], meta[OUT_HEIGHT], meta[CHANNELS], meta[OUT_CHANNELS]
    wide, strips, full = max(channels, out_channels), (height + meta[STRIP] - 1) // meta[STRIP], meta[STRIP] * width
    img, metas, maps, windows, numbers, slopes = without_refcount((img, metas, maps, windows, numbers, slopes))
    kept, sums, p, floats, lines = without_refcount((kept, sums, p, floats, lines))
    index, places, tables, out = without_refcount(index), without_refcount(places), without_refcount(tables), steps(out)
    (first, _, first_y, count_y), (_, seen, weights_y, seen_y, _, w, spare), rows = places, tables, lines[:1]
    ones = floats[:full]
    ones[:] = floats.dtype.type(1.0)
    start, stop = (start * strips, stop * strips) if what == ALL else (start, stop)
    for b in range(start // strips, (stop + strips - 1) // strips):
        low_strip, high_strip = max(start - b * strips, 0), min(stop - b * strips, strips)
        own, lines_of_sums = (kept[0], sums[0]) if what == ALL else (kept[b], sums[b])
        if what != COLORS:
            meta, base, _ = sample_of(metas, b)
            _, step = lines_of(meta)
            plane = np.int64(1) if step > 1 else room
            m, window = maps[b * meta[MAP_STRIDE]], windows[b * meta[WINDOW_STRIDE]]
            taps, _, low, n, whole = prepare(meta, m, window, places, tables[:5], index, rows, room)
            for k in range(low_strip, high_strip):
                v = k * meta[STRIP]
                here = min(meta[STRIP], height - v) * width
                strip = own[k * wide * full : k * wide * full + channels * here].reshape(channels, here)
                for row in range(here // width):
                    read_row(img, meta, unit, base, v + row, low, n, first_y, count_y, weights_y, w, spare, rows[0], room)
                    sum_across(rows[0], plane, step, low, n, first, index, tables, taps, channels, strip, row * width)
                if not whole:
                    cover = floats[full : full + here]
                    cover_strip(seen, seen_y, v, width, cover)
                    uncover(cover, strip, channels)
                for c in range(channels):
                    for row in range(here // width):
                        lines_of_sums[c, v + row] = row_sum(strip[c, row * width : (row + 1) * width])
        if what != PIXELS:
            _colors_at(numbers[b], slopes[b], lines_of_sums, np.float64(width * height), p)
            for k in range(low_strip, high_strip):
                v = k * meta[STRIP]
                here = min(meta[STRIP], height - v) * width
                source = own[k * wide * full : k * wide * full + wide * here].reshape(wide, here)
                result = floats[full : full + wide * here].reshape(wide, here)
                _paint(p, meta[FLAGS], bends, channels, out_channels, ones[:here], source, result, out, b * out_channels, v * width)

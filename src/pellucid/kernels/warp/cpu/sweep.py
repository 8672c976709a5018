"""The forward pass: the output strip by strip.

Owns: the order of phases (staging a band; in each of its strips coordinates, gather, colour).
Must not: know of tensors; everything comes as flat arrays, and named numbers.
Read next: ``adjoint.py``.
"""

import numpy as np

from pellucid.kernels.color.cpu.paint import first_mix, first_whole, paint
from pellucid.kernels.interleaving import apart, together
from pellucid.kernels.jit import entry, fused
from pellucid.kernels.levels import units
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.warp.cpu import strips
from pellucid.kernels.warp.cpu.copies import copy_strip
from pellucid.kernels.warp.cpu.layout import COVER, ONES, ROWS
from pellucid.kernels.warp.cpu.links import blend

__all__ = ["forward"]

_ENOUGH = 64  # strips of more pixels are read in blocks


@fused.inlined
def _read(img, call, sample, fields, chain, tables, shapes, spot, strip, place, out, cubics, read):  # type: ignore[no-untyped-def]
    """Find and read a strip, and prefetch the memory that it will be written to; returns whether canvases may show fill."""
    n, wide = len(strip.seen), max(call.channels, call.out_channels)
    while_reading = (tables is None) & (shapes is None) & (call.taps == 2) & (wide <= 3) & (n > _ENOUGH)
    if not while_reading:
        strips.announce(out, place, n // spot.width, call.out_channels)
    soon = out, place[0], place[1], spot.width, call.out_width, call.out_channels if while_reading else 0
    cut = strips.find_strip(call, sample, fields, chain, tables, shapes, spot, strip)
    strips.read_whole(img, call, sample, tables, shapes, spot, strip, cubics, read, soon)
    return cut


@fused.noinline
def _take_turns(img, call, colors, p, ones, turns, first, read, result):  # type: ignore[no-untyped-def]
    """Read a strip of interleaved pixels that nothing moves; if three channels mix into three, they are mixed right away."""
    cells, taken, _ = turns
    n = len(ones)
    apart(img[call.base + first * len(cells) :], cells, taken, 0, n, n)
    if colors.matrix >= 0 and call.channels == 3 and call.out_channels == 3:
        first_whole(colors, p, ones, call.unit, (taken[:n], taken[n : 2 * n], taken[2 * n : 3 * n]), result)
        return
    for c in range(call.channels):
        units(taken[c * n : (c + 1) * n], call.unit, read[c])


@fused.noinline
def _give_turns(turns, call, spot, lines, out):  # type: ignore[no-untyped-def]
    """Interleave a strip of results into the output."""
    cells, _, made = turns
    flat = made.reshape(made.size)
    for k in range(lines):
        at = (spot.v + k) * call.out_width + spot.first
        together(flat, k * spot.width, made.shape[1], spot.width, cells, out[at * len(cells) :])


@entry
def forward(img, call, rows, fields, chain, tables, shapes, out, room, cubics, bends, turns, start, stop):  # type: ignore[no-untyped-def]
    """Compute strips start to stop, some rows of a block of columns each, into ``out`` (batch * channels, height * width).

    Args:
        bends: None where there is no curve, which is not compiled then.
        turns: None, or for an interleaved ``out`` (batch, height * width * channels), and an interleaved ``img`` where a pass
            moves nothing: a tuple with an entry for each channel, and scratch for a strip of both in planes.
    """
    img, final, out = numbers(img), out, steps(out if turns is None else turns[2])
    outputs, colors, lay, frame = call.out_channels, rows.colors, room.rows, room.frame
    before, band, zero, cut = (0, 0), 0, np.int64(0), False
    coloured = colors.mixes or len(colors.steps) > 0
    copied = start
    for r in range(start, stop):
        if r < copied:
            continue
        spot = strips.spot_of(call, r)
        v, first, width = spot.v, spot.first, spot.width
        call = strips.at_sample(call, rows.pictures, spot.b)
        sample, n = strips.sample_of(call, rows, spot.b), min(call.strip, call.out_height - v) * width
        strip = strips.cut_out(room, n)
        if before[0] != n or (before[1] != first and not call.still):
            strips.write_pixels(strip.rows, spot)
            before = (n, first)
        whole, place = strips.is_copy(call, sample, fields, chain), strips.place_of(call, spot)
        if whole and not coloured and turns is None:  # all strips of this block at once
            lines, at = min(call.out_height - v, (stop - r) * call.strip), (place[0], place[1], call.out_width)
            copy_strip(img, call, sample.m, spot, lines, out, at, strip.rows[COVER][:0])
            copied = r + (call.out_height - v + call.strip - 1) // call.strip
            continue
        if v == 0 or r == start:
            frame[ROWS] = band = 0
        if turns is not None:
            cells = len(turns[0])
            strips.announce(final, (spot.b, place[1] * cells, width * cells, call.out_width * cells), n // width, 1)
            place = zero, zero, width, width
        if tables is None and shapes is None and not whole and v >= band:
            strips.next_band(img, call, sample, fields, chain, spot, min(call.out_height, v + (stop - r) * call.strip), strip, True)
            band = v + frame[ROWS]
        ones, source, result = strip.rows[ONES], strip.rows[lay.source : lay.result], strip.rows[lay.result : lay.canvases]
        read, cover, p = source if colors.mixes else result, ones if call.still else strip.rows[COVER], sample.p
        straight = call.still & (colors.matrix >= 0) & (call.channels == 3) & (outputs == 3)
        straight &= (call.stride_x == 1) | (turns is not None)
        if whole:
            strips.announce(out, place, n // width, outputs)
        if turns is not None and call.still:
            _take_turns(img, call, colors, p, ones, turns, first, read, result)
        elif straight:
            at, step = call.base + first, call.stride_c
            pixels = img[at : at + n], img[at + step : at + step + n], img[at + 2 * step : at + 2 * step + n]
            first_whole(colors, p, ones, call.unit, pixels, result)
        elif whole:
            copy_strip(img, call, sample.m, spot, n // width, read, (zero, zero, width), cover[: 0 if call.still else n])
        else:
            cut = _read(img, call, sample, fields, chain, tables, shapes, spot, strip, place, out, cubics, read)
        if colors.mixes and not straight:
            first_mix(colors, p, cover, source, result)
        if chain is not None and cut:
            blend(strip.own[0], strip.own[2:], colors.grounds, outputs, result)
        paint(colors, p, bends, ones, result, source, out, place)
        if turns is not None:
            _give_turns(turns, call, spot, n // width, final[spot.b])

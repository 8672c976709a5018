"""The way forward: the output strip by strip.

Owns: the order of phases (staging a band; in each of its strips coordinates, gather, colour).
Must not: know of tensors; everything comes as flat arrays, and named numbers.
Read next: ``adjoint.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, without_refcount
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.stages.chain import CLIP, FIRST_MIX, GROUND, HUE, LAST_MIX, SECOND_MIX, STAGES
from pellucid.kernels.warp.cpu.footprint import read_table, table_of
from pellucid.kernels.warp.cpu.hue import hue
from pellucid.kernels.warp.cpu.links import blend, chain_rows, find
from pellucid.kernels.warp.cpu.stages import bend, clip, finish, mix, mix_whole
from pellucid.kernels.warp.cpu.stretched import read_stretched
from pellucid.kernels.warp.cpu.strips import (
    ROWS,
    announce,
    at_sample,
    copy_pixels,
    find_strip,
    is_copy,
    next_band,
    parameter_places,
    read_strip,
    store_strip,
    strip_at,
    write_pixels,
)

__all__ = ["forward"]

_ENOUGH = 64  # pixels that are read in blocks


@entry
def forward(img, call, rows, fields, chain, tables, shapes, out, room, cubics, edge, bends, start, stop):  # type: ignore[no-untyped-def]
    """Compute strips start to stop, some rows of a block of columns each, into ``out`` (batch * channels, height * width).

    Args:
        bends: None where there is no curve, which is not compiled then.
    """
    channels, out_channels, flags = call.channels, call.out_channels, call.flags
    wide = max(channels, out_channels)
    matrix, offset, hue_shift, second, bent, last, fills = parameter_places(flags, channels, out_channels)
    grounds = out_channels if flags & GROUND else 0
    size, height = out_channels * out_channels, 13 + 2 * wide + chain_rows(chain, grounds, False)
    img, out = numbers(img), steps(out)
    maps, windows, params = without_refcount(rows.maps), without_refcount(rows.windows), without_refcount(rows.params)
    pictures = without_refcount(rows.pictures)
    floats, quad = without_refcount(room.floats), without_refcount(room.quad)
    index, kind, frame = without_refcount(room.index), without_refcount(room.kind), room.frame
    unit, cubic, curve = call.unit, call.cubic, floats.dtype.type(call.cubic if call.taps == 4 else 0.0)
    before, band, zero, cut = (0, 0), 0, np.int64(0), False
    coloured = flags & (FIRST_MIX | STAGES) != 0
    copied = start
    for r in range(start, stop):
        if r < copied:
            continue
        b, v, first, width = strip_at(call, r)
        call = at_sample(call, pictures, b)
        n = min(call.strip, call.out_height - v) * width
        strip = floats[: n * height].reshape(height, n)  # contiguous rows, or nothing is vectorised
        if before[0] != n or (before[1] != first and not call.still):
            write_pixels(strip, first, width)
            before = (n, first)
        m, window, p = maps[b * call.map_step], windows[b * call.window_step], params[b * call.param_step]
        whole = is_copy(call, m, fields, chain, window)
        if whole and not coloured:  # all strips of this block at once
            place, lines = (b * out_channels, v * call.out_width + first, call.out_width), (stop - r) * call.strip
            copy_pixels(img, call, unit, m, v, first, width, min(call.out_height - v, lines), out, place, strip[7][:0])
            copied = r + (call.out_height - v + call.strip - 1) // call.strip
            continue
        if v == 0 or r == start:
            frame[ROWS] = band = 0
        own = strip[13 + 2 * wide :]
        if tables is None and shapes is None and not whole and v >= band:
            end = min(call.out_height, v + (stop - r) * call.strip)
            next_band(img, call, unit, m, fields, chain, window, b, v, end, strip, index[:n], own, frame, quad, True)
            band = v + frame[ROWS]
        top, place = b * out_channels, v * call.out_width + first
        while_reading = (tables is None) & (shapes is None) & (not whole) & (call.taps == 2) & (wide <= 3) & (n > _ENOUGH)
        soon = out, top, place, width, call.out_width, out_channels if while_reading else 0
        if not while_reading:
            announce(out, top, place, width, call.out_width, n // width, out_channels)
        ones, quads = strip[8], floats[9 * n : 13 * n]
        source, result = strip[13 : 13 + wide], strip[13 + wide : 13 + 2 * wide]
        read = source if flags & FIRST_MIX else result
        cover = ones if call.still else strip[7]
        straight = call.still & (matrix >= 0) & (channels == 3) & (out_channels == 3) & (call.stride_x == 1)
        if straight:
            at, step = call.base + first, call.stride_c
            x0, x1, x2 = img[at : at + n], img[at + step : at + step + n], img[at + 2 * step : at + 2 * step + n]
            mix_whole(p, matrix, offset, unit, x0, x1, x2, result)
        elif whole:
            copy_pixels(img, call, unit, m, v, first, width, n // width, read, (zero, zero, width), cover[: 0 if call.still else n])
        else:
            under = p[fills:] if grounds > 0 else p[:0]
            base = np.uint64(call.base)
            shape, strides = (call.height, call.width), (call.stride_c, call.stride_y, call.stride_x)
            if tables is not None or shapes is not None:
                cut = find(call, m, fields, chain, under, b, v, first, width, strip, index[:n], own)
            if tables is not None:
                table, sizes = table_of(tables, b)
                read_table(img, base, channels, shape, strides, unit, call.mode, table, sizes, strip[0], strip[1], read, strip[7])
            elif shapes is not None:
                picture = img, base, channels, shape, strides, unit, call.mode
                at = v * call.out_width + first, width, call.out_width
                read_stretched(picture, shapes, curve, b, at, strip[0], strip[1], read, strip[7])
            else:
                here, where = kind[:n], index[:n]
                cut = find_strip(call, m, fields, chain, under, window, b, v, first, width, strip, frame, here, where, own)
                read_strip(img, call, cubic, unit, base, window, strip, frame, quad, cubics, quads, here, where, read, edge, soon)
        if flags & FIRST_MIX and not straight:
            mix(p, matrix, offset, offset + out_channels, cover, source, channels, result, out_channels)
        if chain is not None and cut:
            blend(own[0], own[2:], grounds, out_channels, result)
        if flags & HUE:
            hue(p[hue_shift], result, source)
            source, result = result, source
        if flags & SECOND_MIX:
            bias = second + size
            mix(p, second, bias, bias + out_channels, ones, result, out_channels, source, out_channels)
            source, result = result, source
        direct = (flags & LAST_MIX != 0) & (out_channels == 3)  # the last mix writes to the output
        if flags & CLIP and not (direct and bends is None):
            clip(result, source, out_channels)
            source, result = result, source
        if bends is not None:
            bend(p, bent, flags, result, source, out_channels)
            source, result = result, source
        if direct:
            clips = bends is None and flags & CLIP != 0
            finish(p, last, last + size, clips, result, out, top, place, width, call.out_width)
            continue
        if flags & LAST_MIX:
            bias = last + size
            mix(p, last, bias, bias + out_channels, ones, result, out_channels, source, out_channels)
            source, result = result, source
        store_strip(result, out, top, place, width, call.out_width, out_channels)

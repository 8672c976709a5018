"""The way forward: the output strip by strip.

Owns: the order of phases (staging a band; in each of its strips coordinates, gather, colour).
Must not: know of tensors; everything comes as flat arrays, and the integers of ``meta`` are named in ``strips.py``.
Read next: ``adjoint.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, without_refcount
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.warp.cpu.coordinates import displace, locate
from pellucid.kernels.warp.cpu.hue import hue
from pellucid.kernels.warp.cpu.stages import clip, mix
from pellucid.kernels.warp.cpu.strips import (
    CHANNELS,
    FIELD_STRIDE,
    FLAGS,
    MAP_STRIDE,
    OUT_CHANNELS,
    OUT_HEIGHT,
    OUT_WIDTH,
    PARAM_STRIDE,
    PROJECTIVE,
    ROWS,
    STRIDE_B,
    STRIP,
    WINDOW_STRIDE,
    copy_pixels,
    is_copy,
    next_band,
    parameter_places,
    read_strip,
    settle_strip,
    store_strip,
    strip_at,
    write_pixels,
)
from pellucid.kernels.warp.layout import CLIP, FIRST_MIX, HUE, LAST_MIX, SECOND_MIX

__all__ = ["forward"]


@entry
def forward(  # type: ignore[no-untyped-def]
    img,
    meta,
    cubic,
    unit,
    maps,
    windows,
    params,
    fields,
    out,
    floats,
    quad,
    index,
    kind,
    cubics,
    frame,
    edge,
    start,
    stop,
):
    """Compute strips start to stop, some rows of a block of columns each, into ``out`` (batch * channels, height * width)."""
    channels, out_channels, flags = meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    wide = max(channels, out_channels)
    matrix, offset, hue_shift, second, last = parameter_places(flags, channels, out_channels)
    size, rows = out_channels * out_channels, 13 + 2 * wide
    img, maps, windows, params, out = (
        numbers(img),
        without_refcount(maps),
        without_refcount(windows),
        without_refcount(params),
        steps(out),
    )
    floats, quad, index, kind = without_refcount(floats), without_refcount(quad), without_refcount(index), without_refcount(kind)
    before, band, zero = (0, 0), 0, np.int64(0)
    coloured = flags & (FIRST_MIX | HUE | SECOND_MIX | CLIP | LAST_MIX) != 0
    for r in range(start, stop):
        b, v, first, width = strip_at(meta, r)
        n = min(meta[STRIP], meta[OUT_HEIGHT] - v) * width
        strip = floats[: n * rows].reshape(rows, n)  # contiguous rows, or nothing is vectorised
        if before != (n, first):
            write_pixels(strip, first, width)
            before = (n, first)
        m, window, p = maps[b * meta[MAP_STRIDE]], windows[b * meta[WINDOW_STRIDE]], params[b * meta[PARAM_STRIDE]]
        whole = is_copy(meta, m, fields, window)
        if whole and not coloured:
            place = b * out_channels, v * meta[OUT_WIDTH] + first, meta[OUT_WIDTH]
            copy_pixels(img, meta, unit, b, m, v, first, width, n // width, out, place, strip[7][:0])
            continue
        if v == 0 or r == start:
            frame[ROWS] = band = 0
        if not whole and v >= band:
            end = min(meta[OUT_HEIGHT], v + (stop - r) * meta[STRIP])
            next_band(img, meta, unit, m, fields, window, b, v, end, strip, frame, quad, True)
            band = v + frame[ROWS]
        ones, quads = strip[8], floats[9 * n : 13 * n]
        source, result = strip[13 : 13 + wide], strip[13 + wide : 13 + 2 * wide]
        read = source if flags & FIRST_MIX else result
        if whole:
            copy_pixels(img, meta, unit, b, m, v, first, width, n // width, read, (zero, zero, width), strip[7])
        else:
            locate(m, v, meta[PROJECTIVE], strip[4], strip[5], strip[0], strip[1], strip[6])
            if fields is not None and fields.size > 0:
                at = v * meta[OUT_WIDTH] + first
                displace(fields, 2 * b * meta[FIELD_STRIDE], at, width, meta[OUT_WIDTH], strip[0], strip[1])
            _, rest = settle_strip(meta, window, strip, frame, kind[:n], index[:n])
            base = np.uint64(b * meta[STRIDE_B])
            read_strip(
                img, meta, cubic, unit, base, window, strip, frame, quad, cubics, quads, kind[:n], index[:n], rest, read, edge
            )
        if flags & FIRST_MIX:
            mix(p, matrix, offset, offset + out_channels, strip[7], source, channels, result, out_channels)
        if flags & HUE:
            hue(p[hue_shift], result[0], result[1], result[2])
        for flag, place in ((SECOND_MIX, second), (LAST_MIX, last)):
            if flag == LAST_MIX and flags & CLIP:
                clip(result, out_channels)
            if flags & flag:
                bias = place + size
                mix(p, place, bias, bias + out_channels, ones, result, out_channels, source, out_channels)
                source, result = result, source
        store_strip(result, out, b * out_channels, v * meta[OUT_WIDTH] + first, width, meta[OUT_WIDTH], out_channels)

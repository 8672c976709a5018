"""The two entry points: output rows one after the other, forward and backward.

Owns: the order of phases in a row (coordinates, gather, colour) and, backward, the recomputation of what forward did.
Must not: know of tensors; everything comes as flat arrays, and `Meta` positions name the integers.
Read next: ``op.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import apart, borrow, entry, fused
from pellucid.kernels.warp.cpu.coordinates import FILLED, fractions, interior, locate
from pellucid.kernels.warp.cpu.gather import gather_edge, gather_interior
from pellucid.kernels.warp.cpu.hue import hue, hue_backward
from pellucid.kernels.warp.cpu.layout import CLIP, FIRST_MIX, HUE, LAST_MIX, MATRIX, META, SECOND_MIX
from pellucid.kernels.warp.cpu.scatter import scatter_edge, scatter_interior
from pellucid.kernels.warp.cpu.stages import clip, clip_backward, copy_rows, dot, mix, mix_backward, mix_sums, row_sum

__all__ = ["backward", "forward"]

(BATCH, CHANNELS, HEIGHT, WIDTH, OUT_CHANNELS, OUT_HEIGHT, OUT_WIDTH, STRIDE_B, STRIDE_C, STRIDE_Y, STRIDE_X) = range(11)
(TAPS, MODE, PROJECTIVE, FLAGS, MAP_STRIDE, WINDOW_STRIDE, PARAM_STRIDE) = range(11, META)


@fused
def _bounds(meta, window, cast):  # type: ignore[no-untyped-def]
    """The half-open box of coordinates whose four bilinear taps are all inside; empty for other interpolations."""
    zero = cast(0.0)
    if meta[TAPS] != 2:
        return zero, zero, zero, zero
    high_x, high_y = cast(meta[WIDTH] - 1), cast(meta[HEIGHT] - 1)
    if len(window) == 0:
        return zero, high_x, zero, high_y
    return max(zero, window[0]), min(high_x, window[2]), max(zero, window[1]), min(high_y, window[3])


@fused
def _places(flags, channels, out_channels):  # type: ignore[no-untyped-def]
    """Where the stages' numbers lie in a sample's parameters: first matrix (or -1), first offset, turns, second, last mix."""
    matrix, offset = -1, 0
    if flags & MATRIX:
        matrix, offset = 0, out_channels * channels
    turns = offset + 2 * out_channels if flags & FIRST_MIX else 0
    second = turns + 1 if flags & HUE else turns
    last = second + out_channels * out_channels + 2 * out_channels if flags & SECOND_MIX else second
    return matrix, offset, turns, second, last


@fused
def _gather(img, meta, cubic, unit, base, window, row, out, first, step, cover, slopes, edge, reads):  # type: ignore[no-untyped-def]
    """Read one row whose coordinates are in ``row`` = (x, y, tx, ty, index).

    Returns:
        (outer, left, right, end): [left, right) took the fast path, and only [outer, end) sees anything of the image. Where
        ``reads`` is false nothing is read: the spans and the fast path's fractions are all that a linear adjoint needs.
    """
    x, y, tx, ty, index = row
    tap_index, weight, slope = edge
    sc, sy, sx = np.uint64(meta[STRIDE_C]), np.uint64(meta[STRIDE_Y]), np.uint64(meta[STRIDE_X])
    channels = meta[CHANNELS]
    low_x, high_x, low_y, high_y = _bounds(meta, window, out.dtype.type)
    left, right = interior(x, y, low_x, high_x, low_y, high_y)
    fractions(x[left:right], y[left:right], meta[STRIDE_X], meta[STRIDE_Y], index[left:right], tx[left:right], ty[left:right])
    outer, end = 0, len(x)
    if meta[MODE] == FILLED and len(window) == 0:
        reach = out.dtype.type(max(meta[TAPS] // 2, 1))
        outer, end = interior(x, y, -reach, meta[WIDTH] - 1 + reach, -reach, meta[HEIGHT] - 1 + reach)
        if end == 0:  # not one span: pixel by pixel
            outer, end = 0, len(x)
    if left == right:
        left = right = outer
    if not reads:
        return outer, left, right, end
    gather_interior(img, base, channels, sc, sx, sy, index, tx, ty, unit, out, first, step, slopes, left, right)
    cover[left:right] = out.dtype.type(1.0)
    if len(slopes) > 0:
        slopes[2 * channels :, left:right] = out.dtype.type(0.0)
    for a, b in ((outer, left), (right, end)):
        if a < b:
            gather_edge(
                img, base, channels, (meta[HEIGHT], meta[WIDTH]), sc, sx, sy, meta[TAPS], cubic, meta[MODE], window, x, y,
                tap_index, weight, slope, unit, out, first, step, cover, slopes, a, b,
            )  # fmt: skip
    for a, b in ((0, outer), (end, len(x))):
        if a < b:
            cover[a:b] = out.dtype.type(0.0)
            for c in range(channels):
                out[first + c * step][a:b] = out.dtype.type(0.0)
            slopes[:, a:b] = out.dtype.type(0.0)
    return outer, left, right, end


@entry
def forward(img, meta, cubic, unit, maps, windows, params, out, floats, index, taps, tables, start, stop):  # type: ignore[no-untyped-def]
    """Compute the output rows start <= b * height + v < stop into ``out`` (batch * channels * height, width)."""
    n, height = meta[OUT_WIDTH], meta[OUT_HEIGHT]
    channels, out_channels, flags = meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    matrix, offset, turns, second, last = _places(flags, channels, out_channels)
    size = out_channels * out_channels
    img, maps, windows, params, out = borrow(img), borrow(maps), borrow(windows), borrow(params), borrow(out)
    floats, index, taps, tables = borrow(floats), borrow(index), borrow(taps), borrow(tables)
    row, edge = (floats[0], floats[1], floats[2], floats[3], index), (taps, tables[0], tables[1])
    ramp, ones, w, cover = floats[4], floats[5], floats[6], floats[7]
    source, slopes = floats[8:], floats[:0]
    for u in range(n):
        ramp[u], ones[u] = u, 1
    for r in range(start, stop):
        b = r // height
        v = r - b * height
        window, p = windows[b * meta[WINDOW_STRIDE]], params[b * meta[PARAM_STRIDE]]
        first = b * out_channels * height + v
        locate(maps[b * meta[MAP_STRIDE]], v, meta[PROJECTIVE], ramp, row[0], row[1], w)
        target, at, step = (source, np.int64(0), np.int64(1)) if flags & FIRST_MIX else (out, first, height)
        _gather(img, meta, cubic, unit, np.uint64(b * meta[STRIDE_B]), window, row, target, at, step, cover, slopes, edge, True)
        if flags & FIRST_MIX:
            mix(p, matrix, offset, offset + out_channels, cover, source, channels, out, first, height, out_channels)
        if flags & HUE:
            hue(p[turns], out[first], out[first + height], out[first + 2 * height])
        for flag, place in ((SECOND_MIX, second), (LAST_MIX, last)):
            if flag == LAST_MIX and flags & CLIP:
                clip(out, first, height, out_channels)
            if flags & flag:
                for o in range(out_channels):
                    source[o] = out[first + o * height]
                mix(
                    p,
                    place,
                    place + size,
                    place + size + out_channels,
                    ones,
                    source,
                    out_channels,
                    out,
                    first,
                    height,
                    out_channels,
                )


@fused
def _along(g, slopes, at, cover_slope, to_cover, out):  # type: ignore[no-untyped-def]
    """The gradient of one coordinate over a row: sum over channels of g * slope, and what the coverage passes on."""
    apart()
    for u in range(len(out)):
        out[u] = to_cover[u] * cover_slope[u]
    for c in range(len(g)):
        x, s = g[c], slopes[at + c]
        for u in range(len(out)):
            out[u] += x[u] * s[u]


@fused
def _window_sums(sums, low, high, low_at, high_at, x, along):  # type: ignore[no-untyped-def]
    """Where the window held a coordinate, the gradient belongs to the window's edge."""
    apart()
    zero = along.dtype.type(0.0)
    for u in range(len(x)):
        if x[u] < low:
            sums[low_at] += along[u]
            along[u] = zero
        elif x[u] > high:
            sums[high_at] += along[u]
            along[u] = zero


@fused
def _map_sums(sums, v, projective, ramp, row, w, along_x, along_y, third):  # type: ignore[no-untyped-def]
    """Add a row's gradients of the nine numbers of the map."""
    apart()
    zero = w.dtype.type(0.0)
    x, y = row[0], row[1]
    if projective:
        for u in range(len(w)):
            # Zero where nothing was seen, even if the denominator or the coordinate is not a number there.
            seen = (along_x[u] != zero) | (along_y[u] != zero)
            share = (ramp.dtype.type(1.0) / w[u]) if seen else zero
            along_x[u] *= share
            along_y[u] *= share
            third[u] = -(along_x[u] * (x[u] if seen else zero) + along_y[u] * (y[u] if seen else zero))
    for k, along in ((0, along_x), (3, along_y), (6, third)):
        if k < 6 or projective:
            whole = row_sum(along)
            sums[k] += dot(along, ramp)
            sums[k + 1] += np.float64(whole) * v
            sums[k + 2] += whole


@entry
def backward(  # type: ignore[no-untyped-def]
    grad,
    img,
    meta,
    cubic,
    unit,
    maps,
    windows,
    params,
    needs,
    to_image,
    to_maps,
    to_windows,
    to_params,
    floats,
    index,
    taps,
    tables,
    start,
    stop,
):
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map or window, parameters).

    Args:
        grad: of the output, (batch * channels * height, width).
        to_image: flat, contiguous; this call owns the part of its samples.
        to_maps, to_windows, to_params: float64, one row per sample.
    """
    cast = grad.dtype.type
    n, height = meta[OUT_WIDTH], meta[OUT_HEIGHT]
    channels, out_channels, flags = meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    matrix, offset, turns, second, last = _places(flags, channels, out_channels)
    size, fill = out_channels * out_channels, offset + out_channels
    needs_image, needs_map, needs_params = needs
    zero, one = np.int64(0), np.int64(1)  # variables: a literal argument would compile its callee once more
    reads = needs_map or needs_params or flags & (HUE | CLIP) != 0
    grad, img, maps, windows, params = borrow(grad), borrow(img), borrow(maps), borrow(windows), borrow(params)
    to_image, to_maps, to_windows, to_params = borrow(to_image), borrow(to_maps), borrow(to_windows), borrow(to_params)
    floats, index, taps, tables = borrow(floats), borrow(index), borrow(taps), borrow(tables)
    row, edge = (floats[0], floats[1], floats[2], floats[3], index), (taps, tables[0], tables[1])
    ramp, ones, w, cover = floats[4], floats[5], floats[6], floats[7]
    to_cover, along_x, along_y, third = floats[8], floats[9], floats[10], floats[11]
    for u in range(n):
        ramp[u], ones[u], to_cover[u] = u, 1, 0
    at = 12
    source, to_source = floats[at : at + channels], floats[at + channels : at + 2 * channels]
    at += 2 * channels
    slopes = floats[at : at + (2 * channels + 2 if needs_map else 0)]
    at += 2 * channels + 2
    mixed = floats[at : at + 6 * out_channels].reshape(6, out_channels, n)
    after_first = mixed[0] if flags & FIRST_MIX else source
    after_hue = mixed[1] if flags & HUE else after_first
    after_second = mixed[2] if flags & SECOND_MIX else after_hue
    after_clip = mixed[3] if flags & CLIP else after_second
    g, spare = mixed[4], mixed[5]
    plane = meta[HEIGHT] * meta[WIDTH]
    for b in range(start, stop):
        window, p = windows[b * meta[WINDOW_STRIDE]], params[b * meta[PARAM_STRIDE]]
        own = np.uint64(b * channels * plane)
        if needs_image:
            to_image[b * channels * plane : (b + 1) * channels * plane] = cast(0.0)
        for v in range(height):
            locate(maps[b * meta[MAP_STRIDE]], v, meta[PROJECTIVE], ramp, row[0], row[1], w)
            outer, left, right, end = _gather(
                img, meta, cubic, unit, np.uint64(b * meta[STRIDE_B]), window, row, source, zero, one, cover, slopes, edge, reads
            )
            if reads:
                if flags & FIRST_MIX:
                    mix(p, matrix, offset, fill, cover, source, channels, after_first, zero, one, out_channels)
                if flags & HUE:
                    copy_rows(after_first, after_hue, zero, one, out_channels)
                    hue(p[turns], after_hue[0], after_hue[1], after_hue[2])
                if flags & SECOND_MIX:
                    mix(
                        p,
                        second,
                        second + size,
                        second + size + out_channels,
                        ones,
                        after_hue,
                        out_channels,
                        after_second,
                        zero,
                        one,
                        out_channels,
                    )
                if flags & CLIP:
                    copy_rows(after_second, after_clip, zero, one, out_channels)
                    clip(after_clip, zero, one, out_channels)
            for o in range(out_channels):
                g[o] = grad[(b * out_channels + o) * height + v]
            if flags & LAST_MIX:
                if needs_params:
                    mix_sums(
                        to_params[b], last, last + size, last + size + out_channels, ones, g, after_clip, out_channels, out_channels
                    )
                mix_backward(p, last, g, out_channels, spare, out_channels)
                g, spare = spare, g
            if flags & CLIP:
                clip_backward(after_second, g, out_channels)
            if flags & SECOND_MIX:
                if needs_params:
                    mix_sums(
                        to_params[b],
                        second,
                        second + size,
                        second + size + out_channels,
                        ones,
                        g,
                        after_hue,
                        out_channels,
                        out_channels,
                    )
                mix_backward(p, second, g, out_channels, spare, out_channels)
                g, spare = spare, g
            if flags & HUE:
                hue_backward(p[turns], after_first[0], after_first[1], after_first[2], g[0], g[1], g[2], third)
                if needs_params:
                    to_params[b, turns] += 6.0 * row_sum(third)
            if flags & FIRST_MIX:
                if needs_params:
                    mix_sums(to_params[b], matrix, offset, fill, cover, g, source, channels, out_channels)
                if needs_map:
                    to_cover[:] = cast(0.0)
                    for o in range(out_channels):
                        to_cover += (p[offset + o] - p[fill + o]) * g[o]
                mix_backward(p, matrix, g, out_channels, to_source, channels)
            else:
                copy_rows(g, to_source, zero, one, channels)
            if needs_map:
                _along(to_source, slopes, zero, slopes[2 * channels], to_cover, along_x)
                _along(to_source, slopes, channels, slopes[2 * channels + 1], to_cover, along_y)
                if len(window) == 4:
                    _window_sums(to_windows[b], window[0], window[2], zero, 2 * one, row[0], along_x)
                    _window_sums(to_windows[b], window[1], window[3], one, 3 * one, row[1], along_y)
                _map_sums(to_maps[b], v, meta[PROJECTIVE], ramp, row, w, along_x, along_y, third)
            if needs_image:
                scatter_interior(
                    to_image, own, channels, np.uint64(plane), np.uint64(meta[WIDTH]), row[4], row[2], row[3], to_source,
                    left, right, meta[STRIDE_X], meta[STRIDE_Y], row[0], row[1],
                )  # fmt: skip
                for a, z in ((outer, left), (right, end)):
                    scatter_edge(
                        to_image, own, channels, (meta[HEIGHT], meta[WIDTH]), meta[TAPS], cubic, meta[MODE], window, row[0], row[1],
                        edge[0], edge[1], edge[2], to_source, a, z,
                    )  # fmt: skip

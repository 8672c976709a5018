"""The two entry points: the output strip by strip, forward and backward.

Owns: the order of phases in a strip (coordinates, gather, colour) and, backward, the recomputation of what forward did.
Must not: know of tensors; everything comes as flat arrays, and `Meta` positions name the integers.
Read next: ``op.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import apart, borrow, entry, fused
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.warp.cpu.coordinates import FILLED, classify, displace, fractions, locate
from pellucid.kernels.warp.cpu.gather import gather_edge, gather_faded, gather_interior, only_interior, scale_rows
from pellucid.kernels.warp.cpu.hue import hue, hue_backward
from pellucid.kernels.warp.cpu.layout import META
from pellucid.kernels.warp.cpu.scatter import scatter_edge, scatter_interior
from pellucid.kernels.warp.cpu.stages import clip, clip_backward, copy_rows, dot, mix, mix_backward, mix_sums, row_sum
from pellucid.kernels.warp.layout import CLIP, FIRST_MIX, HUE, LAST_MIX, MATRIX, SECOND_MIX

__all__ = ["backward", "forward", "round_into"]

(BATCH, CHANNELS, HEIGHT, WIDTH, OUT_CHANNELS, OUT_HEIGHT, OUT_WIDTH, STRIDE_B, STRIDE_C, STRIDE_Y, STRIDE_X) = range(11)
(TAPS, MODE, PROJECTIVE, FLAGS, MAP_STRIDE, WINDOW_STRIDE, PARAM_STRIDE, STRIP, FIELD_STRIDE, OWN_STRIDE) = range(11, META)


@fused
def _boxes(meta, window, cast):  # type: ignore[no-untyped-def]
    """Boxes of coordinates: half-open, whose four bilinear taps are all inside (empty for other interpolations); and open, outside
    of which nothing is seen.
    """
    zero, far = cast(0.0), cast(np.inf)
    high_x, high_y = cast(meta[WIDTH] - 1), cast(meta[HEIGHT] - 1)
    inner, outer = (zero, high_x, zero, high_y), (-far, far, -far, far)
    if meta[MODE] == FILLED and len(window) == 0:
        reach = cast(max(meta[TAPS] // 2, 1))
        outer = (-reach, high_x + reach, -reach, high_y + reach)
    if len(window) == 4:
        inner = (max(zero, window[0]), min(high_x, window[2]), max(zero, window[1]), min(high_y, window[3]))
    if meta[TAPS] != 2:
        inner = (zero, zero, zero, zero)
    return inner, outer


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
def _gather(img, meta, cubic, unit, base, window, strip, kind, index, out, slopes, edge, reads):  # type: ignore[no-untyped-def]
    """Read one strip whose coordinates are in ``strip``: rows x, y, tx, ty, us, vs, w, cover.

    Returns:
        How many pixels are of kind 2 and of kind 1. Where ``reads`` is false nothing is read: the kinds and fractions are all that
        a linear adjoint needs.
    """
    tap_index, weight, slope = edge
    sc, sy, sx = np.uint64(meta[STRIDE_C]), np.uint64(meta[STRIDE_Y]), np.uint64(meta[STRIDE_X])
    channels = meta[CHANNELS]
    x, y, tx, ty, cover = strip[0], strip[1], strip[2], strip[3], strip[7]
    inner, outer = _boxes(meta, window, strip.dtype.type)
    inside, rest = classify(x, y, inner, outer, kind)
    if inside > 0:
        fractions(x, y, kind, meta[STRIDE_X], meta[STRIDE_Y], index, tx, ty)
    if not reads:
        return inside, rest
    if inside > 0:
        gather_interior(img, base, channels, sc, sx, sy, meta[OUT_WIDTH], kind, index, tx, ty, out, slopes)
    only_interior(kind, inside == len(kind), cover, out, channels, slopes)
    shape = (meta[HEIGHT], meta[WIDTH])
    if rest > 0 and meta[TAPS] == 2 and meta[MODE] == FILLED and len(window) == 0 and len(slopes) == 0:
        gather_faded(img, base, channels, shape, sc, sx, sy, x, y, kind, out, cover)
    elif rest > 0:
        gather_edge(
            img, base, channels, shape, sc, sx, sy, meta[TAPS], cubic, meta[MODE], window, x, y, kind, tap_index, weight, slope,
            out, cover, slopes,
        )  # fmt: skip
    if unit != cover.dtype.type(1.0):  # linear, so that it may come last
        scale_rows(out, channels, unit)
        if len(slopes) > 0:
            scale_rows(slopes, 2 * channels, unit)
    return inside, rest


@fused
def _pixels(strip, width):  # type: ignore[no-untyped-def]
    """Write what a strip's pixels have whatever the sample: their columns, their rows from 0, and ones."""
    apart()
    us, vs, ones = strip[4], strip[5], strip[8]
    for u in range(len(us)):
        us[u], vs[u], ones[u] = u % width, u // width, 1


@fused
def _fetch(img, meta, base, sink):  # type: ignore[no-untyped-def]
    """Read a sample once in memory's order, so that it waits in the second cache when its pixels are wanted in another order.

    A turned row crosses many lines of the image, which no hardware sees coming: without this the warp waits a third of its time.
    Left out where the sample does not fit (a megabyte) or most of it is not going to be read.
    """
    apart()
    channels, height, width = meta[CHANNELS], meta[HEIGHT], meta[WIDTH]
    across = (width - 1) * meta[STRIDE_X] + 1  # to the last element of a row, not beyond
    planes, row = (1, across + channels - 1) if meta[STRIDE_C] == 1 else (channels, across)
    line = 64 // img.itemsize
    small = planes * height * row <= (1 << 20) // img.itemsize
    if not small or height * width > 4 * meta[OUT_HEIGHT] * meta[OUT_WIDTH]:
        return
    total = sink[0]
    for c in range(planes):
        for y in range(height):
            at = base + np.uint64(c * meta[STRIDE_C] + y * meta[STRIDE_Y])
            for k in range(0, row, line):
                total += sink.dtype.type(img[at + np.uint64(k)])
    sink[0] = total  # or the compiler would leave out the reading


@fused
def _store(source, target, first, at, rows):  # type: ignore[no-untyped-def]
    """Copy a strip to its place in the output."""
    apart()
    for o in range(rows):
        x, y = source[o], target[first + o][at:]
        for u in range(len(x)):
            y[u] = x[u]


@fused
def _load(source, first, at, target, rows):  # type: ignore[no-untyped-def]
    """Copy a strip from its place in the output's gradient."""
    apart()
    for o in range(rows):
        x, y = source[first + o][at:], target[o]
        for u in range(len(y)):
            y[u] = x[u]


@entry
def forward(  # type: ignore[no-untyped-def]
    img, meta, cubic, unit, maps, windows, params, fields, out, floats, index, kind, taps, tables, start, stop
):
    """Compute strips start to stop, each some whole rows of a sample, into ``out`` (batch * channels, height * width)."""
    width = meta[OUT_WIDTH]
    channels, out_channels, flags = meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    wide = max(channels, out_channels)
    strips = (meta[OUT_HEIGHT] + meta[STRIP] - 1) // meta[STRIP]
    matrix, offset, turns, second, last = _places(flags, channels, out_channels)
    size = out_channels * out_channels
    img, maps, windows, params, out = numbers(img), borrow(maps), borrow(windows), borrow(params), steps(out)
    fields = borrow(fields)
    floats, index, kind, taps, tables = borrow(floats), borrow(index), borrow(kind), borrow(taps), borrow(tables)
    edge, slopes = (taps, tables[0], tables[1]), floats[:0].reshape(0, 0)
    before, sample = 0, -1
    for r in range(start, stop):
        b = r // strips
        v = (r - b * strips) * meta[STRIP]
        n = min(meta[STRIP], meta[OUT_HEIGHT] - v) * width
        strip = floats[: n * (9 + 2 * wide)].reshape(9 + 2 * wide, n)  # contiguous rows, or nothing is vectorised
        if n != before:
            _pixels(strip, width)
            before = n
        if b != sample:
            sample = b
            _fetch(img, meta, np.uint64(b * meta[STRIDE_B]), strip[6])
        window, p = windows[b * meta[WINDOW_STRIDE]], params[b * meta[PARAM_STRIDE]]
        ones, source, result = strip[8], strip[9 : 9 + wide], strip[9 + wide : 9 + 2 * wide]
        locate(maps[b * meta[MAP_STRIDE]], v, meta[PROJECTIVE], strip[4], strip[5], strip[0], strip[1], strip[6])
        if fields.size > 0:
            displace(fields, 2 * b * meta[FIELD_STRIDE], v * width, strip[0], strip[1])
        read = source if flags & FIRST_MIX else result
        _gather(img, meta, cubic, unit, np.uint64(b * meta[STRIDE_B]), window, strip, kind[:n], index[:n], read, slopes, edge, True)
        if flags & FIRST_MIX:
            mix(p, matrix, offset, offset + out_channels, strip[7], source, channels, result, out_channels)
        if flags & HUE:
            hue(p[turns], result[0], result[1], result[2])
        for flag, place in ((SECOND_MIX, second), (LAST_MIX, last)):
            if flag == LAST_MIX and flags & CLIP:
                clip(result, out_channels)
            if flags & flag:
                bias = place + size
                mix(p, place, bias, bias + out_channels, ones, result, out_channels, source, out_channels)
                source, result = result, source
        _store(result, out, b * out_channels, v * width, out_channels)


@fused
def _to_cover(p, offset, fill, g, rows, to_cover):  # type: ignore[no-untyped-def]
    """The gradient of the coverage: what offset and fill make of it."""
    apart()
    to_cover[:] = p.dtype.type(0.0)
    for o in range(rows):
        weight, row = p[offset + o] - p[fill + o], g[o]
        for u in range(len(row)):
            to_cover[u] += weight * row[u]


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
def _map_sums(sums, v, projective, strip, along_x, along_y, third):  # type: ignore[no-untyped-def]
    """Add a strip's gradients of the nine numbers of the map."""
    apart()
    x, y, us, vs, w = strip[0], strip[1], strip[4], strip[5], strip[6]
    zero = w.dtype.type(0.0)
    if projective:
        for u in range(len(w)):
            # Zero where nothing was seen, even if the denominator or the coordinate is not a number there.
            seen = (along_x[u] != zero) | (along_y[u] != zero)
            share = (w.dtype.type(1.0) / w[u]) if seen else zero
            along_x[u] *= share
            along_y[u] *= share
            third[u] = -(along_x[u] * (x[u] if seen else zero) + along_y[u] * (y[u] if seen else zero))
    for k, along in ((0, along_x), (3, along_y), (6, third)):
        if k < 6 or projective:
            whole = row_sum(along)
            sums[k] += dot(along, us)
            sums[k + 1] += np.float64(whole) * v + dot(along, vs)
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
    fields,
    needs,
    to_image,
    to_maps,
    to_windows,
    to_params,
    to_fields,
    floats,
    index,
    kind,
    taps,
    tables,
    start,
    stop,
):
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map or window, parameters, field).

    Args:
        grad: of the output, (batch * channels, height * width).
        to_image: flat, contiguous; this call owns the part of its samples, which are OWN_STRIDE apart.
        to_maps, to_windows, to_params: float64, one row per sample.
        to_fields: (batch * 2, height * width).
    """
    width = meta[OUT_WIDTH]
    channels, out_channels, flags = meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    matrix, offset, turns, second, last = _places(flags, channels, out_channels)
    size, fill = out_channels * out_channels, offset + out_channels
    needs_image, needs_map, needs_params, needs_field = needs
    needs_slopes = needs_map or needs_field
    zero, one = np.int64(0), np.int64(1)  # variables: a literal argument would compile its callee once more
    reads = needs_slopes or needs_params or flags & (HUE | CLIP) != 0
    grad, img, maps, windows, params = numbers(grad), numbers(img), borrow(maps), borrow(windows), borrow(params)
    to_image, to_maps, to_windows, to_params = borrow(to_image), borrow(to_maps), borrow(to_windows), borrow(to_params)
    fields, to_fields = borrow(fields), borrow(to_fields)
    floats, index, kind, taps, tables = borrow(floats), borrow(index), borrow(kind), borrow(taps), borrow(tables)
    edge = (taps, tables[0], tables[1])
    plane = meta[HEIGHT] * meta[WIDTH]
    before, height = 0, 15 + 4 * channels + 6 * out_channels
    strips = (meta[OUT_HEIGHT] + meta[STRIP] - 1) // meta[STRIP]
    for r in range(start * strips, stop * strips):
        b = r // strips
        v = (r - b * strips) * meta[STRIP]
        window, p = windows[b * meta[WINDOW_STRIDE]], params[b * meta[PARAM_STRIDE]]
        own = np.uint64(b * meta[OWN_STRIDE])
        if needs_image and v == 0:
            first = b * meta[OWN_STRIDE]
            to_image[first : first + channels * plane] = floats.dtype.type(0.0)
        n = min(meta[STRIP], meta[OUT_HEIGHT] - v) * width
        strip, here, where = floats[: n * height].reshape(height, n), kind[:n], index[:n]
        if v == 0 and reads:
            _fetch(img, meta, np.uint64(b * meta[STRIDE_B]), strip[6])
        if n != before:
            _pixels(strip, width)
            strip[9] = floats.dtype.type(0.0)
            before = n
        ones, to_cover, along_x, along_y, third = strip[8], strip[9], strip[10], strip[11], strip[12]
        k = 13
        source, to_source = strip[k : k + channels], strip[k + channels : k + 2 * channels]
        k += 2 * channels
        slopes = strip[k : k + (2 * channels + 2 if needs_slopes else 0)]
        k += 2 * channels + 2
        after_first = strip[k : k + out_channels] if flags & FIRST_MIX else source
        after_hue = strip[k + out_channels : k + 2 * out_channels] if flags & HUE else after_first
        after_second = strip[k + 2 * out_channels : k + 3 * out_channels] if flags & SECOND_MIX else after_hue
        after_clip = strip[k + 3 * out_channels : k + 4 * out_channels] if flags & CLIP else after_second
        g, spare = strip[k + 4 * out_channels : k + 5 * out_channels], strip[k + 5 * out_channels : k + 6 * out_channels]
        locate(maps[b * meta[MAP_STRIDE]], v, meta[PROJECTIVE], strip[4], strip[5], strip[0], strip[1], strip[6])
        if fields.size > 0:
            displace(fields, 2 * b * meta[FIELD_STRIDE], v * width, strip[0], strip[1])
        base = np.uint64(b * meta[STRIDE_B])
        inside, rest = _gather(img, meta, cubic, unit, base, window, strip, here, where, source, slopes, edge, reads)
        if reads:
            if flags & FIRST_MIX:
                mix(p, matrix, offset, fill, strip[7], source, channels, after_first, out_channels)
            if flags & HUE:
                copy_rows(after_first, after_hue, out_channels)
                hue(p[turns], after_hue[0], after_hue[1], after_hue[2])
            if flags & SECOND_MIX:
                bias = second + size
                mix(p, second, bias, bias + out_channels, ones, after_hue, out_channels, after_second, out_channels)
            if flags & CLIP:
                copy_rows(after_second, after_clip, out_channels)
                clip(after_clip, out_channels)
        _load(grad, b * out_channels, v * width, g, out_channels)
        if flags & LAST_MIX:
            if needs_params:
                bias = last + size
                mix_sums(to_params[b], last, bias, bias + out_channels, ones, g, after_clip, out_channels, out_channels)
            mix_backward(p, last, g, out_channels, spare, out_channels)
            g, spare = spare, g
        if flags & CLIP:
            clip_backward(after_second, g, out_channels)
        if flags & SECOND_MIX:
            if needs_params:
                bias = second + size
                mix_sums(to_params[b], second, bias, bias + out_channels, ones, g, after_hue, out_channels, out_channels)
            mix_backward(p, second, g, out_channels, spare, out_channels)
            g, spare = spare, g
        if flags & HUE:
            hue_backward(p[turns], after_first[0], after_first[1], after_first[2], g[0], g[1], g[2], third)
            if needs_params:
                to_params[b, turns] += 6.0 * row_sum(third)
        if flags & FIRST_MIX:
            if needs_params:
                mix_sums(to_params[b], matrix, offset, fill, strip[7], g, source, channels, out_channels)
            if needs_slopes:
                _to_cover(p, offset, fill, g, out_channels, to_cover)
            mix_backward(p, matrix, g, out_channels, to_source, channels)
        else:
            copy_rows(g, to_source, channels)
        if needs_slopes:
            _along(to_source, slopes, zero, slopes[2 * channels], to_cover, along_x)
            _along(to_source, slopes, channels, slopes[2 * channels + 1], to_cover, along_y)
            if len(window) == 4:
                _window_sums(to_windows[b], window[0], window[2], zero, 2 * one, strip[0], along_x)
                _window_sums(to_windows[b], window[1], window[3], one, 3 * one, strip[1], along_y)
        if needs_field:
            _store(strip[10:12], to_fields, 2 * b, v * width, 2 * one)
        if needs_image and inside > 0:
            if meta[STRIDE_X] != 1 or meta[STRIDE_Y] != meta[WIDTH]:
                fractions(strip[0], strip[1], here, one, meta[WIDTH], where, strip[2], strip[3])
            scatter_interior(
                to_image, own, channels, np.uint64(plane), np.uint64(meta[WIDTH]), here, where, strip[2], strip[3], to_source
            )
        if needs_image and rest > 0:
            scatter_edge(
                to_image, own, channels, (meta[HEIGHT], meta[WIDTH]), meta[TAPS], cubic, meta[MODE], window, strip[0], strip[1],
                here, edge[0], edge[1], edge[2], to_source,
            )  # fmt: skip
        if needs_map:
            if fields.size > 0 and meta[PROJECTIVE]:  # the projected coordinates again, which alone the map moves
                locate(maps[b * meta[MAP_STRIDE]], v, meta[PROJECTIVE], strip[4], strip[5], strip[0], strip[1], strip[6])
            _map_sums(to_maps[b], v, meta[PROJECTIVE], strip, along_x, along_y, third)


@entry
def round_into(source, target):  # type: ignore[no-untyped-def]
    """Write numbers into an array of 16-bit floats."""
    target = steps(target)
    for u in range(len(source)):
        target[u] = source[u]

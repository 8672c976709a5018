"""The two entry points: the output strip by strip, forward and backward.

Owns: the order of phases (staging a band; in each of its strips coordinates, gather, colour) and, backward, the recomputation of
what forward did.
Must not: know of tensors; everything comes as flat arrays, and `Meta` positions name the integers.
Read next: ``op.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import apart, borrow, entry, fused
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.warp.cpu.coordinates import BORDER, FILLED, boxes, displace, locate, settle
from pellucid.kernels.warp.cpu.copies import add_strip, copy_strip, moves_whole_pixels
from pellucid.kernels.warp.cpu.gather import gather_edge, gather_faded, gather_staged, weigh
from pellucid.kernels.warp.cpu.hue import hue, hue_backward
from pellucid.kernels.warp.cpu.layout import META
from pellucid.kernels.warp.cpu.scatter import scatter_edge, scatter_staged
from pellucid.kernels.warp.cpu.staged import choose_band, stage, unstage
from pellucid.kernels.warp.cpu.stages import clip, clip_backward, copy_rows, dot, mix, mix_backward, mix_sums, row_sum
from pellucid.kernels.warp.layout import CLIP, FIRST_MIX, HUE, LAST_MIX, MATRIX, SECOND_MIX

__all__ = ["backward", "forward", "round_into"]

(BATCH, CHANNELS, HEIGHT, WIDTH, OUT_CHANNELS, OUT_HEIGHT, OUT_WIDTH, STRIDE_B, STRIDE_C, STRIDE_Y, STRIDE_X) = range(11)
(TAPS, MODE, PROJECTIVE, FLAGS, MAP_STRIDE, WINDOW_STRIDE, PARAM_STRIDE, STRIP, BLOCK, BLOCKS) = range(11, 21)
FIELD_STRIDE, OWN_STRIDE = range(21, META)
(ROWS, STAGED, LEFT, TOP, COLUMNS, LINES, PLANE, RING) = range(8)


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
def _rule(meta, window):  # type: ignore[no-untyped-def]
    """The border rule; a window clamps, whatever it is."""
    return BORDER if len(window) == 4 else meta[MODE]


@fused
def _whole(meta, m, fields, window):  # type: ignore[no-untyped-def]
    """Whether a sample is copied rather than resampled."""
    shape, size = (meta[HEIGHT], meta[WIDTH]), (meta[OUT_HEIGHT], meta[OUT_WIDTH])
    return fields.size == 0 and moves_whole_pixels(m, meta[PROJECTIVE], meta[MODE], window, shape, size)


@fused
def _copied(img, meta, unit, b, m, v, first, width, out, cover):  # type: ignore[no-untyped-def]
    """Copy a strip of such a sample into ``out``, and write its coverage."""
    shape, strides = (meta[HEIGHT], meta[WIDTH]), (meta[STRIDE_C], meta[STRIDE_Y], meta[STRIDE_X])
    copy_strip(img, b * meta[STRIDE_B], meta[CHANNELS], shape, strides, unit, m, v, first, width, out, cover)


@fused
def _band(img, meta, unit, m, fields, window, b, v, last, strip, frame, quad, reads):  # type: ignore[no-untyped-def]
    """Choose the next band of a sample, rows v to ``last`` at most, and stage it if it is to be read."""
    apart()
    shape = (meta[HEIGHT], meta[WIDTH])
    _, _, held = boxes(shape, meta[TAPS], meta[MODE], window, True, strip.dtype.type)
    planes = (meta[CHANNELS] + 2) // 3
    row, across, rule = 2 * b * meta[FIELD_STRIDE], meta[OUT_WIDTH], _rule(meta, window)
    choose_band(
        m, meta[PROJECTIVE], fields, row, across, shape, meta[TAPS], rule, v, last, meta[STRIP], planes, len(quad), strip, held,
        frame,
    )  # fmt: skip
    if frame[STAGED] == 1 and reads:
        strides = (meta[STRIDE_C], meta[STRIDE_Y], meta[STRIDE_X])
        stage(img, b * meta[STRIDE_B], meta[CHANNELS], shape, strides, unit, rule, frame, quad)


@fused
def _settle(meta, window, strip, frame, kind, index):  # type: ignore[no-untyped-def]
    """Classify a strip whose coordinates are known, and split those that read the stage; how many are of kind 2 and of kind 1."""
    shape, staged = (meta[HEIGHT], meta[WIDTH]), frame[STAGED] == 1
    inner, outer, held = boxes(shape, meta[TAPS], meta[MODE], window, staged, strip.dtype.type)
    corner, lines = (frame[LEFT] - frame[RING], frame[TOP] - frame[RING]), (frame[LINES], frame[COLUMNS])
    return settle(strip[0], strip[1], meta[TAPS], inner, outer, held, corner, lines, kind, index, strip[2], strip[3])


@fused
def _gather(img, meta, parameter, unit, base, window, strip, frame, quad, cubics, quads, kind, index, rest, out, edge):  # type: ignore[no-untyped-def]
    """Read one settled strip into ``out``, and its coverage into the strip.

    Where ``cubics`` or ``edge`` is None, what would need it is not compiled.
    """
    sc, sy, sx = np.uint64(meta[STRIDE_C]), np.uint64(meta[STRIDE_Y]), np.uint64(meta[STRIDE_X])
    channels, shape = meta[CHANNELS], (meta[HEIGHT], meta[WIDTH])
    x, y, cover = strip[0], strip[1], strip[7]
    if frame[STAGED] == 1:
        if cubics is not None:
            weigh(strip[2], strip[3], parameter, cubics)
        gather_staged(
            quad, frame[PLANE], frame[COLUMNS], channels, meta[TAPS], index, strip[2], strip[3], cubics, quads, out, cover
        )  # fmt: skip
        if cubics is not None and _rule(meta, window) != FILLED:
            _cover_fully(kind, cover)
    else:
        _clear(out, channels, cover)
    if edge is None:
        if rest > 0:
            gather_faded(img, base, channels, shape, sc, sx, sy, unit, x, y, kind, out, cover)
    else:
        if rest > 0:
            tap_index, weight, slope = edge
            gather_edge(
                img, base, channels, shape, sc, sx, sy, unit, meta[TAPS], parameter, meta[MODE], window, x, y, kind, tap_index,
                weight, slope, out, cover,
            )  # fmt: skip


@fused
def _cover_fully(kind, cover):  # type: ignore[no-untyped-def]
    """Where nothing fades, the sum of weights is one but for rounding."""
    apart()
    for u in range(len(cover)):
        cover[u] = 1 if kind[u] == 2 else 0


@fused
def _clear(out, channels, cover):  # type: ignore[no-untyped-def]
    zero = cover.dtype.type(0.0)
    cover[:] = zero
    for c in range(channels):
        out[c, :] = zero


@fused
def _pixels(strip, first, width):  # type: ignore[no-untyped-def]
    """Write what a strip's pixels have whatever the sample: their columns from ``first`` on, their rows from 0, and ones."""
    apart()
    us, vs, ones = strip[4], strip[5], strip[8]
    for u in range(len(us)):
        us[u], vs[u], ones[u] = first + u % width, u // width, 1


@fused
def _place(meta, r):  # type: ignore[no-untyped-def]
    """Where a strip lies: (sample, first row, first column, columns). Strips go down a block of columns, then to the next."""
    strips = (meta[OUT_HEIGHT] + meta[STRIP] - 1) // meta[STRIP]
    b, k = r // (strips * meta[BLOCKS]), r % (strips * meta[BLOCKS])
    first = k // strips * meta[BLOCK]
    return b, k % strips * meta[STRIP], first, min(meta[BLOCK], meta[OUT_WIDTH] - first)


@fused
def _store(source, target, first, at, width, step, rows):  # type: ignore[no-untyped-def]
    """Copy a strip, rows of ``width`` pixels, to its place in the output, whose rows lie ``step`` apart."""
    apart()
    for o in range(rows):
        lines = len(source[o]) // width
        for k in range(1 if width == step else lines):
            x, y = source[o][k * width :], target[first + o][at + k * step :]
            for u in range(lines * width if width == step else width):
                y[u] = x[u]


@fused
def _load(source, first, at, width, step, target, rows):  # type: ignore[no-untyped-def]
    """Copy a strip from its place in the output's gradient."""
    apart()
    for o in range(rows):
        lines = len(target[o]) // width
        for k in range(1 if width == step else lines):
            x, y = source[first + o][at + k * step :], target[o][k * width :]
            for u in range(lines * width if width == step else width):
                y[u] = x[u]


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
    matrix, offset, turns, second, last = _places(flags, channels, out_channels)
    size, rows = out_channels * out_channels, 13 + 2 * wide
    img, maps, windows, params, out = numbers(img), borrow(maps), borrow(windows), borrow(params), steps(out)
    fields = borrow(fields)
    floats, quad, index, kind = borrow(floats), borrow(quad), borrow(index), borrow(kind)
    before, band = (0, 0), 0
    for r in range(start, stop):
        b, v, first, width = _place(meta, r)
        n = min(meta[STRIP], meta[OUT_HEIGHT] - v) * width
        strip = floats[: n * rows].reshape(rows, n)  # contiguous rows, or nothing is vectorised
        if before != (n, first):
            _pixels(strip, first, width)
            before = (n, first)
        m, window, p = maps[b * meta[MAP_STRIDE]], windows[b * meta[WINDOW_STRIDE]], params[b * meta[PARAM_STRIDE]]
        whole = _whole(meta, m, fields, window)
        if v == 0 or r == start:
            frame[ROWS] = band = 0
        if not whole and v >= band:
            end = min(meta[OUT_HEIGHT], v + (stop - r) * meta[STRIP])
            _band(img, meta, unit, m, fields, window, b, v, end, strip, frame, quad, True)
            band = v + frame[ROWS]
        ones, quads = strip[8], floats[9 * n : 13 * n]
        source, result = strip[13 : 13 + wide], strip[13 + wide : 13 + 2 * wide]
        read = source if flags & FIRST_MIX else result
        if whole:
            _copied(img, meta, unit, b, m, v, first, width, read, strip[7])
        else:
            locate(m, v, meta[PROJECTIVE], strip[4], strip[5], strip[0], strip[1], strip[6])
            if fields.size > 0:
                at = v * meta[OUT_WIDTH] + first
                displace(fields, 2 * b * meta[FIELD_STRIDE], at, width, meta[OUT_WIDTH], strip[0], strip[1])
            _, rest = _settle(meta, window, strip, frame, kind[:n], index[:n])
            base = np.uint64(b * meta[STRIDE_B])
            _gather(img, meta, cubic, unit, base, window, strip, frame, quad, cubics, quads, kind[:n], index[:n], rest, read, edge)
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
        _store(result, out, b * out_channels, v * meta[OUT_WIDTH] + first, width, meta[OUT_WIDTH], out_channels)


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
def _keep(kind, low, high, last, x, along):  # type: ignore[no-untyped-def]
    """Where a clamp to the image held a coordinate, moving it changes nothing; ``low`` and ``high`` are the window's, before."""
    apart()
    zero = along.dtype.type(0.0)
    for u in range(len(x)):
        a = min(max(x[u], low), high)
        along[u] = zero if (kind[u] == 2) & ((a < zero) | (a >= last)) else along[u]


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
    quad,
    into,
    index,
    kind,
    cubics,
    frame,
    edge,
    room,
    start,
    stop,
):
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map or window, parameters, field).

    Args:
        grad: of the output, (batch * channels, height * width).
        to_image: flat, contiguous; this call owns the part of its samples, which are OWN_STRIDE apart.
        to_maps, to_windows, to_params: float64, one row per sample.
        to_fields: (batch * 2, height * width).
        room: what ``edge`` is where it is not None.
    """
    channels, out_channels, flags = meta[CHANNELS], meta[OUT_CHANNELS], meta[FLAGS]
    matrix, offset, turns, second, last = _places(flags, channels, out_channels)
    size, fill = out_channels * out_channels, offset + out_channels
    needs_image, needs_map, needs_params, needs_field = needs
    needs_slopes = needs_map or needs_field
    shares = needs_image, needs_slopes
    zero, one = np.int64(0), np.int64(1)  # variables: a literal argument would compile its callee once more
    reads = needs_slopes or needs_params or flags & (HUE | CLIP) != 0
    grad, img, maps, windows, params = numbers(grad), numbers(img), borrow(maps), borrow(windows), borrow(params)
    to_image, to_maps, to_windows, to_params = borrow(to_image), borrow(to_maps), borrow(to_windows), borrow(to_params)
    fields, to_fields = borrow(fields), borrow(to_fields)
    floats, quad, into, index, kind = borrow(floats), borrow(quad), borrow(into), borrow(index), borrow(kind)
    shape, strides = (meta[HEIGHT], meta[WIDTH]), (meta[STRIDE_C], meta[STRIDE_Y], meta[STRIDE_X])
    plane = meta[HEIGHT] * meta[WIDTH]
    planes = (channels + 2) // 3
    before, band, height = (0, 0), 0, 18 + 2 * channels + 6 * out_channels
    strips = (meta[OUT_HEIGHT] + meta[STRIP] - 1) // meta[STRIP] * meta[BLOCKS]
    for r in range(start * strips, stop * strips):
        b, v, first, width = _place(meta, r)
        m, window, p = maps[b * meta[MAP_STRIDE]], windows[b * meta[WINDOW_STRIDE]], params[b * meta[PARAM_STRIDE]]
        base, own = np.uint64(b * meta[STRIDE_B]), b * meta[OWN_STRIDE]
        n = min(meta[STRIP], meta[OUT_HEIGHT] - v) * width
        strip, here, where = floats[: n * height].reshape(height, n), kind[:n], index[:n]
        if before != (n, first):
            _pixels(strip, first, width)
            strip[9] = strip[17] = floats.dtype.type(0.0)
            before = (n, first)
        if v == 0:
            frame[ROWS] = band = 0
            if needs_image and first == 0:
                to_image[own : own + channels * plane] = floats.dtype.type(0.0)
        whole = not needs_slopes and _whole(meta, m, fields, window)  # a copy has no slopes
        if not whole and v >= band:
            _band(img, meta, unit, m, fields, window, b, v, meta[OUT_HEIGHT], strip, frame, quad, reads)
            band = v + frame[ROWS]
            if frame[STAGED] == 1 and needs_image:
                into[: 8 + 2 * planes * frame[PLANE]] = floats.dtype.type(0.0)
        ones, to_cover, along_x, along_y, third, quads = (
            strip[8],
            strip[9],
            strip[10],
            strip[11],
            strip[12],
            floats[13 * n : 17 * n],
        )
        k = 18
        source, to_source = strip[k : k + channels], strip[k + channels : k + 2 * channels]
        k += 2 * channels
        after_first = strip[k : k + out_channels] if flags & FIRST_MIX else source
        after_hue = strip[k + out_channels : k + 2 * out_channels] if flags & HUE else after_first
        after_second = strip[k + 2 * out_channels : k + 3 * out_channels] if flags & SECOND_MIX else after_hue
        after_clip = strip[k + 3 * out_channels : k + 4 * out_channels] if flags & CLIP else after_second
        g, spare = strip[k + 4 * out_channels : k + 5 * out_channels], strip[k + 5 * out_channels : k + 6 * out_channels]
        rest = zero
        if not whole:
            locate(m, v, meta[PROJECTIVE], strip[4], strip[5], strip[0], strip[1], strip[6])
            if fields.size > 0:
                at = v * meta[OUT_WIDTH] + first
                displace(fields, 2 * b * meta[FIELD_STRIDE], at, width, meta[OUT_WIDTH], strip[0], strip[1])
            _, rest = _settle(meta, window, strip, frame, here, where)
        if whole and reads:
            _copied(img, meta, unit, b, m, v, first, width, source, strip[7])
        elif reads:
            _gather(img, meta, cubic, unit, base, window, strip, frame, quad, cubics, quads, here, where, rest, source, edge)
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
        _load(grad, b * out_channels, v * meta[OUT_WIDTH] + first, width, meta[OUT_WIDTH], g, out_channels)
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
        staged, rule = not whole and frame[STAGED] == 1, _rule(meta, window)
        if whole and needs_image:
            add_strip(to_image, own, channels, shape, m, v, first, width, to_source)
        if staged:
            if cubics is not None and not reads:
                weigh(strip[2], strip[3], cubic, cubics)
            scatter_staged(
                quad, into[8:], frame[PLANE], frame[COLUMNS], channels, meta[TAPS], shares, where, strip[2], strip[3], cubics,
                to_source, to_cover if rule == FILLED else strip[17], strip[17], quads, along_x, along_y,
            )  # fmt: skip
        if not whole and (rest > 0 or not staged):
            scatter_edge(
                img, base, strides, unit, to_image, np.uint64(own), channels, shape, shares, meta[TAPS], cubic, meta[MODE], window,
                strip[0], strip[1], here, room[0], room[1], room[2], to_source, to_cover, along_x, along_y,
            )  # fmt: skip
        if needs_slopes:
            if staged and rule == BORDER and meta[TAPS] == 2:
                far = floats.dtype.type(np.inf)
                low_x, low_y, high_x, high_y = -far, -far, far, far
                if len(window) == 4:
                    low_x, low_y, high_x, high_y = window[0], window[1], window[2], window[3]
                _keep(here, low_x, high_x, floats.dtype.type(meta[WIDTH] - 1), strip[0], along_x)
                _keep(here, low_y, high_y, floats.dtype.type(meta[HEIGHT] - 1), strip[1], along_y)
            if len(window) == 4:
                _window_sums(to_windows[b], window[0], window[2], zero, 2 * one, strip[0], along_x)
                _window_sums(to_windows[b], window[1], window[3], one, 3 * one, strip[1], along_y)
        if needs_field:
            _store(strip[10:12], to_fields, 2 * b, v * meta[OUT_WIDTH] + first, width, meta[OUT_WIDTH], 2 * one)
        if needs_map:
            if fields.size > 0 and meta[PROJECTIVE]:  # the projected coordinates again, which alone the map moves
                locate(m, v, meta[PROJECTIVE], strip[4], strip[5], strip[0], strip[1], strip[6])
            _map_sums(to_maps[b], v, meta[PROJECTIVE], strip, along_x, along_y, third)
        if staged and needs_image and v + meta[STRIP] >= band:
            unstage(into, channels, shape, rule, frame, own, quads, to_image)


@entry
def round_into(source, target):  # type: ignore[no-untyped-def]
    """Write numbers into an array of narrower ones."""
    target = steps(target)
    for u in range(len(source)):
        target[u] = source[u]

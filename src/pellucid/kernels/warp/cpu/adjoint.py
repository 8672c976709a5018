"""The way back: strip by strip, after recomputing what forward did.

Owns: the order of phases, and the sums over coordinates that give gradients of maps and windows.
Must not: know of tensors; everything comes as flat arrays, and named numbers.
Read next: ``op.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, fused, noinline, without_refcount
from pellucid.kernels.narrow import numbers, steps
from pellucid.kernels.stages.chain import CLIP, FIRST_MIX, GROUND, HUE, LAST_MIX, SECOND_MIX, STAGES
from pellucid.kernels.stages.printed.hue import hue_backward
from pellucid.kernels.warp.cpu.coordinates import BORDER, locate
from pellucid.kernels.warp.cpu.copies import add_strip
from pellucid.kernels.warp.cpu.footprint import add_table, read_table, table_of
from pellucid.kernels.warp.cpu.gather import weigh
from pellucid.kernels.warp.cpu.hue import hue
from pellucid.kernels.warp.cpu.links import blend, chain_rows, find, trace_back, unblend
from pellucid.kernels.warp.cpu.staged import clear, unstage, unstaged_rows
from pellucid.kernels.warp.cpu.stages import (
    bend,
    bend_backward,
    clip,
    clip_backward,
    copy_rows,
    dot,
    mix,
    mix_backward,
    mix_sums,
    row_sum,
)
from pellucid.kernels.warp.cpu.stretched import add_stretched, read_stretched
from pellucid.kernels.warp.cpu.strips import (
    PLANE,
    ROWS,
    STAGED,
    announce,
    at_sample,
    copy_pixels,
    find_strip,
    is_copy,
    load_strip,
    next_band,
    parameter_places,
    read_strip,
    rule_of,
    scatter_strip,
    store_strip,
    strip_at,
    write_pixels,
)

__all__ = ["backward", "round_into"]


@fused
def _to_cover(p, offset, fill, g, rows, to_cover):  # type: ignore[no-untyped-def]
    """The gradient of the coverage: what offset and fill make of it."""
    noinline()
    to_cover[:] = p.dtype.type(0.0)
    for o in range(rows):
        weight, row = p[offset + o] - p[fill + o], g[o]
        for u in range(len(row)):
            to_cover[u] += weight * row[u]


@fused
def _keep(kind, low, high, last, x, along):  # type: ignore[no-untyped-def]
    """Where a clamp to the image held a coordinate, moving it changes nothing; ``low`` and ``high`` are the window's, before."""
    noinline()
    zero = along.dtype.type(0.0)
    for u in range(len(x)):
        a = min(max(x[u], low), high)
        along[u] = zero if (kind[u] == 2) & ((a < zero) | (a >= last)) else along[u]


@fused
def _window_sums(sums, low, high, low_at, high_at, x, along):  # type: ignore[no-untyped-def]
    """Where the window held a coordinate, the gradient belongs to the window's edge."""
    noinline()
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
    noinline()
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
    grad, img, call, rows, fields, chain, tables, shapes, needs, sums, room, cubics, edge, bends, start, stop
):
    """Gradients of the samples start <= b < stop; ``needs`` is (image, map or window or canvases or table, parameters, field).

    Args:
        grad: of the output, (batch * channels, height * width).
    """
    channels, out_channels, flags = call.channels, call.out_channels, call.flags
    matrix, offset, hue_shift, second, bent, last, fills = parameter_places(flags, channels, out_channels)
    grounds = out_channels if flags & GROUND else 0
    size, fill = out_channels * out_channels, offset + out_channels
    needs_image, needs_map, needs_params, needs_field = needs
    needs_slopes = needs_map or needs_field
    shares = needs_image, needs_slopes
    zero, one = np.int64(0), np.int64(1)  # variables: a literal argument would compile its callee once more
    reads = needs_slopes or needs_params or flags & STAGES & ~(SECOND_MIX | LAST_MIX) != 0
    grad, img = numbers(grad), numbers(img)
    maps, windows, params = without_refcount(rows.maps), without_refcount(rows.windows), without_refcount(rows.params)
    pictures = without_refcount(rows.pictures)
    to_image, to_maps, to_windows = without_refcount(sums.image), without_refcount(sums.maps), without_refcount(sums.windows)
    to_params, to_fields, to_links = without_refcount(sums.params), without_refcount(sums.fields), without_refcount(sums.links)
    to_tables = without_refcount(sums.tables)
    floats, quad, into = without_refcount(room.floats), without_refcount(room.quad), without_refcount(room.into)
    index, kind, frame = without_refcount(room.index), without_refcount(room.kind), room.frame
    unit, cubic = call.unit, call.cubic
    curve = floats.dtype.type(cubic if call.taps == 4 else 0.0)
    planes = (channels + 2) // 3
    cleared = (zero, zero)
    before, band, cut, height = (0, 0), 0, False, 18 + 2 * channels + 6 * out_channels
    if bends is not None:
        height += out_channels + 4
    traces = needs_map or (needs_params and grounds > 0)
    extra = chain_rows(chain, grounds, traces)
    if extra > 0:
        extra += out_channels + 2
    strips = (call.out_height + call.strip - 1) // call.strip * call.blocks
    for r in range(start * strips, stop * strips):
        b, v, first, width = strip_at(call, r)
        call = at_sample(call, pictures, b)
        shape, strides = (call.height, call.width), (call.stride_c, call.stride_y, call.stride_x)
        m, window, p = maps[b * call.map_step], windows[b * call.window_step], params[b * call.param_step]
        base, owned = np.uint64(call.base), call.own
        place = v * call.out_width + first, width, call.out_width
        picture = img, base, channels, shape, strides, unit, call.mode
        n = min(call.strip, call.out_height - v) * width
        strip, here, where = floats[: n * (height + extra)].reshape(height + extra, n), kind[:n], index[:n]
        own = strip[height + (out_channels + 2 if extra > 0 else 0) :]
        if before[0] != n or (before[1] != first and not call.still):
            write_pixels(strip, first, width)
            strip[9] = strip[17] = floats.dtype.type(0.0)
            before = (n, first)
        if v == 0:
            frame[ROWS] = band = 0
            if first == 0:
                cleared = (zero, zero)
        whole = not needs_slopes and is_copy(call, m, fields, chain, window)  # a copy has no slopes
        if tables is None and shapes is None and not whole and v >= band:
            next_band(img, call, unit, m, fields, chain, window, b, v, call.out_height, strip, where, own, frame, quad, reads)
            band = v + frame[ROWS]
            if frame[STAGED] == 1 and needs_image:
                into[: 8 + 2 * planes * frame[PLANE]] = floats.dtype.type(0.0)
        announce(grad, b * out_channels, v * call.out_width + first, width, call.out_width, n // width, out_channels)
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
        shown = strip[height : height + out_channels] if extra > 0 else after_first
        after_hue = strip[k + out_channels : k + 2 * out_channels] if flags & HUE else shown
        after_second = strip[k + 2 * out_channels : k + 3 * out_channels] if flags & SECOND_MIX else after_hue
        after_clip = strip[k + 3 * out_channels : k + 4 * out_channels] if flags & CLIP else after_second
        g, spare = strip[k + 4 * out_channels : k + 5 * out_channels], strip[k + 5 * out_channels : k + 6 * out_channels]
        k += 6 * out_channels
        before_last = after_clip if bends is None else strip[k : k + out_channels]
        if not whole:
            under = p[fills:] if grounds > 0 else p[:0]
            if tables is not None or shapes is not None:
                cut = find(call, m, fields, chain, under, b, v, first, width, strip, where, own)
            else:
                cut = find_strip(call, m, fields, chain, under, window, b, v, first, width, strip, frame, here, where, own)
        if whole and reads:
            copy_pixels(img, call, unit, m, v, first, width, n // width, source, (zero, zero, width), strip[7])
        elif reads:
            if tables is not None:
                table, sizes = table_of(tables, b)
                read_table(img, base, channels, shape, strides, unit, call.mode, table, sizes, strip[0], strip[1], source, strip[7])
            elif shapes is not None:
                read_stretched(picture, shapes, curve, b, place, strip[0], strip[1], source, strip[7])
            else:
                read_strip(img, call, cubic, unit, base, window, strip, frame, quad, cubics, quads, here, where, source, edge, None)
        if reads:
            if flags & FIRST_MIX:
                mix(p, matrix, offset, fill, strip[7], source, channels, after_first, out_channels)
            if chain is not None:
                copy_rows(after_first, shown, out_channels)
                if cut:
                    blend(own[0], own[2:], grounds, out_channels, shown)
            if flags & HUE:
                hue(p[hue_shift], shown, after_hue)
            if flags & SECOND_MIX:
                bias = second + size
                mix(p, second, bias, bias + out_channels, ones, after_hue, out_channels, after_second, out_channels)
            if flags & CLIP:
                clip(after_second, after_clip, out_channels)
            if bends is not None and flags & LAST_MIX and needs_params:
                bend(p, bent, flags, after_clip, before_last, out_channels)
        load_strip(grad, b * out_channels, v * call.out_width + first, width, call.out_width, g, out_channels)
        if flags & LAST_MIX:
            if needs_params:
                bias = last + size
                mix_sums(to_params[b], last, bias, bias + out_channels, ones, g, before_last, out_channels, out_channels)
            mix_backward(p, last, g, out_channels, spare, out_channels)
            g, spare = spare, g
        if bends is not None:
            scratch = strip[height - 4 : height]
            bend_backward(p, bent, flags, after_clip, g, spare, scratch, to_params[b if needs_params else 0], needs_params)
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
            hue_backward(p[hue_shift], shown, g, (third,))
            if needs_params:
                to_params[b, hue_shift] += row_sum(third)
        if chain is not None and cut:
            unblend(own[0], g, after_first, out_channels, spare, strip[height + out_channels])
            g, spare = spare, g
        if flags & FIRST_MIX:
            if needs_params:
                mix_sums(to_params[b], matrix, offset, fill, strip[7], g, source, channels, out_channels)
            if needs_slopes:
                _to_cover(p, offset, fill, g, out_channels, to_cover)
            mix_backward(p, matrix, g, out_channels, to_source, channels)
        else:
            copy_rows(g, to_source, channels)
        plain, rule = tables is None and shapes is None and not whole, rule_of(call, window)
        staged = plain and frame[STAGED] == 1
        if needs_image and not (staged and edge is None):
            cleared = clear(to_image, owned, channels, shape, cleared, zero, call.height)
        if whole and needs_image:
            add_strip(to_image, owned, channels, shape, m, v, first, width, to_source)
        if tables is not None:
            if not whole:
                table, sizes = table_of(tables, b)
                add_table(
                    img, base, channels, shape, strides, unit, call.mode, table, sizes, shares, to_image, owned, strip[0], strip[1],
                    to_source, to_cover, to_tables[b if needs_slopes else 0], along_x, along_y,
                )  # fmt: skip
        elif shapes is not None:
            if not whole:
                add_stretched(
                    picture, shapes, curve, b, place, shares, to_image, owned, strip[0], strip[1], to_source, to_cover,
                    to_tables[b if needs_slopes else 0], along_x, along_y,
                )  # fmt: skip
        elif not whole:
            if cubics is not None and call.taps == 4 and not reads:
                weigh(strip[2], strip[3], cubic, cubics)
            scatter_strip(
                img, call, cubic, unit, base, window, strip, frame, quad, into, cubics, quads, here, where, shares, to_source,
                to_cover, strip[17], strip[10:12], to_image, owned, edge,
            )  # fmt: skip
        if needs_slopes:
            if plain and rule == BORDER and call.taps == 2:
                far = floats.dtype.type(np.inf)
                low_x, low_y, high_x, high_y = -far, -far, far, far
                if len(window) == 4:
                    low_x, low_y, high_x, high_y = window[0], window[1], window[2], window[3]
                _keep(here, low_x, high_x, floats.dtype.type(call.width - 1), strip[0], along_x)
                _keep(here, low_y, high_y, floats.dtype.type(call.height - 1), strip[1], along_y)
            if len(window) == 4:
                _window_sums(to_windows[b], window[0], window[2], zero, 2 * one, strip[0], along_x)
                _window_sums(to_windows[b], window[1], window[3], one, 3 * one, strip[1], along_y)
        if needs_field:
            store_strip(strip[10:12], to_fields, 2 * b, v * call.out_width + first, width, call.out_width, 2 * one)
        if chain is not None and traces:
            trace_back(
                chain, m, b, v, p[fills:] if grounds > 0 else p[:0], grounds, strip, where, own, spare,
                strip[height + out_channels], strip[height + out_channels + 1], along_x, along_y, third, needs_map, needs_params,
                to_maps[b if needs_map else 0], to_links[b if needs_map else 0], to_params[b if needs_params else 0, fills:],
                to_tables[b if needs_slopes else 0],
            )  # fmt: skip
        elif needs_map:
            # The projected coordinates again, which alone the map moves.
            if fields is not None and fields.size > 0 and call.projective:
                locate(m, v, call.projective, strip[4], strip[5], strip[0], strip[1], strip[6])
            _map_sums(to_maps[b], v, call.projective, strip, along_x, along_y, third)
        if staged and needs_image and v + call.strip >= band:
            top, bottom = unstaged_rows(rule, frame, call.height)
            cleared = clear(to_image, owned, channels, shape, cleared, top, bottom)
            unstage(into, channels, shape, rule, frame, owned, quads, to_image)
        if needs_image and (r + 1) % strips == 0:
            cleared = clear(to_image, owned, channels, shape, cleared, zero, call.height)


@entry
def round_into(source, target):  # type: ignore[no-untyped-def]
    """Write numbers into an array of narrower ones."""
    target = steps(target)
    for u in range(len(source)):
        target[u] = source[u]

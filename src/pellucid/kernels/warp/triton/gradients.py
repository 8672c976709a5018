"""The gradients of map, window and colour parameters: one chunk of output pixels per program, summed in a fixed order.

Owns: recomputing what forward did, going back through it, and each chunk's partial sums; also the source's gradient per output
pixel, where a hue rotation or a clip makes it differ from pixel to pixel.
Must not: add across programs; torch adds the chunks, in their order.
Read next: ``gather.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.stages.printed.blocks import hue, hue_backward
from pellucid.kernels.warp.triton.axes import AXES, read_span, tilt_span
from pellucid.kernels.warp.triton.blocks import (
    NUMBERS,
    POINTERS,
    add_scaled,
    from_sample,
    load_channels,
    scaled,
    some,
    store_channels,
    store_sums,
    zeros,
)
from pellucid.kernels.warp.triton.coordinates import load_map, tile_pixels
from pellucid.kernels.warp.triton.links import find
from pellucid.kernels.warp.triton.sampling import hold_in_window, only, read
from pellucid.kernels.warp.triton.spans import TABLE, read_weighted, tilt_weighted
from pellucid.kernels.warp.triton.stages import (
    CLIP,
    FIRST_MIX,
    HUE,
    LAST_MIX,
    MATRIX,
    SECOND_MIX,
    add_products,
    clip,
    clip_backward,
    cover,
    lay_over,
    mix,
    shift,
    to_covered,
    to_ground,
    unmix,
)
from pellucid.kernels.warp.triton.tabled import tilt_tabled

__all__ = ["gradients"]


@triton.jit
def _dot(g, x, total, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """Total + the sum over channels of g * x."""
    for c in tl.static_range(K):
        total = tl.fma(g[c], x[c], total)
    return total


@triton.jit
def _add_grounds(totals, uncovered, g, LINKS: tl.constexpr, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """Totals + what the fills of canvases get, first canvas first."""
    sums = ()
    for k in tl.static_range(LINKS):
        for c in tl.static_range(N):
            sums = sums + (tl.fma(uncovered[LINKS - 1 - k], g[c], totals[k * N + c]),)
    return sums


@triton.jit
def _window_shares(to_x, x, low, high):  # type: ignore[no-untyped-def]
    """(what stays with the coordinate, what belongs to the window's low edge, to its high edge)."""
    below, above = x < low, x > high
    return tl.where(below | above, 0.0, to_x), tl.where(below, to_x, 0.0), tl.where(above, to_x, 0.0)


@triton.jit
def _add_to_map(  # type: ignore[no-untyped-def]
    sums, to_x, to_y, x, y, w, row, usable, one, PROJECTIVE: tl.constexpr
):
    """Sums of what the map's rows get from gradients of its points, times the output's row and alone."""
    if PROJECTIVE:
        share = 1.0 / tl.where(usable, w, 1.0)
        to_x, to_y = to_x * share, to_y * share
        sums = add_products(sums, (to_x, to_y, -(to_x * x + to_y * y)), (row, one), 3, 2)
    else:
        sums = add_products(sums, (to_x, to_y), (row, one), 2, 2)
    return sums


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def gradients(  # type: ignore[no-untyped-def]
    grad,
    image,
    mapping,
    window,
    colors,
    field,
    links,
    table,
    to_map,
    to_params,
    to_source,
    to_field,
    to_table,
    grad_b,
    grad_c,
    grad_y,
    grad_x,
    stride_b,
    stride_c,
    stride_y,
    stride_x,
    field_b,
    field_c,
    field_y,
    field_x,
    height,
    width,
    out_height,
    out_width,
    sample,
    map_step,
    window_step,
    param_step,
    link_step,
    knots_down,
    knots_across,
    table_step,
    table_rows,
    table_columns,
    param_count,
    C: tl.constexpr,
    OC: tl.constexpr,
    GROUPS: tl.constexpr,
    TAPS: tl.constexpr,
    MODE: tl.constexpr,
    WINDOW: tl.constexpr,
    FIELD: tl.constexpr,
    PROJECTIVE: tl.constexpr,
    CUBIC: tl.constexpr,
    UNIT: tl.constexpr,
    FLAGS: tl.constexpr,
    SLOTS: tl.constexpr,
    TO_MAP: tl.constexpr,
    TO_PARAMS: tl.constexpr,
    TO_SOURCE: tl.constexpr,
    TO_FIELD: tl.constexpr,
    STEPS: tl.constexpr,
    K: tl.constexpr,
    N: tl.constexpr,
    BW: tl.constexpr,
    WW: tl.constexpr,
    P: tl.constexpr,
    F: tl.constexpr,
    LINKS: tl.constexpr,
    KINDS: tl.constexpr,
    SOFT: tl.constexpr,
    GROUNDS: tl.constexpr,
    PLANES: tl.constexpr,
    SPAN: tl.constexpr,
    SHARP: tl.constexpr,
    RAW: tl.constexpr,
    NEAR: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Program (chunk of STEPS tiles, one below the other; sample and group): K channels are read, N were written.

    to_map: (sample, chunk, group, 13): the nine numbers of the map (not with LINKS), then the four of the window. to_params:
    (sample, chunk, parameters). to_source: (sample, channel, output pixel). to_field: (sample, group, PLANES, output pixel), to x
    and y, and where canvases fade out to the source's share and to what each leaves uncovered. to_table: (sample, group, 7, output
    pixel), of a homography's or field's shapes; with an affine map's table (sample, group, output pixel), the coverage's gradient,
    and the tenth of a chunk's numbers is the most that a weight gets.
    """
    plane_at = tl.program_id(2)
    group = plane_at % GROUPS
    b = sample + plane_at // GROUPS
    chunks = tl.num_programs(0) * tl.num_programs(1)
    chunk = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    own, frame = from_sample(mapping, b, map_step), from_sample(window, b, window_step)
    m = load_map(own, PROJECTIVE)
    numbers = from_sample(table, b, table_step)
    first = group * K
    p = from_sample(colors, b, param_step)
    picture = from_sample(image, b, stride_b) + first.to(INDEX) * stride_c
    upstream = from_sample(grad, b, grad_b) + first.to(INDEX) * grad_c
    plane = out_width.to(INDEX) * out_height
    bias_at: tl.constexpr = SLOTS[0]
    turns_at: tl.constexpr = SLOTS[1]
    second_at: tl.constexpr = SLOTS[2]
    last_at: tl.constexpr = SLOTS[3]
    one = tl.full((P,), 1.0, F)
    map_sums, window_sums, turns_sum = zeros(6 if PROJECTIVE and SPAN != AXES else 4, P, F), zeros(4, P, F), tl.zeros((P,), F)
    matrix_sums, offset_sums, fill_sums = zeros(OC * C if MATRIX & FLAGS else 1, P, F), zeros(N, P, F), zeros(N, P, F)
    second_sums, second_offset_sums = zeros(OC * OC if SECOND_MIX & FLAGS else 1, P, F), zeros(N, P, F)
    last_sums, last_offset_sums = zeros(OC * OC if LAST_MIX & FLAGS else 1, P, F), zeros(N, P, F)
    ground_sums = zeros(LINKS * N if GROUNDS >= 0 else 1, P, F)
    largest = tl.zeros((P,), F)
    u, top = tile_pixels(tl.program_id(0), tl.program_id(1) * STEPS, BW, WW, P)
    column = u.to(F)
    for step in range(STEPS):
        v = top + step * (P // BW)
        drawn = (u < out_width) & (v < out_height)
        share, uncovered = drawn, (drawn,)
        if SPAN == AXES:
            source, covered = read_span(
                picture, stride_c, stride_y, stride_x, first, height, width, u, v, drawn, own, frame, numbers,
                out_height, out_width, C, GROUPS, TAPS, SHARP, UNIT, K, P, F, NEAR, INDEX,
            )  # fmt: skip
        else:
            x, y, usable, share, uncovered, mapped_x, mapped_y, w = find(
                u, v, drawn, m, from_sample(links, b, link_step), from_sample(field, b, field_b), field_c, field_y, field_x,
                knots_down, knots_across, LINKS, KINDS, FIELD, PROJECTIVE, RAW, INDEX, F,
            )  # fmt: skip
            if SPAN:
                source, covered = read_weighted(
                    picture, stride_c, stride_y, stride_x, first, height, width, x, y, usable, u, v, numbers, table_rows // 2,
                    table_columns, out_height, out_width, C, GROUPS, TAPS, MODE, CUBIC, UNIT, SPAN, K, P, F, INDEX,
                )  # fmt: skip
            else:
                usable, x0, y0, x1, y1 = hold_in_window(x, y, usable, frame, MODE, WINDOW)
                source, along_x, along_y, covered, rise_x, rise_y = read(
                    picture, stride_c, stride_y, stride_x, first, height, width, x, y, usable, x0, y0, x1, y1,
                    C, GROUPS, TAPS, MODE, WINDOW, CUBIC, UNIT, TO_MAP or TO_FIELD, RAW, K, P, F, NEAR, INDEX,
                )  # fmt: skip
        # Forward, keeping what each stage saw.
        after_first = source
        if FIRST_MIX & FLAGS:
            if MATRIX & FLAGS:
                after_first = mix(p, source, OC, C)
            after_first = cover(p + bias_at, p + bias_at + OC, after_first, covered, first, OC, GROUPS, N)
        composed = after_first
        if LINKS:
            after_first = lay_over(composed, share, uncovered, p + GROUNDS, first, LINKS, SOFT, GROUNDS >= 0, OC, GROUPS, N)
        after_hue = after_first
        if HUE & FLAGS:
            after_hue = hue(tl.load(p + turns_at), after_first)
        after_second = after_hue
        if SECOND_MIX & FLAGS:
            after_second = shift(p + second_at + OC * OC, mix(p + second_at, after_hue, OC, OC), OC)
        # Backward.
        pixels = upstream + (v.to(INDEX) * grad_y + u.to(INDEX) * grad_x)
        g = load_channels(pixels, grad_c.to(INDEX), drawn, first, OC, GROUPS, N, F)
        if LAST_MIX & FLAGS:
            if TO_PARAMS:
                last_sums = add_products(last_sums, g, clip(after_second, N) if CLIP & FLAGS else after_second, OC, OC)
                last_offset_sums = add_scaled(last_offset_sums, one, g, N)
            g = unmix(p + last_at, g, OC, OC)
        if CLIP & FLAGS:
            g = clip_backward(after_second, g, N)
        if SECOND_MIX & FLAGS:
            if TO_PARAMS:
                second_sums = add_products(second_sums, g, after_hue, OC, OC)
                second_offset_sums = add_scaled(second_offset_sums, one, g, N)
            g = unmix(p + second_at, g, OC, OC)
        if HUE & FLAGS:
            to_turns, g = hue_backward(tl.load(p + turns_at), after_first, g)
            turns_sum += tl.where(drawn, to_turns[0], 0.0)
        if LINKS:
            if TO_PARAMS and GROUNDS >= 0:
                ground_sums = _add_grounds(ground_sums, uncovered, g, LINKS, N)
            if TO_FIELD and SOFT:
                pixels = from_sample(to_field, (sample * GROUPS + plane_at) * PLANES + 2, plane) + (v.to(INDEX) * out_width + u)
                worth = (tl.where(share > 0.0, _dot(g, composed, tl.zeros((P,), F), N), 0.0),)
                if GROUNDS >= 0:
                    for k in tl.static_range(LINKS):
                        worth = worth + (to_ground(p + GROUNDS + k * OC, g, first, OC, GROUPS, N),)
                store_channels(pixels, plane, drawn, 0, worth, PLANES, 1, PLANES - 2)
            g = only(share > 0.0, scaled(g, share, N) if SOFT else g, N)
        to_cover = tl.zeros((P,), F)
        if FIRST_MIX & FLAGS:
            if TO_PARAMS:
                offset_sums = add_scaled(offset_sums, covered, g, N)
                fill_sums = add_scaled(fill_sums, 1.0 - covered, g, N)
            to_cover = to_covered(p + bias_at, p + bias_at + OC, g, first, OC, GROUPS, N)
            if MATRIX & FLAGS:
                if TO_PARAMS:
                    matrix_sums = add_products(matrix_sums, g, source, OC, C)
                g = unmix(p, g, OC, C)
        if TO_SOURCE:
            pixels = from_sample(to_source, b * C + first, plane) + (v.to(INDEX) * out_width + u)
            store_channels(pixels, plane, drawn, first, g, C, GROUPS, K)
        if SPAN == AXES and TO_MAP:
            to_x, to_y = tilt_span(
                picture, stride_c, stride_y, stride_x, g, first, height, width, u, v, drawn, own, frame, numbers,
                out_height, out_width, C, GROUPS, TAPS, SHARP, UNIT, K, P, F, INDEX,
            )  # fmt: skip
            map_sums = add_scaled(map_sums, one, (to_x[0], to_x[1], to_y[0], to_y[1]), 4)
            window_sums = add_scaled(window_sums, one, (to_x[2], to_y[2], to_x[3], to_y[3]), 4)
        elif TO_MAP or TO_FIELD:
            if SPAN == TABLE:
                to_x, to_y, most = tilt_tabled(
                    picture, stride_c, stride_y, stride_x, g, to_cover, first, height, width, x, y, usable, u, v, numbers,
                    table_rows // 2, table_columns, out_height, out_width, C, GROUPS, TAPS, MODE, UNIT, K, P, F, INDEX,
                )  # fmt: skip
                largest = tl.maximum(largest, most)
                pixels = from_sample(to_table, plane_at + sample * GROUPS, plane) + (v.to(INDEX) * out_width + u)
                tl.store(pixels, to_cover, mask=drawn)
            elif SPAN:
                to_x, to_y, to_shape = tilt_weighted(
                    picture, stride_c, stride_y, stride_x, g, to_cover, first, height, width, x, y, usable, u, v, numbers,
                    table_rows // 2, table_columns, out_height, out_width, C, GROUPS, TAPS, MODE, CUBIC, UNIT, K, P, F, INDEX,
                )  # fmt: skip
                pixels = from_sample(to_table, plane_at * 7 + sample * (7 * GROUPS), plane) + (v.to(INDEX) * out_width + u)
                store_channels(pixels, plane, drawn, 0, only(usable, to_shape, 7), 7, 1, 7)
            else:
                to_x = _dot(g, along_x, to_cover * rise_x, K)
                to_y = _dot(g, along_y, to_cover * rise_y, K)
            to_x, to_y = tl.where(usable & drawn, to_x, 0.0), tl.where(usable & drawn, to_y, 0.0)
            if WINDOW:
                # Where the window held a coordinate, the gradient belongs to the window's edge.
                to_x, left, right = _window_shares(to_x, x, x0, x1)
                to_y, upper, lower = _window_shares(to_y, y, y0, y1)
                window_sums = add_scaled(window_sums, one, (left, upper, right, lower), 4)
            if TO_FIELD:
                pixels = from_sample(to_field, (sample * GROUPS + plane_at) * PLANES, plane) + (v.to(INDEX) * out_width + u)
                store_channels(pixels, plane, drawn, 0, (to_x, to_y), 2, 1, 2)
            if TO_MAP and LINKS == 0:
                map_sums = _add_to_map(map_sums, to_x, to_y, mapped_x, mapped_y, w, v.to(F), usable, one, PROJECTIVE)
    if TO_MAP:
        sums = to_map + ((b.to(tl.int64) * chunks + chunk) * GROUPS + group) * 13
        if SPAN == AXES:
            for k in tl.static_range(2):
                store_sums(sums, 4 * k, (map_sums[2 * k],), 9, 1, 1)
                store_sums(sums, 3 * k + 2, (map_sums[2 * k + 1],), 9, 1, 1)
        elif LINKS == 0:
            for k in tl.static_range(3 if PROJECTIVE else 2):
                by_row, alone = map_sums[2 * k], map_sums[2 * k + 1]
                store_sums(sums, 3 * k, (alone * column, by_row, alone), 9, 1, 3)
        if WINDOW:
            store_sums(sums, 9, window_sums, 13, 1, 4)
        if SPAN == TABLE:
            tl.store(sums + 9, tl.max(largest, 0))
    if TO_PARAMS:
        sums = to_params + (b.to(tl.int64) * chunks + chunk) * param_count
        if FIRST_MIX & FLAGS:
            if MATRIX & FLAGS:
                store_sums(sums, 0, matrix_sums, OC * C, 1, OC * C)
            store_sums(sums + bias_at, first, offset_sums, OC, GROUPS, N)
            store_sums(sums + bias_at + OC, first, fill_sums, OC, GROUPS, N)
        if HUE & FLAGS:
            tl.store(sums + turns_at, tl.sum(turns_sum, 0))
        if SECOND_MIX & FLAGS:
            store_sums(sums + second_at, 0, second_sums, OC * OC, 1, OC * OC)
            store_sums(sums + second_at + OC * OC, 0, second_offset_sums, OC, 1, OC)
        if LAST_MIX & FLAGS:
            store_sums(sums + last_at, 0, last_sums, OC * OC, 1, OC * OC)
            store_sums(sums + last_at + OC * OC, 0, last_offset_sums, OC, 1, OC)
        if GROUNDS >= 0:
            for k in tl.static_range(LINKS):
                store_sums(sums + GROUNDS + k * OC, first, some(ground_sums, k * N, N), OC, GROUPS, N)

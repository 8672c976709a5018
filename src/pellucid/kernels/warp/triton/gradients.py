"""The gradients of map, window and colour parameters: one chunk of output pixels per program, summed in a fixed order.

Owns: recomputing what forward did, going back through it, and each chunk's partial sums; also the source's gradient per output
pixel, where a hue rotation or a clip makes it differ from pixel to pixel.
Must not: add across programs; torch adds the chunks, in their order.
Read next: ``gather.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.stages.printed.blocks import hue, hue_backward
from pellucid.kernels.warp.triton.axes import AXES, tilt_span
from pellucid.kernels.warp.triton.blocks import (
    add_scaled,
    dot,
    load_at,
    only,
    scaled,
    some,
    store_planes,
    store_sums,
    view,
    zeros,
)
from pellucid.kernels.warp.triton.coordinates import program
from pellucid.kernels.warp.triton.fixed import kernel
from pellucid.kernels.warp.triton.forward import source
from pellucid.kernels.warp.triton.spans import TABLE, tilt_weighted
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
    mix_all,
    to_covered,
    to_ground,
    unmix,
)
from pellucid.kernels.warp.triton.tabled import tilt_tabled

__all__ = ["gradients"]


@triton.jit
def _add_grounds(totals, uncovered, g, S):  # type: ignore[no-untyped-def]
    """Totals + what the fills of canvases get, first canvas first."""
    sums = ()
    for k in tl.static_range(S.LINKS):
        sums = sums + add_scaled(some(totals, k * S.N, S.N), uncovered[S.LINKS - 1 - k], g)
    return sums


@triton.jit
def _window_shares(to_x, x, low, high):  # type: ignore[no-untyped-def]
    """(what stays with the coordinate, what belongs to the window's low edge, to its high edge)."""
    below, above = x < low, x > high
    return tl.where(below | above, 0.0, to_x), tl.where(below, to_x, 0.0), tl.where(above, to_x, 0.0)


@triton.jit
def _mix_back(p, g, x, matrix_sums, offset_sums, one, S):  # type: ignore[no-untyped-def]
    """Back through `mix_all` of x: (the gradient of x, sums for the matrix, for the offset)."""
    if S.TO_PARAMS:
        matrix_sums, offset_sums = add_products(matrix_sums, g, x), add_scaled(offset_sums, one, g)
    return unmix(p, g, S.OC, S.OC), matrix_sums, offset_sums


@kernel
def gradients(  # type: ignore[no-untyped-def]
    grad, grad_b, grad_c, grad_y, grad_x, image, stride_b, stride_c, stride_y, stride_x,
    to_map, to_params, to_source, to_field, to_table, param_count,
    mapping, window, colors, field, table, field_b, field_c, field_y, field_x, height, width, out_height, out_width,
    map_step, window_step, param_step, table_step, rows, columns, sample, S: tl.constexpr,
):  # fmt: skip
    """Program (chunk of STEPS tiles, one below the other; sample and group): K channels are read, N were written.

    to_map: (sample, chunk, group, 13): the nine numbers of the map (not with LINKS), then the four of the window. to_params:
    (sample, chunk, parameters). to_source: (sample, channel, output pixel). to_field: (sample, group, PLANES, output pixel), to x
    and y, and where canvases fade out to the source's share and to what each leaves uncovered. to_table: (sample, group, 7, output
    pixel), of a homography's or field's shapes; with an affine map's table (sample, group, output pixel), the coverage's gradient,
    and the tenth of a chunk's numbers is the most that a weight gets.
    """
    given, u, top = program(
        mapping, window, colors, field, table, field_b, field_c, field_y, field_x, height, width, out_height, out_width,
        map_step, window_step, param_step, table_step, rows, columns, sample, S,
    )  # fmt: skip
    b, first, p = given.b, given.first, given.colors
    number = b * S.GROUPS + given.group
    chunks = tl.num_programs(0) * tl.num_programs(1)
    chunk = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    picture = view(image, given, stride_b, stride_c, stride_y, stride_x, S.NEAR, S)
    upstream = view(grad, given, grad_b, grad_c, grad_y, grad_x, 0, S)
    one = tl.full((S.P,), 1.0, S.F)
    map_sums, window_sums = zeros(6 if S.PROJECTIVE and S.SPAN != AXES else 4, S.P, S.F), zeros(4, S.P, S.F)
    turns_sum, largest = zeros(2, S.P, S.F)
    matrix_sums = zeros(S.OC * S.C if MATRIX & S.FLAGS else 1, S.P, S.F)
    offset_sums, fill_sums = zeros(S.N, S.P, S.F), zeros(S.N, S.P, S.F)
    second_sums, second_offset_sums = zeros(S.OC * S.OC if SECOND_MIX & S.FLAGS else 1, S.P, S.F), zeros(S.N, S.P, S.F)
    last_sums, last_offset_sums = zeros(S.OC * S.OC if LAST_MIX & S.FLAGS else 1, S.P, S.F), zeros(S.N, S.P, S.F)
    ground_sums = zeros(S.LINKS * S.N if S.GROUNDS >= 0 else 1, S.P, S.F)
    column = u.to(S.F)
    for step in range(S.STEPS):
        v = top + step * (S.P // S.BW)
        drawn = (u < out_width) & (v < out_height)
        pixel = u, v, drawn, out_height, out_width
        read = source(picture, given, u, v, drawn, S.TO_MAP or S.TO_FIELD, S)
        found, covered = read.found, read.covered
        # Forward, keeping what each stage saw.
        after_first = read.colour
        if FIRST_MIX & S.FLAGS:
            if MATRIX & S.FLAGS:
                after_first = mix(p, read.colour, S.OC, S.C)
            after_first = cover(p + S.SLOTS[0], after_first, covered, first, S)
        composed = after_first
        if S.LINKS:
            after_first = lay_over(composed, found, p, first, S)
        after_hue = after_first
        if HUE & S.FLAGS:
            after_hue = hue(tl.load(p + S.SLOTS[1]), after_first)
        after_second = after_hue
        if SECOND_MIX & S.FLAGS:
            after_second = mix_all(p + S.SLOTS[2], after_hue, S)
        # Backward.
        g = load_at(upstream, v, u, drawn, S.OC, S.N, S)
        if LAST_MIX & S.FLAGS:
            before = clip(after_second) if CLIP & S.FLAGS else after_second
            g, last_sums, last_offset_sums = _mix_back(p + S.SLOTS[3], g, before, last_sums, last_offset_sums, one, S)
        if CLIP & S.FLAGS:
            g = clip_backward(after_second, g)
        if SECOND_MIX & S.FLAGS:
            g, second_sums, second_offset_sums = _mix_back(p + S.SLOTS[2], g, after_hue, second_sums, second_offset_sums, one, S)
        if HUE & S.FLAGS:
            to_turns, g = hue_backward(tl.load(p + S.SLOTS[1]), after_first, g)
            turns_sum += tl.where(drawn, to_turns[0], 0.0)
        if S.LINKS:
            if S.TO_PARAMS and S.GROUNDS >= 0:
                ground_sums = _add_grounds(ground_sums, found.uncovered, g, S)
            if S.TO_FIELD and S.SOFT:
                worth = (tl.where(found.share > 0.0, dot(g, composed, tl.zeros((S.P,), S.F)), 0.0),)
                if S.GROUNDS >= 0:
                    for k in tl.static_range(S.LINKS):
                        worth = worth + (to_ground(p + S.GROUNDS + k * S.OC, g, first, S),)
                store_planes(to_field, number * S.PLANES + 2, pixel, 0, worth, S.PLANES, S)
            g = only(found.share > 0.0, scaled(g, found.share) if S.SOFT else g)
        to_cover = tl.zeros((S.P,), S.F)
        if FIRST_MIX & S.FLAGS:
            if S.TO_PARAMS:
                offset_sums, fill_sums = add_scaled(offset_sums, covered, g), add_scaled(fill_sums, 1.0 - covered, g)
            to_cover = to_covered(p + S.SLOTS[0], g, first, S)
            if MATRIX & S.FLAGS:
                if S.TO_PARAMS:
                    matrix_sums = add_products(matrix_sums, g, read.colour)
                g = unmix(p, g, S.OC, S.C)
        if S.TO_SOURCE:
            store_planes(to_source, b * S.C + first, pixel, first, g, S.C, S, S.GROUPS)
        if S.SPAN == AXES and S.TO_MAP:
            to_x, to_y = tilt_span(picture, given, g, u, v, drawn, S)
            map_sums = add_scaled(map_sums, one, (to_x[0], to_x[1], to_y[0], to_y[1]))
            window_sums = add_scaled(window_sums, one, (to_x[2], to_y[2], to_x[3], to_y[3]))
        elif S.TO_MAP or S.TO_FIELD:
            if S.SPAN == TABLE:
                to_x, to_y, most = tilt_tabled(picture, given, read.point, found.usable, g, to_cover, S)
                largest = tl.maximum(largest, most)
                store_planes(to_table, number, pixel, 0, (to_cover,), 1, S)
            elif S.SPAN:
                to_x, to_y, to_shape = tilt_weighted(picture, given, read.point, found.usable, g, to_cover, S)
                store_planes(to_table, number * 7, pixel, 0, only(found.usable, to_shape), 7, S)
            else:
                to_x, to_y = dot(g, read.along_x, to_cover * read.rise_x), dot(g, read.along_y, to_cover * read.rise_y)
            to_x, to_y = only(found.usable & drawn, (to_x, to_y))
            if S.WINDOW:
                # Where the window held a coordinate, the gradient belongs to the window's edge.
                to_x, left, right = _window_shares(to_x, found.x, read.held[0], read.held[2])
                to_y, upper, lower = _window_shares(to_y, found.y, read.held[1], read.held[3])
                window_sums = add_scaled(window_sums, one, (left, upper, right, lower))
            if S.TO_FIELD:
                store_planes(to_field, number * S.PLANES, pixel, 0, (to_x, to_y), 2, S)
            if S.TO_MAP and S.LINKS == 0:
                to_rows = to_x, to_y
                if S.PROJECTIVE:
                    part = 1.0 / tl.where(found.usable, found.w, 1.0)
                    to_rows = to_x * part, to_y * part, -(to_x * part * found.mapped_x + to_y * part * found.mapped_y)
                map_sums = add_products(map_sums, to_rows, (v.to(S.F), one))
    if S.TO_MAP:
        sums = to_map + ((b.to(tl.int64) * chunks + chunk) * S.GROUPS + given.group) * 13
        if S.SPAN == AXES:
            for k in tl.static_range(2):
                store_sums(sums, 4 * k, (map_sums[2 * k],), 9)
                store_sums(sums, 3 * k + 2, (map_sums[2 * k + 1],), 9)
        elif S.LINKS == 0:
            for k in tl.static_range(3 if S.PROJECTIVE else 2):
                by_row, alone = map_sums[2 * k], map_sums[2 * k + 1]
                store_sums(sums, 3 * k, (alone * column, by_row, alone), 9)
        if S.WINDOW:
            store_sums(sums, 9, window_sums, 13)
        if S.SPAN == TABLE:
            tl.store(sums + 9, tl.max(largest, 0))
    if S.TO_PARAMS:
        sums = to_params + (b.to(tl.int64) * chunks + chunk) * param_count
        if FIRST_MIX & S.FLAGS:
            if MATRIX & S.FLAGS:
                store_sums(sums, 0, matrix_sums, S.OC * S.C)
            store_sums(sums + S.SLOTS[0], first, offset_sums, S.OC, S.GROUPS)
            store_sums(sums + S.SLOTS[0] + S.OC, first, fill_sums, S.OC, S.GROUPS)
        if HUE & S.FLAGS:
            tl.store(sums + S.SLOTS[1], tl.sum(turns_sum, 0))
        if SECOND_MIX & S.FLAGS:
            store_sums(sums + S.SLOTS[2], 0, second_sums + second_offset_sums, S.OC * S.OC + S.OC)
        if LAST_MIX & S.FLAGS:
            store_sums(sums + S.SLOTS[3], 0, last_sums + last_offset_sums, S.OC * S.OC + S.OC)
        if S.GROUNDS >= 0:
            for k in tl.static_range(S.LINKS):
                store_sums(sums + S.GROUNDS + k * S.OC, first, some(ground_sums, k * S.N, S.N), S.OC, S.GROUPS)

"""The gradients of map, window and colour parameters: one chunk of output pixels per program, summed in a fixed order.

Owns: recomputing what forward did, going back through it, and each chunk's partial sums; also the source's gradient per output
pixel, where a hue rotation or a clip makes it differ from pixel to pixel.
Must not: add across programs; torch adds the chunks, in their order.
Read next: ``gather.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.stages.printed.blocks import hue_backward
from pellucid.kernels.warp.triton.axes import AXES, tilt_span
from pellucid.kernels.warp.triton.blocks import add_scaled, dot, load_at, only, scaled, some, store_planes, store_sums, view, zeros
from pellucid.kernels.warp.triton.coordinates import pixels
from pellucid.kernels.warp.triton.forward import source
from pellucid.kernels.warp.triton.spans import TABLE, tilt_tabled, tilt_weighted
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
    through,
    to_covered,
    to_ground,
    unmix,
)

__all__ = ["gradients"]


@triton.jit
def _add_grounds(totals, uncovered, g, S):  # type: ignore[no-untyped-def]
    """Totals + the gradients of the fills of canvases, first canvas first."""
    sums = ()
    for k in tl.static_range(S.LINKS):
        sums = sums + add_scaled(some(totals, k * S.N, S.N), uncovered[S.LINKS - 1 - k], g)
    return sums


@triton.jit
def _window_shares(to_x, x, low, high):  # type: ignore[no-untyped-def]
    """Split a coordinate's gradient: (to the coordinate, to the window's low edge, to its high edge)."""
    below, above = x < low, x > high
    return tl.where(below | above, 0.0, to_x), tl.where(below, to_x, 0.0), tl.where(above, to_x, 0.0)


@triton.jit
def _mix_back(p, g, x, matrix_sums, offset_sums, one, S):  # type: ignore[no-untyped-def]
    """Back through `mix_all` of x: (the gradient of x, sums for the matrix, for the offset)."""
    if S.TO_PARAMS:
        matrix_sums, offset_sums = add_products(matrix_sums, g, x), add_scaled(offset_sums, one, g)
    return unmix(p, g, S.OC, S.OC), matrix_sums, offset_sums


@triton.jit
def _recoloured(g, colours, sums, p, drawn, one, S):  # type: ignore[no-untyped-def]
    """Back through the stages after the canvases: (the gradient of their input, the sums of their numbers)."""
    turns, second, second_offset, last, last_offset = sums
    if LAST_MIX & S.FLAGS:
        before = clip(colours.mixed) if CLIP & S.FLAGS else colours.mixed
        g, last, last_offset = _mix_back(p + S.SLOTS[3], g, before, last, last_offset, one, S)
    if CLIP & S.FLAGS:
        g = clip_backward(colours.mixed, g)
    if SECOND_MIX & S.FLAGS:
        g, second, second_offset = _mix_back(p + S.SLOTS[2], g, colours.turned, second, second_offset, one, S)
    if HUE & S.FLAGS:
        to_turns, g = hue_backward(tl.load(p + S.SLOTS[1]), colours.shown, g)
        turns = turns + tl.where(drawn, to_turns[0], 0.0)
    return g, (turns, second, second_offset, last, last_offset)


@triton.jit
def _uncovered(g, composed, found, ground_sums, p, first, worths, pixel, S):  # type: ignore[no-untyped-def]
    """Back through the blend over canvases: (the gradient of the first mix's result, the sums of the canvases' fills).

    ``worths``: (where shares' gradients are written, the number of the first).
    """
    if S.TO_PARAMS and S.GROUNDS >= 0:
        ground_sums = _add_grounds(ground_sums, found.uncovered, g, S)
    if S.TO_FIELD and S.SOFT:
        worth = (tl.where(found.share > 0.0, dot(g, composed, tl.zeros((S.P,), S.F)), 0.0),)
        if S.GROUNDS >= 0:
            for k in tl.static_range(S.LINKS):
                worth = worth + (to_ground(p + S.GROUNDS + k * S.OC, g, first, S),)
        store_planes(worths[0], worths[1], pixel, 0, worth, S.PLANES, S)
    return only(found.share > 0.0, scaled(g, found.share) if S.SOFT else g), ground_sums


@triton.jit
def _unmixed(g, read, sums, p, first, S):  # type: ignore[no-untyped-def]
    """Back through the first mix: (the gradient of the pixels read, that of their coverage, sums of matrix, offset and fill)."""
    matrix, offset, fill = sums
    to_cover = tl.zeros((S.P,), S.F)
    if FIRST_MIX & S.FLAGS:
        if S.TO_PARAMS:
            offset, fill = add_scaled(offset, read.covered, g), add_scaled(fill, 1.0 - read.covered, g)
        to_cover = to_covered(p + S.SLOTS[0], g, first, S)
        if MATRIX & S.FLAGS:
            if S.TO_PARAMS:
                matrix = add_products(matrix, g, read.colour)
            g = unmix(p, g, S.OC, S.C)
    return g, to_cover, (matrix, offset, fill)


@triton.jit
def _to_places(g, to_cover, picture, given, read, pixel, sums, to_field, to_table, number, one, S):  # type: ignore[no-untyped-def]
    """(the sums of map and window, the largest gradient of a table's weight); the gradients of fields and tables are written."""
    map_sums, window_sums, largest = sums
    u, v, drawn, _, _ = pixel
    found = read.found
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
            # Where the window clamped a coordinate, the gradient belongs to the window's edge.
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
    return map_sums, window_sums, largest


@triton.jit
def _store_places(sums, moves, column, S):  # type: ignore[no-untyped-def]
    """Write a chunk's sums of map and window."""
    map_sums, window_sums, largest = moves
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


@triton.jit
def _store_colours(sums, mixes, stages, ground_sums, first, S):  # type: ignore[no-untyped-def]
    """Write a chunk's sums of the colours' numbers."""
    matrix, offset, fill = mixes
    turns, second, second_offset, last, last_offset = stages
    if FIRST_MIX & S.FLAGS:
        if MATRIX & S.FLAGS:
            store_sums(sums, 0, matrix, S.OC * S.C)
        store_sums(sums + S.SLOTS[0], first, offset, S.OC, S.GROUPS)
        store_sums(sums + S.SLOTS[0] + S.OC, first, fill, S.OC, S.GROUPS)
    if HUE & S.FLAGS:
        tl.store(sums + S.SLOTS[1], tl.sum(turns, 0))
    if SECOND_MIX & S.FLAGS:
        store_sums(sums + S.SLOTS[2], 0, second + second_offset, S.OC * S.OC + S.OC)
    if LAST_MIX & S.FLAGS:
        store_sums(sums + S.SLOTS[3], 0, last + last_offset, S.OC * S.OC + S.OC)
    if S.GROUNDS >= 0:
        for k in tl.static_range(S.LINKS):
            store_sums(sums + S.GROUNDS + k * S.OC, first, some(ground_sums, k * S.N, S.N), S.OC, S.GROUPS)


@pixels
def gradients(  # type: ignore[no-untyped-def]
    grad, image, to_map, to_params, to_source, to_field, to_table, param_count, given, u, top, S: tl.constexpr
):
    """Program (chunk of STEPS tiles, one below the other; sample and group): K channels are read, N were written.

    to_map: (sample, chunk, group, 13): the nine numbers of the map (not with LINKS), then the four of the window. to_params:
    (sample, chunk, parameters). to_source: (sample, channel, output pixel). to_field: (sample, group, PLANES, output pixel), to x
    and y, and where canvases fade out to the source's share and to what each leaves uncovered. to_table: (sample, group, 7, output
    pixel), of a homography's or field's shapes; with an affine map's table (sample, group, output pixel), the coverage's gradient,
    and the tenth of a chunk's numbers is the largest gradient of a weight.
    """
    b, first, p, number = given.b, given.first, given.colors, given.b * S.GROUPS + given.group
    chunk = b.to(tl.int64) * (tl.num_programs(0) * tl.num_programs(1)) + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0))
    picture, upstream = view(image, given, S.NEAR, S), view(grad, given, 0, S)
    one, turns, largest = tl.full((S.P,), 1.0, S.F), tl.zeros((S.P,), S.F), tl.zeros((S.P,), S.F)
    moves = zeros(6 if S.PROJECTIVE and S.SPAN != AXES else 4, S.P, S.F), zeros(4, S.P, S.F), largest
    mixes = zeros(S.OC * S.C if MATRIX & S.FLAGS else 1, S.P, S.F), zeros(S.N, S.P, S.F), zeros(S.N, S.P, S.F)
    second = zeros(S.OC * S.OC if SECOND_MIX & S.FLAGS else 1, S.P, S.F)
    last = zeros(S.OC * S.OC if LAST_MIX & S.FLAGS else 1, S.P, S.F)
    stages = turns, second, zeros(S.N, S.P, S.F), last, zeros(S.N, S.P, S.F)
    ground_sums = zeros(S.LINKS * S.N if S.GROUNDS >= 0 else 1, S.P, S.F)
    for step in range(S.STEPS):
        v = top + step * (S.P // S.BW)
        drawn = (u < given.out_width) & (v < given.out_height)
        pixel = u, v, drawn, given.out_height, given.out_width
        read = source(picture, given, u, v, drawn, S.TO_MAP or S.TO_FIELD, S)
        colours = through(read.colour, read.covered, read.found, p, first, S)
        g, stages = _recoloured(load_at(upstream, v, u, drawn, S.OC, S.N, S), colours, stages, p, drawn, one, S)
        if S.LINKS:
            worths = to_field, number * S.PLANES + 2
            g, ground_sums = _uncovered(g, colours.composed, read.found, ground_sums, p, first, worths, pixel, S)
        g, to_cover, mixes = _unmixed(g, read, mixes, p, first, S)
        if S.TO_SOURCE:
            store_planes(to_source, b * S.C + first, pixel, first, g, S.C, S, S.GROUPS)
        moves = _to_places(g, to_cover, picture, given, read, pixel, moves, to_field, to_table, number, one, S)
    if S.TO_MAP:
        _store_places(to_map + (chunk * S.GROUPS + given.group) * 13, moves, u.to(S.F), S)
    if S.TO_PARAMS:
        _store_colours(to_params + chunk * param_count, mixes, stages, ground_sums, first, S)

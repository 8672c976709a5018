"""The forward kernels: one block of output pixels per program, from the image to the finished colour; and labels.

Owns: the order of phases: coordinates, taps, first mix, hue, second mix, clip, last mix.
Must not: know of torch; ``launch.py`` passes pointers, strides and compile-time options.
Read next: ``stages.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.stages.printed.blocks import hue
from pellucid.kernels.warp.triton.axes import AXES, read_span
from pellucid.kernels.warp.triton.blocks import NUMBERS, POINTERS, from_sample, store_channels
from pellucid.kernels.warp.triton.coordinates import BORDER, FILLED, displace, fold, load_map, locate, settle, tile_pixels
from pellucid.kernels.warp.triton.links import find
from pellucid.kernels.warp.triton.sampling import hold_in_window, read
from pellucid.kernels.warp.triton.spans import read_weighted
from pellucid.kernels.warp.triton.stages import (
    CLIP,
    FIRST_MIX,
    HUE,
    LAST_MIX,
    LEVELS,
    MATRIX,
    SECOND_MIX,
    clip,
    cover,
    lay_over,
    mix,
    shift,
)

__all__ = ["copy_labels", "forward"]


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def forward(  # type: ignore[no-untyped-def]
    image,
    mapping,
    window,
    colors,
    field,
    links,
    table,
    out,
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
    SPAN: tl.constexpr,
    SHARP: tl.constexpr,
    RAW: tl.constexpr,
    NEAR: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Program (tile across, down, sample and group): K channels are read, N written; several groups where no stage mixes them.

    LINKS and KINDS: of a chain, as in ``links.py``; GROUNDS: where the fills of its canvases begin in ``colors``, or -1. SOFT: they
    fade out. SPAN: 1 of a crop or resize, of which ``table`` holds what `spread` wrote; 2 and 3 as in ``spans.py``.
    """
    plane_at = tl.program_id(2)
    group = plane_at % GROUPS
    b = sample + plane_at // GROUPS
    u, v = tile_pixels(tl.program_id(0), tl.program_id(1), BW, WW, P)
    drawn = (u < out_width) & (v < out_height)
    own, frame = from_sample(mapping, b, map_step), from_sample(window, b, window_step)
    first = group * K
    picture = from_sample(image, b, stride_b) + first.to(INDEX) * stride_c
    share, uncovered = drawn, (drawn,)
    if SPAN == AXES:
        colour, covered = read_span(
            picture, stride_c, stride_y, stride_x, first, height, width, u, v, drawn, own, frame,
            from_sample(table, b, table_step), out_height, out_width, C, GROUPS, TAPS, SHARP, UNIT, K, P, F, NEAR, INDEX,
        )  # fmt: skip
    else:
        x, y, usable, share, uncovered, _, _, _ = find(
            u, v, drawn, load_map(own, PROJECTIVE), from_sample(links, b, link_step), from_sample(field, b, field_b),
            field_c, field_y, field_x, knots_down, knots_across, LINKS, KINDS, FIELD, PROJECTIVE, RAW, INDEX, F,
        )  # fmt: skip
        if SPAN:
            colour, covered = read_weighted(
                picture, stride_c, stride_y, stride_x, first, height, width, x, y, usable, u, v, from_sample(table, b, table_step),
                table_rows // 2, table_columns, out_height, out_width, C, GROUPS, TAPS, MODE, CUBIC, UNIT, SPAN, K, P, F, INDEX,
            )  # fmt: skip
        else:
            usable, x0, y0, x1, y1 = hold_in_window(x, y, usable, frame, MODE, WINDOW)
            colour, _, _, covered, _, _ = read(
                picture, stride_c, stride_y, stride_x, first, height, width,
                x, y, usable, x0, y0, x1, y1, C, GROUPS, TAPS, MODE, WINDOW, CUBIC, UNIT, False, RAW, K, P, F, NEAR, INDEX,
            )  # fmt: skip
    p = from_sample(colors, b, param_step)
    bias, second, last = p + SLOTS[0], p + SLOTS[2], p + SLOTS[3]
    if FIRST_MIX & FLAGS:
        if MATRIX & FLAGS:
            colour = mix(p, colour, OC, C)
        colour = cover(bias, bias + OC, colour, covered, first, OC, GROUPS, N)
    if LINKS:
        colour = lay_over(colour, share, uncovered, p + GROUNDS, first, LINKS, SOFT, GROUNDS >= 0, OC, GROUPS, N)
    if HUE & FLAGS:
        colour = hue(tl.load(p + SLOTS[1]), colour)
    if SECOND_MIX & FLAGS:
        colour = shift(second + OC * OC, mix(second, colour, OC, OC), OC)
    if CLIP & FLAGS:
        colour = clip(colour, N)
    if LAST_MIX & FLAGS:
        colour = shift(last + OC * OC, mix(last, colour, OC, OC), OC)
    plane = out_width.to(INDEX) * out_height
    STEPS: tl.constexpr = 1.0 if LEVELS & FLAGS else 255.0
    pixels = from_sample(out, b * OC + first, plane) + (v.to(INDEX) * out_width + u)
    store_channels(pixels, plane, drawn, first, colour, OC, GROUPS, N, STEPS)


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def copy_labels(  # type: ignore[no-untyped-def]
    image,
    mapping,
    window,
    fill,
    field,
    out,
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
    fill_step,
    C: tl.constexpr,
    MODE: tl.constexpr,
    WINDOW: tl.constexpr,
    FIELD: tl.constexpr,
    PROJECTIVE: tl.constexpr,
    BW: tl.constexpr,
    WW: tl.constexpr,
    P: tl.constexpr,
    F: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Program (tile across, down, sample and channel): every output pixel is a copy of its nearest input pixel, or the fill."""
    plane_at = tl.program_id(2)
    c = plane_at % C
    b = sample + (plane_at // C).to(tl.int64)
    u, v = tile_pixels(tl.program_id(0), tl.program_id(1), BW, WW, P)
    drawn = (u < out_width) & (v < out_height)
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = load_map(mapping + b * map_step, PROJECTIVE)
    x, y, _, usable = locate(u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, PROJECTIVE, F)
    x, y, usable = displace(x, y, usable & drawn, field + b * field_b, u, v, field_c, field_y, field_x, FIELD, INDEX)
    usable, x0, y0, x1, y1 = hold_in_window(x, y, usable, window + b * window_step, MODE, WINDOW)
    EDGE: tl.constexpr = BORDER if WINDOW else MODE
    ix, _, _ = settle(x, x0, x1, width, 1, EDGE, WINDOW)
    iy, _, _ = settle(y, y0, y1, height, 1, EDGE, WINDOW)
    if EDGE == FILLED:
        usable = usable & (ix >= 0) & (ix < width) & (iy >= 0) & (iy < height)
    at = fold(iy, height, EDGE).to(INDEX) * stride_y + fold(ix, width, EDGE).to(INDEX) * stride_x
    value = tl.load(image + b * stride_b + c.to(tl.int64) * stride_c + at, mask=usable, other=0)
    value = tl.where(usable, value, tl.load(fill + b * fill_step + c))
    plane = out_width.to(INDEX) * out_height
    tl.store(out + (b * C + c) * plane + v.to(INDEX) * out_width + u, value, mask=drawn)

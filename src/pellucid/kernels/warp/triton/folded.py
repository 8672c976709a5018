"""The part of the image's gradient whose readers no box bounds, in fixed point: what a border rule or a window moved to another
pixel, and everything where a displacement field says who reads what.

Owns: adding shares of taps to the pixels they read, or to those that stand in for them.
Must not: add floating-point numbers; integers add up to the same bits in any order, so atomics change nothing.
Read next: ``gather.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import NUMBERS, POINTERS, exists, from_sample, load_channels, scaled
from pellucid.kernels.warp.triton.coordinates import BORDER, FILLED, fold, load_map, settle, tile_pixels, weight
from pellucid.kernels.warp.triton.links import find
from pellucid.kernels.warp.triton.sampling import hold_in_window
from pellucid.kernels.warp.triton.spans import at_point, look

__all__ = ["add_folded", "add_weighted", "to_fixed"]


@triton.jit
def to_fixed(value):  # type: ignore[no-untyped-def]
    """Value rounded to an integer of 64 bits.

    Single precision goes by halves of 32 bits: double precision costs 32 to 64 times as much on most devices.
    """
    if value.dtype == tl.float32:
        high = tl.floor(value * (2.0**-32))
        low = tl.floor(tl.fma(high, tl.full(value.shape, -(2.0**32), tl.float32), value) + 0.5)
        amount = (high.to(tl.int32).to(tl.int64) << 32) + low.to(tl.uint32).to(tl.int64)
    else:
        amount = tl.floor(value + 0.5).to(tl.int64)
    return amount


@triton.jit
def _in_units(  # type: ignore[no-untyped-def]
    pixels, stride, units, lane, first, OC: tl.constexpr, GROUPS: tl.constexpr, N: tl.constexpr, F: tl.constexpr
):
    """(gradients in units of fixed point, whether the sample's are finite)."""
    half, rest = tl.load(units), tl.load(units + 1)
    g = load_channels(pixels, stride, lane, first, OC, GROUPS, N, F)
    return scaled(scaled(g, half, N), rest, N), half == half


@triton.jit
def _add_shares(  # type: ignore[no-untyped-def]
    target, plane, share, g, finite, lane, first, OC: tl.constexpr, GROUPS: tl.constexpr, N: tl.constexpr
):
    """Add a share of the gradients to one pixel of each channel's plane."""
    for c in tl.static_range(N):
        amount = tl.where(finite, to_fixed(share * g[c]), 1)
        tl.atomic_add(target + c * plane, amount, mask=exists(lane, first + c, OC, GROUPS), sem="relaxed")


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def add_weighted(  # type: ignore[no-untyped-def]
    grad, mapping, units, field, table, folded, grad_b, grad_c, grad_y, grad_x, field_b, field_c, field_y, field_x,
    height, width, out_height, out_width, sample, map_step, table_step, table_rows, table_columns,
    OC: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, FIELD: tl.constexpr, PROJECTIVE: tl.constexpr,
    CUBIC: tl.constexpr, SPAN: tl.constexpr, N: tl.constexpr, BW: tl.constexpr, WW: tl.constexpr, P: tl.constexpr,
    F: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """As `add_folded`, of an antialiased warp: everything that its pixels span."""
    plane_at = tl.program_id(2)
    group = plane_at % GROUPS
    b = sample + plane_at // GROUPS
    u, v = tile_pixels(tl.program_id(0), tl.program_id(1), BW, WW, P)
    drawn = (u < out_width) & (v < out_height)
    x, y, usable, _, _, _, _, _ = find(
        u, v, drawn, load_map(from_sample(mapping, b, map_step), PROJECTIVE), mapping, from_sample(field, b, field_b),
        field_c, field_y, field_x, 0, 0, 0, 0, FIELD, PROJECTIVE, False, INDEX, F,
    )  # fmt: skip
    weights, half = from_sample(table, b, table_step), table_rows // 2
    row, column, far, n = at_point(x, y, u, v, usable, weights, half, table_columns, out_height, out_width, SPAN, CUBIC, TAPS, F)
    first = group * N
    plane = width.to(INDEX) * height
    pixels = from_sample(grad, b, grad_b) + first.to(INDEX) * grad_c + (v.to(INDEX) * grad_y + u.to(INDEX) * grad_x)
    g, finite = _in_units(pixels, grad_c.to(INDEX), units + b * 2, usable, first, OC, GROUPS, N, F)
    own = from_sample(folded, b * OC + first, plane)
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            share, added, iy, ix = look(
                n, weights, row, column, j, i, usable, half, table_columns, height, width, SPAN, CUBIC, TAPS, MODE
            )
            _add_shares(own + (iy.to(INDEX) * width + ix), plane, share, g, finite, added, first, OC, GROUPS, N)
            i += 1
        j += 1


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def add_folded(  # type: ignore[no-untyped-def]
    grad,
    mapping,
    window,
    units,
    field,
    links,
    folded,
    grad_b,
    grad_c,
    grad_y,
    grad_x,
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
    link_step,
    knots_down,
    knots_across,
    OC: tl.constexpr,
    GROUPS: tl.constexpr,
    TAPS: tl.constexpr,
    MODE: tl.constexpr,
    WINDOW: tl.constexpr,
    FIELD: tl.constexpr,
    PROJECTIVE: tl.constexpr,
    CUBIC: tl.constexpr,
    N: tl.constexpr,
    BW: tl.constexpr,
    WW: tl.constexpr,
    P: tl.constexpr,
    F: tl.constexpr,
    LINKS: tl.constexpr,
    KINDS: tl.constexpr,
    SOFT: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Program (tile of the output across, down, sample and group of N channels); in the filled modes only with a field or canvases.
    SOFT: what canvases leave to the source is not in the gradient yet.

    ``units``: (sample, 2), two powers of two, one of which might leave the range; their product is the number of units in 1. A
    sample with NaN there (its gradient is not finite somewhere) marks what it touches by ones.
    """
    plane_at = tl.program_id(2)
    group = plane_at % GROUPS
    b = sample + plane_at // GROUPS
    u, v = tile_pixels(tl.program_id(0), tl.program_id(1), BW, WW, P)
    drawn = (u < out_width) & (v < out_height)
    x, y, usable, part, _, _, _, _ = find(
        u, v, drawn, load_map(from_sample(mapping, b, map_step), PROJECTIVE), from_sample(links, b, link_step),
        from_sample(field, b, field_b), field_c, field_y, field_x, knots_down, knots_across,
        LINKS, KINDS, FIELD, PROJECTIVE, False, INDEX, F,
    )  # fmt: skip
    usable, x0, y0, x1, y1 = hold_in_window(x, y, usable, from_sample(window, b, window_step), MODE, WINDOW)
    EDGE: tl.constexpr = BORDER if WINDOW else MODE
    held = tl.zeros((P,), tl.int1)
    if WINDOW:
        held = (x < x0) | (x > x1) | (y < y0) | (y > y1)
    first_x, tx, _ = settle(x, x0, x1, width, TAPS, EDGE, WINDOW)
    first_y, ty, _ = settle(y, y0, y1, height, TAPS, EDGE, WINDOW)
    concerned = usable
    if not FIELD:
        outside = (first_x < 0) | (first_x + TAPS > width) | (first_y < 0) | (first_y + TAPS > height)
        concerned = usable & (held | outside)
    if tl.max(concerned.to(tl.int32), 0) > 0:
        first = group * N
        plane = width.to(INDEX) * height
        pixels = from_sample(grad, b, grad_b) + first.to(INDEX) * grad_c + (v.to(INDEX) * grad_y + u.to(INDEX) * grad_x)
        g, finite = _in_units(pixels, grad_c.to(INDEX), units + b * 2, usable, first, OC, GROUPS, N, F)
        if SOFT:
            g = scaled(g, part, N)
        for j in tl.static_range(TAPS):
            iy = first_y + j
            wy = weight(ty, CUBIC, j, TAPS)
            line = fold(iy, height, EDGE).to(INDEX) * width
            beyond_y = (iy < 0) | (iy >= height)
            for i in tl.static_range(TAPS):
                ix = first_x + i
                share = wy * weight(tx, CUBIC, i, TAPS)
                beyond = beyond_y | (ix < 0) | (ix >= width)
                added = usable & (share != 0.0)
                if EDGE == FILLED:
                    added = added & (beyond == 0)
                elif not FIELD:
                    added = added & (held | beyond)
                target = from_sample(folded, b * OC + first, plane) + (line + fold(ix, width, EDGE))
                _add_shares(target, plane, share, g, finite, added, first, OC, GROUPS, N)

"""The gradients of antialiased affine warps to where they read: through the point, and through the table of weights around it.

Owns: the slopes of tabulated weights along x and y, and what the table's numbers get, in fixed point, as all pixels have a share.
Must not: make tables, or know colours.
Read next: ``gradients.py``, ``folded.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.footprint import PHASES
from pellucid.kernels.warp.triton.blocks import NUMBERS, POINTERS, from_sample, load_channels, scaled
from pellucid.kernels.warp.triton.coordinates import FILLED, fold, load_map, locate, tile_pixels, within
from pellucid.kernels.warp.triton.folded import to_fixed
from pellucid.kernels.warp.triton.spans import TABLE, at_point

__all__ = ["add_tabled", "tilt_tabled"]

_STEPS, _EDGES = tl.constexpr(PHASES), tl.constexpr(PHASES + 1)


@triton.jit
def _gets(  # type: ignore[no-untyped-def]
    image, stride_c, stride_y, stride_x, g, to_cover, table, n, row, column, down, across, usable, first, height, width,
    half, columns, C: tl.constexpr, GROUPS: tl.constexpr, MODE: tl.constexpr, UNIT: tl.constexpr, K: tl.constexpr, F: tl.constexpr,
    INDEX: tl.constexpr,
):  # fmt: skip
    """(what the weight of a pixel so many rows down and columns across gets, whether it can be one, where its numbers lie in the
    table, one phase further along y, and the numbers: of the phase before, the next along x, along y, along both).
    """
    at = n[0] + (down + half - 1) * _EDGES * columns + across + half - 1
    below = at + 2 * half * _EDGES * columns
    a, b, c, d = tl.load(table + at), tl.load(table + at + columns), tl.load(table + below), tl.load(table + below + columns)
    iy, ix = row + down, column + across
    seen = usable & (tl.abs(a) + tl.abs(b) + tl.abs(c) + tl.abs(d) > 0.0)  # a weight beside zeros has no slope
    if MODE == FILLED:
        seen = seen & within(iy, height) & within(ix, width)
    pixels = image + fold(iy, height, MODE).to(INDEX) * stride_y.to(INDEX) + fold(ix, width, MODE).to(INDEX) * stride_x.to(INDEX)
    values = load_channels(pixels, stride_c.to(INDEX), seen, first, C, GROUPS, K, F)
    total = to_cover if MODE == FILLED else tl.zeros(to_cover.shape, F)
    for k in tl.static_range(K):
        total = tl.fma(g[k] * UNIT, values[k], total)
    return tl.where(seen, total, 0.0), seen, at, below, a, b, c, d


@triton.jit
def tilt_tabled(  # type: ignore[no-untyped-def]
    image, stride_c, stride_y, stride_x, g, to_cover, first, height, width, x, y, usable, u, v, table, half, columns,
    out_height, out_width, C: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, UNIT: tl.constexpr,
    K: tl.constexpr, P: tl.constexpr, F: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """(to x, to y, the most that one weight gets) of each output pixel, of whose colour g is the gradient; infinite for NaN."""
    row, column, far, n = at_point(x, y, u, v, usable, table, half, columns, out_height, out_width, TABLE, 0.0, TAPS, F)
    to_x, to_y, most = tl.zeros((P,), F), tl.zeros((P,), F), tl.zeros((P,), F)
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            gets, _, _, _, a, b, c, d = _gets(
                image, stride_c, stride_y, stride_x, g, to_cover, table, n, row, column, j, i, usable, first, height, width, half,
                columns, C, GROUPS, MODE, UNIT, K, F, INDEX,
            )  # fmt: skip
            to_x = tl.fma(gets, tl.fma(n[2], (d - c) - (b - a), b - a), to_x)
            to_y = tl.fma(gets, tl.fma(n[1], (d - b) - (c - a), c - a), to_y)
            size = tl.abs(gets)
            most = tl.maximum(most, tl.where(size == size, size, float("inf")))
            i += 1
        j += 1
    return to_x * _STEPS, to_y * _STEPS, most


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def add_tabled(  # type: ignore[no-untyped-def]
    image, mapping, units, table, grad, covers, folded, stride_b, stride_c, stride_y, stride_x,
    height, width, out_height, out_width, sample, map_step, table_step, table_rows, table_columns,
    C: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, UNIT: tl.constexpr, K: tl.constexpr,
    BW: tl.constexpr, WW: tl.constexpr, P: tl.constexpr, F: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Program (tile of the output across, down, sample and group): shares of all that a pixel's weights get are added to the four
    numbers of the table that each lies between.

    grad, covers: (sample, channel, output pixel), (sample, group, output pixel), of the source and its coverage; folded: (sample,
    phases, rows, phases, columns) in units of the product of the sample's two ``units``, as `add_folded` takes them.
    """
    plane_at = tl.program_id(2)
    group = plane_at % GROUPS
    b = sample + plane_at // GROUPS
    u, v = tile_pixels(tl.program_id(0), tl.program_id(1), BW, WW, P)
    drawn = (u < out_width) & (v < out_height)
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = load_map(from_sample(mapping, b, map_step), False)
    x, y, _, usable = locate(u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, False, F)
    usable = usable & drawn
    weights, half = from_sample(table, b, table_step), table_rows // 2
    row, column, far, n = at_point(
        x, y, u, v, usable, weights, half, table_columns, out_height, out_width, TABLE, 0.0, TAPS, F
    )  # fmt: skip
    first = group * K
    picture = from_sample(image, b, stride_b) + first.to(INDEX) * stride_c
    plane, at = out_width.to(INDEX) * out_height, v.to(INDEX) * out_width + u
    one, other = tl.load(units + b * 2), tl.load(units + b * 2 + 1)
    finite = one == one
    g = load_channels(from_sample(grad, b * C + first, plane) + at, plane, usable, first, C, GROUPS, K, F)
    g = scaled(scaled(g, one, K), other, K)
    to_cover = tl.load(from_sample(covers, plane_at + sample * GROUPS, plane) + at, mask=usable, other=0.0) * one * other
    own = from_sample(folded, b, 2 * half * table_columns * (_EDGES * _EDGES)) - 1  # before the table lies how many count
    tx, ty = n[1], n[2]
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            gets, seen, place, below, _, _, _, _ = _gets(
                picture, stride_c, stride_y, stride_x, g, to_cover, weights, n, row, column, j, i, usable, first, height, width,
                half, table_columns, C, GROUPS, MODE, UNIT, K, F, INDEX,
            )  # fmt: skip
            for k in tl.static_range(4):
                share = gets * (tx if k % 2 else 1.0 - tx) * (ty if k // 2 else 1.0 - ty)
                target = own + (below if k // 2 else place) + (k % 2) * table_columns
                tl.atomic_add(target, tl.where(finite, to_fixed(share), 1), mask=seen, sem="relaxed")
            i += 1
        j += 1

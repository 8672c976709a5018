"""The image's gradient of crops and resizes: every input pixel collects from the output pixels that span it.

Owns: one owner per input pixel, adding in the order of its candidates' rows and columns; no atomics.
Must not: miss a candidate.
Read next: ``axes.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.axes import axis_of, place, shared
from pellucid.kernels.warp.triton.blocks import (
    NUMBERS,
    POINTERS,
    add_scaled,
    from_sample,
    load_channels,
    scaled,
    store_channels,
    zeros,
)
from pellucid.kernels.warp.triton.coordinates import FILLED, bump, tile_pixels
from pellucid.kernels.warp.triton.footprint import span
from pellucid.kernels.warp.triton.stages import unmixed

__all__ = ["collect"]


@triton.jit
def _range(p, scale, shift, low, high, size, count, TAPS: tl.constexpr, MODE: tl.constexpr, EPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(first, last) of the outputs along an axis that may span the pixels p; all of them where nothing else is known."""
    reach = size * (TAPS // 2)
    steep = tl.abs(scale) > 0.0
    step = 1.0 / tl.where(steep, scale, 1.0)
    middle = (p - shift) * step
    room = (reach + (tl.abs(p) + tl.abs(shift) + reach) * EPS) * tl.abs(step) + tl.abs(middle) * EPS + 1e-3
    bottom, top = middle - room, middle + room
    if MODE != FILLED:  # outputs beyond the window read at its edge
        lower, upper = p - reach <= low, p + reach >= high
        rising = tl.zeros(p.shape, p.dtype) + scale > 0.0
        bottom = tl.where((lower & rising) | (upper & (rising == 0)), -1e30, bottom)
        top = tl.where((upper & rising) | (lower & (rising == 0)), 1e30, top)
    known = (tl.abs(bottom) + tl.abs(top) >= 0.0) & (tl.zeros(p.shape, p.dtype) + tl.abs(scale) > 0.0)
    finite = tl.zeros(p.shape, p.dtype) + (tl.abs(scale) + tl.abs(shift)) < float("inf")  # else nothing is seen
    return span(tl.where(known, bottom, -1e30), tl.where(finite, tl.where(known, top, 1e30), -1e30), count)


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
def collect(  # type: ignore[no-untyped-def]
    grad, mapping, window, table, colors, to_image, grad_b, grad_c, grad_y, grad_x, height, width, out_height, out_width, sample,
    map_step, window_step, param_step, table_step,
    C: tl.constexpr, OC: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, SHARP: tl.constexpr,
    FLAGS: tl.constexpr, SLOTS: tl.constexpr, EPS: tl.constexpr, K: tl.constexpr, N: tl.constexpr, BW: tl.constexpr,
    WW: tl.constexpr, P: tl.constexpr, F: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Program (tile of the image across, down, sample and group): N channels are collected, K written; as `gather` is.

    ``table`` is what `spread` wrote.
    """
    plane_at = tl.program_id(2)
    group = plane_at % GROUPS
    b = sample + plane_at // GROUPS
    column, row = tile_pixels(tl.program_id(0), tl.program_id(1), BW, WW, P)
    owned = (column < width) & (row < height)
    own, frame = from_sample(mapping, b, map_step), from_sample(window, b, window_step)
    each, numbers = out_width + out_height, from_sample(table, b, table_step)
    first = group * K
    upstream = from_sample(grad, b, grad_b) + first.to(INDEX) * grad_c
    scale_x, shift_x, low_x, high_x, size_x = axis_of(own, frame, 0, SHARP)
    scale_y, shift_y, low_y, high_y, size_y = axis_of(own, frame, 1, SHARP)
    px, py = column.to(F), row.to(F)
    part = shared(px, low_x, high_x) * shared(py, low_y, high_y)
    first_u, last_u = _range(px, scale_x, shift_x, low_x, high_x, size_x, out_width, TAPS, MODE, EPS)
    first_v, last_v = _range(py, scale_y, shift_y, low_y, high_y, size_y, out_height, TAPS, MODE, EPS)
    concerned = owned & (part > 0.0)
    last_u, last_v = tl.where(concerned, last_u, -1), tl.where(concerned, last_v, -1)
    rows, columns = tl.max(tl.maximum(last_v - first_v + 1, 0), 0), tl.max(tl.maximum(last_u - first_u + 1, 0), 0)
    inverse_x, inverse_y = 1.0 / size_x, 1.0 / size_y
    total = zeros(N, P, F)
    j = rows * 0
    while j < rows:
        v = first_v + j
        centre_y, share_y, _ = place(numbers, v + out_width, each, v <= last_v)
        down = bump(tl.abs((py - centre_y) * inverse_y), -0.5, TAPS) * share_y
        line = upstream + v.to(INDEX) * grad_y
        i = columns * 0
        while i < columns:
            u = first_u + i
            centre_x, share_x, _ = place(numbers, u, each, u <= last_u)
            share = bump(tl.abs((px - centre_x) * inverse_x), -0.5, TAPS) * share_x * down
            reads = (u <= last_u) & (v <= last_v) & (share != 0.0)
            g = load_channels(line + u.to(INDEX) * grad_x, grad_c.to(INDEX), reads, first, OC, GROUPS, N, F)
            total = add_scaled(total, share, g, N)
            i += 1
        j += 1
    total = unmixed(from_sample(colors, b, param_step), scaled(total, tl.where(concerned, part, 0.0), N), C, OC, FLAGS, SLOTS)
    plane = width.to(INDEX) * height
    pixels = from_sample(to_image, b * C + first, plane) + (row.to(INDEX) * width + column)
    store_channels(pixels, plane, owned, first, total, C, GROUPS, K)

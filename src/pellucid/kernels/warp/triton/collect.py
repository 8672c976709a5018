"""The image's gradient of crops and resizes: every input pixel collects from the output pixels that span it.

Owns: one owner per input pixel, adding in the order of its candidates' rows and columns; no atomics.
Must not: miss a candidate.
Read next: ``axes.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.axes import axis_of, place, shared
from pellucid.kernels.warp.triton.blocks import add_scaled, load_at, scaled, store_planes, view, zeros
from pellucid.kernels.warp.triton.coordinates import FILLED, bump, pixels
from pellucid.kernels.warp.triton.footprint import span
from pellucid.kernels.warp.triton.stages import unmixed

__all__ = ["collect"]


@triton.jit
def _range(p, axis, count, S):  # type: ignore[no-untyped-def]
    """(first, last) of the outputs along an axis that may span the pixels p; all of them where nothing else is known."""
    scale, shift, low, high, size = axis
    reach = size * (S.TAPS // 2)
    steep = tl.abs(scale) > 0.0
    step = 1.0 / tl.where(steep, scale, 1.0)
    middle = (p - shift) * step
    room = (reach + (tl.abs(p) + tl.abs(shift) + reach) * S.EPS) * tl.abs(step) + tl.abs(middle) * S.EPS + 1e-3
    bottom, top = middle - room, middle + room
    if S.MODE != FILLED:  # outputs beyond the window read at its edge
        lower, upper = p - reach <= low, p + reach >= high
        rising = tl.zeros(p.shape, p.dtype) + scale > 0.0
        bottom = tl.where((lower & rising) | (upper & (rising == 0)), -1e30, bottom)
        top = tl.where((upper & rising) | (lower & (rising == 0)), 1e30, top)
    known = (tl.abs(bottom) + tl.abs(top) >= 0.0) & (tl.zeros(p.shape, p.dtype) + tl.abs(scale) > 0.0)
    finite = tl.zeros(p.shape, p.dtype) + (tl.abs(scale) + tl.abs(shift)) < float("inf")  # else nothing is seen
    return span(tl.where(known, bottom, -1e30), tl.where(finite, tl.where(known, top, 1e30), -1e30), count)


@pixels
def collect(grad, to_image, given, column, row, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (tile of the image across, down, sample and group): N channels are collected, K written; as `gather` is."""
    height, width, out_height, out_width = given.height, given.width, given.out_height, given.out_width
    owned = (column < width) & (row < height)
    each, numbers, first = out_width + out_height, given.table, given.first
    upstream = view(grad, given, 0, S)
    across = axis_of(given.mapping, given.window, 0, S.SHARP)
    along = axis_of(given.mapping, given.window, 1, S.SHARP)
    px, py = column.to(S.F), row.to(S.F)
    part = shared(px, across[2], across[3]) * shared(py, along[2], along[3])
    first_u, last_u = _range(px, across, out_width, S)
    first_v, last_v = _range(py, along, out_height, S)
    concerned = owned & (part > 0.0)
    last_u, last_v = tl.where(concerned, last_u, -1), tl.where(concerned, last_v, -1)
    tall, wide = tl.max(tl.maximum(last_v - first_v + 1, 0), 0), tl.max(tl.maximum(last_u - first_u + 1, 0), 0)
    inverse_x, inverse_y = 1.0 / across[4], 1.0 / along[4]
    total = zeros(S.N, S.P, S.F)
    j = tall * 0
    while j < tall:
        v = first_v + j
        centre_y, share_y, _ = place(numbers, v + out_width, each, v <= last_v)
        down = bump(tl.abs((py - centre_y) * inverse_y), -0.5, S.TAPS) * share_y
        i = wide * 0
        while i < wide:
            u = first_u + i
            centre_x, share_x, _ = place(numbers, u, each, u <= last_u)
            share = bump(tl.abs((px - centre_x) * inverse_x), -0.5, S.TAPS) * share_x * down
            reads = (u <= last_u) & (v <= last_v) & (share != 0.0)
            total = add_scaled(total, share, load_at(upstream, v, u, reads, S.OC, S.N, S))
            i += 1
        j += 1
    total = unmixed(given.colors, scaled(total, tl.where(concerned, part, 0.0)), S)
    store_planes(to_image, given.b * S.C + first, (column, row, owned, height, width), first, total, S.C, S, S.GROUPS)

"""The part of the image's gradient whose readers no box bounds, in fixed point: what a border rule or a window moved to another
pixel, and everything where a displacement field says who reads what.

Owns: adding shares of taps to the pixels they read, or to those that stand in for them.
Must not: add floating-point numbers; integers add up to the same bits in any order, so atomics change nothing.
Read next: ``gather.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import exists, load_channels
from pellucid.kernels.warp.triton.coordinates import BORDER, FILLED, displace, fold, load_map, locate, settle, tile_pixels, weight
from pellucid.kernels.warp.triton.sampling import hold_in_window

__all__ = ["add_folded"]


@triton.jit
def add_folded(  # type: ignore[no-untyped-def]
    grad,
    mapping,
    window,
    scale,
    field,
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
    tiles_x,
    tiles,
    map_step,
    window_step,
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
    P: tl.constexpr,
    F: tl.constexpr,
):
    """Program (sample, tile of the output, group of N channels); in the filled modes only with a field.

    A sample whose ``scale`` is not a number (its gradient has some that are not finite) marks what it touches by ones.
    """
    program = tl.program_id(0)
    group = program % GROUPS
    tile = (program // GROUPS) % tiles
    b = (program // GROUPS // tiles).to(tl.int64)
    u, v = tile_pixels(tile, tiles_x, BW, P)
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = load_map(mapping + b * map_step, PROJECTIVE)
    x, y, _, usable = locate(u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, PROJECTIVE, F)
    usable = usable & (u < out_width) & (v < out_height)
    x, y, usable = displace(x, y, usable, field + b * field_b, u, v, field_c, field_y, field_x, FIELD)
    usable, x0, y0, x1, y1 = hold_in_window(x, y, usable, window + b * window_step, MODE, WINDOW)
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
        plane = b * 0 + height
        at = v.to(tl.int64) * grad_y + u.to(tl.int64) * grad_x
        g = load_channels(grad + b * grad_b, at, grad_c, usable, first.to(tl.int64), OC, GROUPS, N, F)
        unit = tl.load(scale + b)
        finite = unit == unit
        for j in tl.static_range(TAPS):
            iy = first_y + j
            wy = weight(ty, CUBIC, j, TAPS)
            line = fold(iy, height, EDGE).to(tl.int64) * width
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
                target = folded + b * OC * plane * width + line + fold(ix, width, EDGE)
                for c in tl.static_range(N):
                    amount = tl.floor((share * g[c]).to(tl.float64) * unit + 0.5)
                    amount = tl.where(finite, amount, 1.0).to(tl.int64)
                    to = exists(added, first + c, OC, GROUPS)
                    tl.atomic_add(target + (first + c) * plane * width, amount, mask=to, sem="relaxed")

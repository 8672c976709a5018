"""The image's gradient in gather form: every input pixel collects from the output pixels that read it.

Owns: one owner per input pixel, adding in the order of its candidates' rows and columns; no atomics.
Must not: miss a candidate (``footprint.py``), or collect what was added in fixed point (``folded.py``).
Read next: ``footprint.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import NUMBERS, add_scaled, exists, from_sample, load_channels, store_channels, zeros
from pellucid.kernels.warp.triton.coordinates import FILLED, bump, fold, half_up, load_map, locate, settle, tile_pixels, weight
from pellucid.kernels.warp.triton.footprint import BOUNDS, candidates
from pellucid.kernels.warp.triton.sampling import hold_in_window
from pellucid.kernels.warp.triton.stages import unmixed

__all__ = ["gather", "weight_at"]

INVERSE, COLUMNS = tl.constexpr(BOUNDS), tl.constexpr(10)


@triton.jit
def weight_at(x, pixel, low, high, length, TAPS: tl.constexpr, CUBIC: tl.constexpr, CLAMPED: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weight with which a pixel on one axis enters the sample at x.

    CLAMPED: x is held between low and high first, and taps beyond the image are those on its edge; otherwise only a tap exactly
    on the pixel counts.
    """
    if CLAMPED and TAPS == 4:
        first, t, _ = settle(x, low, high, length, TAPS, 1, True)
        total = tl.zeros(x.shape, x.dtype)
        for k in tl.static_range(TAPS):
            total += tl.where(fold(first + k, length, 1) == pixel, weight(t, CUBIC, k, TAPS), 0.0)
    else:
        if CLAMPED:
            x = tl.minimum(tl.maximum(x, low), high)
            x = tl.minimum(tl.maximum(x, 0.0), length - 1.0)
        if TAPS == 1:
            total = tl.where(tl.floor(x + half_up(x, length)) == pixel, 1.0, 0.0).to(x.dtype)
        else:
            total = bump(tl.abs(x - pixel), CUBIC, TAPS)
    return total


@triton.jit
def _add_fixed(  # type: ignore[no-untyped-def]
    totals, fixed, at, stride, lane, first, unfold, OC: tl.constexpr, GROUPS: tl.constexpr, N: tl.constexpr
):
    """Totals + what ``folded.py`` collected, in units of the product of two powers of two, one of which might leave the range."""
    half, rest = tl.load(unfold), tl.load(unfold + 1)
    sums = ()
    for c in tl.static_range(N):
        count = tl.load(fixed + at + (first + c).to(stride.dtype) * stride, mask=exists(lane, first + c, OC, GROUPS), other=0)
        sums = sums + (totals[c] + tl.where(count == 0, 0.0, count.to(totals[c].dtype) * half * rest),)
    return sums


@triton.jit(do_not_specialize=NUMBERS)
def gather(  # type: ignore[no-untyped-def]
    grad,
    mapping,
    window,
    inverse,
    colors,
    folded,
    unfold,
    to_image,
    grad_b,
    grad_c,
    grad_y,
    grad_x,
    height,
    width,
    out_height,
    out_width,
    sample,
    map_step,
    window_step,
    param_step,
    C: tl.constexpr,
    OC: tl.constexpr,
    GROUPS: tl.constexpr,
    TAPS: tl.constexpr,
    MODE: tl.constexpr,
    WINDOW: tl.constexpr,
    FIELD: tl.constexpr,
    PROJECTIVE: tl.constexpr,
    CUBIC: tl.constexpr,
    FLAGS: tl.constexpr,
    REACH: tl.constexpr,
    EPS: tl.constexpr,
    K: tl.constexpr,
    N: tl.constexpr,
    BW: tl.constexpr,
    WW: tl.constexpr,
    P: tl.constexpr,
    F: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Program (tile of the image across, down, sample and group): N channels are collected, K written.

    ``grad`` has the OC channels of the output; FLAGS are those of the mixes between them and the image's C channels, applied to
    what was collected. ``inverse`` is what `bounds` wrote. Outside the filled modes ``folded`` holds the rest in fixed point,
    in units of the product of ``unfold``'s two numbers; with a field, which no box bounds, everything.
    """
    plane_at = tl.program_id(2)
    group = plane_at % GROUPS
    b = sample + plane_at // GROUPS
    column, row = tile_pixels(tl.program_id(0), tl.program_id(1), BW, WW, P)
    owned = (column < width) & (row < height)
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = load_map(from_sample(mapping, b, map_step), PROJECTIVE)
    first = group * K
    frame, table = from_sample(window, b, window_step), inverse + b.to(tl.int64) * INVERSE
    upstream = from_sample(grad, b, grad_b) + first.to(INDEX) * grad_c
    total = zeros(N, P, F)
    if not FIELD:
        # An affine map that makes a coordinate infinite or NaN has no candidates, or gives the coordinate no weight.
        RAW: tl.constexpr = not PROJECTIVE and not WINDOW and TAPS <= 2
        CLAMPED: tl.constexpr = WINDOW and MODE == FILLED
        px, py = column.to(F), row.to(F)
        lx, hx, ly, hy = px - REACH, px + REACH, py - REACH, py + REACH
        if CLAMPED:
            # What the window holds was up to half a pixel outside of it, and what it leaves outside the image shows the edge.
            x0, y0, x1, y1 = tl.load(frame), tl.load(frame + 1), tl.load(frame + 2), tl.load(frame + 3)
            lx = tl.where(column == 0, tl.minimum(x0, 0.0), px) - (REACH + 0.5)
            ly = tl.where(row == 0, tl.minimum(y0, 0.0), py) - (REACH + 0.5)
            hx = tl.where(column == width - 1, tl.maximum(x1, px), px) + (REACH + 0.5)
            hy = tl.where(row == height - 1, tl.maximum(y1, py), py) + (REACH + 0.5)
        first_u, last_u, first_v, last_v = candidates(lx, hx, ly, hy, table, out_height, out_width, PROJECTIVE, REACH, CLAMPED, EPS)
        last_v = tl.where(owned, last_v, -1)
        rows = tl.max(tl.maximum(last_v - first_v + 1, 0), 0)
        if PROJECTIVE or CLAMPED:
            columns = tl.max(tl.where(last_v < first_v, 0, last_u - first_u + 1), 0)
        else:  # no pixel's box is wider than the sample's widest
            columns = tl.load(table + COLUMNS).to(tl.int32)
        j = rows * 0
        while j < rows:
            v = first_v + j
            i = columns * 0
            while i < columns:
                u = first_u + i
                x, y, _, usable = locate(u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, PROJECTIVE, F, RAW)
                usable, x0, y0, x1, y1 = hold_in_window(x, y, usable, frame, MODE, WINDOW)
                if WINDOW and MODE != FILLED:  # those that the window holds are in ``folded``
                    usable = usable & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
                share = weight_at(x, px, x0, x1, width, TAPS, CUBIC, CLAMPED)
                share *= weight_at(y, py, y0, y1, height, TAPS, CUBIC, CLAMPED)
                reads = (u <= last_u) & (v <= last_v) & (tl.abs(share) > 0.0)  # false for NaN
                if not RAW:
                    reads = reads & usable
                pixels = upstream + (v.to(INDEX) * grad_y + u.to(INDEX) * grad_x)
                g = load_channels(pixels, grad_c.to(INDEX), reads, first, OC, GROUPS, N, F)
                total = add_scaled(total, share if RAW and TAPS == 2 else tl.where(reads, share, 0.0), g, N)
                i += 1
            j += 1
    plane = width.to(INDEX) * height
    at = row.to(INDEX) * width + column
    if FIELD or MODE != FILLED:
        total = _add_fixed(total, from_sample(folded, b * OC, plane), at, plane, owned, first, unfold + b * 2, OC, GROUPS, N)
    total = unmixed(from_sample(colors, b, param_step), total, C, OC, FLAGS)
    store_channels(from_sample(to_image, b * C + first, plane) + at, plane, owned, first, total, C, GROUPS, K)

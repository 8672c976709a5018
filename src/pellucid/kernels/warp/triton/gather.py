"""The image's gradient in gather form: every input pixel collects from the output pixels that read it.

Owns: one owner per input pixel, adding in the order of its candidates' rows and columns; no atomics.
Must not: miss a candidate (``footprint.py``), or collect what was added in fixed point (``folded.py``).
Read next: ``footprint.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import NUMBERS, POINTERS, exists, from_sample, store_channels, zeros
from pellucid.kernels.warp.triton.coordinates import FAR, FILLED, bump, fold, half_up, load_map, locate, settle, tile_pixels, weight
from pellucid.kernels.warp.triton.footprint import BOUNDS, candidates
from pellucid.kernels.warp.triton.sampling import hold_in_window
from pellucid.kernels.warp.triton.stages import unmixed

__all__ = ["gather", "weight_at"]

INVERSE, COLUMNS = tl.constexpr(BOUNDS), tl.constexpr(10)
_WIDE = tl.constexpr(4)
"""Columns that are gone through together: those of the box of 2 x 2 pixels where nothing is scaled, turned by up to 19 degrees."""


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


@triton.jit
def _add_columns(  # type: ignore[no-untyped-def]
    totals, upstream, step_c, step_y, step_x, first, px, py, first_u, first_v, rows, within, m, frame, width, height,
    OC: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, WINDOW: tl.constexpr,
    PROJECTIVE: tl.constexpr, CUBIC: tl.constexpr, REACH: tl.constexpr, N: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
    INDEX: tl.constexpr, SIDE: tl.constexpr, EVEN: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Totals + what the output pixels of WIDE columns from ``first_u`` on give, in so many rows from ``first_v`` on.

    Totals are those of squares of SIDE x SIDE pixels, pixel by pixel. ``within``: where the columns belong to the box. EVEN: the
    map's steps are the same everywhere; beside the first column places are then differences from it, which are shorter than the
    coordinates and round less.
    """
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m
    HALF: tl.constexpr = 0.5 * (SIDE - 1)
    start = first_u.to(INDEX) * step_x
    # What is not read keeps what was there before, which nothing uses: zeros would have to be written first.
    g = ()
    for c in tl.static_range(WIDE * N):  # noqa: B007 - `_` is what the loop below throws away
        g = g + (tl.zeros((P,), upstream.dtype.element_ty),)
    j = rows * 0
    while j < rows:
        v = first_v + j
        x, y, _, usable = locate(first_u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, PROJECTIVE, F, EVEN)
        right, below = x - px, y - py
        line = v.to(INDEX) * step_y + start
        for i in tl.static_range(WIDE):
            if EVEN:
                x0, y0, x1, y1 = x, y, x, y
                some = (tl.abs(right - HALF) <= REACH + HALF) & (tl.abs(below - HALF) <= REACH + HALF)  # false for NaN
                if WIDE == 1:
                    some = some & within
            else:
                some, x0, y0, x1, y1 = hold_in_window(x, y, usable & within, frame, MODE, WINDOW)
                if WINDOW and MODE != FILLED:  # those that the window holds are in ``folded``
                    some = some & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
            shares = ()
            for k in tl.static_range(SIDE * SIDE):
                if EVEN:
                    share = bump(tl.abs(right - k % SIDE), CUBIC, TAPS) * bump(tl.abs(below - k // SIDE), CUBIC, TAPS)
                else:
                    share = weight_at(x, px + k % SIDE, x0, x1, width, TAPS, CUBIC, WINDOW and MODE == FILLED)
                    share *= weight_at(y, py + k // SIDE, y0, y1, height, TAPS, CUBIC, WINDOW and MODE == FILLED)
                shares = shares + (share,)
            found, sums = (), ()
            for c in tl.static_range(WIDE * N):
                block = g[c]  # type: ignore[var-annotated]
                if c // N == i:
                    pixels = upstream + (c % N) * step_c + line
                    block = tl.load(pixels + i * step_x, mask=exists(some, first + c % N, OC, GROUPS), other=block)
                found = found + (block,)
            g = found
            for k in tl.static_range(SIDE * SIDE):
                enters = tl.abs(shares[k]) > 0.0
                if not EVEN or WIDE == 1:
                    enters = enters & some
                for c in tl.static_range(N):
                    old = totals[k * N + c]
                    sums = sums + (tl.where(enters, tl.fma(shares[k], g[i * N + c].to(F), old), old),)
            totals = sums
            right, below = right + m0, below + m3
        j += 1
    return totals


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=POINTERS)
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
    SLOTS: tl.constexpr,
    REACH: tl.constexpr,
    EPS: tl.constexpr,
    K: tl.constexpr,
    N: tl.constexpr,
    BW: tl.constexpr,
    WW: tl.constexpr,
    P: tl.constexpr,
    F: tl.constexpr,
    INDEX: tl.constexpr,
    SIDE: tl.constexpr,
    NEAR: tl.constexpr,
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
    column, row = column * SIDE, row * SIDE
    owned = (column < width) & (row < height)
    m = load_map(from_sample(mapping, b, map_step), PROJECTIVE)
    first = group * K
    frame, table = from_sample(window, b, window_step), inverse + b.to(tl.int64) * INVERSE
    upstream = from_sample(grad, b, grad_b) + first.to(INDEX) * grad_c
    total = zeros(SIDE * SIDE * N, P, F)
    if not FIELD:
        # An affine map that makes a coordinate infinite or NaN has no candidates, or gives the coordinate no weight.
        EVEN: tl.constexpr = not PROJECTIVE and not WINDOW and TAPS > 1  # nearest has hard edges, and places must be exact
        CLAMPED: tl.constexpr = WINDOW and MODE == FILLED
        AROUND: tl.constexpr = REACH + 0.5 * (SIDE - 1)
        px, py = column.to(F), row.to(F)
        lx, hx, ly, hy = px - REACH, px + (2.0 * AROUND - REACH), py - REACH, py + (2.0 * AROUND - REACH)
        if CLAMPED:
            # What the window holds was up to half a pixel outside of it, and what it leaves outside the image shows the edge.
            x0, y0, x1, y1 = tl.load(frame), tl.load(frame + 1), tl.load(frame + 2), tl.load(frame + 3)
            lx = tl.where(column == 0, tl.minimum(x0, 0.0), px) - (REACH + 0.5)
            ly = tl.where(row == 0, tl.minimum(y0, 0.0), py) - (REACH + 0.5)
            hx = tl.where(column >= width - SIDE, tl.maximum(x1, px + (SIDE - 1.0)), px + (SIDE - 1.0)) + (REACH + 0.5)
            hy = tl.where(row >= height - SIDE, tl.maximum(y1, py + (SIDE - 1.0)), py + (SIDE - 1.0)) + (REACH + 0.5)
        first_u, last_u, first_v, last_v = candidates(
            lx, hx, ly, hy, table, out_height, out_width, PROJECTIVE, AROUND, CLAMPED, EPS
        )
        last_v = tl.where(owned, last_v, -1)
        rows = tl.max(tl.maximum(last_v - first_v + 1, 0), 0)
        if PROJECTIVE or CLAMPED:
            columns = tl.max(tl.where(last_v < first_v, 0, last_u - first_u + 1), 0)
        else:  # no box is wider than the sample's widest
            columns = tl.load(table + COLUMNS).to(tl.int32)
        step_c, step_y, step_x = grad_c.to(INDEX), grad_y.to(INDEX), 1 if NEAR else grad_x.to(INDEX)
        # What lies beyond a square's own box has no weight: boxes are moved until all rows and columns are pixels.
        first_v = tl.minimum(first_v, out_height - rows)
        px, at = tl.where(owned, px, FAR), rows * 0
        if EVEN:  # noqa: SIM102 - the first is Triton's, at compile time
            if out_width >= _WIDE:
                first_u = tl.minimum(first_u, out_width - _WIDE)
                total = _add_columns(
                    total, upstream, step_c, step_y, step_x, first, px, py, first_u, first_v, rows, owned, m, frame, width, height,
                    OC, GROUPS, TAPS, MODE, WINDOW, PROJECTIVE, CUBIC, REACH, N, P, F, INDEX, SIDE, EVEN, _WIDE,
                )  # fmt: skip
                at = at + _WIDE
        while at < columns:
            total = _add_columns(
                total, upstream, step_c, step_y, step_x, first, px, py, first_u + at, first_v, rows, first_u + at <= last_u, m,
                frame, width, height,
                OC, GROUPS, TAPS, MODE, WINDOW, PROJECTIVE, CUBIC, REACH, N, P, F, INDEX, SIDE, EVEN, 1,
            )  # fmt: skip
            at += 1
    plane = width.to(INDEX) * height
    for k in tl.static_range(SIDE * SIDE):
        at = (row + k // SIDE).to(INDEX) * width + (column + k % SIDE)
        lane = (column + k % SIDE < width) & (row + k // SIDE < height)
        own = ()
        for c in tl.static_range(N):
            own = own + (total[k * N + c],)
        if FIELD or MODE != FILLED:
            own = _add_fixed(own, from_sample(folded, b * OC, plane), at, plane, lane, first, unfold + b * 2, OC, GROUPS, N)
        own = unmixed(from_sample(colors, b, param_step), own, C, OC, FLAGS, SLOTS)
        store_channels(from_sample(to_image, b * C + first, plane) + at, plane, lane, first, own, C, GROUPS, K)

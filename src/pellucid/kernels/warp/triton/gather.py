"""The image's gradient in gather form: every input pixel collects from the output pixels that read it.

Owns: `gather`, and `collect` of crops: one owner per input pixel, adding in the order of its candidates' rows and columns.
Must not: miss a candidate (``footprint.py``), or collect what was added in fixed point (``folded.py``).
Read next: ``footprint.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.axes import axis_of, place, shared
from pellucid.kernels.warp.triton.blocks import add_scaled, exists, from_sample, load_at, scaled, some, store_planes, view, zeros
from pellucid.kernels.warp.triton.coordinates import FAR, FILLED, bump, fold, half_up, locate, pixels, settle, weight
from pellucid.kernels.warp.triton.footprint import BOUNDS, candidates, span
from pellucid.kernels.warp.triton.links import Found
from pellucid.kernels.warp.triton.sampling import hold_in_window
from pellucid.kernels.warp.triton.stages import unmixed

__all__ = ["collect", "gather", "weight_at"]

INVERSE, COLUMNS = tl.constexpr(BOUNDS), tl.constexpr(10)
_WIDE = tl.constexpr(4)
"""Columns that are visited together: those of the box of 2 x 2 pixels under a turn by up to 19 degrees, without scaling."""


@triton.jit
def weight_at(x, pixel, low, high, length, CLAMPED: tl.constexpr, S):  # type: ignore[no-untyped-def]
    """The weight with which a pixel on one axis enters the sample at x.

    CLAMPED: x is clamped to [low, high] first, and taps beyond the image are those on its edge; otherwise only a tap exactly
    on the pixel counts.
    """
    if CLAMPED and S.TAPS == 4:
        first, t, _ = settle(x, low, high, length, S.TAPS, 1, True)
        total = tl.zeros(x.shape, x.dtype)
        for k in tl.static_range(S.TAPS):
            total += tl.where(fold(first + k, length, 1) == pixel, weight(t, S.CUBIC, k, S.TAPS), 0.0)
    else:
        if CLAMPED:
            x = tl.minimum(tl.maximum(x, low), high)
            x = tl.minimum(tl.maximum(x, 0.0), length - 1.0)
        if S.TAPS == 1:
            total = tl.where(tl.floor(x + half_up(x, length)) == pixel, 1.0, 0.0).to(x.dtype)
        else:
            total = bump(tl.abs(x - pixel), S.CUBIC, S.TAPS)
    return total


@triton.jit
def _add_fixed(totals, fixed, at, stride, lane, first, unfold, S):  # type: ignore[no-untyped-def]
    """Totals + the sums of ``folded.py``, in units of the product of two powers of two, one of which might leave the range."""
    half, rest = tl.load(unfold), tl.load(unfold + 1)
    sums = ()
    for c in tl.static_range(S.N):
        count = tl.load(fixed + at + (first + c).to(stride.dtype) * stride, mask=exists(lane, first + c, S.OC, S.GROUPS), other=0)
        sums = sums + (totals[c] + tl.where(count == 0, 0.0, count.to(totals[c].dtype) * half * rest),)
    return sums


@triton.jit
def _add_columns(  # type: ignore[no-untyped-def]
    totals, upstream, given, px, py, first_u, first_v, rows, within, m, EVEN: tl.constexpr, WIDE: tl.constexpr, S
):
    """Totals + the shares from the output pixels of WIDE columns from ``first_u`` on, in so many rows from ``first_v`` on.

    Totals are those of squares of SIDE x SIDE pixels, pixel by pixel. ``within``: where the columns belong to the box. EVEN: the
    map's steps are the same everywhere; beside the first column places are then differences from it, which are shorter than the
    coordinates and round less.
    """
    pixels, first = upstream.pixels, upstream.first
    CLAMPED: tl.constexpr = S.WINDOW and S.MODE == FILLED
    HALF: tl.constexpr = 0.5 * (S.SIDE - 1)
    start = first_u.to(S.INDEX) * upstream.step_x
    # Masked loads keep the value before, which nothing uses: zeros would have to be written first.
    g = zeros(WIDE * S.N, S.P, pixels.dtype.element_ty)
    j = rows * 0
    while j < rows:
        v = first_v + j
        x, y, _, usable = locate(first_u, v, m, S.PROJECTIVE, S.F, EVEN)
        right, below = x - px, y - py
        line = v.to(S.INDEX) * upstream.step_y + start
        for i in tl.static_range(WIDE):
            if EVEN:
                x0, y0, x1, y1 = x, y, x, y
                seen = (tl.abs(right - HALF) <= S.REACH + HALF) & (tl.abs(below - HALF) <= S.REACH + HALF)  # false for NaN
                if WIDE == 1:
                    seen = seen & within
            else:
                found, held = hold_in_window(given, Found(x, y, usable & within, x, x, x, x, x), S)
                x0, y0, x1, y1 = held
                seen = found.usable
                if S.WINDOW and S.MODE != FILLED:  # those that the window clamps are in ``folded``
                    seen = seen & (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1)
            shares = ()
            for k in tl.static_range(S.SIDE * S.SIDE):
                if EVEN:
                    share = bump(tl.abs(right - k % S.SIDE), S.CUBIC, S.TAPS) * bump(tl.abs(below - k // S.SIDE), S.CUBIC, S.TAPS)
                else:
                    share = weight_at(x, px + k % S.SIDE, x0, x1, given.width, CLAMPED, S)
                    share *= weight_at(y, py + k // S.SIDE, y0, y1, given.height, CLAMPED, S)
                shares = shares + (share,)
            found, sums = (), ()
            for c in tl.static_range(WIDE * S.N):
                block = g[c]
                if c // S.N == i:
                    at = pixels + (c % S.N) * upstream.step_c + line + i * upstream.step_x
                    block = tl.load(at, mask=exists(seen, first + c % S.N, S.OC, S.GROUPS), other=block)
                found = found + (block,)
            g = found
            for k in tl.static_range(S.SIDE * S.SIDE):
                enters = tl.abs(shares[k]) > 0.0
                if not EVEN or WIDE == 1:
                    enters = enters & seen
                for c in tl.static_range(S.N):
                    old = totals[k * S.N + c]
                    sums = sums + (tl.where(enters, tl.fma(shares[k], g[i * S.N + c].to(S.F), old), old),)
            totals = sums
            right, below = right + m[0], below + m[3]
        j += 1
    return totals


@pixels
def gather(grad, inverse, folded, unfold, to_image, given, column, row, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (tile of the image across, down, sample and group): N channels are collected, K written.

    ``grad`` has the OC channels of the output; FLAGS are those of the mixes between them and the image's C channels, applied to
    the sums. `bounds` wrote ``inverse``. Outside the filled modes ``folded`` holds the rest in fixed point,
    in units of the product of ``unfold``'s two numbers; with a field, which no box bounds, everything.
    """
    height, width, out_height, out_width = given.height, given.width, given.out_height, given.out_width
    column, row = column * S.SIDE, row * S.SIDE
    owned = (column < width) & (row < height)
    b, first = given.b, given.first
    total = zeros(S.SIDE * S.SIDE * S.N, S.P, S.F)
    if not S.FIELD:
        # An affine map that makes a coordinate infinite or NaN has no candidates, or gives the coordinate no weight.
        EVEN: tl.constexpr = not S.PROJECTIVE and not S.WINDOW and S.TAPS > 1  # nearest has hard edges, and places must be exact
        CLAMPED: tl.constexpr = S.WINDOW and S.MODE == FILLED
        AROUND: tl.constexpr = S.REACH + 0.5 * (S.SIDE - 1)
        m = given.m
        frame, box = given.window, inverse + b.to(tl.int64) * INVERSE
        upstream = view(grad, given, S.NEAR, S)
        px, py = column.to(S.F), row.to(S.F)
        lx, hx, ly, hy = px - S.REACH, px + (2.0 * AROUND - S.REACH), py - S.REACH, py + (2.0 * AROUND - S.REACH)
        if CLAMPED:
            # Points that the window clamps lie up to half a pixel outside of it, and those left outside the image show its edge.
            x0, y0, x1, y1 = tl.load(frame), tl.load(frame + 1), tl.load(frame + 2), tl.load(frame + 3)
            end: tl.constexpr = S.SIDE - 1.0
            lx = tl.where(column == 0, tl.minimum(x0, 0.0), px) - (S.REACH + 0.5)
            ly = tl.where(row == 0, tl.minimum(y0, 0.0), py) - (S.REACH + 0.5)
            hx = tl.where(column >= width - S.SIDE, tl.maximum(x1, px + end), px + end) + (S.REACH + 0.5)
            hy = tl.where(row >= height - S.SIDE, tl.maximum(y1, py + end), py + end) + (S.REACH + 0.5)
        first_u, last_u, first_v, last_v = candidates(lx, hx, ly, hy, box, out_height, out_width, AROUND, CLAMPED, S)
        last_v = tl.where(owned, last_v, -1)
        tall = tl.max(tl.maximum(last_v - first_v + 1, 0), 0)
        if S.PROJECTIVE or CLAMPED:
            wide = tl.max(tl.where(last_v < first_v, 0, last_u - first_u + 1), 0)
        else:  # no box is wider than the sample's widest
            wide = tl.load(box + COLUMNS).to(tl.int32)
        # Pixels beyond a square's own box have no weight: boxes are moved until all rows and columns are pixels.
        first_v = tl.minimum(first_v, out_height - tall)
        px, at = tl.where(owned, px, FAR), tall * 0
        if EVEN:  # noqa: SIM102 - the first is Triton's, at compile time
            if out_width >= _WIDE:
                first_u = tl.minimum(first_u, out_width - _WIDE)
                total = _add_columns(
                    total, upstream, given, px, py, first_u, first_v, tall, owned, m, EVEN, _WIDE, S
                )  # fmt: skip
                at = at + _WIDE
        while at < wide:
            u = first_u + at
            total = _add_columns(total, upstream, given, px, py, u, first_v, tall, u <= last_u, m, EVEN, 1, S)
            at += 1
    plane = width.to(S.INDEX) * height
    for k in tl.static_range(S.SIDE * S.SIDE):
        u, v = column + k % S.SIDE, row + k // S.SIDE
        lane = (u < width) & (v < height)
        own = some(total, k * S.N, S.N)
        if S.FIELD or S.MODE != FILLED:
            at = v.to(S.INDEX) * width + u
            own = _add_fixed(own, from_sample(folded, b * S.OC, plane), at, plane, lane, first, unfold + b * 2, S)
        own = unmixed(given.colors, own, S)
        store_planes(to_image, b * S.C + first, (u, v, lane, height, width), first, own, S.C, S, S.GROUPS)


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

"""The part of the image's gradient whose readers no box bounds, in fixed point: taps that a border rule or a window moved to
another pixel, and all taps where a displacement field moves points.

Owns: adding shares of taps to the pixels they read, or to those that stand in for them.
Must not: add floating-point numbers; integers add up to the same bits in any order, so atomics change nothing.
Read next: ``gather.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import exists, from_sample, load_at, scaled, to_fixed, view
from pellucid.kernels.warp.triton.coordinates import FILLED, fold, pixels, settle, weight
from pellucid.kernels.warp.triton.links import find
from pellucid.kernels.warp.triton.sampling import hold_in_window
from pellucid.kernels.warp.triton.spans import at_point, look

__all__ = ["add_folded", "add_weighted"]


@triton.jit
def _in_units(upstream, v, u, units, lane, S):  # type: ignore[no-untyped-def]
    """(gradients in units of fixed point, whether the sample's are finite)."""
    half, rest = tl.load(units), tl.load(units + 1)
    g = load_at(upstream, v, u, lane, S.OC, S.N, S)
    return scaled(scaled(g, half), rest), half == half


@triton.jit
def _add_shares(target, plane, share, g, finite, lane, first, S):  # type: ignore[no-untyped-def]
    """Add a share of the gradients to one pixel of each channel's plane."""
    for c in tl.static_range(S.N):
        amount = tl.where(finite, to_fixed(share * g[c]), 1)
        tl.atomic_add(target + c * plane, amount, mask=exists(lane, first + c, S.OC, S.GROUPS), sem="relaxed")


@pixels
def add_weighted(grad, units, folded, given, u, v, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """As `add_folded` for an antialiased warp: all pixels that its output pixels span get their shares."""
    height, width, out_height, out_width = given.height, given.width, given.out_height, given.out_width
    found = find(given, u, v, (u < out_width) & (v < out_height), S)
    point, usable, first = at_point(given, u, v, found, S), found.usable, given.first
    plane = width.to(S.INDEX) * height
    g, finite = _in_units(view(grad, given, 0, S), v, u, units + given.b * 2, usable, S)
    own = from_sample(folded, given.b * S.OC + first, plane)
    far = point.far
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            share, added, iy, ix = look(point, given, j, i, usable, S)
            _add_shares(own + (iy.to(S.INDEX) * width + ix), plane, share, g, finite, added, first, S)
            i += 1
        j += 1


@pixels
def add_folded(grad, units, folded, given, u, v, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (tile of the output across, down, sample and group of N channels); in the filled modes only with a field or canvases.
    SOFT: the gradient is still to be multiplied by the share that canvases leave to the source.

    ``units``: (sample, 2), two powers of two, one of which might leave the range; their product is the number of units in 1. A
    sample with NaN there (its gradient is not finite somewhere) marks what it touches by ones.
    """
    height, width, out_height, out_width = given.height, given.width, given.out_height, given.out_width
    found, frame = hold_in_window(given, find(given, u, v, (u < out_width) & (v < out_height), S), S)
    x, y, usable, first = found.x, found.y, found.usable, given.first
    x0, y0, x1, y1 = frame
    held = tl.zeros((S.P,), tl.int1)
    if S.WINDOW:
        held = (x < x0) | (x > x1) | (y < y0) | (y > y1)
    first_x, tx, _ = settle(x, x0, x1, width, S.TAPS, S.EDGE, S.WINDOW)
    first_y, ty, _ = settle(y, y0, y1, height, S.TAPS, S.EDGE, S.WINDOW)
    concerned = usable
    if not S.FIELD:
        outside = (first_x < 0) | (first_x + S.TAPS > width) | (first_y < 0) | (first_y + S.TAPS > height)
        concerned = usable & (held | outside)
    if tl.max(concerned.to(tl.int32), 0) > 0:
        plane = width.to(S.INDEX) * height
        g, finite = _in_units(view(grad, given, 0, S), v, u, units + given.b * 2, usable, S)
        if S.SOFT:
            g = scaled(g, found.share)
        for j in tl.static_range(S.TAPS):
            iy = first_y + j
            wy = weight(ty, S.CUBIC, j, S.TAPS)
            line = fold(iy, height, S.EDGE).to(S.INDEX) * width
            beyond_y = (iy < 0) | (iy >= height)
            for i in tl.static_range(S.TAPS):
                ix = first_x + i
                share = wy * weight(tx, S.CUBIC, i, S.TAPS)
                beyond = beyond_y | (ix < 0) | (ix >= width)
                added = usable & (share != 0.0)
                if S.EDGE == FILLED:
                    added = added & (beyond == 0)
                elif not S.FIELD:
                    added = added & (held | beyond)
                target = from_sample(folded, given.b * S.OC + first, plane) + (line + fold(ix, width, S.EDGE))
                _add_shares(target, plane, share, g, finite, added, first, S)

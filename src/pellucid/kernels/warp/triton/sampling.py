"""Reading a block of pixels: the interpolated colour, the coverage, and the slopes of both along x and y.

Owns: the gather of taps for a block of output pixels.
Must not: apply colour, or write anything.
Read next: ``forward.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import add_scaled, load_channels, zeros
from pellucid.kernels.warp.triton.coordinates import BORDER, FILLED, fold, settle, slope, weight, within

__all__ = ["hold_in_window", "only", "read"]


@triton.jit
def hold_in_window(x, y, usable, window, MODE: tl.constexpr, WINDOW: tl.constexpr):  # type: ignore[no-untyped-def]
    """(usable, x0, y0, x1, y1): in the filled modes what lies more than half a pixel outside the window is not seen."""
    x0, y0, x1, y1 = x, y, x, y
    if WINDOW:
        x0, y0, x1, y1 = tl.load(window), tl.load(window + 1), tl.load(window + 2), tl.load(window + 3)
        if MODE == FILLED:
            usable = usable & (x >= x0 - 0.5) & (x < x1 + 0.5) & (y >= y0 - 0.5) & (y < y1 + 0.5)
    return usable, x0, y0, x1, y1


@triton.jit
def only(where, blocks, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The blocks where a condition holds, else zero."""
    kept = ()
    for c in tl.static_range(K):
        kept = kept + (tl.where(where, blocks[c], 0.0),)
    return kept


@triton.jit
def read(  # type: ignore[no-untyped-def]
    image, stride_c, stride_y, stride_x, first, height, width, x, y, usable, x0, y0, x1, y1,
    C: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, WINDOW: tl.constexpr, CUBIC: tl.constexpr,
    UNIT: tl.constexpr, SLOPES: tl.constexpr, RAW: tl.constexpr, K: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
    NEAR: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """(colour, along x, along y, coverage, its slope along x, along y); slopes are zero unless SLOPES.

    ``image`` is a sample's channel ``first``; channels first ... first + K - 1 of C are read. INDEX is the integer in which offsets
    within a sample are computed; NEAR is `neighbours` of the image. RAW: every pixel is usable, and one whose coordinates are not
    finite reads nothing, since `settle` puts them outside.
    """
    step_c = 1 if NEAR == 2 else stride_c.to(INDEX)
    step_x = 1 if NEAR == 1 else (C if NEAR == 2 else stride_x.to(INDEX))
    step_y = stride_y.to(INDEX)
    EDGE: tl.constexpr = BORDER if WINDOW else MODE
    first_x, tx, held_x = settle(x, x0, x1, width, TAPS, EDGE, WINDOW)
    first_y, ty, held_y = settle(y, y0, y1, height, TAPS, EDGE, WINDOW)
    if WINDOW and MODE != FILLED:  # an edge that is not a number shows, as it does in the reference
        tx, ty = tl.where((x0 == x0) & (x1 == x1), tx, float("nan")), tl.where((y0 == y0) & (y1 == y1), ty, float("nan"))
    colour, along_x, along_y = zeros(K, P, F), zeros(K, P, F), zeros(K, P, F)
    cover_x, cover_y = tl.zeros((P,), F), tl.zeros((P,), F)
    rise_x, rise_y = tl.zeros((P,), F), tl.zeros((P,), F)
    # Of taps outside nothing is loaded, so their weights matter to the coverage alone, and their places nowhere.
    corner = image + (first_y.to(INDEX) * step_y + first_x.to(INDEX) * step_x)
    TOGETHER: tl.constexpr = 1 if TAPS == 4 else TAPS  # rows that are loaded before any is used: of a cubic kernel's, one
    for top in tl.static_range(0, TAPS, TOGETHER):
        values = ()
        for j in tl.static_range(top, top + TOGETHER):
            iy = first_y + j
            seen_y = usable
            if EDGE == FILLED:
                inside = within(iy, height)
                seen_y = inside if RAW else usable & inside
                cover_y += tl.where(inside, weight(ty, CUBIC, j, TAPS), 0.0)
                rise_y += tl.where(inside, slope(ty, CUBIC, j, TAPS), 0.0)
                line = corner + j * step_y
            else:
                line = image + fold(iy, height, EDGE).to(INDEX) * step_y
            for i in tl.static_range(TAPS):
                ix = first_x + i
                seen = seen_y
                if EDGE == FILLED:
                    inside = within(ix, width)
                    seen = seen_y & inside
                    if j == 0:
                        cover_x += tl.where(inside, weight(tx, CUBIC, i, TAPS), 0.0)
                        rise_x += tl.where(inside, slope(tx, CUBIC, i, TAPS), 0.0)
                    at = line + i * step_x
                else:
                    at = line + fold(ix, width, EDGE).to(INDEX) * step_x
                values = values + (load_channels(at, step_c, seen, first, C, GROUPS, K, F),)
        for k in tl.static_range(TOGETHER * TAPS):
            j, i = top + k // TAPS, k % TAPS
            wx, wy = weight(tx, CUBIC, i, TAPS), weight(ty, CUBIC, j, TAPS)
            colour = add_scaled(colour, wx * wy * UNIT, values[k], K)
            if SLOPES:
                sx, sy = slope(tx, CUBIC, i, TAPS), slope(ty, CUBIC, j, TAPS)
                along_x = add_scaled(along_x, sx * wy * UNIT, values[k], K)
                along_y = add_scaled(along_y, wx * sy * UNIT, values[k], K)
    cover = tl.full((P,), 1.0, F) if RAW else tl.where(usable, 1.0, 0.0).to(F)
    if EDGE == FILLED:
        rise_x, rise_y = rise_x * cover_y, rise_y * cover_x
        cover *= cover_x * cover_y
    if SLOPES and not RAW:
        steady_x, steady_y = usable & (held_x == 0), usable & (held_y == 0)
        along_x, along_y = only(steady_x, along_x, K), only(steady_y, along_y, K)
        rise_x, rise_y = tl.where(steady_x, rise_x, 0.0), tl.where(steady_y, rise_y, 0.0)
    return colour, along_x, along_y, cover, rise_x, rise_y

"""Reading a block of pixels: the interpolated colour, the coverage, and the slopes of both along x and y.

Owns: the gather of taps for a block of output pixels.
Must not: apply colour, or write anything.
Read next: ``forward.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import add_scaled, load_channels, zeros
from pellucid.kernels.warp.triton.coordinates import BORDER, FILLED, fold, settle, slope, weight

__all__ = ["hold_in_window", "read"]


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
def _only(where, blocks, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The blocks where a condition holds, else zero."""
    kept = ()
    for c in tl.static_range(K):
        kept = kept + (tl.where(where, blocks[c], 0.0),)
    return kept


@triton.jit
def read(  # type: ignore[no-untyped-def]
    image, stride_c, stride_y, stride_x, first, height, width, x, y, usable, x0, y0, x1, y1,
    C: tl.constexpr, GROUPS: tl.constexpr, TAPS: tl.constexpr, MODE: tl.constexpr, WINDOW: tl.constexpr, CUBIC: tl.constexpr,
    UNIT: tl.constexpr, SLOPES: tl.constexpr, K: tl.constexpr, P: tl.constexpr, F: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """(colour, along x, along y, coverage, its slope along x, along y); slopes are zero unless SLOPES.

    Channels first ... first + K - 1 of C; INDEX is the integer in which offsets within a sample are computed.
    """
    EDGE: tl.constexpr = BORDER if WINDOW else MODE
    first_x, tx, held_x = settle(x, x0, x1, width, TAPS, EDGE, WINDOW)
    first_y, ty, held_y = settle(y, y0, y1, height, TAPS, EDGE, WINDOW)
    colour, along_x, along_y = zeros(K, P, F), zeros(K, P, F), zeros(K, P, F)
    cover_x, cover_y = tl.zeros((P,), F), tl.zeros((P,), F)
    rise_x, rise_y = tl.zeros((P,), F), tl.zeros((P,), F)
    for j in tl.static_range(TAPS):
        wy, sy = weight(ty, CUBIC, j, TAPS), slope(ty, CUBIC, j, TAPS)
        iy = first_y + j
        seen_y = usable
        if EDGE == FILLED:
            inside = (iy >= 0) & (iy < height)
            wy, sy, seen_y = tl.where(inside, wy, 0.0), tl.where(inside, sy, 0.0), usable & inside
            cover_y += wy
            rise_y += sy
        line = fold(iy, height, EDGE).to(INDEX) * stride_y
        for i in tl.static_range(TAPS):
            wx, sx = weight(tx, CUBIC, i, TAPS), slope(tx, CUBIC, i, TAPS)
            ix = first_x + i
            seen = seen_y
            if EDGE == FILLED:
                inside = (ix >= 0) & (ix < width)
                wx, sx, seen = tl.where(inside, wx, 0.0), tl.where(inside, sx, 0.0), seen_y & inside
                if j == 0:
                    cover_x += wx
                    rise_x += sx
            at = line + fold(ix, width, EDGE).to(INDEX) * stride_x
            values = load_channels(image, at, stride_c, seen, first.to(INDEX), C, GROUPS, K, F)
            colour = add_scaled(colour, wx * wy * UNIT, values, K)
            if SLOPES:
                along_x = add_scaled(along_x, sx * wy * UNIT, values, K)
                along_y = add_scaled(along_y, wx * sy * UNIT, values, K)
    cover = tl.where(usable, 1.0, 0.0).to(F)
    if EDGE == FILLED:
        rise_x, rise_y = rise_x * cover_y, rise_y * cover_x
        cover *= cover_x * cover_y
    if SLOPES:
        steady_x, steady_y = usable & (held_x == 0), usable & (held_y == 0)
        along_x, along_y = _only(steady_x, along_x, K), _only(steady_y, along_y, K)
        rise_x, rise_y = tl.where(steady_x, rise_x, 0.0), tl.where(steady_y, rise_y, 0.0)
    return colour, along_x, along_y, cover, rise_x, rise_y

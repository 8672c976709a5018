"""Reading a block of pixels: the interpolated colour, the coverage, and the slopes of both along x and y.

Owns: the gather of taps for a block of output pixels.
Must not: apply colour, or write anything.
Read next: ``forward.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import add_scaled, load_channels, only, zeros
from pellucid.kernels.warp.triton.coordinates import FILLED, fold, settle, slope, weight, within
from pellucid.kernels.warp.triton.links import Found

__all__ = ["hold_in_window", "read"]


@triton.jit
def hold_in_window(given, found, S):  # type: ignore[no-untyped-def]
    """(`Found`, the window's x0, y0, x1, y1): in the filled modes points more than half a pixel outside are not usable."""
    x, y, usable, share, uncovered, mapped_x, mapped_y, w = found
    frame = x, y, x, y
    if S.WINDOW:
        frame = tl.load(given.window), tl.load(given.window + 1), tl.load(given.window + 2), tl.load(given.window + 3)
        if S.MODE == FILLED:
            x0, y0, x1, y1 = frame
            usable = usable & (x >= x0 - 0.5) & (x < x1 + 0.5) & (y >= y0 - 0.5) & (y < y1 + 0.5)
    return Found(x, y, usable, share, uncovered, mapped_x, mapped_y, w), frame


@triton.jit
def read(image, given, found, frame, SLOPES: tl.constexpr, S):  # type: ignore[no-untyped-def]
    """(colour, along x, along y, coverage, its slope along x, along y) of points; slopes are zero unless SLOPES.

    ``image`` is a `View`; ``frame`` the sample's window.
    """
    pixels, height, width, usable = image.pixels, given.height, given.width, found.usable
    x0, y0, x1, y1 = frame
    first_x, tx, held_x = settle(found.x, x0, x1, width, S.TAPS, S.EDGE, S.WINDOW)
    first_y, ty, held_y = settle(found.y, y0, y1, height, S.TAPS, S.EDGE, S.WINDOW)
    if S.WINDOW and S.MODE != FILLED:  # an edge that is NaN shows, as it does in the reference
        tx, ty = tl.where((x0 == x0) & (x1 == x1), tx, float("nan")), tl.where((y0 == y0) & (y1 == y1), ty, float("nan"))
    colour, along_x, along_y = zeros(S.K, S.P, S.F), zeros(S.K, S.P, S.F), zeros(S.K, S.P, S.F)
    cover_x, cover_y, rise_x, rise_y = zeros(4, S.P, S.F)
    # Taps outside are not loaded, so their weights matter to the coverage alone, and their places not at all.
    corner = pixels + (first_y.to(S.INDEX) * image.step_y + first_x.to(S.INDEX) * image.step_x)
    TOGETHER: tl.constexpr = 1 if S.TAPS == 4 else S.TAPS  # rows that are loaded before any is used: of a cubic kernel's, one
    for top in tl.static_range(0, S.TAPS, TOGETHER):
        values = ()
        for j in tl.static_range(top, top + TOGETHER):
            iy = first_y + j
            seen_y = usable
            if S.EDGE == FILLED:
                inside = within(iy, height)
                seen_y = inside if S.RAW else usable & inside
                cover_y += tl.where(inside, weight(ty, S.CUBIC, j, S.TAPS), 0.0)
                rise_y += tl.where(inside, slope(ty, S.CUBIC, j, S.TAPS), 0.0)
                line = corner + j * image.step_y
            else:
                line = pixels + fold(iy, height, S.EDGE).to(S.INDEX) * image.step_y
            for i in tl.static_range(S.TAPS):
                ix = first_x + i
                seen = seen_y
                if S.EDGE == FILLED:
                    inside = within(ix, width)
                    seen = seen_y & inside
                    if j == 0:
                        cover_x += tl.where(inside, weight(tx, S.CUBIC, i, S.TAPS), 0.0)
                        rise_x += tl.where(inside, slope(tx, S.CUBIC, i, S.TAPS), 0.0)
                    at = line + i * image.step_x
                else:
                    at = line + fold(ix, width, S.EDGE).to(S.INDEX) * image.step_x
                values = values + (load_channels(at, image.step_c, seen, image.first, S.C, S.GROUPS, S.K, S.F),)
        for k in tl.static_range(TOGETHER * S.TAPS):
            wx, wy = weight(tx, S.CUBIC, k % S.TAPS, S.TAPS), weight(ty, S.CUBIC, top + k // S.TAPS, S.TAPS)
            colour = add_scaled(colour, wx * wy * S.UNIT, values[k])
            if SLOPES:
                sx, sy = slope(tx, S.CUBIC, k % S.TAPS, S.TAPS), slope(ty, S.CUBIC, top + k // S.TAPS, S.TAPS)
                along_x = add_scaled(along_x, sx * wy * S.UNIT, values[k])
                along_y = add_scaled(along_y, wx * sy * S.UNIT, values[k])
    cover = tl.full((S.P,), 1.0, S.F) if S.RAW else tl.where(usable, 1.0, 0.0).to(S.F)
    if S.EDGE == FILLED:
        rise_x, rise_y = rise_x * cover_y, rise_y * cover_x
        cover *= cover_x * cover_y
    if SLOPES and not S.RAW:
        steady_x, steady_y = usable & (held_x == 0), usable & (held_y == 0)
        along_x, along_y = only(steady_x, along_x), only(steady_y, along_y)
        rise_x, rise_y = tl.where(steady_x, rise_x, 0.0), tl.where(steady_y, rise_y, 0.0)
    return colour, along_x, along_y, cover, rise_x, rise_y

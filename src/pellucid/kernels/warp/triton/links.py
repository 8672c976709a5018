"""Where output pixels read: through a map, a displacement field, or a chain of maps with canvases and a spline's grid between them.

Owns: `find`; the arithmetic of ``../chain.py`` for a block of pixels in registers, there and back.
Must not: read an image.
Read next: ``retrace.py``.
"""

from collections import namedtuple

import triton
import triton.language as tl

from pellucid.kernels.warp import layout
from pellucid.kernels.warp.triton.bends import moved
from pellucid.kernels.warp.triton.coordinates import load_map, locate

__all__ = ["BEND", "FILLED", "GRID", "HARD", "KINK", "LINK", "cross", "find", "side"]

LINK, GRID = tl.constexpr(layout.LINK), tl.constexpr(layout.LINK - 4)
FILLED, REFLECTION, HARD = (tl.constexpr(layout.CANVASES[name]) for name in ("zeros", "reflection", "hard"))
BEND, KINK = tl.constexpr(layout.CANVASES["bend"]), tl.constexpr(layout.CANVASES["kink"])


@triton.jit
def side(x, low, high, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    """One axis of a canvas: (its cover, the slope of that, the point held to it, its slope, whether a low and a high end held it).

    Slopes are taken from the right.
    """
    cover, rise, turn = tl.full(x.shape, 1.0, x.dtype), tl.zeros(x.shape, x.dtype), tl.full(x.shape, 1.0, x.dtype)
    if KIND == FILLED:
        beside = 1.0 + tl.where(x < low, x - low, high - x)
        inside = (x >= low) & (x < high)
        cover = tl.where(inside, 1.0, tl.maximum(beside, 0.0, tl.PropagateNan.ALL))
        rise = tl.where(inside | (beside < 0.0), 0.0, tl.where(x < low, 1.0, -1.0))
    if KIND == HARD:
        cover = tl.where((x >= low - 0.5) & (x < high + 0.5), 1.0, 0.0).to(x.dtype)
    if KIND == REFLECTION:
        length = tl.zeros(x.shape, x.dtype) + tl.floor(high) + 1.0
        t = x + 0.5
        t = tl.fma(-2.0 * length, tl.floor(t / (2.0 * length)), t)
        x, turn = tl.where(t < length, t, 2.0 * length - t) - 0.5, tl.where(t < length, turn, -turn)
    below, above = x < low, x >= high
    held = tl.where(below, low, tl.where(above, high, x))
    return cover, rise, held, tl.where(below | above, 0.0, turn), below, above


@triton.jit
def cross(x, y, share, given, K: tl.constexpr, S):  # type: ignore[no-untyped-def]
    """Points through link K of a sample: (x, y where they go on from its canvas, or displaced; what its map makes of them: (x, y,
    the denominator, whether they are somewhere); the share of what lies below; how much shows the canvas's fill).

    Points that are nowhere lie at zero.
    """
    link, uncovered = given.table + K * LINK, tl.zeros(share.shape, S.F)
    x, y, w, found = locate(x, y, load_map(link, True), True, S.F)
    mapped = x, y, w, found
    if S.KINDS[K] >= BEND:
        share = tl.where(found, share, 0.0)
        x, y = moved(x, y, link + GRID, given, S.KINDS[K] == KINK, S.F)
    else:
        cover_x, _, x, _, _, _ = side(x, tl.load(link + GRID), tl.load(link + GRID + 2), S.KINDS[K])
        cover_y, _, y, _, _, _ = side(y, tl.load(link + GRID + 1), tl.load(link + GRID + 3), S.KINDS[K])
        cover = tl.where(found, cover_x * cover_y, 0.0)
        if S.KINDS[K] == FILLED or S.KINDS[K] == HARD:
            uncovered = share * (1.0 - cover)
        share = share * cover
    return x, y, mapped, share, uncovered


Found = namedtuple("Found", "x y usable share uncovered mapped_x mapped_y w")
"""Where pixels read: the point, and whether there is one. With canvases ``share`` is what the source makes up of a pixel, and
``uncovered`` has a block for each, from the output on. And what the map makes of pixels: x, y, the denominator.
"""


@triton.jit
def find(given, u, v, drawn, S):  # type: ignore[no-untyped-def]
    """Where output pixels read, of which ``drawn`` are there."""
    share, uncovered, m = drawn, (drawn,), given.m
    if S.LINKS:
        share, uncovered = tl.where(drawn, 1.0, 0.0).to(S.F), ()
        x, y = u.to(S.F), v.to(S.F)
        for back in tl.static_range(S.LINKS):
            x, y, _, share, shown = cross(x, y, share, given, S.LINKS - 1 - back, S)
            uncovered = uncovered + (shown,)
        x, y, w, usable = locate(x, y, m, S.PROJECTIVE, S.F)
        usable = usable & (share > 0.0)
        mapped_x, mapped_y = x, y
    else:
        mapped_x, mapped_y, w, usable = locate(u, v, m, S.PROJECTIVE, S.F, S.RAW)
        x, y, usable = mapped_x, mapped_y, usable & drawn
        if S.FIELD:  # added in the order of the reference's sum
            at = given.field + (v.to(S.INDEX) * given.field_y + u.to(S.INDEX) * given.field_x)
            x, y = x + tl.load(at, mask=usable, other=0.0), y + tl.load(at + given.field_c, mask=usable, other=0.0)
            usable = usable & (tl.abs(x) < float("inf")) & (tl.abs(y) < float("inf"))
            x, y = tl.where(usable, x, 0.0), tl.where(usable, y, 0.0)
    return Found(x, y, usable, share, uncovered, mapped_x, mapped_y, w)

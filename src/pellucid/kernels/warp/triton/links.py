"""Where output pixels read: through a map, a displacement field, or a chain of maps with canvases and a spline's grid between them.

Owns: `find`; the arithmetic of ``../chain.py`` for a block of pixels in registers, there and back.
Must not: read an image.
Read next: ``retrace.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp import layout
from pellucid.kernels.warp.triton.bends import moved
from pellucid.kernels.warp.triton.coordinates import displace, load_map, locate

__all__ = ["BEND", "FILLED", "GRID", "HARD", "KINK", "LINK", "cross", "find", "onto", "side"]

LINK, GRID = tl.constexpr(layout.LINK), tl.constexpr(layout.LINK - 4)
FILLED, REFLECTION, HARD = (tl.constexpr(layout.CANVASES[name]) for name in ("zeros", "reflection", "hard"))
BEND, KINK = tl.constexpr(layout.CANVASES["bend"]), tl.constexpr(layout.CANVASES["kink"])
# A chain is two numbers of compile time: LINKS, how many there are, and KINDS, which, three bits for each.


@triton.jit
def onto(x, y, n, PROJECTIVE: tl.constexpr, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """`locate` of points by the nine numbers of a map."""
    return locate(x, y, n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8], PROJECTIVE, F)


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
def cross(  # type: ignore[no-untyped-def]
    x, y, found, share, link, control, down, across, KIND: tl.constexpr, F: tl.constexpr
):
    """(x, y) where points go on from a canvas, or displaced; the share of what lies below; and how much shows the canvas's fill.

    ``found``: where the canvas has a point; the others lie at zero.
    """
    uncovered = tl.zeros(share.shape, F)
    if KIND >= BEND:
        share = tl.where(found, share, 0.0)
        x, y = moved(x, y, link + GRID, control, down, across, KIND == KINK, F)
    else:
        cover_x, _, x, _, _, _ = side(x, tl.load(link + GRID), tl.load(link + GRID + 2), KIND)
        cover_y, _, y, _, _, _ = side(y, tl.load(link + GRID + 1), tl.load(link + GRID + 3), KIND)
        cover = tl.where(found, cover_x * cover_y, 0.0)
        if KIND == FILLED or KIND == HARD:  # noqa: SIM109 - one constant against another
            uncovered = share * (1.0 - cover)
        share = share * cover
    return x, y, share, uncovered


@triton.jit
def find(  # type: ignore[no-untyped-def]
    u, v, drawn, m, links, field, stride_c, stride_y, stride_x, knots_down, knots_across,
    LINKS: tl.constexpr, KINDS: tl.constexpr, FIELD: tl.constexpr, PROJECTIVE: tl.constexpr, RAW: tl.constexpr,
    INDEX: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """(x, y, usable, share, uncovered, the map's x, y and denominator) of output pixels, of which ``drawn`` are there.

    ``m``: the nine numbers of the sample's map; ``field``: its displacements, or with LINKS the knots of the link that has any.
    With LINKS ``share`` is what the source makes up of a pixel, and ``uncovered`` has a block for each canvas, from the output on.
    """
    share, uncovered = drawn, (drawn,)
    if LINKS:
        share, uncovered = tl.where(drawn, 1.0, 0.0).to(F), ()
        x, y = u.to(F), v.to(F)
        for back in tl.static_range(LINKS):
            link = links + (LINKS - 1 - back) * LINK
            x, y, _, found = onto(x, y, load_map(link, True), True, F)
            x, y, share, shown = cross(
                x, y, found, share, link, field, knots_down, knots_across, (KINDS >> (3 * (LINKS - 1 - back))) & 7, F
            )
            uncovered = uncovered + (shown,)
        x, y, w, usable = onto(x, y, m, PROJECTIVE, F)
        usable = usable & (share > 0.0)
        mapped_x, mapped_y = x, y
    else:
        mapped_x, mapped_y, w, usable = locate(u, v, m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], PROJECTIVE, F, RAW)
        x, y, usable = displace(mapped_x, mapped_y, usable & drawn, field, u, v, stride_c, stride_y, stride_x, FIELD, INDEX)
    return x, y, usable, share, uncovered, mapped_x, mapped_y, w

"""Output pixels that a cubic B-spline grid displaces between two maps, as functions inlined into the kernels.

Owns: the arithmetic of ``geometry/bends.py`` for a block of pixels in registers.
Must not: read an image, or know of canvases.
Read next: ``coordinates.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.coordinates import divide, load_map, locate, weight

__all__ = ["bent"]


@triton.jit
def _cell(x, low, spacing, count, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """(the first of the knots that matter along an axis, the position in their cell)."""
    place = divide(x - low, tl.zeros(x.shape, F) + spacing, F)
    first = tl.minimum(tl.maximum(tl.floor(place), 0.0), count - 4.0)
    return first.to(tl.int32), tl.minimum(tl.maximum(place - first, 0.0), 1.0)


@triton.jit
def _share(t, LINEAR: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weight of knot K of four for the position t in [0, 1] in their cell."""
    s = 1.0 - t
    if LINEAR:
        value = weight(t, 0.0, K - 1, 2)
    elif K == 0:
        value = s * s * s * (1.0 / 6.0)
    elif K == 1:
        value = (3.0 * t * t * (t - 2.0) + 4.0) * (1.0 / 6.0)
    elif K == 2:
        value = (3.0 * s * s * (s - 2.0) + 4.0) * (1.0 / 6.0)
    else:
        value = t * t * t * (1.0 / 6.0)
    return value


@triton.jit
def bent(  # type: ignore[no-untyped-def]
    u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, link, control, down, across,
    PROJECTIVE: tl.constexpr, LINEAR: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """(x, y, usable, seen) of output pixels: through the link's map, displaced, and on through the sample's; seen by the former.

    ``link``: nine numbers of its map, then the grid's first knot and spacing; ``control``: (2, down, across) displacements. LINEAR:
    between knots; the outer ones are then not used.
    """
    n0, n1, n2, n3, n4, n5, n6, n7, n8 = load_map(link, True)
    x, y, _, seen = locate(u, v, n0, n1, n2, n3, n4, n5, n6, n7, n8, True, F)
    i, t = _cell(x, tl.load(link + 9), tl.load(link + 11), across, F)
    j, r = _cell(y, tl.load(link + 10), tl.load(link + 12), down, F)
    knots = control + (j * across + i)
    BEGIN: tl.constexpr = 1 if LINEAR else 0
    moved_x, moved_y = tl.zeros(x.shape, F), tl.zeros(x.shape, F)
    for row in tl.static_range(BEGIN, 4 - BEGIN):
        for column in tl.static_range(BEGIN, 4 - BEGIN):
            share = _share(r, LINEAR, row) * _share(t, LINEAR, column)
            knot = knots + (row * across + column)
            moved_x = tl.fma(share, tl.load(knot), moved_x)
            moved_y = tl.fma(share, tl.load(knot + down * across), moved_y)
    x, y, _, usable = locate(x + moved_x, y + moved_y, m0, m1, m2, m3, m4, m5, m6, m7, m8, PROJECTIVE, F)
    return x, y, usable & seen, seen

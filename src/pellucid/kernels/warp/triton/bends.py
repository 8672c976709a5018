"""Where output pixels read: through a map, a displacement field, or a cubic B-spline grid between two maps.

Owns: `find`, and the arithmetic of ``geometry/bends.py`` for a block of pixels in registers.
Must not: read an image, or know of canvases.
Read next: ``coordinates.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.coordinates import displace, divide, load_map, locate, weight

__all__ = ["find"]


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
def _bent(  # type: ignore[no-untyped-def]
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


@triton.jit
def find(  # type: ignore[no-untyped-def]
    u, v, drawn, m, link, field, stride_c, stride_y, stride_x, knots_down, knots_across,
    BEND: tl.constexpr, FIELD: tl.constexpr, PROJECTIVE: tl.constexpr, RAW: tl.constexpr, INDEX: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """(x, y, usable, seen by the link's map, the map's x, y and denominator) of output pixels, of which ``drawn`` are there.

    ``m``: the nine numbers of the sample's map; ``field``: its displacements, or with BEND (1 cubic, 2 linear) its knots.
    """
    m0, m1, m2, m3, m4, m5, m6, m7, m8 = m
    seen = drawn
    if BEND:
        x, y, usable, seen = _bent(
            u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, link, field, knots_down, knots_across, PROJECTIVE, BEND == 2, F
        )
        usable = usable & drawn
        mapped_x, mapped_y, w = x, y, x
    else:
        mapped_x, mapped_y, w, usable = locate(u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, PROJECTIVE, F, RAW)
        x, y, usable = displace(mapped_x, mapped_y, usable & drawn, field, u, v, stride_c, stride_y, stride_x, FIELD, INDEX)
    return x, y, usable, seen, mapped_x, mapped_y, w

"""Where output pixels read: through a map, a displacement field, or a chain of maps with canvases and a spline's grid between them.

Owns: `find`; the arithmetic of ``../chain.py`` for a block of pixels in registers, forward and backward (`retrace`, `add_knots`).
Must not: read an image.
Read next: ``gradients.py``.
"""

from collections import namedtuple

import triton
import triton.language as tl

from pellucid.kernels.warp import layout
from pellucid.kernels.warp.triton.bends import moved, on_grid, share_of, tilted
from pellucid.kernels.warp.triton.blocks import from_sample, some, store_sums, to_fixed, zeros
from pellucid.kernels.warp.triton.coordinates import load_map, locate, pixels

__all__ = ["BEND", "FILLED", "GRID", "HARD", "KINK", "LINK", "ROWS", "add_knots", "cross", "find", "retrace", "side"]

LINK, GRID = tl.constexpr(layout.LINK), tl.constexpr(layout.LINK - 4)
FILLED, REFLECTION, HARD = (tl.constexpr(layout.CANVASES[name]) for name in ("zeros", "reflection", "hard"))
BEND, KINK = tl.constexpr(layout.CANVASES["bend"]), tl.constexpr(layout.CANVASES["kink"])


@triton.jit
def side(x, low, high, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    """One axis of a canvas: (cover, its slope, the clamped point, its slope, whether the low end and the high end clamped it).

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
    """Points through link K of a sample: (x, y, clamped to its canvas or displaced; the points after its map: (x, y, the
    denominator, whether they are somewhere); the share left to what lies below; the share of the canvas's fill).

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
``uncovered`` has a block for each, from the output on. At the end the pixels after the map: x, y, the denominator.
"""


@triton.jit
def find(given, u, v, drawn, S):  # type: ignore[no-untyped-def]
    """Where output pixels read, of which those in ``drawn`` exist."""
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


ROWS = tl.constexpr(9)
"""The numbers of the source's map, which come first among the sums; then LINK for each canvas."""


@triton.jit
def _pulled(sums, to_x, to_y, px, py, x, y, w, usable, n, PROJECTIVE: tl.constexpr):  # type: ignore[no-untyped-def]
    """(the gradient of points, from that of their images under a map n; sums of the map's nine numbers)."""
    to_w = tl.zeros(to_x.shape, to_x.dtype)
    if PROJECTIVE:
        part = 1.0 / tl.where(usable, w, 1.0)
        to_x, to_y = to_x * part, to_y * part
        to_w = -(to_x * x + to_y * y)
    added = ()
    for k in tl.static_range(3):
        g = to_x if k == 0 else (to_y if k == 1 else to_w)
        added = added + (tl.fma(g, px, sums[3 * k]), tl.fma(g, py, sums[3 * k + 1]), sums[3 * k + 2] + g)
    by_x, by_y = to_x * n[0] + to_y * n[3], to_x * n[1] + to_y * n[4]
    if PROJECTIVE:
        by_x, by_y = by_x + to_w * n[6], by_y + to_w * n[7]
    return by_x, by_y, added


@triton.jit
def _uncrossed(  # type: ignore[no-untyped-def]
    to_x, to_y, to_share, to_uncovered, x, y, found, share, link, KIND: tl.constexpr
):
    """Back over a canvas: (to x, to y, to the share beyond it, to the four numbers of its rectangle)."""
    cover_x, rise_x, _, turn_x, left, right = side(x, tl.load(link + GRID), tl.load(link + GRID + 2), KIND)
    cover_y, rise_y, _, turn_y, upper, lower = side(y, tl.load(link + GRID + 1), tl.load(link + GRID + 3), KIND)
    cover = tl.where(found, cover_x * cover_y, 0.0)
    to_cover = tl.where(found, share * (to_share - to_uncovered), 0.0)
    # What the ends of the rectangle do to the cover is the opposite of what the point does.
    ends_x, ends_y = to_cover * rise_x * cover_y, to_cover * rise_y * cover_x
    to_ends = (
        tl.where(left, to_x, 0.0) - tl.where(rise_x > 0.0, ends_x, 0.0),
        tl.where(upper, to_y, 0.0) - tl.where(rise_y > 0.0, ends_y, 0.0),
        tl.where(right, to_x, 0.0) - tl.where(rise_x < 0.0, ends_x, 0.0),
        tl.where(lower, to_y, 0.0) - tl.where(rise_y < 0.0, ends_y, 0.0),
    )
    to_share = to_share * cover + to_uncovered * (1.0 - cover)
    return to_x * turn_x + ends_x, to_y * turn_y + ends_y, to_share, to_ends


@triton.jit
def _added(sums, blocks):  # type: ignore[no-untyped-def]
    """Sums + blocks."""
    totals = ()
    for k in tl.static_range(len(blocks)):
        totals = totals + (sums[k] + blocks[k],)
    return totals


@pixels
def retrace(slopes, sums, given, u, top, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (chunk of STEPS tiles, one below the other; sample).

    ``slopes``: (sample, PLANES, output pixel), as ``gradients`` wrote them; the first two become the gradient of the points that a
    grid displaced. ``sums``: (sample, chunk, ROWS + LINKS * LINK).
    """
    out_height, out_width = given.out_height, given.out_width
    b, links, m = given.b, given.table, given.m
    chunk = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    chunks = tl.num_programs(0) * tl.num_programs(1)
    plane = out_width.to(S.INDEX) * out_height
    totals = zeros(ROWS + S.LINKS * LINK, S.P, S.F)
    for step in range(S.STEPS):
        v = top + step * (S.P // S.BW)
        drawn = (u < out_width) & (v < out_height)
        # Forward, keeping where points lay before and after every map: from the output on.
        before, after, shares = (), (), ()
        x, y, share = u.to(S.F), v.to(S.F), tl.where(drawn, 1.0, 0.0).to(S.F)
        for back in tl.static_range(S.LINKS):
            before, shares = before + (x, y), shares + (share,)
            x, y, mapped, share, _ = cross(x, y, share, given, S.LINKS - 1 - back, S)
            after = after + mapped
        px, py = x, y
        x, y, w, usable = locate(px, py, m, S.PROJECTIVE, S.F)
        # And backward, from the source on.
        at = from_sample(slopes, b * S.PLANES, plane) + (v.to(S.INDEX) * out_width + u)
        to_x, to_y = tl.load(at, mask=drawn, other=0.0), tl.load(at + plane, mask=drawn, other=0.0)
        to_share = tl.load(at + 2 * plane, mask=drawn, other=0.0) if S.PLANES > 2 else tl.zeros((S.P,), S.F)
        to_x, to_y, moved = _pulled(some(totals, 0, ROWS), to_x, to_y, px, py, x, y, w, usable, m, S.PROJECTIVE)
        for k in tl.static_range(S.LINKS):
            link = links + k * LINK
            x, y, w, found = some(after, 4 * (S.LINKS - 1 - k), 4)
            to_x, to_y = tl.where(found, to_x, 0.0), tl.where(found, to_y, 0.0)
            if S.KINDS[k] >= BEND:
                to_share = tl.where(found, to_share, 0.0)
                tl.store(at, to_x, mask=drawn)
                tl.store(at + plane, to_y, mask=drawn)
                to_x, to_y, to_ends = tilted(x, y, to_x, to_y, link + GRID, given, S.KINDS[k] == KINK, S.F)
            else:
                to_uncovered = tl.zeros((S.P,), S.F)
                if S.PLANES > 3 and (S.KINDS[k] == FILLED or S.KINDS[k] == HARD):
                    to_uncovered = tl.load(at + (3 + k) * plane, mask=drawn, other=0.0)
                to_x, to_y, to_share, to_ends = _uncrossed(
                    to_x, to_y, to_share, to_uncovered, x, y, found, shares[S.LINKS - 1 - k], link, S.KINDS[k]
                )
            px, py = some(before, 2 * (S.LINKS - 1 - k), 2)
            own = some(totals, ROWS + k * LINK, LINK)
            to_x, to_y, numbers = _pulled(own, to_x, to_y, px, py, x, y, w, found, load_map(link, True), True)
            moved = moved + numbers + _added(some(own, GRID, 4), to_ends)
        totals = moved
    count: tl.constexpr = ROWS + S.LINKS * LINK
    store_sums(sums + (b.to(tl.int64) * chunks + chunk) * count, 0, totals, count)


@pixels
def add_knots(slopes, units, folded, given, u, v, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (tile of the output across, down; sample): add its pixels' gradients to the knots of link AT.

    It goes through the knots that any of its pixels reads; each gets one sum of the tile. ``slopes``: as `retrace` left them;
    ``units``: (sample, 2), as in ``folded.py``.
    """
    out_height, out_width, rows, columns = given.out_height, given.out_width, given.rows, given.columns
    b, drawn = given.b, (u < out_width) & (v < out_height)
    x, y, share = u.to(S.F), v.to(S.F), tl.where(drawn, 1.0, 0.0).to(S.F)
    for back in tl.static_range(S.LINKS - 1 - S.AT):
        x, y, _, share, _ = cross(x, y, share, given, S.LINKS - 1 - back, S)
    link = given.table + S.AT * LINK
    x, y, _, found = locate(x, y, load_map(link, True), True, S.F)
    place_x = tl.minimum(tl.maximum(on_grid(x, tl.load(link + GRID), tl.load(link + GRID + 2), S.F), 0.0), columns - 3.0)
    place_y = tl.minimum(tl.maximum(on_grid(y, tl.load(link + GRID + 1), tl.load(link + GRID + 3), S.F), 0.0), rows - 3.0)
    plane = out_width.to(S.INDEX) * out_height
    at = from_sample(slopes, b * S.PLANES, plane) + (v.to(S.INDEX) * out_width + u)
    half, rest = tl.load(units + b * 2), tl.load(units + b * 2 + 1)
    to_x, to_y = tl.load(at, mask=drawn, other=0.0) * half * rest, tl.load(at + plane, mask=drawn, other=0.0) * half * rest
    given = drawn & found & ((to_x != 0.0) | (to_y != 0.0))
    to_x, to_y = tl.where(given, to_x, 0.0), tl.where(given, to_y, 0.0)
    first_x, first_y = tl.floor(place_x).to(tl.int32), tl.floor(place_y).to(tl.int32)
    left, right = tl.min(tl.where(given, first_x, columns), 0), tl.max(tl.where(given, first_x, -4), 0)
    upper, lower = tl.min(tl.where(given, first_y, rows), 0), tl.max(tl.where(given, first_y, -4), 0)
    right, lower = tl.minimum(right + 3, columns - 1), tl.minimum(lower + 3, rows - 1)
    pair = tl.arange(0, 2)
    target = from_sample(folded, b * 2, rows * columns) + pair * (rows * columns)
    LINEAR: tl.constexpr = S.KINDS[S.AT] == KINK
    j = upper
    while j <= lower:
        share_y = share_of(place_y, j, LINEAR)
        by_x, by_y = share_y * to_x, share_y * to_y
        i = left
        while i <= right:
            share_x = share_of(place_x, i, LINEAR)
            amount = tl.where(pair == 0, tl.sum(share_x * by_x, 0), tl.sum(share_x * by_y, 0))
            amount = tl.where(half == half, to_fixed(amount), 1)
            tl.atomic_add(target + (j * columns + i), amount, mask=amount != 0, sem="relaxed")
            i += 1
        j += 1

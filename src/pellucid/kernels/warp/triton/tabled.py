"""The gradients of antialiased affine warps to where they read: through the point, and through the table of weights around it.

Owns: the slopes of tabulated weights along x and y, and what the table's numbers get, in fixed point, as all pixels have a share.
Must not: make tables, or know colours.
Read next: ``gradients.py``, ``folded.py``.
"""

import triton
import triton.language as tl

from pellucid.kernels.warp.triton.blocks import from_sample, load_at, scaled, view, zeros
from pellucid.kernels.warp.triton.coordinates import FILLED, pixels
from pellucid.kernels.warp.triton.folded import to_fixed
from pellucid.kernels.warp.triton.links import find
from pellucid.kernels.warp.triton.spans import EDGES, STEPS, at_point, corners, worth

__all__ = ["add_tabled", "tilt_tabled"]


@triton.jit
def _gets(image, given, point, usable, g, to_cover, down, across, S):  # type: ignore[no-untyped-def]
    """(what the weight of a pixel so many rows down and columns across gets, whether it can be one, and its `corners`)."""
    at, below, four = corners(point, given, down, across)
    a, b, c, d = four
    some = usable & (tl.abs(a) + tl.abs(b) + tl.abs(c) + tl.abs(d) > 0.0)  # a weight beside zeros has no slope
    start = to_cover if S.MODE == FILLED else tl.zeros((S.P,), S.F)
    gets, seen = worth(image, given, g, start, point.row + down, point.column + across, some, S)
    return tl.where(seen, gets, 0.0), seen, at, below, four


@triton.jit
def tilt_tabled(image, given, point, usable, g, to_cover, S):  # type: ignore[no-untyped-def]
    """(to x, to y, the most that one weight gets) of each output pixel, of whose colour g is the gradient; infinite for NaN."""
    far, n = point.far, point.n
    to_x, to_y, most = zeros(3, S.P, S.F)
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            gets, _, _, _, four = _gets(image, given, point, usable, g, to_cover, j, i, S)
            a, b, c, d = four
            to_x = tl.fma(gets, tl.fma(n[2], (d - c) - (b - a), b - a), to_x)
            to_y = tl.fma(gets, tl.fma(n[1], (d - b) - (c - a), c - a), to_y)
            size = tl.abs(gets)
            most = tl.maximum(most, tl.where(size == size, size, float("inf")))
            i += 1
        j += 1
    return to_x * STEPS, to_y * STEPS, most


@pixels
def add_tabled(source, covers, units, folded, image, given, u, v, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (tile of the output across, down, sample and group): shares of all that a pixel's weights get are added to the four
    numbers of the table that each lies between.

    source, covers: (sample, channel, output pixel), (sample, group, output pixel), of the source and its coverage; folded: (sample,
    phases, rows, phases, columns) in units of the product of the sample's two ``units``, as `add_folded` takes them.
    """
    out_height, out_width, rows, columns = given.out_height, given.out_width, given.rows, given.columns
    found = find(given, u, v, (u < out_width) & (v < out_height), S)
    point, usable = at_point(given, u, v, found, S), found.usable
    plane = out_width.to(S.INDEX) * out_height
    picture = view(image, given, 0, S)
    one, other = tl.load(units + given.b * 2), tl.load(units + given.b * 2 + 1)
    finite = one == one
    g = load_at(view((source, plane * S.C, plane, out_width, 1), given, 1, S), v, u, usable, S.C, S.K, S)
    g = scaled(scaled(g, one), other)
    covered = from_sample(covers, given.b * S.GROUPS + given.group, plane) + (v.to(S.INDEX) * out_width + u)
    to_cover = tl.load(covered, mask=usable, other=0.0) * one * other
    own = from_sample(folded, given.b, rows * columns * (EDGES * EDGES)) - 1  # before the table lies how many count
    far, tx, ty = point.far, point.n[1], point.n[2]
    j = 1 - far
    while j <= far:
        i = 1 - far
        while i <= far:
            gets, seen, at, below, _ = _gets(picture, given, point, usable, g, to_cover, j, i, S)
            for k in tl.static_range(4):
                share = gets * (tx if k % 2 else 1.0 - tx) * (ty if k // 2 else 1.0 - ty)
                target = own + (below if k // 2 else at) + (k % 2) * columns
                tl.atomic_add(target, tl.where(finite, to_fixed(share), 1), mask=seen, sem="relaxed")
            i += 1
        j += 1

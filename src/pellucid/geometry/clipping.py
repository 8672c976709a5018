"""Clip polygons and lines at borders, and map them from canvas to canvas.

Owns: clipping to one side of a border, which may leave several pieces; extra corners along edges that a map bends.
Must not: know targets, or decide what is worth keeping.
Read next: ``polygons.py``.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pellucid.geometry.bends import BentMap
from pellucid.geometry.paths import Path
from pellucid.geometry.points import transform_points
from pellucid.geometry.polygons import edges, following

__all__ = ["SPACING", "along", "clipped", "densified", "trimmed", "without"]

SPACING = 2.0
"""The largest distance, in pixels, between corners of an edge that a map bends."""
_MOST = 256  # corners on an edge, however long: most of a very long edge lies outside of the picture
_NOTHING = 1e-9  # square pixels: smaller pieces are rounding errors
_FIXED = 16  # corners on an edge in a traced graph, where shapes cannot depend on lengths


def along(
    points: Float[Tensor, "b n v 2"], path: Path, *, closed: bool = True
) -> tuple[Float[Tensor, "b n w 2"], Bool[Tensor, "b n"]]:
    """Map polygons, or lines, in pixel-edge coordinates along a path, clipped at each canvas with a size.

    Edges get more corners before a map that bends them. The second result says which polygons have an image: one that meets a
    map's horizon has none, and all its rows are NaN.
    """
    known = torch.ones(points.shape[:2], dtype=torch.bool, device=points.device)
    for step, size in path:
        before = points
        if isinstance(step, BentMap):
            before = densified(points, SPACING, closed=closed)
            points = step((before - 0.5).flatten(1, 2)).unflatten(1, before.shape[1:3]) + 0.5
        else:
            points = transform_points((before - 0.5).flatten(1, 2), step).unflatten(1, before.shape[1:3]) + 0.5
            known = known & _in_front(before - 0.5, step)
        known = known & (torch.isfinite(points) | ~torch.isfinite(before)).flatten(2).all(-1)
        points = torch.where(known[..., None, None], points, torch.nan)
        if size is not None:
            points = clipped(points, points.new_tensor((0.0, 0.0, size[1], size[0])), closed=closed)
    return points, known


def _in_front(points: Float[Tensor, "b n v 2"], matrix: Float[Tensor, "b 3 3"]) -> Bool[Tensor, "b n"]:
    """Return whether all corners of a polygon lie on one side of the horizon."""
    a, b, c = (part[:, None, None] for part in matrix[:, 2].unbind(-1))
    depth = points[..., 0] * a + points[..., 1] * b + c
    return ~((depth > 0).any(-1) & (depth < 0).any(-1))


def clipped(points: Float[Tensor, "*b v 2"], box: Float[Tensor, "#*b 4"], *, closed: bool = True) -> Float[Tensor, "*b w 2"]:
    """Clip polygons, or lines, to upright boxes (x0, y0, x1, y1): exactly, and into as many pieces as remain.

    Gradient:
        points: exact; zero along the border for what was cut there.
    Source:
        Half-plane by half-plane, as Sutherland and Hodgman, Reentrant polygon clipping, 1974; areas by shapely, to 1e-9.
    """
    for axis in (0, 1):
        for end, sign in ((axis, 1.0), (axis + 2, -1.0)):
            points = _cut(points, axis, box[..., end, None], sign, closed)
    return points


def without(points: Float[Tensor, "*b v 2"], box: Float[Tensor, "#*b 4"], *, closed: bool = True) -> Float[Tensor, "*b w 2"]:
    """Cut upright boxes out of polygons, or lines: what remains left, right, above and below of a box are separate parts."""
    x0, y0, x1, y1 = (part[..., None] for part in box.unbind(-1))
    middle = _cut(_cut(points, 0, x0, 1.0, closed), 0, x1, -1.0, closed)
    sides = (points, 0, x0, -1.0), (points, 0, x1, 1.0), (middle, 1, y0, -1.0), (middle, 1, y1, 1.0)
    parts = [_cut(*side, closed) for side in sides]
    return trimmed(torch.cat([F.pad(part, (0, 0, 0, 1), value=torch.nan) for part in parts], -2))


def _traced() -> bool:
    """Return whether a graph is traced, in which shapes must not depend on values."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def trimmed(points: Float[Tensor, "*b v 2"]) -> Float[Tensor, "*b w 2"]:
    """Drop the rows at the end that no polygon uses; in a traced graph keep all."""
    if _traced():
        return points
    used = torch.isfinite(points[None]).all(-1).flatten(0, -2).any(0).nonzero()
    return points[..., : int(used[-1]) + 1 if len(used) else 0, :]


def _cut(
    points: Float[Tensor, "*b v 2"], axis: int, at: Float[Tensor, "#*b 1"], sign: float, closed: bool
) -> Float[Tensor, "*b w 2"]:
    """Clip to one side of a border. Where an edge leaves, the outline continues along the border to an edge that comes back. The
    k-th crossing out, in the order along the border, is joined to the k-th crossing in, which divides a polygon into its pieces.
    """
    start, end, present = edges(points, closed=closed)
    depth, beyond = sign * (start[..., axis] - at), sign * (end[..., axis] - at)
    inside = present & (depth >= 0)
    if not _traced() and bool((inside == present).all()):
        return points
    leaves, comes = inside & (beyond < 0), present & ~inside & (beyond >= 0)
    crosses = leaves | comes
    share = depth / torch.where(crosses, depth - beyond, 1.0)
    place = (start + torch.where(crosses, share, 0.0)[..., None] * (end - start))[..., 1 - axis]
    met = torch.stack((at.expand(place.shape), place) if axis == 0 else (place, at.expand(place.shape)), -1)
    nodes = torch.stack((start, met), -2).flatten(-3, -2)  # *b 2v 2: corner 0, crossing of edge 0, corner 1, ...
    if not closed:
        return _in_pieces(nodes, torch.stack((inside, crosses & (share > 0) & (share < 1)), -1).flatten(-2))
    alive = torch.stack((inside, crosses), -1).flatten(-2)
    order, back = (torch.where(some, place, torch.inf).argsort(-1) for some in (leaves, comes))
    partner = torch.zeros_like(order).scatter(-1, order, back)
    ahead = following(present)
    slot = torch.arange(0, 2 * points.shape[-2], 2, device=points.device).expand(order.shape)
    onward = torch.stack((torch.where(leaves, slot + 1, 2 * ahead), torch.where(leaves, 2 * partner + 1, 2 * ahead)), -1).flatten(
        -2
    )
    return _in_rings(nodes, alive, onward)


def _in_pieces(nodes: Float[Tensor, "*b n 2"], alive: Bool[Tensor, "*b n"]) -> Float[Tensor, "*b m 2"]:
    """Assemble lines from nodes (each corner, then its edge's crossing): drop dead nodes, with a row of NaN between pieces."""
    before = F.pad(alive, (1, 0))[..., :-1] | F.pad(alive, (2, 0))[..., :-2]
    ends = before & (torch.arange(nodes.shape[-2], device=nodes.device) % 2 == 0)
    order = (~(alive | ends)).to(torch.uint8).argsort(dim=-1, stable=True)
    alive = alive.gather(-1, order)
    alive = alive & (F.pad(alive, (1, 0))[..., :-1] | F.pad(alive, (0, 1))[..., 1:])  # a line that touches leaves no point behind
    return trimmed(torch.where(alive[..., None], torch.take_along_dim(nodes, order[..., None], -2), torch.nan))


def _in_rings(
    nodes: Float[Tensor, "*b n 2"], alive: Bool[Tensor, "*b n"], onward: Int64[Tensor, "*b n"]
) -> Float[Tensor, "*b m 2"]:
    """Assemble rings from nodes and the index of each node's next one: one ring after the other, without rings of no area."""
    count = nodes.shape[-2]
    slot = torch.arange(count, device=nodes.device).expand(alive.shape)
    onward = torch.where(alive, onward, slot)
    first, left = _places_in_rings(onward, slot)
    alive = alive & (_areas(nodes, onward, first, alive).abs() > _NOTHING)
    place = torch.where(left == 0, 0, count + 1 - left)  # 0 for the first node of a ring, then ascending to its last
    order = torch.where(alive, first * (count + 1) + place, count * (count + 2)).argsort(-1)  # dead nodes come last
    nodes, begins, alive = (
        torch.take_along_dim(nodes, order[..., None], -2),
        (first == slot).gather(-1, order),
        alive.gather(-1, order),
    )
    return _apart(nodes, begins & alive, alive)


def _places_in_rings(
    onward: Int64[Tensor, "*b n"], slot: Int64[Tensor, "*b n"]
) -> tuple[Int64[Tensor, "*b n"], Int64[Tensor, "*b n"]]:
    """Return each node's ring, as the smallest index in it, and how many steps onward lead there; each round looks twice as far."""
    rounds = range(max(1, math.ceil(math.log2(max(onward.shape[-1], 2)))))
    first, jump = slot, onward
    for _ in rounds:
        first = torch.minimum(first, first.gather(-1, jump))
        jump = jump.gather(-1, jump)
    left, jump = (slot != first).long(), torch.where(slot == first, slot, onward)
    for _ in rounds:
        left = left + left.gather(-1, jump)
        jump = jump.gather(-1, jump)
    return first, left


def _areas(
    nodes: Float[Tensor, "*b n 2"], onward: Int64[Tensor, "*b n"], first: Int64[Tensor, "*b n"], alive: Bool[Tensor, "*b n"]
) -> Float[Tensor, "*b n"]:
    """Return twice the signed area of each node's ring, from triangles with the ring's first node, which keeps them small."""
    origin = torch.take_along_dim(nodes, first[..., None], -2)
    corner, ahead = nodes - origin, torch.take_along_dim(nodes, onward[..., None], -2) - origin
    twice = corner[..., 0] * ahead[..., 1] - corner[..., 1] * ahead[..., 0]
    return torch.zeros_like(twice).scatter_add(-1, first, torch.where(alive, twice, 0.0)).gather(-1, first)


def _apart(nodes: Float[Tensor, "*b n 2"], begins: Bool[Tensor, "*b n"], alive: Bool[Tensor, "*b n"]) -> Float[Tensor, "*b m 2"]:
    """Move rings that stand one after the other apart by a row of NaN; dead nodes, at the end, become NaN."""
    count = nodes.shape[-2]
    row = torch.arange(count, device=nodes.device) + (begins.long().cumsum(-1) - 1).clamp(min=0)
    row = torch.where(alive, row, count).clamp(max=count)
    rows = torch.full_like(F.pad(nodes, (0, 0, 0, 1)), torch.nan).scatter(-2, row[..., None].expand(nodes.shape), nodes)
    return trimmed(rows[..., :count, :])


def densified(points: Float[Tensor, "*b v 2"], spacing: float, *, closed: bool = True) -> Float[Tensor, "*b w 2"]:
    """Add corners along edges, at most ``spacing`` pixels apart; in a traced graph a fixed number on each edge.

    Gradient:
        points: exact.
    """
    start, end, present = edges(points, closed=closed)
    if _traced():
        share = torch.arange(_FIXED, dtype=points.dtype, device=points.device)[:, None] / _FIXED
        rows = start[..., None, :] + share * (end - start)[..., None, :]
        return torch.where(present[..., None, None], rows, torch.nan).flatten(-3, -2)
    length = torch.linalg.vector_norm(end - start, dim=-1)
    pieces = torch.ceil(length / spacing).clamp(1.0, float(_MOST)).long()
    ends = pieces.cumsum(-1)
    total = int(ends[..., -1].max()) if ends.numel() else 0
    row = torch.arange(total, device=points.device).expand(*ends.shape[:-1], total).contiguous()
    edge = torch.searchsorted(ends, row, right=True).clamp(max=max(points.shape[-2] - 1, 0))
    share = (row - (ends - pieces).gather(-1, edge)).to(points.dtype) / pieces.gather(-1, edge)
    a, b = (torch.take_along_dim(one, edge[..., None], -2) for one in (start, end))
    known = present.gather(-1, edge) & (row < ends[..., -1:])
    return trimmed(torch.where(known[..., None], a + share[..., None] * (b - a), torch.nan))

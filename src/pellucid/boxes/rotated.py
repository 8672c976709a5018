"""The intersection of two rotated boxes, on which rotated clipping and rotated IoU are built.

Owns: the candidate vertices of an intersection, and clipping of rotated boxes.
Must not: sort, loop over boxes or depend on values for shapes; there are always 24 candidates and a mask.
Read next: ``../detection/rotated_iou.py``.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.boxes.formats import corners

__all__ = ["clip_rotated", "intersection_vertices"]


def intersection_vertices(
    first: Float[Tensor, "*batch 5"], second: Float[Tensor, "*batch 5"]
) -> tuple[Float[Tensor, "*batch 24 2"], Bool[Tensor, "*batch 24"]]:
    """Return all points that can be a vertex of the intersection of two ``cxcywhr`` boxes, and a mask of those that are.

    The 24 candidates: corners of the first box (4) and of the second (4), which count inside of the other box, and edge crossings
    (16). Gradients are exact as long as no corner lies on an edge of the other box.
    """
    p, q = corners(first, "cxcywhr"), corners(second, "cxcywhr")
    # If boxes share an edge, corners lie on it, and rounding must not lose these: accept points this close (in pixels).
    scale = torch.maximum(p.detach().abs().amax(dim=(-2, -1)), q.detach().abs().amax(dim=(-2, -1)))
    slack = 16 * torch.finfo(first.dtype).eps * scale
    crossings, crossed = _crossings(p, q, slack[..., None, None])
    inside = [_inside(points, box, slack[..., None, None]) for points, box in ((p, second), (q, first))]
    return torch.cat([p, q, crossings], dim=-2), torch.cat([*inside, crossed], dim=-1)


def clip_rotated(boxes: Float[Tensor, "*batch 5"], height: int, width: int) -> Float[Tensor, "*batch 5"]:
    """Shrink rotated boxes to the smallest box of the same angle around the part inside the image."""
    dtype = torch.promote_types(boxes.dtype, torch.float32)
    wide = boxes.to(dtype)
    image = wide.new_tensor([width / 2, height / 2, width, height, 0.0]).expand_as(wide)
    points, real = intersection_vertices(wide, image)
    cos, sin = _turn(wide)
    local = _local(points, wide)
    low = torch.where(real[..., None], local, torch.inf).amin(dim=-2)
    high = torch.where(real[..., None], local, -torch.inf).amax(dim=-2)
    none_left = ~real.any(dim=-1)[..., None]
    low, high = (torch.where(none_left, 0.0, v) for v in (low, high))
    dx, dy = ((low + high) / 2).unbind(-1)
    centre = wide[..., :2] + torch.stack([cos[..., 0] * dx + sin[..., 0] * dy, -sin[..., 0] * dx + cos[..., 0] * dy], dim=-1)
    cut = torch.cat([centre, high - low, wide[..., 4:]], dim=-1).to(boxes.dtype)
    quad, limits = corners(wide, "cxcywhr"), wide.new_tensor([width, height])
    inside = ((quad >= 0) & (quad <= limits)).all(dim=-1).all(dim=-1)
    unusable = ~wide.isfinite().all(dim=-1)
    return torch.where((inside | unusable)[..., None], boxes, cut)


def _turn(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each box's angle, with an axis for its points."""
    angle = boxes[..., 4:]
    return angle.cos(), angle.sin()


def _local(points: Tensor, boxes: Tensor) -> Tensor:
    """Return points relative to the box's centre, along its own axes."""
    x, y = (points - boxes[..., None, :2]).unbind(-1)
    cos, sin = _turn(boxes)
    return torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1)


def _inside(points: Tensor, boxes: Tensor, slack: Tensor) -> Tensor:
    # Measured along the box's own axes: a test by the sides of edges would fail for a box without width.
    return (_local(points, boxes).abs() <= boxes[..., None, 2:4] / 2 + slack).all(dim=-1)


def _crossings(first: Tensor, second: Tensor, slack: Tensor) -> tuple[Tensor, Tensor]:
    p, q = first[..., :, None, :], second[..., None, :, :]
    r = first.roll(-1, dims=-2)[..., :, None, :] - p
    s = second.roll(-1, dims=-2)[..., None, :, :] - q
    length_r, length_s = r.detach().abs().sum(dim=-1), s.detach().abs().sum(dim=-1)
    det = _cross(r, s)
    # Edges that are parallel up to rounding have no well-defined crossing; `_inside` finds their corners.
    parallel = det.abs() <= slack * (length_r + length_s)
    safe = torch.where(parallel, 1.0, det)
    t, u = _cross(q - p, s) / safe, _cross(q - p, r) / safe
    on_r = (t * length_r >= -slack) & ((t - 1) * length_r <= slack)
    on_s = (u * length_s >= -slack) & ((u - 1) * length_s <= slack)
    crossed = ~parallel & on_r & on_s
    t = torch.where(crossed, t, 0.0)
    return (p + t[..., None] * r).flatten(-3, -2), crossed.flatten(-2)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]

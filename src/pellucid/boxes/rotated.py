"""Where two convex quadrilaterals meet: the one computation behind rotated clipping and rotated IoU.

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
    first: Float[Tensor, "*batch 4 2"], second: Float[Tensor, "*batch 4 2"]
) -> tuple[Float[Tensor, "*batch 24 2"], Bool[Tensor, "*batch 24"]]:
    """Return every point that can be a vertex of the intersection, and which of them are.

    The 24 candidates: corners of the first inside the second (4), of the second inside the first (4), edge crossings (16). Both
    quadrilaterals run clockwise on screen. Gradients are exact where no vertex lies on the other's edge.
    """
    # Boxes that share an edge put vertices on it, and rounding must not lose those: accept what is this close (in pixels).
    scale = torch.maximum(first.detach().abs().amax(dim=(-2, -1)), second.detach().abs().amax(dim=(-2, -1)))
    slack = 16 * torch.finfo(first.dtype).eps * scale
    crossings, crossed = _crossings(first, second, slack[..., None, None])
    points = torch.cat([first, second, crossings], dim=-2)
    inside = [_inside(p, q, slack[..., None, None]) for p, q in ((first, second), (second, first))]
    return points, torch.cat([*inside, crossed], dim=-1)


def clip_rotated(boxes: Float[Tensor, "*batch 5"], height: int, width: int) -> Float[Tensor, "*batch 5"]:
    """Shrink rotated boxes to the smallest box of the same angle around the part inside the image."""
    dtype = torch.promote_types(boxes.dtype, torch.float32)
    wide = boxes.to(dtype)
    quad = corners(wide, "cxcywhr")
    image = quad.new_tensor([[0, 0], [width, 0], [width, height], [0, height]]).expand_as(quad)
    points, real = intersection_vertices(quad, image)
    angle = wide[..., 4]
    cos, sin = angle.cos()[..., None], angle.sin()[..., None]
    x, y = (points - wide[..., None, :2]).unbind(-1)
    local = torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1)  # along the box's own axes
    low = torch.where(real[..., None], local, torch.inf).amin(dim=-2)
    high = torch.where(real[..., None], local, -torch.inf).amax(dim=-2)
    none_left = ~real.any(dim=-1)[..., None]
    low, high = (torch.where(none_left, 0.0, v) for v in (low, high))
    dx, dy = ((low + high) / 2).unbind(-1)
    centre = wide[..., :2] + torch.stack([cos[..., 0] * dx + sin[..., 0] * dy, -sin[..., 0] * dx + cos[..., 0] * dy], dim=-1)
    cut = torch.cat([centre, high - low, wide[..., 4:]], dim=-1).to(boxes.dtype)
    limits = quad.new_tensor([width, height])
    inside = ((quad >= 0) & (quad <= limits)).all(dim=-1).all(dim=-1)
    unusable = ~wide.isfinite().all(dim=-1)
    return torch.where((inside | unusable)[..., None], boxes, cut)


def _inside(points: Tensor, quad: Tensor, slack: Tensor) -> Tensor:
    edge = quad.roll(-1, dims=-2) - quad
    offset = points[..., :, None, :] - quad[..., None, :, :]
    side = _cross(edge[..., None, :, :], offset)
    # Clockwise on screen is counter-clockwise in (x, y) numbers, so inside is the positive side.
    return (side >= -slack * edge.abs().sum(dim=-1)[..., None, :]).all(dim=-1)


def _crossings(first: Tensor, second: Tensor, slack: Tensor) -> tuple[Tensor, Tensor]:
    p, q = first[..., :, None, :], second[..., None, :, :]
    r = first.roll(-1, dims=-2)[..., :, None, :] - p
    s = second.roll(-1, dims=-2)[..., None, :, :] - q
    length_r, length_s = r.detach().abs().sum(dim=-1), s.detach().abs().sum(dim=-1)
    det = _cross(r, s)
    # Edges parallel within rounding have no crossing worth the name; their corners are found by _inside.
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

"""Convert torchvision's rotated boxes, whose angles are in degrees, to our ``cxcywhr`` in radians and back.

Owns: the formats ``cxcywhr`` and ``xywhr`` in degrees, and ``xyxyxyxy``.
Must not: know tensor classes, or become formats of `BoxFormat`, where all angles are in radians.
Read next: ``../targets/torchvision.py``.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.boxes.formats import corners

__all__ = ["DEGREES", "from_degrees", "to_degrees"]

DEGREES = {"cxcywhr": 5, "xywhr": 5, "xyxyxyxy": 8}
"""The number of numbers of a box in each format."""


def from_degrees(boxes: Float[Tensor, "*batch k"], source: str) -> Float[Tensor, "*batch 5"]:
    """Read rotated boxes: centre, size and angle in radians.

    Args:
        boxes: any leading shape.
        source: ``cxcywhr``: centre, size, degrees counter-clockwise on screen. ``xywhr``: the same with the box's own top left
            corner, which turns with it, in place of the centre. ``xyxyxyxy``: the corners, clockwise on screen from that one. If
            the four points are no rectangle, the result has their centre, the first edge and the length of the second.

    Gradient:
        boxes: almost everywhere; zero for the angle and size of a box without size.
    """
    if source == "xyxyxyxy":
        quad = boxes.unflatten(-1, (4, 2))
        along, down = quad[..., 1, :] - quad[..., 0, :], quad[..., 2, :] - quad[..., 1, :]
        (width, along), (height, _) = _length(along), _length(down)
        angle = torch.atan2(-along[..., 1:], along[..., :1])
        return torch.cat([quad.mean(dim=-2), width, height, angle], dim=-1)
    angle = torch.deg2rad(boxes[..., 4:])
    centre = boxes[..., :2] if source == "cxcywhr" else boxes[..., :2] + _half_diagonal(boxes[..., 2:4], angle)
    return torch.cat([centre, boxes[..., 2:4], angle], dim=-1)


def to_degrees(boxes: Float[Tensor, "*batch 5"], target: str) -> Float[Tensor, "*batch k"]:
    """Write rotated boxes: the inverse of :func:`from_degrees`."""
    if target == "xyxyxyxy":
        return corners(boxes, "cxcywhr").flatten(-2)
    angle = boxes[..., 4:]
    first = boxes[..., :2] if target == "cxcywhr" else boxes[..., :2] - _half_diagonal(boxes[..., 2:4], angle)
    return torch.cat([first, boxes[..., 2:4], torch.rad2deg(angle)], dim=-1)


def _half_diagonal(size: Tensor, angle: Tensor) -> Tensor:
    """Return the vector from a box's own top left corner to its centre."""
    width, height = size[..., :1], size[..., 1:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([cos * width + sin * height, cos * height - sin * width], dim=-1) / 2


def _length(edge: Tensor) -> tuple[Tensor, Tensor]:
    """Return the length of an edge, and the edge or, for length 0, one along x: root and angle have no gradient at 0."""
    empty = (edge == 0).all(dim=-1, keepdim=True)
    along_x = torch.cat([torch.ones_like(edge[..., :1]), torch.zeros_like(edge[..., 1:])], dim=-1)
    safe = torch.where(empty, along_x, edge)
    return torch.where(empty, 0.0, safe.square().sum(dim=-1, keepdim=True).sqrt()), safe

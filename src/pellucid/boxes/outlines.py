"""Boxes as the outlines they are where maps bend: hulls and least rectangles of many points.

Owns: the points of an outline, and the box around points that have moved.
Must not: know the maps; they are functions of points.
Read next: ``canvases.py``.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.boxes.formats import BoxFormat, convert_boxes, corners

__all__ = ["EDGE", "boxed", "least", "outline"]

EDGE = 16
"""Points an edge. Where displacements reach 0.4 of their spacing a hull then misses 0.01 pixels in the mean, 0.05 at most."""
_ANGLES = 16  # to either side; three rounds leave a box's angle 2e-4 off


def outline(boxes: Float[Tensor, "b n k"], form: BoxFormat) -> Float[Tensor, "b n v 2"]:
    """Points on the edges of each box, clockwise on screen from its own top left corner."""
    start = corners(boxes, form)[:, :, :, None]  # b n 4 1 2
    share = torch.arange(EDGE, dtype=boxes.dtype, device=boxes.device)[:, None] / EDGE
    return (start + share * (start.roll(-1, 2) - start)).flatten(2, 3)


def boxed(points: Float[Tensor, "b n v 2"], boxes: Float[Tensor, "b n k"], form: BoxFormat) -> Float[Tensor, "b n k"]:
    """The box around outlines that have moved; NaN where a point has no image.

    Args:
        points: where the points of :func:`outline` are now; of upright boxes any points will do.
        boxes: before; of rotated boxes the angle matters.
        form: of both.

    Gradient:
        points: almost everywhere. A rotated box's angle has that of the line between the middles of its left and right edge, and
        what is left to the rectangle of least area none.
    """
    known = torch.isfinite(points).flatten(-2).all(-1)
    points = torch.where(known[..., None, None], points, 0.0)
    if form == "cxcywhr":
        found = _rectangle(points, _turned(points, boxes[..., 4]))
    else:
        found = convert_boxes(torch.cat((points.amin(-2), points.amax(-2)), -1), "xyxy", form)
    return torch.where(known[..., None], found, torch.nan)


def _turned(points: Float[Tensor, "b n v 2"], angle: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """The angle of the moved boxes' own x axis. Of a mirrored box's two, the one nearer to the mirrored angle."""
    top, right, bottom, left = (points[..., EDGE // 2 + k * EDGE, :] for k in range(4))
    across, down = right - left, bottom - top
    empty = (across == 0.0).all(-1)
    found = torch.atan2(-across[..., 1], torch.where(empty, 1.0, across[..., 0]))
    mirrored = across[..., 0] * down[..., 1] < across[..., 1] * down[..., 0]
    half_turns = torch.round((found + angle).detach() / torch.pi)
    return torch.where(mirrored, found - torch.pi * half_turns, found)


def _rectangle(points: Float[Tensor, "b n v 2"], angle: Float[Tensor, "b n"]) -> Float[Tensor, "b n 5"]:
    """The rectangle of least area around points, within an eighth of a turn of an angle."""
    steps = torch.arange(-_ANGLES, _ANGLES + 1, dtype=points.dtype, device=points.device) / _ANGLES
    with torch.no_grad():
        best, reach = angle.detach(), torch.pi / 4
        for _ in range(3):
            tried = best[..., None] + reach * steps  # b n a
            low, high = _extents(points, tried)
            found = (high - low).prod(-1).argmin(-1, keepdim=True)
            best, reach = torch.gather(tried, -1, found)[..., 0], reach / _ANGLES
    return _at(points, angle + (best - angle).detach())


def least(points: Float[Tensor, "b n v 2"]) -> Float[Tensor, "b n 5"]:
    """The rectangles (cxcywhr) of least area around points, turned by an eighth of a turn at most.

    One side lies on an edge of the convex hull: between points that are the outermost in directions next to one another. Directions
    across such edges, taken in, find the points between.
    """
    place = torch.arange(64, dtype=points.dtype, device=points.device) * (torch.pi / 32) - torch.pi
    place = place.expand(*points.shape[:2], 64)
    for _ in range(4):
        x, y = (points[..., i, None] for i in (0, 1))  # b n v 1
        far = (x * place.cos()[:, :, None] + y * place.sin()[:, :, None]).argmax(-2)
        outer = torch.take_along_dim(points, far[..., None], -2)
        sides = outer.roll(-1, -2) - outer
        across = torch.where((sides == 0).all(-1), place, torch.atan2(-sides[..., 0], sides[..., 1]))
        place = torch.cat((place, across), -1).sort(-1).values
    none = (sides == 0).all(-1)
    angles = torch.atan2(-sides[..., 1], torch.where(none, 1.0, sides[..., 0]))
    low, high = _extents(points, angles)
    angle = torch.gather(angles, -1, (high - low).prod(-1).argmin(-1, keepdim=True))[..., 0]
    return _at(points, angle - (angle / (torch.pi / 2)).round() * (torch.pi / 2))


def _at(points: Float[Tensor, "b n v 2"], angle: Float[Tensor, "b n"]) -> Float[Tensor, "b n 5"]:
    """The least rectangle with this angle around points."""
    low, high = (part[..., 0, :] for part in _extents(points, angle[..., None]))
    middle, (cos, sin) = (low + high) / 2.0, (angle.cos(), angle.sin())
    x, y = middle.unbind(-1)
    centre = torch.stack((cos * x + sin * y, cos * y - sin * x), -1)
    return torch.cat((centre, high - low, angle[..., None]), -1)


def _extents(points: Float[Tensor, "b n v 2"], angles: Float[Tensor, "b n a"]) -> tuple[Tensor, Tensor]:
    """The least and the greatest coordinates along the axes of boxes with these angles, each (b, n, a, 2)."""
    cos, sin = angles.cos()[..., None], angles.sin()[..., None]
    x, y = points[:, :, None].unbind(-1)  # b n 1 v
    along = torch.stack((cos * x - sin * y, sin * x + cos * y), -1)  # b n a v 2
    return along.amin(-2), along.amax(-2)

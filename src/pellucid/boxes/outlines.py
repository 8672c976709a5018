"""Boxes under maps that bend lines: points along their outlines, and the box around the mapped points.

Owns: the points of an outline, upright hulls, and rectangles of least area.
Must not: know the maps; they are functions of points.
Read next: ``canvases.py``.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.boxes.formats import BoxFormat, convert_boxes, corners

__all__ = ["EDGE", "boxed", "least", "outline"]

EDGE = 16
"""Points on each edge. For displacements up to 0.4 of their spacing, a hull is then off by 0.01 pixels on average, at most 0.05."""
_ANGLES = 16  # tried on either side; after three rounds the angle is off by 2e-4 at most


def outline(boxes: Float[Tensor, "b n k"], form: BoxFormat) -> Float[Tensor, "b n v 2"]:
    """Return points on the edges of each box, clockwise on screen from its own top left corner."""
    start = corners(boxes, form)[:, :, :, None]  # b n 4 1 2
    share = torch.arange(EDGE, dtype=boxes.dtype, device=boxes.device)[:, None] / EDGE
    return (start + share * (start.roll(-1, 2) - start)).flatten(2, 3)


def boxed(points: Float[Tensor, "b n v 2"], boxes: Float[Tensor, "b n k"], form: BoxFormat) -> Float[Tensor, "b n k"]:
    """Return the boxes around mapped outlines; NaN for an outline with a point that has no image.

    Args:
        points: the mapped points of :func:`outline`; for upright boxes any points.
        boxes: before the map; only the angles of rotated boxes are used.
        form: the format of both.

    Gradient:
        points: almost everywhere. A rotated box's angle has the gradient of the line between the middles of its left and right
        edge; the further turn to the rectangle of least area has none.
    """
    known = torch.isfinite(points).flatten(-2).all(-1)
    points = torch.where(known[..., None, None], points, 0.0)
    if form == "cxcywhr":
        found = _rectangle(points, _turned(points, boxes[..., 4]))
    else:
        found = convert_boxes(torch.cat((points.amin(-2), points.amax(-2)), -1), "xyxy", form)
    return torch.where(known[..., None], found, torch.nan)


def _turned(points: Float[Tensor, "b n v 2"], angle: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """Return the angle of the mapped boxes' own x axis; of a mirrored box's two angles, the one nearer to the mirrored angle."""
    top, right, bottom, left = (points[..., EDGE // 2 + k * EDGE, :] for k in range(4))
    across, down = right - left, bottom - top
    empty = (across == 0.0).all(-1)
    found = torch.atan2(-across[..., 1], torch.where(empty, 1.0, across[..., 0]))
    mirrored = across[..., 0] * down[..., 1] < across[..., 1] * down[..., 0]
    half_turns = torch.round((found + angle).detach() / torch.pi)
    return torch.where(mirrored, found - torch.pi * half_turns, found)


def _rectangle(points: Float[Tensor, "b n v 2"], angle: Float[Tensor, "b n"]) -> Float[Tensor, "b n 5"]:
    """Return the rectangle of least area around points whose angle differs from the given one by at most an eighth of a turn."""
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
    """Return the rectangles (cxcywhr) of least area around points, with angles of at most an eighth of a turn.

    A side of such a rectangle lies on an edge of the convex hull. The search takes the outermost point in each of 64 directions.
    Then it adds the directions perpendicular to the lines between neighbouring ones, which finds further points of the hull.
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
    """Return the smallest rectangle with this angle around points."""
    low, high = (part[..., 0, :] for part in _extents(points, angle[..., None]))
    middle, (cos, sin) = (low + high) / 2.0, (angle.cos(), angle.sin())
    x, y = middle.unbind(-1)
    centre = torch.stack((cos * x + sin * y, cos * y - sin * x), -1)
    return torch.cat((centre, high - low, angle[..., None]), -1)


def _extents(points: Float[Tensor, "b n v 2"], angles: Float[Tensor, "b n a"]) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest coordinates along axes turned by these angles, each (b, n, a, 2)."""
    cos, sin = angles.cos()[..., None], angles.sin()[..., None]
    x, y = points[:, :, None].unbind(-1)  # b n 1 v
    along = torch.stack((cos * x - sin * y, sin * x + cos * y), -1)  # b n a v 2
    return along.amin(-2), along.amax(-2)

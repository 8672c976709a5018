"""Map boxes across several canvases: each canvas cuts off a part for good, and the rest gets a new box once, at the end.

Owns: clipping convex polygons at canvases, one after the other.
Must not: clip to the last canvas, or decide which boxes to keep: a box of which nothing is left becomes zeros, with a flag.
Read next: ``transform.py``.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.boxes.clip import box_area, clip_boxes
from pellucid.boxes.formats import BoxFormat, convert_boxes, corners
from pellucid.boxes.outlines import boxed, outline
from pellucid.boxes.transform import edge_matrix, project, transform_boxes
from pellucid.types import Size

__all__ = ["Step", "across", "carried"]

Step: TypeAlias = Tensor | Callable[[Tensor], Tensor]
"""A matrix (b, 3, 3) of pixel-centre coordinates, or, for a map that bends lines, a function of points (b, n, 2)."""


def carried(boxes: Float[Tensor, "b n k"], steps: Sequence[Step], form: BoxFormat) -> Float[Tensor, "b n k"]:
    """Map boxes through maps in turn; if one of them bends lines, map many points of each outline and box those."""
    matrices = [step for step in steps if isinstance(step, Tensor)]
    if len(matrices) == len(steps):
        return transform_boxes(boxes, reduce(lambda before, step: step @ before, matrices), form)
    points = outline(boxes, form)
    for step in steps:
        points, known = _stepped(points, step)
        points = torch.where(known[..., None, None], points, torch.nan)
    return boxed(points, boxes, form)


def across(
    boxes: Float[Tensor, "b n k"], hops: Sequence[tuple[Step, Size | None]], form: BoxFormat
) -> tuple[Float[Tensor, "b n k"], Bool[Tensor, "b n"]]:
    """Map boxes from canvas to canvas, and cut them at every one but the last.

    Upright boxes stay polygons until the end, so that turning back and forth does not make them grow; rotated boxes shrink at each
    canvas to their visible part. For maps that bend lines, polygons have many corners.

    Args:
        boxes: on the first canvas.
        hops: for each step the map to the next canvas, and that canvas's (height, width).
        form: the format of the boxes.

    Returns:
        The boxes on the last canvas, and whether a part of each was left on every canvas before.
    """
    if form == "cxcywhr":
        alive = torch.ones(boxes.shape[:-1], dtype=torch.bool, device=boxes.device)
        for k, (step, size) in enumerate(hops):
            boxes = carried(boxes, [step], form)
            if size is not None and k < len(hops) - 1:
                boxes = clip_boxes(boxes, size, form)
                alive = alive & (box_area(boxes, form) > 0)
        return torch.where(alive[..., None], boxes, 0.0), alive
    straight = all(isinstance(step, Tensor) for step, _ in hops)
    points = corners(boxes, form) if straight else outline(boxes, form)  # b n v 2
    alive = torch.isfinite(points).flatten(-2).all(-1)
    points = torch.where(alive[..., None, None], points, 0.0)
    for k, (step, size) in enumerate(hops):
        points, known = _stepped(points, step)
        alive = alive & known
        points = torch.where(alive[..., None, None], points, 0.0)
        if size is not None and k < len(hops) - 1:
            for axis, limit in ((0, size[1]), (1, size[0])):
                for at, sign in ((0.0, 1.0), (float(limit), -1.0)):
                    points, left = _cut(points, axis, at, sign, 1 if straight else _MORE)
                    alive = alive & left
    hull = convert_boxes(torch.cat((points.amin(-2), points.amax(-2)), -1), "xyxy", form)
    return torch.where(alive[..., None], hull, 0.0), alive


def _stepped(points: Float[Tensor, "b n v 2"], step: Step) -> tuple[Tensor, Bool[Tensor, "b n"]]:
    """Map polygons in pixel-edge coordinates, and return which of them have an image."""
    if isinstance(step, Tensor):
        points, depth = project(points, edge_matrix(step)[:, None, None])
        return points, torch.isfinite(points).flatten(-2).all(-1) & ((depth > 0).all(-1) | (depth < 0).all(-1))
    points = step((points - 0.5).flatten(1, 2)).unflatten(1, points.shape[1:3]) + 0.5
    return points, torch.isfinite(points).flatten(-2).all(-1)


_MORE = 4
"""How many times an outline may cross a border inwards and still be cut correctly."""


def _cut(points: Float[Tensor, "b n v 2"], axis: int, at: float, sign: float, more: int) -> tuple[Tensor, Tensor]:
    """Cut polygons along a line, and return whether anything is left. The result has ``more`` additional vertices, one for each
    possible crossing inwards; unused vertices repeat the first.
    """
    depth = sign * (points[..., axis] - at)  # inside is positive
    following, beyond = points.roll(-1, -2), depth.roll(-1, -1)
    inside = depth >= 0
    crossing = inside != (beyond >= 0)
    share = depth / torch.where(crossing, depth - beyond, 1.0)
    met = points + torch.where(crossing, share, 0.0)[..., None] * (following - points)
    candidates = torch.stack((points, met), -2).flatten(-3, -2)  # b n 2v 2, in the order of the polygon
    kept = torch.stack((inside, crossing), -1).flatten(-2)
    count = points.shape[-2] + more
    order = torch.argsort((~kept).to(torch.uint8), dim=-1, stable=True)[..., :count]
    order = torch.where(torch.gather(kept, -1, order), order, order[..., :1])
    return torch.take_along_dim(candidates, order[..., None], -2), kept.any(-1)

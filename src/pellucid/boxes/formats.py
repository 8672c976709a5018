"""The four ways to write a box, and the conversions between them.

Owns: what the numbers of a box mean (``BoxFormat``) and the checks every box function shares.
Must not: clip, reorder or repair boxes, or write to a tensor it was given.
Read next: ``transform.py``.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid, wrong_type

__all__ = ["BoxFormat", "convert_boxes"]

BoxFormat = Literal["xyxy", "xywh", "cxcywh", "cxcywhr"]


def convert_boxes(boxes: Float[Tensor, "*batch k"], source: BoxFormat, target: BoxFormat) -> Float[Tensor, "*batch j"]:
    """Rewrite boxes from one format into another.

    Coordinates are continuous pixel-edge coordinates: the box around exactly the first pixel is ``(0, 0, 1, 1)`` in ``xyxy``.

    Args:
        boxes: any leading shape; the last axis holds 4 numbers, or 5 for ``cxcywhr``.
        source: the format of ``boxes``. ``xyxy``: left, top, right, bottom; ``xywh``: left, top, width, height; ``cxcywh``:
            centre, width, height; ``cxcywhr``: the same and an angle in radians, positive counter-clockwise on
            screen (y points down).
        target: the format of the result. From ``cxcywhr`` to the others gives the axis-aligned hull; to ``cxcywhr`` the angle is 0.

    Returns:
        A new tensor, or ``boxes`` itself if both formats are the same.

    Gradient:
        boxes: exact; from ``cxcywhr`` to its hull almost everywhere (the hull has a kink at multiples of a quarter turn, where the
        gradient with respect to the angle is the mean of both sides). Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for an unknown format or a last axis of the wrong length, ``InvalidType`` for integer boxes.

    Source:
        Formats as in COCO and torchvision; the hull of a rotated box is checked against its four corners.

    Example:
        >>> convert_boxes(torch.tensor([[2.0, 1.0, 6.0, 4.0]]), "xyxy", "cxcywh")
        tensor([[4.0000, 2.5000, 4.0000, 3.0000]])
    """
    check_boxes(boxes, source, "source")
    check_format(target, "target")
    if source == target:
        return boxes
    if target == "cxcywhr":
        upright = convert_boxes(boxes, source, "cxcywh")
        return torch.cat([upright, torch.zeros_like(upright[..., :1])], dim=-1)
    if source == "cxcywhr":
        return convert_boxes(upright_hull(boxes), "cxcywh", target)
    first, second = boxes[..., :2], boxes[..., 2:]
    match source, target:
        case "xyxy", "xywh":
            out = (first, second - first)
        case "xyxy", "cxcywh":
            out = ((first + second) / 2, second - first)
        case "xywh", "xyxy":
            out = (first, first + second)
        case "xywh", "cxcywh":
            out = (first + second / 2, second)
        case "cxcywh", "xyxy":
            out = (first - second / 2, first + second / 2)
        case _:  # cxcywh, xywh
            out = (first - second / 2, second)
    return torch.cat(out, dim=-1)


def upright_hull(boxes: Float[Tensor, "*batch 5"]) -> Float[Tensor, "*batch 4"]:
    """Return the ``cxcywh`` of the smallest axis-aligned box around each ``cxcywhr`` box."""
    centre, width, height, angle = boxes[..., :2], boxes[..., 2:3], boxes[..., 3:4], boxes[..., 4:5]
    cos, sin = angle.cos().abs(), angle.sin().abs()
    return torch.cat([centre, cos * width + sin * height, sin * width + cos * height], dim=-1)


def corners(boxes: Float[Tensor, "*batch k"], boxes_format: BoxFormat) -> Float[Tensor, "*batch 4 2"]:
    """Return the corners of each box, clockwise on screen from the box's own top left."""
    if boxes_format != "cxcywhr":
        x1, y1, x2, y2 = convert_boxes(boxes, boxes_format, "xyxy").unbind(-1)
        return torch.stack([x1, y1, x2, y1, x2, y2, x1, y2], dim=-1).unflatten(-1, (4, 2))
    cx, cy, width, height, angle = boxes.unbind(-1)
    cos, sin = angle.cos(), angle.sin()
    ux, uy = cos * width / 2, -sin * width / 2  # half the box along its own x axis; the screen's y points down
    vx, vy = sin * height / 2, cos * height / 2
    xs = [cx - ux - vx, cx + ux - vx, cx + ux + vx, cx - ux + vx]
    ys = [cy - uy - vy, cy + uy - vy, cy + uy + vy, cy - uy + vy]
    return torch.stack([torch.stack(xs, dim=-1), torch.stack(ys, dim=-1)], dim=-1)


def check_boxes(boxes: Tensor, boxes_format: BoxFormat, name: str = "format") -> None:
    """Raise unless ``boxes`` is a floating-point tensor whose last axis fits the format."""
    check_format(boxes_format, name)
    if not isinstance(boxes, Tensor) or not boxes.is_floating_point():
        got = boxes.dtype if isinstance(boxes, Tensor) else type(boxes).__name__
        raise wrong_type("boxes", expected="a floating-point tensor", got=got, fix="Call boxes.float() first.")
    length = 5 if boxes_format == "cxcywhr" else 4
    if boxes.ndim == 0 or boxes.shape[-1] != length:
        fix = "Rotated boxes are 'cxcywhr' and have 5 numbers; all others have 4."
        raise invalid("boxes", expected=f"a last axis of {length} for {boxes_format!r}", got=f"shape {tuple(boxes.shape)}", fix=fix)


def check_format(boxes_format: str, name: str) -> None:
    """Raise unless the format is one of ``BoxFormat``."""
    if boxes_format not in get_args(BoxFormat):
        raise invalid(name, expected=f"one of {', '.join(get_args(BoxFormat))}", got=repr(boxes_format))

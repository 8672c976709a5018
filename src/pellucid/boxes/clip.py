"""Cut boxes at the image border, and mark those that are still worth keeping.

Owns: area, clipping and the visibility mask.
Must not: drop boxes: shapes stay static, and the mask says which to keep.
Read next: ``rotated.py``.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.boxes.formats import BoxFormat, check_boxes, convert_boxes
from pellucid.boxes.rotated import clip_rotated
from pellucid.core.formerly import formerly
from pellucid.errors import invalid

__all__ = ["box_area", "clip_boxes", "visible"]


def box_area(
    boxes: Float[Tensor, "*batch k"],
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
) -> Float[Tensor, "*batch"]:
    """Return the area of each box, in square pixels; an inverted box has area 0.

    Args:
        boxes: any leading shape.
        format: how the boxes are written.

    Returns:
        Areas, in float32 for half-precision boxes (a 256 x 256 box does not fit float16), in the dtype of ``boxes`` otherwise.

    Gradient:
        boxes: exact; zero for inverted boxes. Second order: yes. Deterministic: yes.

    Errors:
        As :func:`pellucid.boxes.convert_boxes`.

    Source:
        Width times height.

    Example:
        >>> box_area(torch.tensor([[0.0, 0.0, 4.0, 3.0], [2.0, 0.0, 1.0, 5.0]]))
        tensor([12.,  0.])
    """
    check_boxes(boxes, format)
    boxes = boxes.to(torch.promote_types(boxes.dtype, torch.float32))
    sides = boxes[..., 2:4] - boxes[..., :2] if format == "xyxy" else boxes[..., 2:4]
    sides = torch.where(sides < 0, 0.0, sides)  # NaN stays NaN
    return sides[..., 0] * sides[..., 1]


def clip_boxes(
    boxes: Float[Tensor, "*batch k"],
    size: tuple[int, int],
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
) -> Float[Tensor, "*batch k"]:
    """Cut boxes at the border of an image.

    Upright boxes are intersected with the image. A rotated box becomes the smallest box of the same angle around its visible part;
    its corners may still stick out.

    Args:
        boxes: any leading shape, pixel-edge coordinates.
        size: (height, width) of the image; its edges are at 0 and at the size.
        format: how the boxes are written.

    Returns:
        Clipped boxes in the same format and dtype. Boxes inside the image stay equal bit for bit; a box outside has area 0; NaN
        stays NaN.

    Gradient:
        boxes: exact inside, zero for a coordinate that was cut; on the border itself as inside. Second order: yes.

    Errors:
        ``InvalidArgument`` for a size that is not two positive numbers, and as :func:`pellucid.boxes.convert_boxes`.

    Source:
        Intersection of intervals; for rotated boxes a polygon clipped edge by edge in the tests.

    Example:
        >>> clip_boxes(torch.tensor([[-2.0, 1.0, 3.0, 9.0]]), size=(6, 8))
        tensor([[0., 1., 3., 6.]])
    """
    check_boxes(boxes, format)
    height, width = check_size(size)
    if format == "cxcywhr":
        return clip_rotated(boxes, height, width)
    wide = boxes.to(torch.promote_types(boxes.dtype, torch.float32))  # converting to xyxy must not round
    edges = convert_boxes(wide, format, "xyxy")
    x, y = edges[..., 0::2], edges[..., 1::2]
    x, y = (torch.where(v < 0, 0.0, torch.where(v > limit, float(limit), v)) for v, limit in ((x, width), (y, height)))
    cut = convert_boxes(torch.stack([x, y], dim=-1).flatten(-2), "xyxy", format)
    limits = edges.new_tensor([width, height, width, height])
    inside = ((edges >= 0) & (edges <= limits)).all(dim=-1, keepdim=True)
    return torch.where(inside, boxes, cut.to(boxes.dtype))  # boxes inside do not go through xyxy and back


@formerly("min_area", "min_visibility", "format")
def visible(
    before: Float[Tensor, "*batch k"],
    after: Float[Tensor, "*batch k"],
    *,
    min_area: float = 0.0,
    min_visibility: float = 0.0,
    min_size: float | Sequence[float] = 0.0,
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
) -> Bool[Tensor, "*batch"]:
    """Mark the boxes that are still worth keeping after clipping.

    Args:
        before: the boxes before :func:`clip_boxes`.
        after: the same boxes after it.
        min_area: smallest area to keep, in square pixels.
        min_visibility: smallest fraction of the area before clipping to keep, 0 to 1.
        min_size: smallest sides to keep, in pixels: one number, or (height, width).
        format: how both are written.

    Returns:
        True if both boxes are finite and have a positive area, and the clipped one has at least ``min_area``, ``min_size``, and
        ``min_visibility`` of the area before. False for NaN, and for a row without size, which is padding.

    Gradient:
        None: the result is a mask.

    Errors:
        ``InvalidArgument`` if the shapes differ, and as :func:`pellucid.boxes.convert_boxes`.

    Source:
        The rule of box sanitising in detection pipelines.

    Example:
        >>> before = torch.tensor([[-2.0, 0.0, 2.0, 4.0], [-3.0, 0.0, 1.0, 4.0]])
        >>> visible(before, clip_boxes(before, (4, 4)), min_visibility=0.5)
        tensor([ True, False])
    """
    if before.shape != after.shape:
        raise invalid("after", expected=f"the shape of before, {tuple(before.shape)}", got=tuple(after.shape))
    whole, rest = box_area(before, format), box_area(after, format)
    finite = before.isfinite().all(dim=-1) & after.isfinite().all(dim=-1)
    kept = finite & (whole > 0) & (rest > 0) & (rest >= min_area) & (rest >= min_visibility * whole)
    if min_size in (0, (0, 0)):
        return kept
    sides = after if format == "cxcywhr" else convert_boxes(after, format, "cxcywh")
    height, width = min_size if isinstance(min_size, Sequence) else (min_size, min_size)
    return kept & (sides[..., 2] >= width) & (sides[..., 3] >= height)


def check_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return (height, width), or raise if ``size`` is not two positive numbers."""
    if not isinstance(size, (tuple, list)) or len(size) != 2 or not all(side > 0 for side in size):
        raise invalid("size", expected="(height, width), both positive", got=repr(size))
    return size[0], size[1]

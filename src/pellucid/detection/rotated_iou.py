"""Intersection over union of rotated boxes: exact polygon areas with static shapes.

Owns: the area of the intersection polygon.
Must not: approximate by hulls or Gaussians.
Read next: ``../boxes/rotated.py``.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.boxes.clip import box_area
from pellucid.boxes.formats import check_boxes
from pellucid.boxes.rotated import intersection_vertices
from pellucid.detection.overlap import ratio
from pellucid.errors import invalid

__all__ = ["rotated_box_iou"]


def rotated_box_iou(
    first: Float[Tensor, "*batch n 5"], second: Float[Tensor, "*batch m 5"], *, pairwise: bool = True
) -> Float[Tensor, "*batch n m"] | Float[Tensor, "*batch n"]:
    """Return intersection over union of rotated boxes (``cxcywhr``, radians, counter-clockwise on screen).

    Args:
        first: N boxes.
        second: M boxes.
        pairwise: True compares every box with every other, False row with row (then M = N).

    Returns:
        Values in [0, 1], at least in float32; 0 where both boxes are empty.

    Gradient:
        first, second: almost everywhere (kinks where a corner lies on the other's edge); zero where the boxes do not meet.
        Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes that do not fit; ``InvalidType`` for integer boxes.

    Source:
        Vertices of the intersection, ordered by angle, and the shoelace formula; against polygon clipping in the tests.

    Example:
        >>> square = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]])
        >>> diamond = torch.tensor([[0.0, 0.0, 2.0, 2.0, torch.pi / 4]])
        >>> rotated_box_iou(square, diamond)  # the octagon over the star
        tensor([[0.7071]])
    """
    check_boxes(first, "cxcywhr", "first")
    check_boxes(second, "cxcywhr", "second")
    fits = first.ndim >= 2 and second.ndim == first.ndim and first.shape[:-2] == second.shape[:-2]
    if not fits or not (pairwise or first.shape == second.shape):
        raise invalid("second", expected=f"boxes of the same batch as first, {tuple(first.shape)}", got=tuple(second.shape))
    dtype = torch.promote_types(torch.promote_types(first.dtype, second.dtype), torch.float32)
    a, b = first.to(dtype), second.to(dtype)
    if pairwise:
        a, b = torch.broadcast_tensors(a[..., :, None, :], b[..., None, :, :])
    # Measured from the first centre: far from the origin the corners would lose the bits that decide which edges cross.
    offset = torch.cat([b[..., :2] - a[..., :2], b[..., 2:]], dim=-1)
    origin = torch.cat([torch.zeros_like(a[..., :2]), a[..., 2:]], dim=-1)
    areas = box_area(origin, "cxcywhr"), box_area(offset, "cxcywhr")
    # A box may be thinner than the rounding errors of its polygon: no overlap is larger than the smaller box.
    inter = torch.minimum(_polygon_area(*intersection_vertices(origin, offset)), torch.minimum(*areas))
    return ratio(inter, areas[0] + areas[1] - inter)


def _polygon_area(points: Tensor, real: Tensor) -> Tensor:
    # Order the real vertices by angle about their mean. The others become copies of the first, which add no area.
    count = real.sum(dim=-1, keepdim=True)
    masked = torch.where(real[..., None], points, 0.0)
    middle = masked.detach().sum(dim=-2) / count.clamp(min=1)
    around = points.detach() - middle[..., None, :]
    angle = torch.where(real, torch.atan2(around[..., 1], around[..., 0]), torch.inf)
    order = angle.argsort(dim=-1, stable=True)
    ordered = masked.gather(-2, order[..., None].expand(points.shape))
    kept = torch.arange(points.shape[-2], device=points.device) < count
    ordered = torch.where(kept[..., None], ordered, ordered[..., :1, :])
    following = ordered.roll(-1, dims=-2)
    cross = ordered[..., 0] * following[..., 1] - ordered[..., 1] * following[..., 0]
    return cross.sum(dim=-1).abs() / 2

"""Intersection over union of upright boxes, and its generalised form.

Owns: IoU and GIoU, every box against every other or row by row.
Must not: divide by an empty union, or return NaN for a degenerate box.
Read next: ``rotated_iou.py``.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.boxes import BoxFormat, box_area, convert_boxes
from pellucid.boxes.formats import check_boxes
from pellucid.errors import invalid

__all__ = ["box_iou", "generalized_box_iou", "ratio"]


def box_iou(
    first: Float[Tensor, "*batch n 4"],
    second: Float[Tensor, "*batch m 4"],
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
    *,
    pairwise: bool = True,
) -> Float[Tensor, "*batch n m"] | Float[Tensor, "*batch n"]:
    """Return intersection over union.

    Args:
        first: N boxes.
        second: M boxes.
        format: how both are written; ``cxcywhr`` belongs to :func:`rotated_box_iou`.
        pairwise: True compares every box with every other, False row with row (then M = N).

    Returns:
        Values in [0, 1], at least in float32; 0 where both boxes are empty.

    Gradient:
        first, second: almost everywhere (kinks where edges align); zero where the boxes do not meet: see
        :func:`generalized_box_iou`. Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes that do not fit and for rotated boxes; ``InvalidType`` for integer boxes.

    Source:
        Areas of axis-aligned rectangles, against a scalar loop in the tests.

    Example:
        >>> box_iou(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0]]))
        tensor([[0.3333]])
    """
    a, b = _aligned(first, second, format, pairwise)
    inter, union = _overlap(a, b)
    return ratio(inter, union)


def generalized_box_iou(
    first: Float[Tensor, "*batch n 4"],
    second: Float[Tensor, "*batch m 4"],
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
    *,
    pairwise: bool = True,
) -> Float[Tensor, "*batch n m"] | Float[Tensor, "*batch n"]:
    """Return generalised intersection over union: IoU minus the part of the common hull that neither box covers.

    Args:
        first: N boxes.
        second: M boxes.
        format: how both are written, not ``cxcywhr``.
        pairwise: True compares every box with every other, False row with row (then M = N).

    Returns:
        Values in [-1, 1], at least in float32; 0 where the hull is empty.

    Gradient:
        first, second: almost everywhere, and nonzero for boxes that do not meet. Second order: yes. Deterministic: yes.

    Errors:
        As :func:`box_iou`.

    Source:
        Rezatofighi et al., "Generalized intersection over union", CVPR 2019.

    Example:
        >>> generalized_box_iou(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([[3.0, 0.0, 4.0, 1.0]]))
        tensor([[-0.5000]])
    """
    a, b = _aligned(first, second, format, pairwise)
    inter, union = _overlap(a, b)
    hull = box_area(torch.cat([torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])], dim=-1))
    return ratio(inter, union) - ratio(hull - union, hull)


def _aligned(first: Tensor, second: Tensor, form: BoxFormat, pairwise: bool) -> tuple[Tensor, Tensor]:
    if form == "cxcywhr":
        raise invalid("format", expected="an upright format", got=repr(form), fix="Use rotated_box_iou for rotated boxes.")
    check_boxes(first, form)
    check_boxes(second, form)
    # Widened before anything is added: the edges of a half-precision centre and size do not fit half precision.
    dtype = torch.promote_types(torch.promote_types(first.dtype, second.dtype), torch.float32)
    a, b = (convert_boxes(boxes.to(dtype), form, "xyxy") for boxes in (first, second))
    if a.ndim < 2 or b.ndim != a.ndim or a.shape[:-2] != b.shape[:-2] or not (pairwise or a.shape == b.shape):
        expected = f"boxes of the same batch as first{'' if pairwise else ', one per row'}"
        raise invalid("second", expected=expected, got=f"{tuple(second.shape)} for first {tuple(first.shape)}")
    if pairwise:
        a, b = torch.broadcast_tensors(a[..., :, None, :], b[..., None, :, :])
    return a, b


def _overlap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    inter = box_area(torch.cat([torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])], dim=-1))
    return inter, box_area(a) + box_area(b) - inter


def ratio(part: Tensor, whole: Tensor) -> Tensor:
    """Part over whole, 0 where there is no whole."""
    empty = whole <= 0
    return torch.where(empty, 0.0, part / torch.where(empty, 1.0, whole))

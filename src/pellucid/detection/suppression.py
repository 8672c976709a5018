"""Non-maximum suppression: which of many overlapping boxes stay, or how far the scores of the others fall.

Owns: the greedy choice and its soft form, on any device, without compiled operators of another package.
Must not: merge boxes (``fusion.py``).
Read next: ``fusion.py``.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.boxes import BoxFormat
from pellucid.boxes.formats import check_boxes
from pellucid.core.arguments import check_choice, finite_number
from pellucid.detection.overlap import box_iou
from pellucid.detection.rotated_iou import rotated_box_iou
from pellucid.errors import invalid

__all__ = ["checked_boxes", "nms", "soft_nms"]

_BLOCK = 512
"""Boxes that are compared at a time: memory for their overlaps grows with its square."""


def nms(
    boxes: Float[Tensor, "n k"],
    scores: Float[Tensor, "n"],
    *,
    iou_threshold: float = 0.5,
    labels: Int[Tensor, "n"] | None = None,
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
) -> Int[Tensor, "kept"]:
    """Return the indices of the boxes that survive non-maximum suppression, best score first.

    Index ``boxes`` and ``scores`` with the result to keep their gradients. The number of survivors depends on values, so this step
    stays outside compiled graphs; detectors with one query per object (see :class:`DetectionDecoder`) do without it.

    Args:
        boxes: N boxes, upright or rotated.
        scores: one per box. Of equal scores the first counts as the better.
        iou_threshold: boxes that overlap a better one by more are dropped.
        labels: suppress only among boxes of one label.
        format: how the boxes are written.

    Returns:
        Indices into ``boxes``.

    Gradient:
        None: a choice.

    Errors:
        ``InvalidArgument`` for shapes that do not fit; ``InvalidType`` for integer boxes.

    Source:
        The greedy rule of ``torchvision.ops.nms`` and, with labels, of ``batched_nms``; OpenCV's ``NMSBoxes`` in the tests.

    Example:
        >>> import torch
        >>> boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.6], [6.0, 6.0, 9.0, 9.0]])
        >>> nms(boxes, torch.tensor([0.6, 0.9, 0.3]))
        tensor([1, 2])
    """
    checked_boxes(boxes, format, scores=scores, labels=labels)
    order = scores.detach().argsort(descending=True, stable=True)
    kept = order[:0]
    for block in order.split(_BLOCK if format != "cxcywhr" else _BLOCK // 4):
        alive = ~_suppressed(boxes, labels, kept, block, iou_threshold, format).any(0)
        within = _suppressed(boxes, labels, block, block, iou_threshold, format).triu(1)
        kept = torch.cat((kept, block[_greedy(within, alive)]))
    return kept


def soft_nms(
    boxes: Float[Tensor, "n k"],
    scores: Float[Tensor, "n"],
    *,
    decay: Literal["gaussian", "linear"] = "gaussian",
    sigma: float = 0.5,
    iou_threshold: float = 0.3,
    score_threshold: float = 0.001,
    labels: Int[Tensor, "n"] | None = None,
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
) -> tuple[Int[Tensor, "kept"], Float[Tensor, "kept"]]:
    """Lower the scores of boxes that overlap better ones, where `nms` would drop them.

    The best box is taken, and the scores of all others fall with their overlap with it; then the best of the rest, and so on.

    Args:
        boxes: N boxes, upright or rotated.
        scores: one per box, in [0, 1].
        decay: ``gaussian`` multiplies a score by exp(-IoU^2 / sigma), ``linear`` by 1 - IoU where that is above `iou_threshold`.
        sigma: how much overlap the Gaussian forgives.
        iou_threshold: the overlap above which ``linear`` lowers a score.
        score_threshold: boxes whose score falls to this or below are dropped.
        labels: only boxes of one label lower each other's scores.
        format: how the boxes are written.

    Returns:
        Indices into ``boxes`` in the order in which they were taken, and their new scores.

    Gradient:
        scores, boxes: almost everywhere, to the new scores; none to the order.

    Errors:
        ``InvalidArgument`` for shapes that do not fit and a sigma that is not positive; ``InvalidType`` for integer boxes.

    Source:
        Bodla et al., "Soft-NMS: improving object detection with one line of code", ICCV 2017.

    Example:
        >>> import torch
        >>> boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 2.0]])
        >>> soft_nms(boxes, torch.tensor([0.9, 0.8]))
        (tensor([0, 1]), tensor([0.9000, 0.4852]))
    """
    checked_boxes(boxes, format, scores=scores, labels=labels)
    check_choice("decay", decay, ("gaussian", "linear"))
    if finite_number("sigma", sigma) <= 0:
        raise invalid("sigma", expected="above 0", got=sigma)
    overlap = _overlap(boxes, boxes, format)
    factors = (
        torch.exp(-overlap.square() / sigma) if decay == "gaussian" else torch.where(overlap > iou_threshold, 1 - overlap, 1.0)
    )
    if labels is not None:
        factors = torch.where(labels[:, None] == labels, factors, 1.0)
    order = _taken(scores.detach(), factors.detach(), score_threshold)
    earlier = torch.ones(len(order), len(order), dtype=torch.bool, device=order.device).triu(1)
    product = torch.where(earlier, factors[order][:, order], 1.0).prod(0)
    return order, scores[order] * product


def checked_boxes(boxes: Tensor, format: BoxFormat, **rows: Tensor | None) -> None:  # noqa: A002
    """Raise unless the boxes are those of one image and every other tensor has one number per box."""
    check_boxes(boxes, format)
    if boxes.ndim != 2:
        raise invalid("boxes", expected="(N, 4): one image", got=tuple(boxes.shape))
    for name, value in rows.items():
        if value is not None and tuple(value.shape) != (boxes.shape[0],):
            raise invalid(name, expected=f"one per box, shape ({boxes.shape[0]},)", got=tuple(value.shape))


def _overlap(first: Tensor, second: Tensor, format: BoxFormat) -> Tensor:  # noqa: A002
    return rotated_box_iou(first, second) if format == "cxcywhr" else box_iou(first, second, format)


def _suppressed(
    boxes: Tensor,
    labels: Tensor | None,
    better: Tensor,
    worse: Tensor,
    threshold: float,
    format: BoxFormat,  # noqa: A002
) -> Bool[Tensor, "better worse"]:
    """Whether each of the better boxes would suppress each of the worse."""
    over = _overlap(boxes[better].detach(), boxes[worse].detach(), format) > threshold
    return over if labels is None else over & (labels[better][:, None] == labels[worse])


def _greedy(suppresses: Bool[Tensor, "n n"], alive: Bool[Tensor, "n"]) -> Bool[Tensor, "n"]:
    """Which boxes stay if box i suppresses the boxes marked in row i. Each round updates all boxes, until nothing changes.

    Box 0 is right from the start, and a box is right one round after the boxes before it; chains are short.
    """
    kept = alive
    while True:
        found = alive & ~(suppresses & kept[:, None]).any(0)
        if torch.equal(found, kept):
            return kept
        kept = found


def _taken(scores: Tensor, factors: Tensor, lowest: float) -> Int[Tensor, "kept"]:
    """The order in which boxes are taken, each time the best of those left."""
    order, left = [], torch.where(scores.isnan(), -torch.inf, scores)
    for _ in range(len(scores)):
        best = left.argmax()
        if not left[best] > lowest:
            break
        order.append(best)
        left = torch.where(torch.arange(len(left), device=left.device) == best, -torch.inf, left * factors[best])
    return torch.stack(order) if order else torch.empty(0, dtype=torch.int64, device=scores.device)

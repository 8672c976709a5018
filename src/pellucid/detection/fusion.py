"""Weighted box fusion: boxes that several predictions found of one object become one box.

Owns: which boxes belong together, and their mean.
Must not: drop a box because a better one is near (``suppression.py``).
Read next: ``suppression.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.detection.overlap import box_iou
from pellucid.detection.suppression import checked_boxes
from pellucid.errors import invalid

__all__ = ["weighted_box_fusion"]


def weighted_box_fusion(
    boxes: Float[Tensor, "n 4"],
    scores: Float[Tensor, "n"],
    *,
    predictions: int,
    iou_threshold: float = 0.55,
    labels: Int[Tensor, "n"] | None = None,
) -> tuple[Float[Tensor, "m 4"], Float[Tensor, "m"], Int[Tensor, "m"] | None]:
    """Replace the boxes that several models or views found of one object by their mean, weighed by their scores.

    From the best score on, each box joins the group whose mean it overlaps most, or begins a group of its own. A group which fewer
    boxes support than there are predictions loses score in proportion.

    Args:
        boxes: the boxes (``xyxy``) of all predictions of one image.
        scores: one per box, above 0.
        predictions: how many models or views the boxes come from.
        iou_threshold: a box joins a group whose mean it overlaps by more.
        labels: only boxes of the same label join a group.

    Returns:
        Boxes, scores and labels (None without labels) of the groups, best score first.

    Gradient:
        boxes, scores: exact for fixed groups; the grouping has no gradient.

    Errors:
        ``InvalidArgument`` for shapes that do not fit; ``InvalidType`` for integer boxes.

    Source:
        Solovyev et al., "Weighted boxes fusion: ensembling boxes from different object detection models", Image and Vision
        Computing 2021; the authors' package ``ensemble-boxes`` in the tests.

    Example:
        >>> import torch
        >>> boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0]])
        >>> weighted_box_fusion(boxes, torch.tensor([0.75, 0.25]), predictions=2)[:2]
        (tensor([[0.0000, 0.0000, 4.0000, 3.7500]]), tensor([0.5000]))
    """
    checked_boxes(boxes, "xyxy", scores=scores, labels=labels)
    predictions = whole_number("predictions", predictions, 1, 1 << 20)
    if not bool((scores > 0).all()):
        raise invalid("scores", expected="above 0, as they weigh the mean", got=float(scores.min()))
    order = scores.detach().argsort(descending=True, stable=True)
    boxes, scores = boxes[order], scores[order]
    labels = None if labels is None else labels[order]
    group, first = _groups(boxes.detach(), scores.detach(), labels, iou_threshold)
    member = (torch.arange(len(first), device=group.device)[:, None] == group).to(scores.dtype)  # m n
    weight, count = member @ scores, member.sum(1)
    means = member @ (boxes * scores[:, None]) / weight[:, None]
    fused = weight / count * count.clamp(max=predictions) / predictions  # scores
    best = fused.detach().argsort(descending=True, stable=True)
    return means[best], fused[best], None if labels is None else labels[first][best]


def _groups(boxes: Tensor, scores: Tensor, labels: Tensor | None, threshold: float) -> tuple[Tensor, Tensor]:
    """The group of each box, and the first box of each group; boxes come best first."""
    kinds = torch.zeros_like(scores, dtype=torch.int64) if labels is None else labels
    group = torch.empty_like(kinds, dtype=torch.int64)
    first: list[int] = []
    sums, weights = torch.zeros_like(boxes), torch.zeros_like(scores)
    for i, box in enumerate(boxes):
        n = len(first)
        overlap = box_iou(box[None], sums[:n] / weights[:n, None])[0]
        overlap = torch.where(kinds[first] == kinds[i], overlap, -1.0) if n else overlap
        best = int(overlap.argmax()) if n else 0
        if not n or not overlap[best] > threshold:
            best = n
            first.append(i)
        group[i] = best
        sums[best] += box * scores[i]
        weights[best] += scores[i]
    return group, torch.tensor(first, dtype=torch.int64, device=boxes.device)

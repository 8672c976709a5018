"""Merging predictions of one kind that several views made of the same pictures.

Owns: mean, maximum and vote of maps, scores, masks, keypoints and boxes.
Must not: know pipelines; predictions come in the pictures' frame, each with the pixels that its view shows.
Read next: ``tta.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from pellucid.boxes import clip_boxes
from pellucid.detection import nms, soft_nms, weighted_box_fusion
from pellucid.errors import invalid
from pellucid.types import Size

__all__ = ["merged_boxes", "merged_maps", "merged_masks", "merged_points", "merged_scores", "padded"]

_KNOWN = 1e-3
"""A view counts at a pixel if it shows more than this share of it; smaller shares are rounding errors."""


def merged_maps(
    maps: Sequence[Float[Tensor, "b k h w"]],
    known: Sequence[Float[Tensor, "b 1 h w"]],
    anchor: Float[Tensor, "b k 1 1"],
    merge: str,
) -> tuple[Float[Tensor, "b k h w"], Bool[Tensor, "b 1 h w"]]:
    """Merge maps, with 0 where no view shows a pixel, and tell which pixels a view shows.

    Args:
        maps: differences from the anchor, 0 where a view shows nothing.
        known: the share of each pixel that a view shows.
        anchor: a value of each channel, added again at the end, so that equal predictions come out unchanged, bit for bit.
        merge: ``mean`` (weighed by the shown shares), ``max`` or ``vote`` (the shares of the views that prefer each channel).

    Gradient:
        maps, anchor: exact; almost everywhere for ``max``, none for ``vote``.
    """
    shares = torch.stack(list(known))
    shares = torch.where(shares > _KNOWN, shares, 0.0)  # v b 1 h w
    total = shares.sum(0)
    seen = total > 0
    safe = torch.where(seen, total, 1.0)
    values = torch.stack(list(maps))  # v b k h w
    if merge == "mean":
        out = torch.where(shares > 0, values, 0.0).sum(0) / safe + anchor
    elif merge == "max":
        full = values / torch.where(shares > 0, shares, 1.0)
        out = torch.where(shares > 0, full, -torch.inf).amax(0) + anchor
    else:
        votes = torch.nn.functional.one_hot((values + shares * anchor).argmax(2), values.shape[2]).movedim(-1, 2)
        out = (votes * shares).sum(0) / safe
    return torch.where(seen, out, 0.0), seen


def merged_scores(scores: Sequence[Float[Tensor, "b k"]], merge: str) -> Float[Tensor, "b k"]:
    """Merge class scores, which have no place in the picture."""
    values = torch.stack(list(scores))
    if merge == "mean":
        return values[0] + (values - values[0]).mean(0)
    if merge == "max":
        return values.amax(0)
    return torch.nn.functional.one_hot(values.argmax(-1), values.shape[-1]).to(values.dtype).mean(0)


def merged_masks(
    masks: Sequence[Shaped[Tensor, "b *c h w"]], known: Sequence[Shaped[Tensor, "b *c h w"]]
) -> tuple[Shaped[Tensor, "b *c h w"], Bool[Tensor, "b *c h w"]]:
    """The label that most views give a pixel (the smallest of a tie, 0 where no view shows it), and which pixels a view shows."""
    labels, seen = torch.stack(list(masks)), torch.stack(list(known)).to(torch.bool)
    votes = ((labels[:, None] == labels[None]) & seen[None]).sum(1) * seen  # v b *c h w
    best = torch.where(votes == votes.amax(0), labels.to(torch.int64), torch.iinfo(torch.int64).max).amin(0)
    return torch.where(seen.any(0), best, 0).to(labels.dtype), seen.any(0)


def merged_points(points: Sequence[Float[Tensor, "b n k"]], merge: str) -> Float[Tensor, "b n k"]:
    """The mean of the points, weighed by their third number where they have one; or the point whose third number is largest."""
    values = torch.stack(list(points))
    finite = torch.isfinite(values).all(-1, keepdim=True)
    values = torch.where(finite, values, 0.0)
    if merge == "vote" or (merge == "max" and values.shape[-1] < 3):
        raise invalid("merge", expected="'mean' for keypoints, or 'max' where they have a score", got=repr(merge))
    weights = values[..., 2:] * finite if values.shape[-1] == 3 else finite.to(values.dtype)
    if merge == "max":
        return values.gather(0, weights.argmax(0, keepdim=True).expand(-1, -1, -1, values.shape[-1]))[0]
    even = finite.to(values.dtype)
    weights = torch.where(weights.sum(0) > 0, weights, even)
    total = weights.sum(0)
    places = (values[..., :2] * weights).sum(0) / torch.where(total > 0, total, 1.0)
    counts = even.sum(0)
    scores = (values[..., 2:] * even).sum(0) / torch.where(counts > 0, counts, 1.0)
    return torch.cat((places, scores), -1)


def merged_boxes(
    boxes: Sequence[Float[Tensor, "b n 4"]],
    scores: Sequence[Float[Tensor, "b n"]],
    valid: Sequence[Bool[Tensor, "b n"]],
    rows: Mapping[str, Sequence[Shaped[Tensor, "b n *rest"]]],
    *,
    size: Size,
    how: str,
    iou_threshold: float,
) -> dict[str, Tensor]:
    """The objects that the views found, each once, padded to the same number in every picture.

    Args:
        boxes: of each view, in the picture's frame; clipped to it here.
        scores: of each view.
        valid: which rows are boxes and no padding.
        rows: other values with a row for every box; ``labels`` say which boxes may be of one object.
        size: of the picture.
        how: ``nms``, ``soft_nms`` or ``fusion``.
        iou_threshold: of the boxes of one object.

    Returns:
        ``boxes`` (B, M, 4), ``scores`` (B, M), ``boxes_valid`` (B, M) and the rows; best first.
    """
    every = {"boxes": clip_boxes(torch.cat(list(boxes), 1), size), "scores": torch.cat(list(scores), 1)}
    every |= {name: torch.cat(list(column), 1) for name, column in rows.items()}
    if how == "fusion" and set(rows) - {"labels"}:
        fix = "Pass merge_boxes='nms' or 'soft_nms', which keep whole rows."
        raise invalid("merge_boxes", expected="nothing but labels beside boxes that are fused", got=sorted(rows), fix=fix)
    good = torch.cat(list(valid), 1) & torch.isfinite(every["boxes"]).all(-1)
    good &= (every["boxes"][..., 2:] > every["boxes"][..., :2]).all(-1)
    kept = [
        _merged({name: column[i][flags] for name, column in every.items()}, how, iou_threshold, len(boxes))
        for i, flags in enumerate(good)
    ]
    most = max((len(one["scores"]) for one in kept), default=0)
    counts = torch.tensor([len(one["scores"]) for one in kept], device=good.device)
    filled = torch.arange(most, device=good.device) < counts[:, None]
    return {name: padded([one[name] for one in kept], most) for name in every} | {"boxes_valid": filled}


def padded(rows: Sequence[Shaped[Tensor, "n *rest"]], most: int) -> Shaped[Tensor, "b most *rest"]:
    """Rows of several pictures as one tensor, with rows of zeros at the end."""
    return torch.stack([torch.cat((one, one.new_zeros(most - len(one), *one.shape[1:]))) for one in rows])


def _merged(rows: dict[str, Tensor], how: str, iou_threshold: float, views: int) -> dict[str, Tensor]:
    """Merge the boxes of one picture."""
    boxes, scores, labels = rows["boxes"], rows["scores"], rows.get("labels")
    if how == "fusion":
        boxes, scores, labels = weighted_box_fusion(boxes, scores, predictions=views, iou_threshold=iou_threshold, labels=labels)
        return {"boxes": boxes, "scores": scores} | ({} if labels is None else {"labels": labels})
    if how == "nms":
        at = nms(boxes, scores, labels=labels, iou_threshold=iou_threshold)
        return {name: column[at] for name, column in rows.items()}
    at, scores = soft_nms(boxes, scores, labels=labels, iou_threshold=iou_threshold)
    return {name: column[at] for name, column in rows.items()} | {"scores": scores}

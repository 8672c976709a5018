"""Merging predictions of one kind that several views made of the same pictures.

Owns: what mean, maximum and vote are of maps, scores, masks, keypoints and boxes.
Must not: know pipelines; predictions and how far each is known come in the pictures' frame.
Read next: ``tta.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from pellucid.boxes import clip_boxes
from pellucid.detection import nms
from pellucid.errors import invalid
from pellucid.types import Size

__all__ = ["merged_boxes", "merged_maps", "merged_masks", "merged_points", "merged_scores"]

_KNOWN = 1e-3
"""The share of a pixel from which on a view counts; less is rounding."""


def merged_maps(
    maps: Sequence[Float[Tensor, "b k h w"]],
    known: Sequence[Float[Tensor, "b 1 h w"]],
    anchor: Float[Tensor, "b k 1 1"],
    merge: str,
) -> tuple[Float[Tensor, "b k h w"], Bool[Tensor, "b 1 h w"]]:
    """Merge maps; where no view knows a pixel it is 0.

    Args:
        maps: differences from the anchor, 0 where a view knows nothing.
        known: which share of each pixel a view knows.
        anchor: added again at the end, so that equal predictions come out as they were, bit for bit.
        merge: ``mean`` (weighed by what is known), ``max`` or ``vote`` (the shares of the views that prefer each channel).

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
    """Merge predictions without a place."""
    values = torch.stack(list(scores))
    if merge == "mean":
        return values[0] + (values - values[0]).mean(0)
    if merge == "max":
        return values.amax(0)
    return torch.nn.functional.one_hot(values.argmax(-1), values.shape[-1]).to(values.dtype).mean(0)


def merged_masks(
    masks: Sequence[Shaped[Tensor, "b *c h w"]], known: Sequence[Shaped[Tensor, "b *c h w"]]
) -> tuple[Shaped[Tensor, "b *c h w"], Bool[Tensor, "b *c h w"]]:
    """The label that most views give a pixel, the smaller one of two; 0 where none knows it."""
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
    labels: Sequence[Shaped[Tensor, "b n"]] | None,
    valid: Sequence[Bool[Tensor, "b n"]],
    *,
    size: Size,
    iou_threshold: float,
) -> dict[str, Tensor]:
    """The boxes of all views, clipped to the picture and without those that overlap a better one, padded to one number.

    Returns:
        ``boxes`` (B, M, 4), ``scores`` (B, M), ``boxes_valid`` (B, M) and, where given, ``labels`` (B, M); best first.
    """
    every, marks = clip_boxes(torch.cat(list(boxes), 1), size), torch.cat(list(scores), 1)
    classes = None if labels is None else torch.cat(list(labels), 1)
    good = torch.cat(list(valid), 1) & torch.isfinite(every).all(-1) & (every[..., 2:] > every[..., :2]).all(-1)
    chosen: list[Tensor] = []
    for i, flags in enumerate(good):
        at = flags.nonzero()[:, 0]
        kept = nms(every[i, at], marks[i, at], labels=None if classes is None else classes[i, at], iou_threshold=iou_threshold)
        chosen.append(at[kept])
    most = max([len(at) for at in chosen], default=0)
    rows = torch.stack([torch.nn.functional.pad(at, (0, most - len(at))) for at in chosen])
    there = torch.stack([torch.arange(most, device=at.device) < len(at) for at in chosen])
    result = {
        "boxes": torch.where(there[..., None], every.gather(1, rows[..., None].expand(-1, -1, 4)), 0.0),
        "scores": torch.where(there, marks.gather(1, rows), 0.0),
        "boxes_valid": there,
    }
    if classes is not None:
        result["labels"] = torch.where(there, classes.gather(1, rows), 0)
    return result

"""Measures of the quality of keypoints and matches, given the true homography.

Owns: mutual nearest neighbours, repeatability, matching accuracy, average precision, and the area under an accuracy curve.
Must not: read files, detect, describe, or estimate homographies.
Read next: ``protocol.py`` for how they are combined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from pellucid.errors import invalid
from pellucid.geometry.points import transform_points

__all__ = [
    "Matches", "accuracy_under", "area_under_accuracy", "average_precision", "covisible", "mutual_nearest", "nearest_distance",
    "repeatability",
]  # fmt: skip


class Matches(NamedTuple):
    """Mutual nearest neighbours, in the order of the first image's keypoints."""

    pairs: Int[Tensor, "m 2"]
    """Index into the first and the second image's keypoints."""
    distances: Float[Tensor, "m"]
    """Distance between the two descriptors."""


def mutual_nearest(first: Float[Tensor, "n d"], second: Float[Tensor, "m d"]) -> Matches:
    """Return the pairs of descriptors that are each other's nearest.

    Args:
        first, second: descriptors of any scale. Ties go to the lower index. A descriptor that is not finite matches nothing.

    Gradient:
        none for the pairs; distances: exact.
    Errors:
        ``InvalidArgument`` for descriptors of different length.
    Source:
        ``cv2.BFMatcher(crossCheck=True)``.

    Example:
        >>> mutual_nearest(torch.tensor([[0.0], [5.0], [5.2]]), torch.tensor([[5.1], [0.1]])).pairs.tolist()
        [[0, 1], [1, 0]]
    """
    if first.dim() != 2 or second.dim() != 2 or first.shape[1] != second.shape[1]:
        raise invalid("second", expected=f"shape (M, {first.shape[-1]}) as first", got=tuple(second.shape))
    if min(first.shape[0], second.shape[0]) == 0:
        return Matches(torch.zeros(0, 2, dtype=torch.int64), first.new_zeros(0))
    # Squared distances, by the binomial formula.
    table = second.square().sum(1) - 2 * first @ second.mT + first.square().sum(1)[:, None]  # n m
    table = torch.where(table.isnan(), torch.inf, table)  # argmin would take NaN as the smallest
    nearest, back = table.argmin(1), table.argmin(0)
    own = torch.arange(len(first), device=first.device)
    mutual = (back[nearest] == own) & torch.isfinite(table[own, nearest])
    pairs = torch.stack((own, nearest), 1)[mutual]
    return Matches(pairs, (first[pairs[:, 0]] - second[pairs[:, 1]]).norm(dim=1))


def covisible(
    points: Float[Tensor, "n 2"], there_from_here: Float64[Tensor, "3 3"], size: tuple[int, int]
) -> tuple[Float64[Tensor, "n 2"], Bool[Tensor, "n"]]:
    """Return where points of one image lie in the other, and which of them lie inside it.

    Args:
        points: (x, y), pixel centres.
        there_from_here: homography between the images' pixels.
        size: (height, width) of the other image.
    """
    moved = transform_points(points.double(), there_from_here)
    x, y = moved.unbind(1)
    height, width = size
    return moved, (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)


def nearest_distance(points: Float[Tensor, "n 2"], others: Float[Tensor, "m 2"]) -> Float64[Tensor, "n"]:
    """Return the distance from each point to the nearest other, in pixels; infinite without others, and for NaN points."""
    if len(others) == 0 or len(points) == 0:
        return points.new_full((len(points),), torch.inf, dtype=torch.float64)
    table = torch.cdist(points.double(), others.double(), compute_mode="donot_use_mm_for_euclid_dist")
    return torch.where(table.isnan(), torch.inf, table).amin(1)


def repeatability(
    first: Float[Tensor, "n 2"],
    second: Float[Tensor, "m 2"],
    second_from_first: Float64[Tensor, "3 3"],
    sizes: tuple[tuple[int, int], tuple[int, int]],
    thresholds: Sequence[float] = (3.0,),
) -> list[float]:
    """Return the share of the keypoints seen by both images that the other image repeats within a distance.

    Args:
        first, second: keypoints (x, y).
        second_from_first: the true homography.
        sizes: (height, width) of both images.
        thresholds: distances in pixels of the image that a keypoint is mapped to.

    Returns:
        One share for each threshold; 0 if no keypoint is seen by both.
    Source:
        The symmetric definition of DeTone et al., "SuperPoint", CVPRW 2018.
    """
    into_second, seen_there = covisible(first, second_from_first, sizes[1])
    into_first, seen_here = covisible(second, torch.linalg.inv(second_from_first), sizes[0])
    gaps = torch.cat((nearest_distance(into_second[seen_there], second), nearest_distance(into_first[seen_here], first)))
    return [float((gaps <= limit).double().mean()) if len(gaps) else 0.0 for limit in thresholds]


def accuracy_under(errors: Float[Tensor, "m"], thresholds: Sequence[float]) -> list[float]:
    """Return the share of errors that are at most each threshold; 0 for an empty list of errors."""
    return [float((errors <= limit).double().mean()) if len(errors) else 0.0 for limit in thresholds]


def average_precision(scores: Float[Tensor, "m"], correct: Bool[Tensor, "m"], positives: int) -> float:
    """Return the average precision of a ranking: the sum of precisions at its correct items, over the number of items to find.

    Args:
        scores: items are ranked by rising score; ties keep their order.
        correct: which items are correct.
        positives: how many correct items a perfect method would list. The result is NaN if it is 0.

    Source:
        ``sklearn.metrics.average_precision_score``, if all items to find are listed and no two scores are equal.

    Example:
        >>> round(average_precision(torch.tensor([0.3, 0.1, 0.2]), torch.tensor([True, True, False]), positives=4), 4)
        0.4167
    """
    if positives == 0:
        return float("nan")
    hits = correct[torch.argsort(scores, stable=True)].double()
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1, dtype=torch.float64, device=hits.device)
    return float((precision * hits).sum() / positives)


def area_under_accuracy(errors: Sequence[float], limit: float) -> float:
    """Return the area under "share of errors below t" for t from 0 to ``limit``, over ``limit``; infinite errors are failures.

    It is the mean over errors of max(0, 1 - error / limit), exactly: no bins, no trapezoids.

    Example:
        >>> area_under_accuracy([0.0, 1.5, float("inf")], 3.0)
        0.5
    """
    if not errors:
        return float("nan")
    return sum(max(0.0, 1.0 - error / limit) for error in errors) / len(errors)

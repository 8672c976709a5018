"""The measurement of one method on one pair of images.

Owns: `Protocol` (the numbers that must be fixed for comparable results) and the measurement of a pair.
Must not: know which method it measures.
Read next: ``methods.py``, ``run.py``; docs/features.md states the protocol in prose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.evaluation.metrics import (
    accuracy_under,
    average_precision,
    covisible,
    mutual_nearest,
    nearest_distance,
    repeatability,
)
from pellucid.geometry.points import transform_points
from pellucid.registration import refine_matches

__all__ = ["Described", "PairResult", "Protocol", "corner_error", "estimate_homography", "measure_pair"]


@dataclass(frozen=True)
class Protocol:
    """The numbers that must be equal for two results to be comparable.

    Args:
        keypoints: the largest number of keypoints in an image; the strongest are taken.
        factor: the side of a patch in units of the keypoint's size (OpenCV's diameter).
        correct: a match is correct within this many pixels of the second image.
        thresholds: thresholds of the matching accuracy, in pixels.
        homography: thresholds of the homography's accuracy, in pixels of corner error.
        ransac: inlier threshold of the estimate, in pixels.
    """

    keypoints: int = 2048
    factor: float = 8.0
    correct: float = 3.0
    thresholds: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
    homography: tuple[float, ...] = (1.0, 3.0, 5.0)
    ransac: float = 3.0

    def __post_init__(self) -> None:
        if self.keypoints < 1:
            raise invalid("keypoints", expected="at least 1", got=self.keypoints)
        for name in ("factor", "correct", "ransac"):
            if not getattr(self, name) > 0:
                raise invalid(name, expected="a positive number", got=getattr(self, name))


@dataclass(frozen=True)
class Described:
    """A method's keypoints and descriptors of one image.

    Args:
        points: (x, y) of its keypoints, pixel centres.
        descriptors: one row each.
        size: the image's (height, width).
        frames: image_from_patch of the described patches; None if a method has none.
    """

    points: Float[Tensor, "n 2"]
    descriptors: Float[Tensor, "n d"]
    size: tuple[int, int]
    frames: Float[Tensor, "n 2 3"] | None = None


@dataclass(frozen=True)
class PairResult:
    """The measurements on one pair."""

    repeatability: list[float]
    matching_accuracy: list[float]
    average_precision: float
    matches: int
    correct: int
    inliers: int
    corner_error: float
    pairs: Tensor
    """(M, 2) indices of the matches, for pictures."""
    right: Tensor
    """(M,) a mask of the correct matches."""


def measure_pair(
    first: Described,
    second: Described,
    second_from_first: Float64[Tensor, "3 3"],
    protocol: Protocol,
    *,
    images: tuple[Float[Tensor, "1 h w"], Float[Tensor, "1 h2 w2"]] | None = None,
    agreeing: bool = False,
) -> PairResult:
    """Match two described images and compare with the truth.

    Matches are mutual nearest neighbours. A match's error is the distance, in the second image, between its second keypoint and
    its mapped first keypoint. Average precision ranks matches by descriptor distance; the number of items to find is the number of
    first keypoints that fall within ``protocol.correct`` pixels of any second keypoint, whatever the descriptors, so that missing
    matches cost as much as wrong ones. With ``images`` and frames of both, the second point of each match is first refined
    (:func:`pellucid.registration.refine_matches`); if ``agreeing``, matches around which the images do not agree are dropped.
    """
    moved, seen = covisible(first.points, second_from_first, second.size)
    pairs, distances = mutual_nearest(first.descriptors, second.descriptors)
    right_points = second.points[pairs[:, 1]]
    if images is not None and first.frames is not None and second.frames is not None:
        right_points, agrees = refine_matches(*images, first.frames[pairs[:, 0]], second.frames[pairs[:, 1]])
        if agreeing:
            pairs, distances, right_points = pairs[agrees], distances[agrees], right_points[agrees]
    left = first.points[pairs[:, 0]]
    errors = (moved[pairs[:, 0]] - right_points.double()).norm(dim=1)
    errors = torch.where(errors.isnan(), torch.inf, errors)
    right = errors <= protocol.correct
    to_find = int((nearest_distance(moved[seen], second.points) <= protocol.correct).sum())
    estimate, inliers = estimate_homography(left, right_points, threshold=protocol.ransac)
    return PairResult(
        repeatability(first.points, second.points, second_from_first, (first.size, second.size), protocol.thresholds),
        accuracy_under(errors, protocol.thresholds),
        average_precision(distances, right, to_find),
        len(errors),
        int(right.sum()),
        inliers,
        corner_error(estimate, second_from_first, first.size),
        pairs,
        right,
    )


def estimate_homography(
    first: Float[Tensor, "m 2"], second: Float[Tensor, "m 2"], *, threshold: float = 3.0
) -> tuple[Float64[Tensor, "3 3"] | None, int]:
    """Fit a homography to matches through OpenCV's MAGSAC, from a fixed seed.

    Returns:
        second_from_first, or None for fewer than four matches or if none was found, and the number of inliers.
    """
    import cv2

    if len(first) < 4:
        return None, 0
    options: Any = cv2.UsacParams()
    options.threshold, options.confidence, options.maxIterations = threshold, 0.9999, 10000
    options.sampler, options.score = cv2.SAMPLING_UNIFORM, cv2.SCORE_METHOD_MAGSAC
    options.loMethod, options.loIterations, options.loSampleSize = cv2.LOCAL_OPTIM_SIGMA, 5, 20
    options.randomGeneratorState = 0
    sides = [points.double().numpy() for points in (first, second)]
    matrix, mask = cv2.findHomography(sides[0], sides[1], options)
    if matrix is None or mask is None:
        return None, 0
    return torch.from_numpy(matrix).double(), int(mask.sum())


def corner_error(
    estimate: Float64[Tensor, "3 3"] | None, second_from_first: Float64[Tensor, "3 3"], size: tuple[int, int]
) -> float:
    """Return the mean distance between the first image's corners mapped by two homographies; infinite for None."""
    if estimate is None:
        return float("inf")
    height, width = size
    corners = torch.tensor([[0.0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], dtype=torch.float64)
    gaps = (transform_points(corners, estimate) - transform_points(corners, second_from_first)).norm(dim=1)
    mean = float(gaps.mean())
    return mean if mean < float("inf") else float("inf")

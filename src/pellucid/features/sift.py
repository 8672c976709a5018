"""SIFT and RootSIFT through OpenCV, as baselines.

Owns: calling OpenCV, packing octaves for its descriptor, and the square root.
Must not: be needed for training or inference; nothing here has a gradient.
Read next: ``hardnet.py``.
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.errors import invalid, needs, wrong_type

__all__ = ["SiftKeypoints", "as_bytes", "describe_sift", "detect_sift"]

_LAYERS, _SIGMA = 3, 1.6
"""OpenCV's (and Lowe's) layers per octave, and blur of the first."""

_OVERSHOOT = 1.0
"""Values up to so far outside of [0, 1] are clipped: filters overshoot by less, and other units by more."""


class SiftKeypoints(NamedTuple):
    """SIFT keypoints of one image, strongest first."""

    points: Tensor
    """(N, 2): x before y, pixel centres at integers."""
    sizes: Tensor
    """(N,): diameter of the meaningful neighbourhood in pixels, twice the scale sigma, as ``cv2.KeyPoint.size``."""
    angles: Tensor
    """(N,): degrees from the x axis towards the y axis (clockwise on screen), as ``cv2.KeyPoint.angle``."""
    scores: Tensor
    """(N,): contrast."""


def detect_sift(image: Shaped[Tensor, "*one h w"], count: int) -> SiftKeypoints:
    """Find up to ``count`` SIFT keypoints.

    Args:
        image: one grey image, uint8 or floating point in [0, 1]; values a little outside, as filters leave them, are clipped.
        count: how many of the strongest to keep.

    Returns:
        Points, sizes, angles and scores, strongest first.

    Gradient:
        none.
    Errors:
        InvalidArgument for more than one image, colours, or floating point in another unit (values beyond [-1, 2]); InvalidType for
        other integers than uint8; ImportError without OpenCV (``pip install "pellucid[train]"``).
    Source:
        ``cv2.SIFT_create``.

    Example:
        >>> from pellucid.features import detect_sift
        >>> place = torch.arange(64.0) - 32
        >>> detect_sift(torch.exp(-(place[:, None] ** 2 + place**2) / 32), 1).points.round()
        tensor([[32., 32.]])
    """
    if not isinstance(count, int) or count < 0:
        raise invalid("count", expected="a whole number that is not negative", got=repr(count))
    cv2, pixels = _import_cv2(), as_bytes(image)
    points = sorted(cv2.SIFT_create(count).detect(pixels, None), key=lambda k: -k.response)[:count]
    rows = torch.tensor([[*k.pt, k.size, k.angle, k.response] for k in points], dtype=torch.float32).reshape(-1, 5)
    return SiftKeypoints(rows[:, :2], rows[:, 2], rows[:, 3], rows[:, 4])


def describe_sift(
    image: Shaped[Tensor, "*one h w"],
    points: Float[Tensor, "n 2"],
    sizes: Float[Tensor, "n"],
    angles: Float[Tensor, "n"],
    *,
    root: bool = True,
) -> Float[Tensor, "n 128"]:
    """Describe keypoints of one image by SIFT or RootSIFT, as vectors of unit length.

    Args:
        image: as in :func:`detect_sift`.
        points: (x, y), pixel centres at integers.
        sizes: twice the scale sigma, as ``cv2.KeyPoint.size``.
        angles: degrees, as ``cv2.KeyPoint.angle``.
        root: take the square root of the descriptor of unit sum (RootSIFT), so that Euclidean distance compares histograms.

    Returns:
        float32, a row per keypoint, in the same order; zeros for keypoints that OpenCV leaves out.

    Gradient:
        none.
    Errors:
        As :func:`detect_sift`; InvalidArgument for shapes that do not fit.
    Source:
        ``cv2.SIFT.compute``; Arandjelović and Zisserman, "Three things everyone should know to improve object retrieval", 2012.

    Example:
        >>> from pellucid.features import describe_sift, detect_sift
        >>> image = torch.rand(64, 64)
        >>> found = detect_sift(image, 5)
        >>> describe_sift(image, found.points, found.sizes, found.angles).shape[1]
        128
    """
    n = points.shape[0]
    if points.shape != (n, 2) or sizes.shape != (n,) or angles.shape != (n,):
        got = f"{tuple(points.shape)}, {tuple(sizes.shape)}, {tuple(angles.shape)}"
        raise invalid("points, sizes, angles", expected="shapes (N, 2), (N,), (N,)", got=got)
    cv2, pixels = _import_cv2(), as_bytes(image)
    if n == 0:
        return torch.zeros(0, 128)
    rows = torch.cat((points, sizes[:, None], angles[:, None]), dim=1).detach().cpu().tolist()
    # class_id carries the row: OpenCV may leave keypoints out, or change their order.
    keypoints = [cv2.KeyPoint(x, y, size, angle, 1.0, _packed_octave(size), i) for i, (x, y, size, angle) in enumerate(rows)]
    kept, values = cv2.SIFT_create().compute(pixels, keypoints)
    raw = torch.zeros(n, 128)
    if kept:
        raw[[k.class_id for k in kept]] = torch.from_numpy(values)
    if root:
        raw = torch.nn.functional.normalize(raw, p=1, dim=1).sqrt()
    return torch.nn.functional.normalize(raw, dim=1)


def _packed_octave(size: float) -> int:
    """Return the octave and layer of OpenCV's pyramid for a keypoint of this size, packed like OpenCV's."""
    level = math.log2(max(size, 1e-3) / (2 * _SIGMA))
    octave = max(-1, math.floor(level - 0.5 / _LAYERS))
    layer = min(max(round(_LAYERS * (level - octave)), 1), _LAYERS)
    return (octave & 255) | (layer << 8)


def as_bytes(image: Tensor) -> Any:
    """Convert one grey picture to (H, W) uint8 for OpenCV's SIFT; raise for values in another unit."""
    while image.ndim > 2 and image.shape[0] == 1:
        image = image[0]
    if image.ndim != 2:
        fix = "Use pellucid.functional.rgb_to_grayscale for colours."
        raise invalid("image", expected="one grey image, (H, W) with any leading ones", got=tuple(image.shape), fix=fix)
    if image.dtype != torch.uint8 and not image.is_floating_point():
        fix = "Divide by the largest value, for example image.float() / 65535."
        raise wrong_type("image", expected="uint8, or floating point in [0, 1]", got=image.dtype, fix=fix)
    image = image.detach().cpu()
    if image.is_floating_point():
        low, high = (float(image.min()), float(image.max())) if image.numel() else (0.0, 0.0)
        if not (low >= -_OVERSHOOT and high <= 1 + _OVERSHOOT):  # NaN is in no range
            fix = "Divide by the largest value, for example by 255 or 65535."
            raise invalid("image", expected="floating point in [0, 1]", got=f"values from {low:g} to {high:g}", fix=fix)
        image = (image.clamp(0, 1) * 255).round().to(torch.uint8)
    return image.numpy()


def _import_cv2() -> Any:
    with needs("SIFT", "'pellucid[train]'"):
        import cv2
    return cv2

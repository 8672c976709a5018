"""From an image to the frames a detector finds in it, with gradients to its weights and to the image.

Owns: reading orientation and scale at keypoints, and the loss that makes both follow rotations and scalings of the image.
Must not: train.
Read next: ``keypoints.py``, ``frames.py``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.frames import frame_orientation, frame_scale, frames_from_xy, map_frames
from pellucid.features.keypoint_net import DetectorMaps
from pellucid.features.keypoints import Keypoints, gather_map, select_keypoints

__all__ = ["Detections", "as_maps", "detect", "frame_covariance_loss"]

Detector = Callable[[Tensor], Any]
"""A network that returns :class:`DetectorMaps`, or a function that returns a response map, such as ``harris_response``."""


class Detections(NamedTuple):
    """Keypoints of each image, and the frames to cut patches from.

    Args:
        keypoints: positions, scores and the valid rows.
        frames: (B, K, 2, 3) image_from_patch; rows without a keypoint lie at (0, 0).
    """

    keypoints: Keypoints
    frames: Tensor
    """(B, K, 2, 3) image_from_patch; rows without a keypoint lie at (0, 0)."""


def detect(detector: Detector, image: Float[Tensor, "b 1 h w"], count: int, *, scale: float = 12.0, **options: Any) -> Detections:
    """Find ``count`` keypoints per image, with their frames.

    Args:
        detector: a :class:`~pellucid.features.KeypointNet`, or a response such as :func:`~pellucid.features.harris_response`.
        image: grey.
        count: rows of the result; images with fewer maxima have rows marked not valid.
        scale: half the side of the frames in pixels; a network with a scale map multiplies it by up to 4 either way.
        options: options of :func:`~pellucid.features.select_keypoints`.

    Returns:
        Keypoints and frames of each image.

    Gradient:
        Through points, orientations and scales of the frames to image and weights. Which pixels are maxima is not differentiated.
    Errors:
        InvalidArgument for shapes and numbers that do not fit.

    Example:
        >>> from pellucid.features import harris_response
        >>> detect(harris_response, torch.rand(2, 1, 32, 32), 5).frames.shape
        torch.Size([2, 5, 2, 3])
    """
    if not scale > 0:
        raise invalid("scale", expected="a positive number of pixels", got=scale)
    maps = as_maps(detector(image))
    keypoints = select_keypoints(maps.response, count, **options)
    return Detections(keypoints, _frames_at(maps, keypoints.points, scale))


def as_maps(output: object) -> DetectorMaps:
    """Return a detector's output as maps, whether it is a network's or a plain response."""
    return output if isinstance(output, DetectorMaps) else DetectorMaps(output, None, None)  # type: ignore[arg-type]


def frame_covariance_loss(
    maps: tuple[DetectorMaps, DetectorMaps],
    points: Float[Tensor, "b k 2"],
    second_from_first: Float[Tensor, "b 3 3"],
    *,
    valid: Bool[Tensor, "b k"] | None = None,
) -> Float[Tensor, ""]:
    """Return a loss by which orientation and scale follow the homography: frames of the second view should be the first's, mapped.

    It is ``1 - cos(angle between them) + log2(ratio of their scales)^2``, averaged over points that both views show. A part whose
    map is None contributes nothing.

    Args:
        maps: of the first and the second view.
        points: keypoints of the first view; constants here.
        second_from_first: pixels of the first view to pixels of the second.
        valid: False marks rows that hold no keypoint.

    Returns:
        A scalar, at least 0; 0 if no point is shown in both views.

    Gradient:
        maps: exact.

    Errors:
        InvalidArgument for points, a homography or maps of other shapes.

    Example:
        >>> from pellucid.features import DetectorMaps, frame_covariance_loss
        >>> maps = DetectorMaps(torch.rand(1, 1, 16, 16), torch.ones(1, 2, 16, 16), torch.zeros(1, 1, 16, 16))
        >>> frame_covariance_loss((maps, maps), torch.tensor([[[5.0, 6.0]]]), torch.eye(3)[None])
        tensor(0.)
    """
    first = _frames_at(maps[0], points.detach())
    mapped = map_frames(first, second_from_first.to(first.dtype))  # NaN behind the horizon
    height, width = maps[1].response.shape[-2:]
    x, y = mapped[..., 2].detach().unbind(-1)
    shown = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)  # False for NaN
    shown = shown if valid is None else shown & valid
    stand_in = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=first.dtype, device=first.device)
    mapped = torch.where(shown[..., None, None], mapped, stand_in)
    second = _frames_at(maps[1], mapped[..., 2].detach())
    loss = torch.zeros_like(x)
    if maps[0].direction is not None:
        loss = loss + 1 - torch.cos(torch.deg2rad(frame_orientation(mapped) - frame_orientation(second)))
    if maps[0].log_scale is not None:
        loss = loss + torch.log2(frame_scale(mapped) / frame_scale(second)).square()
    return torch.where(shown, loss, 0.0).sum() / shown.sum().clamp(min=1)


def _frames_at(maps: DetectorMaps, points: Float[Tensor, "b k 2"], unit: float = 1.0) -> Float[Tensor, "b k 2 3"]:
    """Return frames at points, with the maps' scale and orientation at the nearest pixel; ``unit`` is the scale without a map."""
    pixels = points.detach().round().long()
    scale: Tensor | float = unit if maps.log_scale is None else unit * torch.exp2(gather_map(maps.log_scale, pixels)[:, 0])
    degrees: Tensor | float = 0.0
    if maps.direction is not None:
        x, y = gather_map(maps.direction, pixels).unbind(1)  # b k each
        known = (x != 0) | (y != 0)
        degrees = torch.rad2deg(torch.atan2(torch.where(known, y, 0.0), torch.where(known, x, 1.0)))
    return frames_from_xy(points, scale, degrees)

"""Convert frames to and from OpenCV's keypoints and the ellipses of the Oxford files.

Owns: the factors and signs of other conventions.
Must not: import OpenCV before a function that needs it runs.
Read next: ``frames.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.frames import frame_center, frame_orientation, frame_scale, frames_from_xy
from pellucid.functional.patches import check_frames

__all__ = ["frames_from_cv2", "frames_from_ellipses", "frames_to_cv2", "frames_to_ellipses"]


def frames_from_cv2(
    keypoints: Sequence[Any], *, factor: float = 1.0, upright: bool = False, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "n 2 3"]:
    """Return the frames of OpenCV keypoints.

    Args:
        keypoints: ``cv2.KeyPoint`` objects: ``pt`` in pixel centres, ``size`` a *diameter*, ``angle`` in degrees, clockwise, -1
            where there is none.
        factor: the patch's side in units of ``size``. SIFT itself looks at about 6 sizes.
        upright: ignore the angles.
        dtype: of the result.

    Returns:
        Frames of scale ``factor * size / 2``; (0, 2, 3) for no keypoints.

    Errors:
        AttributeError for objects without ``pt``, ``size`` and ``angle``.

    Source:
        OpenCV's own keypoints, read back in the tests.

    Example:
        >>> import cv2
        >>> from pellucid.features import frame_scale, frames_from_cv2
        >>> frame_scale(frames_from_cv2([cv2.KeyPoint(50.0, 40.0, 8.0)], factor=6.0))
        tensor([24.])
    """
    rows = [[*point.pt, point.size, 0.0 if upright or point.angle < 0 else point.angle] for point in keypoints]
    numbers = torch.tensor(rows, dtype=torch.float64).reshape(-1, 4)
    return frames_from_xy(numbers[:, :2], 0.5 * factor * numbers[:, 2], numbers[:, 3]).to(dtype)


def frames_to_cv2(frames: Float[Tensor, "n 2 3"], *, factor: float = 1.0) -> list[Any]:
    """Return OpenCV keypoints of frames: centre, diameter and angle in [0, 360); the affine shape is lost.

    Args:
        frames: the frames of one image; all must be finite.
        factor: the patch's side in units of the keypoint's size, as in :func:`frames_from_cv2`.

    Returns:
        A ``cv2.KeyPoint`` for each frame.

    Gradient:
        none: keypoints are Python objects.
    Errors:
        ``InvalidArgument`` for a batch. ImportError without OpenCV.

    Example:
        >>> from pellucid.features import frames_from_xy, frames_to_cv2
        >>> frames_to_cv2(frames_from_xy(torch.tensor([[50.0, 40.0]]), 16.0))[0].size
        32.0
    """
    import cv2

    check_frames("frames", frames)
    if frames.dim() != 3:
        raise invalid("frames", expected="the frames of one image, (N, 2, 3)", got=tuple(frames.shape), fix="Loop over the batch.")
    plain = frames.detach().double().cpu()
    columns = (
        frame_center(plain),
        2.0 / factor * frame_scale(plain)[:, None],
        torch.remainder(frame_orientation(plain), 360.0)[:, None],
    )
    return [cv2.KeyPoint(x, y, size, angle) for x, y, size, angle in torch.cat(columns, 1).tolist()]


def frames_from_ellipses(ellipses: Float[Tensor, "*b 5"], *, factor: float = 1.0) -> Float[Tensor, "*b 2 3"]:
    """Upright frames of the regions a (x - cx)^2 + 2 b (x - cx)(y - cy) + c (y - cy)^2 <= 1, as the Oxford files write them.

    Args:
        ellipses: (cx, cy, a, b, c); a c > b^2.
        factor: the size of the patch's inscribed ellipse, relative to the given one.

    Returns:
        Frames that map the unit circle to the ellipse; NaN where the numbers describe none.
    Gradient:
        ellipses: exact; 0 where the result is NaN.

    Errors:
        InvalidArgument for rows of other than five numbers.

    Source:
        A lower triangular with A A^T = [[a, b], [b, c]]^-1.

    Example:
        >>> from pellucid.features import frame_scale, frames_from_ellipses
        >>> frame_scale(frames_from_ellipses(torch.tensor([50.0, 40.0, 0.01, 0.0, 0.01])))  # a circle of radius 10
        tensor(10.)
    """
    if ellipses.dim() < 1 or ellipses.shape[-1] != 5:
        raise invalid("ellipses", expected="shape (..., 5): cx, cy, a, b, c", got=tuple(ellipses.shape))
    x, y, a, b, c = ellipses.unbind(-1)
    discriminant = a * c - b * b
    known = torch.isfinite(ellipses).all(-1) & (discriminant > 0) & (c > 0)
    x, y, b = (torch.where(known, value, 0.0) for value in (x, y, b))
    c, discriminant = torch.where(known, c, 1.0), torch.where(known, discriminant, 1.0)
    across = torch.sqrt(c / discriminant)
    zero = torch.zeros_like(x)
    rows = torch.stack((factor * across, zero, x, -factor * b / c * across, factor / torch.sqrt(c), y), -1).unflatten(-1, (2, 3))
    return torch.where(known[..., None, None], rows, torch.nan)


def frames_to_ellipses(frames: Float[Tensor, "*b 2 3"], *, factor: float = 1.0) -> Float[Tensor, "*b 5"]:
    """Return each frame's inscribed ellipse; the orientation is lost.

    Args:
        frames: image_from_patch.
        factor: how many times smaller the ellipse is.

    Returns:
        (cx, cy, a, b, c) of a (x - cx)^2 + 2 b (x - cx)(y - cy) + c (y - cy)^2 <= 1.

    Gradient:
        frames: exact; not finite for a frame of area 0.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> from pellucid.features import frames_from_xy, frames_to_ellipses
        >>> frames_to_ellipses(frames_from_xy(torch.tensor([50.0, 40.0]), 10.0))[2::2]  # a and c of a circle of radius 10
        tensor([0.0100, 0.0100])
    """
    check_frames("frames", frames)
    a, b, x, c, d, y = frames.flatten(-2).unbind(-1)
    square = ((a * d - b * c) / factor) ** 2
    return torch.stack((x, y, (c * c + d * d) / square, -(a * c + b * d) / square, (a * a + b * b) / square), -1)

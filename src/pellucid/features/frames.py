"""Local affine frames: where a patch lies in an image, how large, and which way up.

Owns: the convention, and the algebra of frames: build, read, turn, rescale, jitter, send through a homography.
Must not: see pixels, or know of OpenCV (``frames_cv2.py``).
Read next: ``../functional/patches.py``.

A frame is a (2, 3) matrix ``image_from_patch``. It maps the patch's square [-1, 1]^2, edge to edge, x before y, to pixel-centre
coordinates of the image::

    (x, y) = frame[:, :2] @ (u, v) + frame[:, 2]

* centre: the last column. An upright frame of scale 16 at (50, 40) covers x from 34 to 66 and y from 24 to 56: 32 pixels a side.
* scale: sqrt(|det|) of the linear part, in pixels: *half* the side of the square the patch covers.
* orientation: degrees from the image's x axis towards its y axis, clockwise on screen, as ``cv2.KeyPoint.angle``. Turning a frame
  by +30 turns the picture in the patch by 30 degrees counter-clockwise.
* cell k of a patch of n cells has its centre at u = (2 k + 1) / n - 1.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.functional.patches import check_frames
from pellucid.geometry.matrices import cos_sin_degrees

__all__ = [
    "compose_frames", "frame_center", "frame_corners", "frame_orientation", "frame_scale", "frames_from_xy", "frames_inside",
    "map_frames", "rescale_frames", "turn_frames", "upright_frames",
]  # fmt: skip


def _assemble(a: Tensor, b: Tensor, x: Tensor, c: Tensor, d: Tensor, y: Tensor) -> Float[Tensor, "*b 2 3"]:
    return torch.stack(torch.broadcast_tensors(a, b, x, c, d, y), -1).unflatten(-1, (2, 3))


def _product(left: Float[Tensor, "*#b r k"], right: Float[Tensor, "*#b k c"]) -> Float[Tensor, "*b r c"]:
    """Multiply small matrices without ``@``, which autocast would run in half precision; coordinates need all their bits."""
    return (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2)


def frames_from_xy(
    xy: Float[Tensor, "*b 2"], scale: Float[Tensor, "*#b"] | float, degrees: Float[Tensor, "*#b"] | float = 0.0
) -> Float[Tensor, "*b 2 3"]:
    """Build frames from points, scales and orientations.

    Args:
        xy: centres, in pixel-centre coordinates.
        scale: half the side of the patch's square, in pixels.
        degrees: orientation, clockwise on screen; 0 is upright.

    Returns:
        image_from_patch.

    Gradient:
        xy, scale, degrees: exact. Second order: yes.
    Errors:
        ``InvalidArgument`` for points that are not pairs.

    Example:
        >>> frames_from_xy(torch.tensor([[50.0, 40.0]]), 16.0)
        tensor([[[16.,  0., 50.],
                 [ 0., 16., 40.]]])
    """
    if xy.dim() < 1 or xy.shape[-1] != 2:
        raise invalid("xy", expected="shape (..., 2)", got=tuple(xy.shape))
    x, y = xy.unbind(-1)
    scale, degrees = torch.as_tensor(scale, dtype=xy.dtype, device=xy.device), _as_degrees(degrees, xy)
    cosine, sine = cos_sin_degrees(degrees)
    cosine, sine = scale * cosine, scale * sine
    return _assemble(cosine, 0.0 - sine, x, sine, cosine, y)


def _as_degrees(degrees: Tensor | float, like: Tensor) -> Tensor:
    return torch.as_tensor(degrees, dtype=like.dtype, device=like.device)


def frame_center(frames: Float[Tensor, "*b 2 3"]) -> Float[Tensor, "*b 2"]:
    """Return the place of the patch's centre in the image.

    Args:
        frames: image_from_patch.

    Returns:
        (x, y), pixel centres.

    Gradient:
        frames: exact.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> frame_center(frames_from_xy(torch.tensor([50.0, 40.0]), 16.0))
        tensor([50., 40.])
    """
    check_frames("frames", frames)
    return frames[..., 2]


def _determinant(frames: Tensor) -> Tensor:
    return frames[..., 0, 0] * frames[..., 1, 1] - frames[..., 0, 1] * frames[..., 1, 0]


def _safe_sqrt(square: Tensor) -> Tensor:
    """Return the square root of non-negative numbers, with derivative 0 at 0."""
    positive = square > 0
    return torch.where(positive, torch.sqrt(torch.where(positive, square, 1.0)), square)


def frame_scale(frames: Float[Tensor, "*b 2 3"]) -> Float[Tensor, "*b"]:
    """Return half the side of the square of the same area as the patch, in pixels: sqrt(|det|).

    Args:
        frames: image_from_patch.

    Returns:
        Pixels, at least 0.

    Gradient:
        frames: exact; 0 for a frame of area 0.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> frame_scale(frames_from_xy(torch.tensor([1.0, 2.0]), 16.0, 30.0))
        tensor(16.)
    """
    check_frames("frames", frames)
    return _safe_sqrt(torch.abs(_determinant(frames)))


def frame_orientation(frames: Float[Tensor, "*b 2 3"]) -> Float[Tensor, "*b"]:
    """Return the degrees, in (-180, 180], by which a frame is turned from its upright form, clockwise on screen.

    ``turn_frames(upright_frames(f), frame_orientation(f))`` is f, for every affine frame.

    Args:
        frames: image_from_patch.

    Returns:
        Degrees.

    Gradient:
        frames: exact; 0 where the first row is 0.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> frame_orientation(frames_from_xy(torch.tensor([1.0, 2.0]), 16.0, 30.0))
        tensor(30.0000)
    """
    check_frames("frames", frames)
    cosine, sine = frames[..., 0, 0], -frames[..., 0, 1]
    known = (cosine != 0) | (sine != 0)
    return torch.rad2deg(torch.atan2(torch.where(known, sine, 0.0), torch.where(known, cosine, 1.0)))


def turn_frames(frames: Float[Tensor, "*b 2 3"], degrees: Float[Tensor, "*#b"] | float) -> Float[Tensor, "*b 2 3"]:
    """Turn frames about their centres, before their own shape, so that their ellipses stay the same.

    Args:
        frames: image_from_patch.
        degrees: clockwise on screen for a frame that is not mirrored.

    Returns:
        image_from_patch.

    Gradient:
        frames, degrees: exact.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> frame_orientation(turn_frames(frames_from_xy(torch.tensor([50.0, 40.0]), 16.0), 30.0))
        tensor(30.0000)
    """
    check_frames("frames", frames)
    cosine, sine = cos_sin_degrees(_as_degrees(degrees, frames))
    a, b, x, c, d, y = frames.flatten(-2).unbind(-1)
    return _assemble(a * cosine + b * sine, b * cosine - a * sine, x, c * cosine + d * sine, d * cosine - c * sine, y)


def upright_frames(frames: Float[Tensor, "*b 2 3"]) -> Float[Tensor, "*b 2 3"]:
    """Turn frames so that the patch's y axis points straight down in the image; the ellipses stay.

    Args:
        frames: image_from_patch.

    Returns:
        Frames with ``frames[..., 0, 1] == 0`` and ``frames[..., 0, 0] >= 0``; mirrored frames stay mirrored.
    Gradient:
        frames: exact where the first row is not 0.

    Errors:
        InvalidArgument for frames of another shape.

    Source:
        Perdoch, Chum, Matas, "Efficient representation of local geometry for large scale object retrieval", 2009 (the gravity
        vector): the lower triangular factor of A A^T.

    Example:
        >>> upright_frames(frames_from_xy(torch.tensor([50.0, 40.0]), 16.0, 30.0)).round(decimals=3)
        tensor([[16.,  0., 50.],
                [ 0., 16., 40.]])
    """
    check_frames("frames", frames)
    a, b, x, c, d, y = frames.flatten(-2).unbind(-1)
    length = _safe_sqrt(a * a + b * b)
    divisor = torch.where(length > 0, length, 1.0)
    return _assemble(length, torch.zeros_like(length), x, (a * c + b * d) / divisor, _determinant(frames) / divisor, y)


def rescale_frames(frames: Float[Tensor, "*b 2 3"], factor: Float[Tensor, "*#b"] | float) -> Float[Tensor, "*b 2 3"]:
    """Scale the side of each patch by ``factor`` about its centre.

    Args:
        frames: image_from_patch.
        factor: above 0.

    Returns:
        image_from_patch.

    Gradient:
        frames, factor: exact.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> frame_scale(rescale_frames(frames_from_xy(torch.tensor([50.0, 40.0]), 16.0), 1.5))
        tensor(24.)
    """
    check_frames("frames", frames)
    factor = torch.as_tensor(factor, dtype=frames.dtype, device=frames.device)[..., None, None]
    linear = frames[..., :2] * factor
    return torch.cat((linear, frames[..., 2:].expand(*linear.shape[:-1], 1)), -1)


def compose_frames(
    image_from_patch: Float[Tensor, "*b 2 3"], patch_from_inner: Float[Tensor, "*#b 2 3"]
) -> Float[Tensor, "*b 2 3"]:
    """Place frames inside frames: jitter, tilts, or a detector's offsets, in the outer patch's own units.

    Args:
        image_from_patch: the outer frames.
        patch_from_inner: maps the inner square to the outer one's [-1, 1]^2; the identity is [[1, 0, 0], [0, 1, 0]].

    Returns:
        The inner frames in the image: image_from_inner.

    Gradient:
        both: exact.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> half_a_patch_right = torch.tensor([[1.0, 0, 1], [0, 1, 0]])
        >>> frame_center(compose_frames(frames_from_xy(torch.tensor([50.0, 40.0]), 16.0), half_a_patch_right))
        tensor([66., 40.])
    """
    check_frames("image_from_patch", image_from_patch)
    check_frames("patch_from_inner", patch_from_inner)
    linear = _product(image_from_patch[..., :2], patch_from_inner)
    return torch.cat((linear[..., :2], linear[..., 2:] + image_from_patch[..., 2:]), -1)


def map_frames(frames: Float[Tensor, "*b n 2 3"], dst_from_src: Float[Tensor, "*#b 3 3"]) -> Float[Tensor, "*b n 2 3"]:
    """Send frames through an image homography, linearised at each centre: exact for affine maps, first order for others.

    Args:
        frames: image_from_patch in the source image.
        dst_from_src: source pixel to destination pixel; one for all sets of frames, or one for each.

    Returns:
        Frames in the destination image; NaN for centres on or behind the horizon, and for frames that are not finite.

    Gradient:
        frames, dst_from_src: exact (through the homography's second derivatives); 0 where the result is NaN.
    Errors:
        ``InvalidArgument`` for shapes that do not fit.
    Source:
        The derivative of (u / w, v / w) at the centre; autograd's Jacobian of ``transform_points`` in the tests.

    Example:
        >>> twice = torch.diag(torch.tensor([2.0, 2.0, 1.0]))
        >>> map_frames(frames_from_xy(torch.tensor([[50.0, 40.0]]), 16.0), twice)
        tensor([[[ 32.,   0., 100.],
                 [  0.,  32.,  80.]]])
    """
    check_frames("frames", frames)
    if dst_from_src.shape[-2:] != (3, 3):
        raise invalid("dst_from_src", expected="shape (..., 3, 3)", got=tuple(dst_from_src.shape))
    if frames.dim() < 3 or dst_from_src.dim() - 2 > frames.dim() - 3:
        expected = "(..., N, 2, 3), with a homography per leading index"
        raise invalid("frames", expected=expected, got=f"{tuple(frames.shape)} and {tuple(dst_from_src.shape)}")
    dst_from_src = dst_from_src.to(frames.dtype)
    whole = torch.isfinite(dst_from_src).all(-1).all(-1)[..., None]  # *b 1
    m = torch.where(whole[..., None], dst_from_src, torch.eye(3, dtype=frames.dtype, device=frames.device)).unsqueeze(
        -3
    )  # *b 1 3 3
    known = torch.isfinite(frames).all(-1).all(-1) & whole  # *b n
    frames = torch.where(known[..., None, None], frames, 0.0)
    lifted = _product(m[..., :, :2], frames) + torch.cat((torch.zeros_like(m[..., :2]), m[..., 2:]), -1)  # *b n 3 3
    w = lifted[..., 2, 2]
    known = known & (w > 0)
    w = torch.where(known, w, 1.0)[..., None, None]
    center = lifted[..., :2, 2:] / w  # *b n 2 1
    linear = (lifted[..., :2, :2] - center * lifted[..., 2:, :2]) / w  # *b n 2 2
    return torch.where(known[..., None, None], torch.cat((linear, center), -1), torch.nan)


def frame_corners(frames: Float[Tensor, "*b 2 3"]) -> Float[Tensor, "*b 4 2"]:
    """Return the patch's corners in the image.

    Args:
        frames: image_from_patch.

    Returns:
        Top left, top right, bottom right, bottom left as the patch shows them; (x, y) each.

    Gradient:
        frames: exact.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> frame_corners(frames_from_xy(torch.tensor([50.0, 40.0]), 16.0))[0]
        tensor([34., 24.])
    """
    check_frames("frames", frames)
    unit = constant((-1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0), frames.dtype, frames.device).view(4, 2)
    return _product(unit, frames[..., :2].mT) + frames[..., None, :, 2]


def frames_inside(frames: Float[Tensor, "*b 2 3"], image_size: tuple[int, int], *, margin: float = 0.0) -> Bool[Tensor, "*b"]:
    """Return whether the whole patch lies in the image, as a valid flag for :func:`extract_patches`.

    Args:
        frames: image_from_patch.
        image_size: (height, width); its pixels cover [-0.5, width - 0.5] x [-0.5, height - 0.5].
        margin: pixels to keep from the border; negative ones let a patch stick out by as much.

    Returns:
        False for a frame that is not finite or of area 0.
    Gradient:
        none: the result is a mask.

    Errors:
        InvalidArgument for frames of another shape.

    Example:
        >>> frames_inside(frames_from_xy(torch.tensor([[50.0, 40.0], [2.0, 2.0]]), 16.0), (64, 96))
        tensor([ True, False])
    """
    corners = frame_corners(frames)
    x, y = corners.unbind(-1)  # *b 4
    height, width = image_size
    low = margin - 0.5
    in_x, in_y = (x >= low) & (x <= width - 1 - low), (y >= low) & (y <= height - 1 - low)
    return (in_x & in_y).all(-1) & (_determinant(frames) != 0)

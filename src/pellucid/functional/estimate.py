"""Matrices from angles and from corresponding points, as OpenCV makes them, differentiable in every argument.

Owns: `get_rotation_matrix2d`, `get_affine_transform`, `get_perspective_transform`, `invert_affine_transform`.
Must not: touch images.
Read next: ``targets.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.errors import invalid
from pellucid.functional.fills import Factor, common_device, common_dtype, read_factor, read_numbers
from pellucid.functional.matrices import MatrixLike, full, guarded_inverse, read_matrix
from pellucid.geometry.matrices import cos_sin_degrees, inverse, quad_from_quad

__all__ = ["get_affine_transform", "get_perspective_transform", "get_rotation_matrix2d", "invert_affine_transform"]

PointsLike: TypeAlias = Tensor | np.ndarray[Any, Any] | Sequence[Any]


def get_rotation_matrix2d(center: PointsLike, angle: Factor, scale: Factor) -> Float[Tensor, "*b 2 3"]:
    """Rotate about a centre and scale, as ``cv2.getRotationMatrix2D``.

    Args:
        center: (x, y) in pixels, or (B, 2).
        angle: degrees, counter-clockwise on screen; a number or a tensor () or (B,).
        scale: a number or a tensor () or (B,).

    Returns:
        Input pixel to output pixel, (2, 3), or (B, 2, 3) if any argument has a batch axis, as `warp_affine` takes it. The dtype is
        that of the tensors, float64 when all are numbers.

    Gradient:
        center, angle, scale: exact, to any order.

    Source:
        ``cv2.getRotationMatrix2D``; multiples of 90 degrees are exact here.

    Example:
        >>> get_rotation_matrix2d((10, 10), 30, 1.0)
        tensor([[ 0.8660,  0.5000, -3.6603],
                [-0.5000,  0.8660,  6.3397]], dtype=torch.float64)
    """
    device, dtype = common_device(center, angle, scale), common_dtype(center, angle, scale)
    middle = read_numbers("center", center, device=device, expected="(x, y), or a tensor (B, 2)")
    if middle.dim() not in (1, 2) or middle.shape[-1] != 2:
        raise invalid("center", expected="(x, y), or a tensor (B, 2)", got=f"shape {tuple(middle.shape)}")
    (degrees, batched), (zoom, batched_too) = (
        read_factor(name, value, device=device) for name, value in (("angle", angle), ("scale", scale))
    )
    x, y, degrees, zoom = _broadcast(middle[..., 0].reshape(-1), middle[..., 1].reshape(-1), degrees, zoom)
    cosine, sine = cos_sin_degrees(degrees)
    a, b = zoom * cosine, zoom * sine
    rows = (torch.stack((a, b, (1.0 - a) * x - b * y), -1), torch.stack((-b, a, b * x + (1.0 - a) * y), -1))
    matrix = torch.stack(rows, -2).to(dtype)
    return matrix if batched or batched_too or middle.dim() == 2 else matrix[0]


def _broadcast(*values: Tensor) -> list[Tensor]:
    wide = [value.to(torch.promote_types(value.dtype, common_dtype(*values))) for value in values]
    counts = {value.shape[0] for value in wide} - {1}
    if len(counts) > 1:
        raise invalid("center, angle, scale", expected="batches of one length", got=sorted(counts))
    return list(torch.broadcast_tensors(*wide))


def get_perspective_transform(src: PointsLike, dst: PointsLike) -> Float[Tensor, "*b 3 3"]:
    """Find the homography that sends four points to four others, as ``cv2.getPerspectiveTransform``.

    Args:
        src: (4, 2) or (B, 4, 2): points (x, y), no three of them on a line; any order.
        dst: their images.

    Returns:
        The matrix with last entry 1, (3, 3) or (B, 3, 3), as `warp_perspective` takes it. All NaN, with zero gradient, where there
        is no such matrix. The dtype is that of the tensors, float64 when there is none.

    Gradient:
        src, dst: exact, to any order.

    Source:
        Heckbert 1989, section 2.2.3, in closed form; ``cv2.getPerspectiveTransform``.

    Example:
        >>> square = [[0, 0], [1, 0], [1, 1], [0, 1]]
        >>> get_perspective_transform(square, [[2, 3], [4, 3], [4, 5], [2, 5]])
        tensor([[2., 0., 2.],
                [0., 2., 3.],
                [0., 0., 1.]], dtype=torch.float64)
    """
    return _from_points(src, dst, 4, quad_from_quad)


def get_affine_transform(src: PointsLike, dst: PointsLike) -> Float[Tensor, "*b 2 3"]:
    """Find the affine map that sends three points to three others, as ``cv2.getAffineTransform``.

    Args:
        src: (3, 2) or (B, 3, 2): points (x, y), not on one line.
        dst: their images.

    Returns:
        (2, 3) or (B, 2, 3), as `warp_affine` takes it. All NaN, with zero gradient, where there is no such matrix. The dtype is
        that of the tensors, float64 when there is none.

    Gradient:
        src, dst: exact, to any order.

    Source:
        ``cv2.getAffineTransform``.

    Example:
        >>> get_affine_transform([[0, 0], [1, 0], [0, 1]], [[5, 5], [7, 5], [5, 8]])
        tensor([[2., 0., 5.],
                [0., 3., 5.]], dtype=torch.float64)
    """
    return _from_points(src, dst, 3, _triangle_from_triangle)


def _triangle_from_triangle(source: Float[Tensor, "b 3 2"], target: Float[Tensor, "b 3 2"]) -> Float[Tensor, "b 2 3"]:
    homogeneous = torch.cat((source, torch.ones_like(source[..., :1])), -1)
    return target.mT @ inverse(homogeneous.mT)


def _from_points(src: PointsLike, dst: PointsLike, count: int, solve: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    device, dtype = common_device(src, dst), common_dtype(src, dst)
    expected = f"{count} points, ({count}, 2) or (B, {count}, 2)"
    points = [read_numbers(name, value, device=device, expected=expected) for name, value in (("src", src), ("dst", dst))]
    for name, part in zip(("src", "dst"), points, strict=True):
        if part.dim() not in (2, 3) or part.shape[-2:] != (count, 2):
            raise invalid(name, expected=expected, got=f"shape {tuple(part.shape)}")
    batches = [part.shape[0] for part in points if part.dim() == 3]
    if len({*batches} - {1}) > 1:
        raise invalid("src, dst", expected="batches of one length", got=batches)
    wide = wide_dtype(device)
    shape = (max(batches, default=1) if 0 not in batches else 0, count, 2)
    source, target = (part.to(wide).expand(shape) for part in points)
    # Solved twice: once to see where there is a solution, once with harmless points where there is none.
    usable = torch.isfinite(solve(source, target).to(dtype)).all(-1, keepdim=True).all(-2, keepdim=True)
    corner = torch.arange(count, device=device)
    harmless = torch.stack(((corner == 1) | ((corner == 2) & (count == 4)), corner >= 2), -1).to(wide)
    matrix = solve(torch.where(usable, source, harmless), torch.where(usable, target, harmless)).to(dtype)
    matrix = torch.where(usable, matrix, torch.nan)
    return matrix if batches else matrix[0]


def invert_affine_transform(M: MatrixLike) -> Float[Tensor, "*b 2 3"]:
    """Invert affine maps, as ``cv2.invertAffineTransform``.

    Args:
        M: (2, 3) or (B, 2, 3): a tensor, array or nested list.

    Returns:
        The inverse, of the same shape; all NaN, with zero gradient, for a singular or non-finite matrix (there OpenCV returns
        zeros).

    Gradient:
        M: exact.

    Source:
        ``cv2.invertAffineTransform``.

    Example:
        >>> invert_affine_transform([[2, 0, 6], [0, 4, 4]])
        tensor([[ 0.5000,  0.0000, -3.0000],
                [ 0.0000,  0.2500, -1.0000]], dtype=torch.float64)
    """
    matrix, batched = read_matrix("M", M, rows=(2,), device=common_device(M))
    inverted = guarded_inverse(full(matrix), common_dtype(M))[:, :2]
    return inverted if batched else inverted[0]

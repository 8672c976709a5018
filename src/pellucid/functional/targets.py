"""Points and boxes through the matrices that warp their images.

Owns: `transform_points` and `transform_boxes` with matrices as users hold them.
Must not: clip, drop or decide visibility.
Read next: ``sizes.py``.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from pellucid.boxes import BoxFormat
from pellucid.boxes import transform_boxes as boxes_through
from pellucid.errors import invalid, wrong_type
from pellucid.functional.matrices import MatrixLike, full, read_matrix
from pellucid.geometry.points import transform_points as points_through

__all__ = ["transform_boxes", "transform_points"]


def transform_points(points: Float[Tensor, "*b n 2"], dst_from_src: MatrixLike) -> Float[Tensor, "*b n 2"]:
    """Send points (x, y), in pixel-centre coordinates, through an affine map or a homography.

    Args:
        points: (N, 2) or (B, N, 2), floating point.
        dst_from_src: a tensor, array or nested list, 2x3 or 3x3, one for all or one for each of the batch: the M of `warp_affine`
            moves points as it moves pixels.

    Returns:
        The moved points, in the dtype of ``points``; batched if either argument is. NaN on the horizon of the map, and where point
        or matrix is not finite.

    Gradient:
        points, dst_from_src: exact; zero for points that come out NaN.

    Source:
        ``cv2.perspectiveTransform``.

    Example:
        >>> transform_points(torch.tensor([[1.0, 2.0]]), [[1, 0, 5], [0, 1, 0]])
        tensor([[6., 2.]])
    """
    matrix, moved = _fit("points", points, dst_from_src, 2)
    return points_through(moved, matrix).to(points.dtype)


def transform_boxes(
    boxes: Float[Tensor, "*b n k"],
    dst_from_src: MatrixLike,
    *,
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
) -> Float[Tensor, "*b n k"]:
    """Send boxes, in pixel-edge coordinates, through an affine map or a homography of pixel centres.

    Args:
        boxes: (N, 4) or (B, N, 4), floating point; five numbers for ``cxcywhr``.
        dst_from_src: as in `transform_points`.
        format: ``xyxy``, ``xywh``, ``cxcywh`` or ``cxcywhr``.

    Returns:
        Boxes of the same format: the hull of the moved corners, or the moved rotated box. NaN where there is none.

    Gradient:
        boxes, dst_from_src: almost everywhere (which corner is leftmost can change).

    Source:
        The mapped corners one by one; see `pellucid.boxes.transform_boxes`.

    Example:
        >>> transform_boxes(torch.tensor([[0.0, 2.0, 3.0, 4.0]]), [[-1, 0, 9], [0, 1, 0]])
        tensor([[ 7.,  2., 10.,  4.]])
    """
    matrix, moved = _fit("boxes", boxes, dst_from_src, 5 if format == "cxcywhr" else 4)
    return boxes_through(moved, matrix, format).to(boxes.dtype)


def _fit(name: str, values: object, dst_from_src: MatrixLike, numbers: int) -> tuple[Tensor, Tensor]:
    """The matrix (3x3, float64) and the values, with matching leading axes."""
    if not isinstance(values, Tensor) or not values.dtype.is_floating_point:
        got = values.dtype if isinstance(values, Tensor) else type(values).__name__
        raise wrong_type(name, expected="a floating-point tensor", got=got, fix=f"Use {name}.float() or torch.tensor(...).")
    if values.dim() not in (2, 3) or values.shape[-1] != numbers:
        raise invalid(name, expected=f"shape (N, {numbers}) or (B, N, {numbers})", got=f"shape {tuple(values.shape)}")
    matrix, batched = read_matrix("dst_from_src", dst_from_src, rows=(2, 3), device=values.device)
    matrix = full(matrix)
    if values.dim() == 2:
        return (matrix, values.expand(matrix.shape[0], -1, -1)) if batched else (matrix[0], values)
    count = values.shape[0]
    if matrix.shape[0] not in (1, count) and count != 1:
        raise invalid("dst_from_src", expected=f"1 or {count} matrices, as there are {count} sets of {name}", got=matrix.shape[0])
    joint = matrix.shape[0] if count == 1 else count
    return matrix.expand(joint, 3, 3), values.expand(joint, -1, -1)

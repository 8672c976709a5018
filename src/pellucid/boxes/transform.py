"""Map boxes through a homography of pixel coordinates.

Owns: the half-pixel step between pixel-centre matrices and pixel-edge boxes, hulls, and the effect of turns and mirrors on angles.
Must not: clip, drop or mark boxes: a box without a finite image becomes NaN, and the caller decides.
Read next: ``clip.py``.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.boxes.formats import BoxFormat, check_boxes, convert_boxes, corners
from pellucid.errors import invalid, wrong_type

__all__ = ["edge_matrix", "project", "transform_boxes"]


def transform_boxes(
    boxes: Float[Tensor, "*batch n k"],
    dst_from_src: Float[Tensor, "*matrices 3 3"],
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
) -> Float[Tensor, "*batch n k"]:
    """Map boxes through a homography, and return boxes of the same format.

    Boxes live on pixel edges, matrices on pixel centres (edge = centre + 0.5); the half pixel is moved into the matrix, so flips,
    quarter turns and integer shifts are exact to the bit. Upright boxes become the axis-aligned hull of their four mapped corners.
    Rotated boxes (``cxcywhr``) map their centre, scale width and height along their own mapped axes, and take the angle of their
    mapped x axis: exact for similarities, a near rectangle otherwise. A mirror turns the angle the other way; of the two angles
    that describe the same rectangle, the one nearer to ``-angle`` is returned, so upright boxes stay upright.

    Args:
        boxes: N boxes per matrix.
        dst_from_src: one matrix per leading index of ``boxes``, or a single (3, 3); maps source pixels
            (x, y, 1) to destination pixels.
        format: how the boxes are written.

    Returns:
        Mapped boxes, in the dtype of ``boxes``. All NaN for a box that meets the matrix's horizon, for a non-finite matrix or
        box, and for a rotated box under a singular matrix.

    Gradient:
        boxes, dst_from_src: almost everywhere (which corner is leftmost can change; ties share the gradient); zero for boxes
        that come out NaN. Second order: yes. Deterministic: yes.

    Errors:
        ``InvalidArgument`` for shapes that do not fit, ``InvalidType`` for integer tensors.

    Source:
        For flips and turns the closed forms of the pixel-edge convention; for homographies, the mapped corners one by one.

    Example:
        >>> flip = torch.tensor([[-1.0, 0.0, 9.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])  # an image 10 pixels wide
        >>> transform_boxes(torch.tensor([[0.0, 2.0, 3.0, 4.0]]), flip)
        tensor([[ 7.,  2., 10.,  4.]])
    """
    check_boxes(boxes, format)
    _check_matrix(boxes, dst_from_src)
    dtype = torch.promote_types(torch.promote_types(boxes.dtype, dst_from_src.dtype), torch.float32)
    matrix = edge_matrix(dst_from_src.to(dtype))[..., None, :, :]  # one more axis: the same matrix for all N boxes
    wide = boxes.to(dtype)
    # Replace bad inputs before the arithmetic: masking the result alone would still send 0 * NaN to the shared matrix's gradient.
    usable = wide.isfinite().all(dim=-1) & matrix.isfinite().all(dim=-1).all(dim=-1)
    matrix = torch.where(usable[..., None, None], matrix, torch.eye(3, dtype=dtype, device=matrix.device))
    wide = torch.where(usable[..., None], wide, 1.0)
    out, ok = _rotated(wide, matrix) if format == "cxcywhr" else _hull(wide, matrix, format)
    ok = ok & usable & out.isfinite().all(dim=-1)
    return torch.where(ok[..., None], out, torch.nan).to(boxes.dtype)


def edge_matrix(dst_from_src: Float[Tensor, "*batch 3 3"]) -> Float[Tensor, "*batch 3 3"]:
    """Rewrite a matrix of pixel-centre coordinates as one of pixel-edge coordinates (edge = centre + 0.5)."""
    left, last = dst_from_src[..., :2], dst_from_src[..., 2:]
    from_edge = torch.cat([left, last - 0.5 * left.sum(dim=-1, keepdim=True)], dim=-1)
    top, bottom = from_edge[..., :2, :], from_edge[..., 2:, :]
    return torch.cat([top + 0.5 * bottom, bottom], dim=-2)


def project(points: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Map points by matrices, and return their depths, too, whose sign is the side of the horizon."""
    # Written out instead of matmul: on a GPU matmul may round to TF32, and zeros in the matrix must not change a bit.
    x, y = points[..., 0], points[..., 1]
    rows = [matrix[..., i, 0] * x + matrix[..., i, 1] * y + matrix[..., i, 2] for i in range(3)]
    depth = rows[2]
    safe = torch.where(depth == 0, 1.0, depth)
    return torch.stack([rows[0] / safe, rows[1] / safe], dim=-1), depth


def _hull(boxes: Tensor, matrix: Tensor, form: BoxFormat) -> tuple[Tensor, Tensor]:
    points, depth = project(corners(boxes, form), matrix[..., None, :, :])
    hull = torch.cat([points.amin(dim=-2), points.amax(dim=-2)], dim=-1)
    return convert_boxes(hull, "xyxy", form), _in_front(depth)


def _in_front(depth: Tensor) -> Tensor:
    # All corners on one side of the horizon; which side does not matter: a matrix times -1 is the same homography.
    return (depth > 0).all(dim=-1) | (depth < 0).all(dim=-1)


def _rotated(boxes: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    angle = boxes[..., 4]
    centre, depth = project(boxes[..., :2], matrix)
    # The homography's linear part at the centre. As a complex map z -> p z + q conj(z), a turn has q = 0 and a mirror p = 0.
    safe = torch.where(depth == 0, 1.0, depth)
    a, b, c, d = ((matrix[..., i, j] - centre[..., i] * matrix[..., 2, j]) / safe for i in range(2) for j in range(2))
    det = a * d - b * c
    p = torch.stack([a + d, c - b], dim=-1) / 2
    q = torch.stack([a - d, c + b], dim=-1) / 2
    mirrored = (det < 0)[..., None]
    main, other = torch.where(mirrored, q, p), torch.where(mirrored, p, q)
    spin = torch.where(det < 0, -2 * angle, 2 * angle)
    cos, sin = spin.cos(), spin.sin()
    rest = torch.stack([other[..., 0] * cos - other[..., 1] * sin, other[..., 0] * sin + other[..., 1] * cos], dim=-1)
    # The mapped axes, seen from the box; neither vanishes unless the determinant does.
    regular = (det != 0)[..., None]
    along_x, along_y = torch.where(regular, main + rest, 1.0), torch.where(regular, main - rest, 1.0)
    half_turn = mirrored[..., 0] & (along_x[..., 0] < 0)
    turn = torch.where(half_turn, -1.0, 1.0)[..., None] * along_x
    new_angle = torch.where(det < 0, -angle, angle) - torch.atan2(turn[..., 1], turn[..., 0])
    width, height = (boxes[..., 2 + i] * axis.square().sum(dim=-1).sqrt() for i, axis in enumerate((along_x, along_y)))
    out = torch.stack([centre[..., 0], centre[..., 1], width, height, new_angle], dim=-1)
    corner_depth = project(corners(boxes, "cxcywhr"), matrix[..., None, :, :])[1]
    return out, regular[..., 0] & _in_front(corner_depth)


def _check_matrix(boxes: Tensor, matrix: Tensor) -> None:
    if not isinstance(matrix, Tensor) or not matrix.is_floating_point():
        got = matrix.dtype if isinstance(matrix, Tensor) else type(matrix).__name__
        raise wrong_type("dst_from_src", expected="a floating-point tensor", got=got)
    leading = tuple(boxes.shape[:-2])
    if boxes.ndim < 2 or matrix.shape[-2:] != (3, 3) or tuple(matrix.shape[:-2]) not in ((), leading):
        expected = "(B, 3, 3) for boxes (B, N, 4), or (3, 3) for boxes (N, 4)"
        raise invalid("dst_from_src", expected=expected, got=f"{tuple(matrix.shape)} for boxes {tuple(boxes.shape)}")

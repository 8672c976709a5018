"""Camera matrices of warped pictures.

Owns: `camera_along`, a camera's matrix after the maps of a pipeline; `split_camera`, which takes the rotation out of it; and the
effect of that rotation on lenses, boxes in space and maps of vectors.
Must not: know targets.
Read next: ``paths.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.geometry.bends import BentMap

__all__ = ["camera_along", "split_camera", "turn_boxes3d", "turn_lens", "turn_map"]


def camera_along(
    name: str, matrix: Float[Tensor, "b 3 k"], steps: Sequence[Tensor | BentMap], *, bends: bool = False
) -> Float[Tensor, "b 3 k"]:
    """Return the matrix from the scene to the pixels of the output picture: the product of the maps and the input's matrix.

    It is scaled so that its last row keeps its length: after affine maps the last number of the third row is still 1.

    Args:
        name: of the camera, for errors.
        matrix: the camera's matrix for the input picture.
        steps: the maps, in order.
        bends: leave displacement fields out of the product instead of raising.

    Errors:
        InvalidArgument for a map with a displacement field, unless ``bends``: no matrix can express it.
    """
    if matrix.shape[-2] != 3:
        raise invalid(name, expected="three rows", got=f"shape {tuple(matrix.shape)}")
    moved = matrix
    for step in steps:
        if isinstance(step, BentMap) and not bends:
            fix = "Leave the step out, say Pipeline(cameras='residual'), or pass per-pixel rays= or pointmap= in its place."
            expected = "a pipeline of affine maps and perspectives: a camera's matrix has no bends"
            raise invalid(name, expected=expected, got="a step that bends the picture", fix=fix)
        moved = (step.last @ step.first if isinstance(step, BentMap) else step).to(moved.dtype) @ moved
    before, after = (torch.linalg.vector_norm(one[:, 2:, :3], dim=-1, keepdim=True) for one in (matrix, moved))
    return moved * (before / after)


def split_camera(camera: Float[Tensor, "*b 3 3"]) -> tuple[Float[Tensor, "*b 3 3"], Float[Tensor, "*b 3 3"]]:
    """Take the rotation out of a camera's matrix: ``camera = scale * intrinsics @ rotation``.

    A pipeline multiplies ``intrinsics`` by the map of the picture. The product then contains the map's turns and mirrors: it has
    numbers below the diagonal or a negative focal length. For a plain camera, move the rotation into the pose:
    ``intrinsics, rotation = split_camera(batch["intrinsics"])``, then ``rotation @ pose``.

    Args:
        camera: any invertible matrix.

    Returns:
        An upper triangular matrix with positive focal lengths and 1 as its last entry; and an orthogonal matrix, whose determinant
        is -1 if the picture was mirrored.

    Gradient:
        camera: exact.
    Source:
        RQ decomposition, Hartley and Zisserman, Multiple View Geometry, A4.1.1; ``scipy.linalg.rq`` up to signs.

    Example:
        >>> import torch
        >>> from pellucid.functional import split_camera
        >>> turned = torch.tensor([[0.0, -50.0, 40.0], [50.0, 0.0, 30.0], [0.0, 0.0, 1.0]])
        >>> intrinsics, rotation = split_camera(turned)
        >>> intrinsics, rotation
        (tensor([[50.,  0., 40.],
                [ 0., 50., 30.],
                [ 0.,  0.,  1.]]), tensor([[ 0., -1.,  0.],
                [ 1.,  0.,  0.],
                [ 0.,  0.,  1.]]))
    """
    first, second, third = camera.unbind(-2)

    def along(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(-1, keepdim=True)

    def length(a: Tensor) -> Tensor:
        return torch.linalg.vector_norm(a, dim=-1, keepdim=True)

    depth = length(third)
    z = third / depth
    across_yz = along(second, z)
    rest = second - across_yz * z
    down = length(rest)
    y = rest / down
    across_xy, across_xz = along(first, y), along(first, z)
    rest = first - across_xy * y - across_xz * z
    across = length(rest)
    zero = torch.zeros_like(depth)
    rows = ((across, across_xy, across_xz), (zero, down, across_yz), (zero, zero, depth))
    upper = torch.stack([torch.cat(row, -1) for row in rows], -2)
    return upper / depth[..., None], torch.stack((rest / across, y, z), -2)


def turn_lens(lens: Float[Tensor, "b n"], rotation: Float[Tensor, "b 3 3"]) -> Float[Tensor, "b n"]:
    """Return OpenCV's distortion coefficients of a lens after its camera turned about the optical axis, or was mirrored.

    Radial coefficients stay. Tangential ones move a point x by r² q + 2 (x·q) x with q = (p2, p1), and thin prisms by
    r² (s1, s3) + r⁴ (s2, s4): these vectors turn with the points.

    Args:
        lens: (k1, k2, p1, p2, ...), of 4, 5, 8 or 12 numbers.
        rotation: a turn about the optical axis, or a mirror.

    Gradient:
        lens, rotation: exact.
    Source:
        ``cv2.projectPoints``.
    """
    turned, pairs = list(lens.unbind(-1)), ((3, 2), (8, 10), (9, 11))
    for i, j in pairs if lens.shape[-1] == 12 else pairs[:1]:
        vector = (rotation[:, :2, :2] @ torch.stack((lens[..., i], lens[..., j]), -1)[..., None])[..., 0]
        turned[i], turned[j] = vector.unbind(-1)
    return torch.stack(turned, -1)


def turn_boxes3d(boxes: Float[Tensor, "b n 7"], rotation: Float[Tensor, "b 3 3"]) -> Float[Tensor, "b n 7"]:
    """Return upright boxes (x, y, z, length, height, width, yaw) in the frame of a camera that was mirrored or turned about y.

    Gradient:
        boxes, rotation: exact.
    """
    centre, size, yaw = boxes.split((3, 3, 1), -1)
    ahead = torch.cat((yaw.cos(), torch.zeros_like(yaw), -yaw.sin()), -1) @ rotation.mT
    return torch.cat((centre @ rotation.mT, size, torch.atan2(-ahead[..., 2:], ahead[..., :1])), -1)


def turn_map(vectors: Float[Tensor, "b 3 h w"], rotation: Float[Tensor, "b 3 3"]) -> Float[Tensor, "b 3 h w"]:
    """Rotate the points, rays or normals of all pixels into the frame of a camera that turned.

    Gradient:
        vectors, rotation: exact.
    """
    return (rotation @ vectors.flatten(2)).reshape(vectors.shape)

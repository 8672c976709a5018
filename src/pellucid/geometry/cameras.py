"""Cameras that see a picture after it was warped.

Owns: `camera_along`, a camera's matrix behind the maps of a pipeline; `split_camera`, its rotation taken out of it.
Must not: know targets or lens coefficients; these stay as they are.
Read next: ``paths.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.geometry.bends import BentMap

__all__ = ["camera_along", "split_camera"]


def camera_along(name: str, matrix: Float[Tensor, "b 3 k"], steps: Sequence[Tensor | BentMap]) -> Float[Tensor, "b 3 k"]:
    """The matrix from a scene to the pixels behind these maps: their product with that of the picture that came in.

    Scaled so that the last row of a camera keeps its length: the last number of its third row stays 1 behind affine maps.

    Errors:
        InvalidArgument where a map bends lines: no matrix does.
    """
    if matrix.shape[-2] != 3:
        raise invalid(name, expected="three rows", got=f"shape {tuple(matrix.shape)}")
    moved = matrix
    for step in steps:
        if isinstance(step, BentMap):
            raise invalid(
                name,
                expected="a pipeline of affine maps and perspectives: a camera's matrix has no bends",
                got="a step that bends the picture",
                fix="Leave the step out, or pass per-pixel rays= or pointmap= in the camera's place.",
            )
        moved = step.to(moved.dtype) @ moved
    before, after = (torch.linalg.vector_norm(one[:, 2:, :3], dim=-1, keepdim=True) for one in (matrix, moved))
    return moved * (before / after)


def split_camera(camera: Float[Tensor, "*b 3 3"]) -> tuple[Float[Tensor, "*b 3 3"], Float[Tensor, "*b 3 3"]]:
    """Take the rotation out of a camera's matrix: ``camera = scale * intrinsics @ rotation``.

    A pipeline multiplies ``intrinsics`` by the map of the picture. What it turned or mirrored is in the product then, which has
    numbers below the diagonal or a negative focal length. Who wants a plain camera gives the rotation to the pose:
    ``intrinsics, rotation = split_camera(batch["intrinsics"])``, then ``rotation @ pose``.

    Args:
        camera: any invertible matrix.

    Returns:
        An upper triangular matrix with positive focal lengths, 1 in its last place; and an orthogonal one, whose determinant is
        -1 where the picture was mirrored.

    Gradient:
        camera: exact.
    Source:
        RQ decomposition, Hartley and Zisserman, Multiple View Geometry, A4.1.1; ``scipy.linalg.rq`` but for signs.

    Example:
        >>> import torch, pellucid
        >>> turned = torch.tensor([[0.0, -50.0, 40.0], [50.0, 0.0, 30.0], [0.0, 0.0, 1.0]])
        >>> intrinsics, rotation = pellucid.functional.split_camera(turned)
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

"""How a map of the picture changes the values of its fields (flow, disparity, distance, normals), and whether it mirrors.

Owns: `turn_disparity`, `turn_distance`, `turn_flow`, `turn_normals`, `mirrors`.
Must not: resample: the fields have been resampled already.
Read next: ``points.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.geometry.matrices import inverse

__all__ = ["mirrors", "turn_disparity", "turn_distance", "turn_flow", "turn_normals"]


def turn_flow(flow: Float[Tensor, "b 2 h w"], src_from_dst: Float[Tensor, "#b 3 3"]) -> Float[Tensor, "b 2 h w"]:
    """Return the flow (dx, dy) in pixels between two pictures after both went through the same map T: T(p + f) - T(p).

    Args:
        flow: as it was read at the source of every output pixel.
        src_from_dst: the map, from output pixels to those of the source.

    Gradient:
        flow, src_from_dst: exact.
    """
    forth, pixels, closeness = _around(flow, src_from_dst)
    x, y = flow.unbind(1)
    # T's homogeneous depth at p is 1 / closeness. Written this way, nothing has to cancel if T is affine.
    deeper = forth[2][0] * x + forth[2][1] * y
    moved = [row[0] * x + row[1] * y - at * deeper for row, at in zip(forth[:2], pixels, strict=True)]
    return torch.stack([part * closeness / (1.0 + closeness * deeper) for part in moved], 1)


def turn_disparity(disparity: Float[Tensor, "b 1 h w"], src_from_dst: Float[Tensor, "#b 3 3"]) -> Float[Tensor, "b 1 h w"]:
    """Return the disparity of a rectified pair after both pictures went through the same map.

    The disparity says how far to the left each pixel lies in the other picture. A pair stays rectified under maps that keep rows:
    crops, resizes, translations, flips. A mirror changes the sign, because it swaps the left and the right picture. A pair that is
    turned is no longer rectified; the result is then the component along the rows.

    Args:
        disparity: as it was read at the source of every output pixel.
        src_from_dst: the map, from output pixels to those of the source.

    Gradient:
        disparity, src_from_dst: exact.
    """
    return -turn_flow(torch.cat((-disparity, torch.zeros_like(disparity)), 1), src_from_dst)[:, :1]


def turn_distance(distance: Float[Tensor, "b 1 h w"], src_from_dst: Float[Tensor, "#b 3 3"]) -> Float[Tensor, "b 1 h w"]:
    """Return the distances of a picture that is zoomed by moving the camera nearer, not by a longer lens: a zoom by 2 halves them.

    The zoom is the square root of the area that a pixel has after the map, as for :func:`turn_normals`.

    Args:
        distance: as it was read at the source of every output pixel.
        src_from_dst: the map, from output pixels to those of the source.

    Gradient:
        distance, src_from_dst: exact.
    """
    _, _, closeness = _around(distance, src_from_dst)
    m = src_from_dst.to(distance.dtype)
    determinant = (m[..., 0, :] * torch.linalg.cross(m[..., 1, :], m[..., 2, :])).sum(-1)
    return distance * torch.sqrt((determinant[:, None, None] / closeness**3).abs())[:, None]


def turn_normals(normals: Float[Tensor, "b 3 h w"], src_from_dst: Float[Tensor, "#b 3 3"]) -> Float[Tensor, "b 3 h w"]:
    """Return the normals (x to the right, y down, z along the line of sight) of a surface that moves with its picture.

    The surface's depth is scaled by the square root of the area that a pixel has after the map. So a zoom changes no normal, a turn
    turns x and y, a mirror mirrors them, and unequal scales tilt normals. Every normal keeps its length.

    Args:
        normals: as they were read at the source of every output pixel.
        src_from_dst: the map, from output pixels to those of the source.

    Gradient:
        normals, src_from_dst: exact; zero where a normal is zero.
    """
    forth, pixels, closeness = _around(normals, src_from_dst)
    (a, b), (c, d) = (
        [(row[k] - at * forth[2][k]) * closeness for k in range(2)] for row, at in zip(forth[:2], pixels, strict=True)
    )
    x, y, z = normals.unbind(1)
    determinant = a * d - b * c
    zoom = torch.sqrt(determinant.abs()) / determinant
    turned = torch.stack(((d * x - c * y) * zoom, (a * y - b * x) * zoom, z), 1)
    before, after = normals.square().sum(1, keepdim=True), turned.square().sum(1, keepdim=True)
    some = (before > 0) & (after > 0)
    return turned * torch.sqrt(torch.where(some, before, 1.0)) / torch.sqrt(torch.where(some, after, 1.0))


def mirrors(src_from_dst: Float[Tensor, "b 3 3"], size: tuple[int, int]) -> Bool[Tensor, "b"]:
    """Return whether a map swaps left and right in the middle of its (height, width) output; False for a map that is not finite."""
    height, width = size
    m = src_from_dst
    depth = m[..., 2, 0] * ((width - 1) / 2) + m[..., 2, 1] * ((height - 1) / 2) + m[..., 2, 2]
    determinant = (m[..., 0, :] * torch.linalg.cross(m[..., 1, :], m[..., 2, :])).sum(-1)
    return determinant * depth < 0


def _around(field: Tensor, src_from_dst: Tensor) -> tuple[list[list[Tensor]], tuple[Tensor, Tensor], Tensor]:
    """Return dst_from_src as rows of entries (b, 1, 1), the output's pixels (x, y), and their depths (b, h, w) in src_from_dst."""
    back = src_from_dst.to(field.dtype)
    forth = inverse(src_from_dst).to(field.dtype)
    x = torch.arange(field.shape[-1], dtype=field.dtype, device=field.device)
    y = torch.arange(field.shape[-2], dtype=field.dtype, device=field.device)[:, None]
    bottom = [entry[:, None, None] for entry in back[:, 2].unbind(-1)]
    rows = [[entry[:, None, None] for entry in forth[:, i].unbind(-1)] for i in range(3)]
    return rows, (x, y), bottom[0] * x + bottom[1] * y + bottom[2]

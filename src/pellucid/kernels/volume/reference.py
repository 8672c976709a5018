"""Volumes through a map and a field in plain PyTorch: the specification every faster implementation must meet.

Owns: where voxels read, the eight taps, and the border.
Must not: read what users hand in.
Read next: ``knots.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.volume.knots import knots, starts

__all__ = ["volume"]


def volume(
    image: Float[Tensor, "b c d h w"],
    src_from_dst: Float[Tensor, "b_or_1 3 4"],
    field: Float[Tensor, "b_or_1 3 gd gh gw"] | None,
    start: Float[Tensor, "b_or_1 3"] | None,
    size: Sequence[int],
    lattice: Sequence[int],
    border: bool,
    nearest: bool,
) -> Float[Tensor, "b c d2 h2 w2"]:
    """Output voxel p takes the value of the input at A p + d(p), linear between the eight voxels around it.

    Args:
        image: floating point; of any dtype with ``nearest``, which moves what is there.
        src_from_dst: A, on (x, y, z, 1). Where voxels read is computed in its dtype.
        field: numbers of a cubic B-spline d, along x, y and z in voxels of the input. Along each axis the second lies at the first
            voxel, the last but one at the last voxel, of a ``lattice`` whose voxel ``start`` (x, y, z; or 0) is the output's first.
        size: (depth, height, width) of the output.
        border: what lies outside is the nearest voxel of the border; else zero.
        nearest: one voxel instead of eight: floor(x + 0.5).

    A point that is not finite reads zero.

    Gradient:
        image: exact. src_from_dst, field: almost everywhere, from the right where a point lies on a voxel's centre; none with
        ``nearest``. Twice differentiable.
    """
    points = _places(size, src_from_dst)  # 3 d2 h2 w2
    moved = torch.einsum("bij,jzyx->bizyx", src_from_dst[:, :, :3], points) + src_from_dst[:, :, 3, None, None, None]
    if field is not None:
        z, y, x = (_dense(*each) for each in zip(size, field.shape[2:], starts(start, src_from_dst), lattice, strict=True))
        moved = moved + torch.einsum("bcijk,bzi,byj,bxk->bczyx", field.to(moved.dtype), z, y, x)
    known = torch.isfinite(moved).all(1, keepdim=True)
    moved = torch.where(known, moved, 0.0).expand(image.shape[0], *moved.shape[1:])
    taps = [
        _taps(moved[:, axis], length, border, nearest)
        for axis, length in ((2, image.shape[2]), (1, image.shape[3]), (0, image.shape[4]))
    ]
    flat, total = image.flatten(2), image.new_zeros(())
    for k, front in taps[0]:
        for j, over in taps[1]:
            for i, weight in taps[2]:
                place = ((k * image.shape[3] + j) * image.shape[4] + i).flatten(1)  # b n
                value = flat.gather(2, place[:, None].expand(-1, image.shape[1], -1)).unflatten(2, tuple(size))
                share = (front * over * weight)[:, None].to(image.dtype if image.is_floating_point() else moved.dtype)
                total = torch.where(share != 0.0, value, total) if nearest else total + value * share
    return torch.where(known, total, image.new_zeros(()))


def _dense(count: int, numbers: int, start: Tensor, lattice: int) -> Float[Tensor, "b n g"]:
    first, weights = knots(count, numbers, start, lattice)
    places = first[..., None] + torch.arange(4, device=start.device)
    return torch.zeros(len(start), count, numbers, dtype=start.dtype, device=start.device).scatter(2, places, weights)


def _places(size: Sequence[int], like: Tensor) -> Float[Tensor, "3 d h w"]:
    """x, y and z of every voxel."""
    z, y, x = (torch.arange(length, dtype=like.dtype, device=like.device) for length in size)
    return torch.stack(torch.broadcast_tensors(x, y[:, None], z[:, None, None]))


def _taps(at: Tensor, length: int, border: bool, nearest: bool) -> list[tuple[Tensor, Tensor]]:
    """Neighbours along an axis, each with its weight."""
    if border:
        inside = (at >= 0.0) & (at < length - 1.0)
        at = torch.where(inside, at, torch.where(at < 0.0, 0.0, length - 1.0))
    near = (at > -2.0) & (at < length + 1.0)  # further out nothing is seen, and whole numbers end
    first = torch.floor(torch.where(near, at, -2.0) + (0.5 if nearest else 0.0))
    share = torch.where(near, at, -2.0) - first
    weights = [(0, torch.ones_like(at))] if nearest else [(0, 1.0 - share), (1, share)]
    return [
        ((first.long() + k).clamp(0, length - 1), torch.where((first + k >= 0) & (first + k < length), weight, 0.0))
        for k, weight in weights
    ]

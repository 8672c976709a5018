"""Volumes through a map and a field in plain PyTorch: the specification every faster implementation must meet.

Owns: where voxels read, the eight taps, the border, and labels by majority.
Must not: read what users hand in.
Read next: ``knots.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.kernels.volume.knots import knots, opened, starts

__all__ = ["majority", "volume"]


def volume(
    image: Float[Tensor, "b c d h w"],
    src_from_dst: Float[Tensor, "b_or_1 3 4"],
    field: Float[Tensor, "b_or_1 3 gd gh gw"] | None,
    start: Float[Tensor, "b_or_1 3"] | None,
    size: Sequence[int],
    lattice: Sequence[int],
    border: bool,
    nearest: bool,
    block: Sequence[int] = (),
) -> Float[Tensor, "b c d2 h2 w2"]:
    """Output voxel p takes the value of the input at A p + d(p), linear between the eight voxels around it.

    Args:
        image: floating point; of any dtype with ``nearest``, which moves bits.
        src_from_dst: A, on (x, y, z, 1). Where voxels read is computed in its dtype.
        field: numbers of a cubic B-spline d, along x, y and z in voxels of the input. Along each axis the second lies at the first
            voxel, the last but one at the last voxel, of a ``lattice`` whose voxel ``start`` (x, y, z; or 0) is the output's first.
        size: (depth, height, width) of the output.
        border: outside, the nearest voxel of the border shows; else zero.
        nearest: one voxel instead of eight: floor(x + 0.5).
        block: (z, y, x) of the output's first voxel in a larger output, the same of the image in a larger volume, and the size of
            that. The image must hold all voxels that these read; then they equal those of the whole output.

    A point that is not finite reads zero.

    Gradient:
        image: exact. src_from_dst, field: almost everywhere, from the right where a point lies on a voxel's centre; none with
        ``nearest``. Twice differentiable.
    """
    known, taps = _around(image, src_from_dst, field, start, size, lattice, border, nearest, block)
    total = image.new_zeros(())
    for value, share in taps:
        share = share.to(image.dtype) if image.is_floating_point() else share
        total = torch.where(share != 0.0, value, total) if nearest else total + value * share
    return torch.where(known, total, image.new_zeros(()))


def majority(
    labels: Shaped[Tensor, "b c d h w"],
    src_from_dst: Float[Tensor, "b_or_1 3 4"],
    field: Float[Tensor, "b_or_1 3 gd gh gw"] | None,
    start: Float[Tensor, "b_or_1 3"],
    size: Sequence[int],
    lattice: Sequence[int],
    border: bool,
    points: Sequence[int],
    block: Sequence[int] = (),
) -> Shaped[Tensor, "b c d2 h2 w2"]:
    """The label that each voxel shows most of, at so many points (z, y, x) of it; points that show nothing count for label 0.

    The map, the field and ``lattice`` belong to a lattice that is so many times finer, whose voxels are the points.
    """
    finer = [length * many for length, many in zip(size, points, strict=True)]
    inner = [first * many for first, many in zip(block, points, strict=False)] + list(block[3:])
    known, taps = _around(labels, src_from_dst, field, start, finer, lattice, border, False, inner)
    shares = torch.stack([share for _, share in taps]) * known
    shares = torch.cat((shares, 1.0 - shares.sum(0, keepdim=True))).expand(-1, -1, labels.shape[1], *finer)
    values = torch.stack([*(value for value, _ in taps), torch.zeros_like(taps[0][0])])  # 9 b c, and the finer lattice
    split = [each for pair in zip(size, points, strict=True) for each in pair]
    order = (1, 2, 3, 5, 7, 0, 4, 6, 8)  # taps and points of a voxel come last
    values, shares = (each.reshape(*each.shape[:3], *split).permute(order).flatten(5) for each in (values, shares))
    values, places = values.sort(-1)
    total = shares.gather(-1, places).cumsum(-1)
    last = torch.cat((values[..., 1:] != values[..., :-1], torch.ones_like(values[..., :1], dtype=torch.bool)), -1)
    sums = torch.where(last, total, 0.0)  # up to the end of each label
    before = torch.cat((torch.zeros_like(sums[..., :1]), sums[..., :-1].cummax(-1).values), -1)
    return values.gather(-1, torch.where(last, sums - before, -1.0).argmax(-1, keepdim=True))[..., 0]


def _around(
    image: Tensor,
    src_from_dst: Tensor,
    field: Tensor | None,
    start: Tensor | None,
    size: Sequence[int],
    lattice: Sequence[int],
    border: bool,
    nearest: bool,
    block: Sequence[int],
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Which points are finite, (b, 1, d2, h2, w2); for each voxel around them its value, (b, c, d2, h2, w2), and its weight."""
    first, corner, whole = opened(block, image)
    points = _places(size, first, src_from_dst)  # 3 d2 h2 w2
    moved = torch.einsum("bij,jzyx->bizyx", src_from_dst[:, :, :3], points) + src_from_dst[:, :, 3, None, None, None]
    if field is not None:
        z, y, x = (_dense(*each) for each in zip(size, field.shape[2:], starts(start, first, src_from_dst), lattice, strict=True))
        moved = moved + torch.einsum("bcijk,bzi,byj,bxk->bczyx", field.to(moved.dtype), z, y, x)
    known = torch.isfinite(moved).all(1, keepdim=True)
    moved = torch.where(known, moved, 0.0).expand(image.shape[0], *moved.shape[1:])
    taps = [_taps(moved[:, 2 - axis], whole[axis], corner[axis], image.shape[2 + axis], border, nearest) for axis in range(3)]
    flat, found = image.flatten(2), []
    for k, front in taps[0]:
        for j, over in taps[1]:
            for i, weight in taps[2]:
                place = ((k * image.shape[3] + j) * image.shape[4] + i).flatten(1)  # b n
                value = flat.gather(2, place[:, None].expand(-1, image.shape[1], -1)).unflatten(2, tuple(size))
                found.append((value, (front * over * weight)[:, None]))
    return known, found


def _dense(count: int, numbers: int, start: Tensor, lattice: int) -> Float[Tensor, "b n g"]:
    first, weights = knots(count, numbers, start, lattice)
    places = first[..., None] + torch.arange(4, device=start.device)
    return torch.zeros(len(start), count, numbers, dtype=start.dtype, device=start.device).scatter(2, places, weights)


def _places(size: Sequence[int], first: Sequence[int], like: Tensor) -> Float[Tensor, "3 d h w"]:
    """x, y and z of every voxel."""
    z, y, x = (at + torch.arange(length, dtype=like.dtype, device=like.device) for at, length in zip(first, size, strict=True))
    return torch.stack(torch.broadcast_tensors(x, y[:, None], z[:, None, None]))


def _taps(at: Tensor, length: int, corner: int, held: int, border: bool, nearest: bool) -> list[tuple[Tensor, Tensor]]:
    """Neighbours along an axis, each with its weight; the image holds so many of the axis' voxels, from a corner on."""
    if border:
        inside = (at >= 0.0) & (at < length - 1.0)
        at = torch.where(inside, at, torch.where(at < 0.0, 0.0, length - 1.0))
    near = (at > -2.0) & (at < length + 1.0)  # further out nothing is seen, and integers overflow
    first = torch.floor(torch.where(near, at, -2.0) + (0.5 if nearest else 0.0))
    share = torch.where(near, at, -2.0) - first
    weights = [(0, torch.ones_like(at))] if nearest else [(0, 1.0 - share), (1, share)]
    return [
        ((first.long() + (k - corner)).clamp(0, held - 1), torch.where((first + k >= 0) & (first + k < length), weight, 0.0))
        for k, weight in weights
    ]

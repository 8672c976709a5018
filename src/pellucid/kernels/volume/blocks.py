"""Blocks of volumes: which part of a volume a part of the result reads.

Owns: `Block` and `reach`.
Must not: read voxels.
Read next: ``reference.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.volume.knots import knots, starts
from pellucid.types import Size3

__all__ = ["Block", "reach"]


class Block(NamedTuple):
    """A part of a result, and the part of the volume that it reads, all of them (depth, height, width).

    Args:
        first, size: first voxel and size of the part of the result.
        corner, held: first voxel and size of the part of the volume.
        whole: the volume's size.
    """

    first: Size3
    size: Size3
    corner: Size3
    held: Size3
    whole: Size3

    @property
    def numbers(self) -> list[int]:
        """As the kernels take it."""
        return [*self.first, *self.corner, *self.whole]


def reach(
    first: Size3,
    size: Size3,
    whole: Size3,
    src_from_dst: Float[Tensor, "b_or_1 3 4"],
    field: Float[Tensor, "b_or_1 3 gd gh gw"] | None,
    start: Float[Tensor, "b_or_1 3"] | None,
    lattice: Size3,
) -> Block:
    """The block for ``size`` voxels of a result, from the ``first`` on; the maps are those of ``reference.volume``.

    It holds all voxels that these may read, by the range of the field's numbers, and at least two along an axis that has them.
    """
    maps = src_from_dst.detach()
    last = [at + length - 0.5 for at, length in zip(first, size, strict=True)]
    ends = maps.new_tensor([[at - 0.5 for at in reversed(first)], last[::-1]])
    corners = maps[:, :, :3] * ends[:, None, None]
    least, most = (found.sum(-1) + maps[:, :, 3] for found in (corners.amin(0), corners.amax(0)))
    if field is not None:
        field = field.detach().to(maps.dtype)
        for axis, (count, at, length) in enumerate(zip(size, starts(start, first, maps), lattice, strict=True), 2):
            near = knots(count, field.shape[axis], at, length)[0]
            begin, end = max(int(near.min()) - 1, 0), min(int(near.max()) + 5, field.shape[axis])
            field = field.narrow(axis, begin, end - begin)
        least, most = least + field.amin((2, 3, 4)), most + field.amax((2, 3, 4))
    read = torch.stack((least.amin(0).floor() - 1.0, most.amax(0).floor() + 3.0)).flip(1).nan_to_num(0.0).clamp(-1e9, 1e9)
    stops = [min(max(int(stop), 2), length) for stop, length in zip(read[1].tolist(), whole, strict=True)]
    corner = [min(max(int(low), 0), max(stop - 2, 0)) for low, stop in zip(read[0].tolist(), stops, strict=True)]
    depth, height, width = (stop - low for stop, low in zip(stops, corner, strict=True))
    return Block(first, size, (corner[0], corner[1], corner[2]), (depth, height, width), whole)

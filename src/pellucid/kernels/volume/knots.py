"""A uniform cubic B-spline along one axis, and the numbers of a volume's block, for every implementation.

Owns: `knots`, `opened` and `starts`.
Must not: import a compiler.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

__all__ = ["knots", "opened", "starts"]


def knots(count: int, numbers: int, start: Float[Tensor, "b"], lattice: int) -> tuple[Int64[Tensor, "b n"], Float[Tensor, "b n 4"]]:
    """For each voxel along an axis, the first of the spline's four numbers that matter, and their weights.

    Args:
        count: of voxels; the first is voxel ``start`` of a lattice of so many as ``lattice``.
        numbers: of the spline, whose cells fill the lattice.
    """
    cells = numbers - 3
    u = (start[:, None] + torch.arange(count, dtype=start.dtype, device=start.device)) * (cells / max(1, lattice - 1))
    first = torch.floor(u).clamp(0, cells - 1)
    t = u - first
    s = 1.0 - t
    weights = s**3, 3.0 * t**3 - 6.0 * t**2 + 4.0, 3.0 * s**3 - 6.0 * s**2 + 4.0, t**3
    return first.long(), torch.stack(weights, 2) / 6.0


def opened(block: Sequence[int], image: Tensor) -> tuple[tuple[int, ...], ...]:
    """(z, y, x) of the first voxel of the output and of the image, and the size of the volume that this is a block of."""
    return (tuple(block[:3]), tuple(block[3:6]), tuple(block[6:])) if block else ((0, 0, 0), (0, 0, 0), tuple(image.shape[2:]))


def starts(start: Float[Tensor, "b 3"] | None, first: Sequence[int], like: Tensor) -> list[Float[Tensor, "b"]]:
    """Where the output, or a block of it that has this ``first`` voxel (z, y, x), begins along z, y and x."""
    given = torch.zeros(1, 3, dtype=like.dtype, device=like.device) if start is None else start.to(like.dtype)
    return [each + offset for each, offset in zip(given.flip(1).unbind(1), first, strict=True)]

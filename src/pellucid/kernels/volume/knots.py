"""A uniform cubic B-spline along one axis, as every implementation has it.

Owns: `knots`.
Must not: import a compiler.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

__all__ = ["knots"]


def knots(count: int, numbers: int, like: Tensor) -> tuple[Int64[Tensor, "n"], Float[Tensor, "n 4"]]:
    """Of each voxel along an axis the first of the four numbers of the spline that matter, and their weights."""
    cells = numbers - 3
    u = torch.arange(count, dtype=like.dtype, device=like.device) * (cells / max(1, count - 1))
    first = torch.floor(u).clamp(max=cells - 1)
    t = u - first
    s = 1.0 - t
    weights = s**3, 3.0 * t**3 - 6.0 * t**2 + 4.0, 3.0 * s**3 - 6.0 * s**2 + 4.0, t**3
    return first.long(), torch.stack(weights, 1) / 6.0

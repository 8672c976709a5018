"""What an alignment looks like: squares of one picture and the other in turns, and their difference, before and after.

Owns: `before_and_after`.
Must not: write files.
Read next: ``align.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.functional import warp
from pellucid.registration.align import Alignment

__all__ = ["before_and_after"]


def before_and_after(
    fixed: Float[Tensor, "c h w"], moving: Float[Tensor, "c h2 w2"], found: Alignment, *, squares: int = 8, gap: int = 4
) -> Float[Tensor, "3 h3 w3"]:
    """Two rows, before and after: a checkerboard of both pictures, and the absolute difference (red where only one is to be seen).

    Args:
        fixed, moving: in [0, 1], one or three channels.
        found: the alignment of this pair alone; its brightness is applied to the moving picture in both rows.
        squares: along the longer side.
        gap: white pixels between the parts.

    Returns:
        A picture in [0, 1].
    """
    size = (fixed.shape[-2], fixed.shape[-1])
    side = max(1, max(size) // squares)
    y, x = torch.arange(size[0])[:, None] // side, torch.arange(size[1]) // side
    even = (y + x) % 2 == 0
    gain, offset, exponent = found.brightness[0].tolist()
    rows = []
    for matrix, field in ((torch.eye(3, dtype=found.matrix.dtype), None), (found.matrix[0], found.field)):
        shown = [warp(part[None], matrix, size=size, displacement=field)[0] for part in (moving, torch.ones_like(moving[:1]))]
        warped, seen = gain * shown[0].clamp_min(0.0) ** exponent + offset, shown[1]
        board = torch.where(even, fixed, torch.where(seen > 0.5, warped, 0.0)).expand(3, *size)
        apart = (warped - fixed).abs().mean(0, keepdim=True) * seen
        difference = torch.cat((torch.maximum(apart, 1.0 - seen), apart, apart))
        rows.append(torch.cat((board, board.new_ones((3, size[0], gap)), difference), 2))
    return torch.cat((rows[0], rows[0].new_ones((3, gap, rows[0].shape[2])), rows[1]), 1).clamp(0.0, 1.0)

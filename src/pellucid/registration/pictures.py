"""Pictures of an alignment: a checkerboard of both pictures and their difference, before and after.

Owns: `before_and_after`, and `slices_before_and_after` for volumes.
Must not: write files.
Read next: ``align.py``.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.functional import warp
from pellucid.registration.align import Alignment
from pellucid.registration.volumes import VolumeAlignment

__all__ = ["before_and_after", "slices_before_and_after"]


def before_and_after(
    fixed: Float[Tensor, "c h w"], moving: Float[Tensor, "c h2 w2"], found: Alignment, *, squares: int = 8, gap: int = 4
) -> Float[Tensor, "3 h3 w3"]:
    """Draw two rows, before and after: a checkerboard of both pictures, and the absolute difference (red outside the overlap).

    Args:
        fixed, moving: pictures in [0, 1], one or three channels.
        found: the alignment of this single pair; its brightness is applied to the moving picture in both rows.
        squares: number of squares along the longer side.
        gap: white pixels between the parts.

    Returns:
        A picture in [0, 1].
    """
    size = (fixed.shape[-2], fixed.shape[-1])
    gain, offset, exponent = found.brightness[0].tolist()
    parts = []
    for matrix, field in (
        (torch.eye(3, dtype=found.matrix.dtype, device=found.matrix.device), None),
        (found.matrix[0], found.field),
    ):
        shown = [warp(part[None], matrix, size=size, displacement=field)[0] for part in (moving, torch.ones_like(moving[:1]))]
        parts.append(_row(fixed, gain * shown[0].clamp_min(0.0) ** exponent + offset, shown[1], squares, gap))
    return _pile(parts, gap)


def slices_before_and_after(
    fixed: Float[Tensor, "1 d h w"], moving: Float[Tensor, "1 d2 h2 w2"], found: VolumeAlignment, *, squares: int = 8, gap: int = 4
) -> Float[Tensor, "3 h3 w3"]:
    """Draw the middle slices of volumes across depth, height and width, one below the other, first before and then after.

    Args:
        fixed, moving: volumes in any units; the fixed volume's least and greatest value become black and white.
        found: the alignment of this single pair; its brightness is applied to the moving volume in all rows.
        squares, gap: as for :func:`before_and_after`.

    Returns:
        A picture in [0, 1].
    """
    size = (fixed.shape[1], fixed.shape[2], fixed.shape[3])
    gain, offset = found.brightness[0].tolist()
    low, high = float(fixed.amin()), float(fixed.amax())
    before = replace(found, matrix=torch.eye(4, dtype=found.matrix.dtype, device=found.matrix.device)[None], field=None)
    rows = []
    for one in (before, found):
        shown, seen = (one.warped(part, size)[0] for part in (gain * moving + offset, torch.ones_like(moving)))
        for axis in (1, 2, 3):
            still, moved = (((part - low) / max(high - low, 1e-12)).select(axis, size[axis - 1] // 2) for part in (fixed, shown))
            rows.append(_row(still, moved, seen.select(axis, size[axis - 1] // 2), squares, gap))
    return _pile(rows, gap)


def _row(fixed: Tensor, warped: Tensor, seen: Tensor, squares: int, gap: int) -> Tensor:
    """Draw a checkerboard, and the absolute difference beside it."""
    size = (fixed.shape[-2], fixed.shape[-1])
    side = max(1, max(size) // squares)
    y, x = (torch.arange(length, device=fixed.device) // side for length in size)
    board = torch.where((y[:, None] + x) % 2 == 0, fixed, torch.where(seen > 0.5, warped, 0.0)).expand(3, *size)
    grey = (warped - fixed).abs().mean(0, keepdim=True) * seen
    difference = torch.cat((torch.maximum(grey, 1.0 - seen), grey, grey))
    return torch.cat((board, board.new_ones((3, size[0], gap)), difference), 2)


def _pile(rows: list[Tensor], gap: int) -> Tensor:
    """Stack rows one below the other, on white."""
    width = max(row.shape[2] for row in rows)
    padded = [torch.nn.functional.pad(row, (0, width - row.shape[2], 0, gap), value=1.0) for row in rows]
    return torch.cat(padded, 1)[:, :-gap].clamp(0.0, 1.0)

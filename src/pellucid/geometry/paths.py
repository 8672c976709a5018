"""Points on their way from canvas to canvas.

Owns: `Path`, the maps and canvases between the pixels of two pictures, and where it leads points.
Must not: know targets, records or plans.
Read next: ``bends.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.geometry.bends import BentMap
from pellucid.geometry.points import pixel_centers, transform_points
from pellucid.types import Size

__all__ = ["Hop", "Path", "expanded", "follow", "inside", "places_of"]

Hop: TypeAlias = tuple[Tensor | BentMap, Size | None]
"""A matrix (b, 3, 3) from canvas to canvas, or a map with a field, which is called with points; and the (height, width) of the
canvas it leads to; None where that one does not cut."""

Path: TypeAlias = Sequence[Hop]
"""From the input to the output, canvas by canvas."""


def follow(points: Tensor, path: Path) -> tuple[Tensor, Tensor]:
    """Lead points (b, n, 2), in pixel-centre coordinates, along a path.

    Returns:
        Where they end, and which of them lay on every canvas on the way (b, n): what has left one is not valid again.
    """
    moved, seen = points, None
    matrix: Tensor | None = None  # of what came since the last field
    for step, size in path:
        if isinstance(step, BentMap):
            points, matrix = step(moved), None
            moved = points
        else:
            matrix = step if matrix is None else step @ matrix
            moved = transform_points(points, matrix)
        here = inside(moved, size)
        seen = here if seen is None else seen & here
    assert seen is not None
    return moved, seen


def expanded(step: Tensor | BentMap, rows: int) -> Tensor | BentMap:
    """A map with a row for each of so many samples, or one that does so itself."""
    return step.expand(rows, *step.shape[1:]) if isinstance(step, Tensor) else step


def places_of(back: Sequence[Tensor | BentMap], canvases_of: Sequence[Size], size: Size, rows: int) -> Float[Tensor, "b 2 h w"]:
    """Where the pixels at the beginning of a path end; nowhere if a canvas has cut them off."""
    like = back[0] if isinstance(back[0], Tensor) else back[0].first
    path = list(zip([expanded(step, rows) for step in back], [*canvases_of, None], strict=True))
    moved, inside = follow(pixel_centers(size, like.dtype, like.device).expand(rows, -1, 2), path)
    return torch.where(inside[..., None], moved, torch.inf).mT.unflatten(2, size)


def inside(points: Tensor, size: Size | None) -> Tensor:
    """Which points (b, n, 2) are finite and lie on a canvas of (height, width), if there is one."""
    here = torch.isfinite(points).all(-1)
    if size is None:
        return here
    x, y = points.unbind(-1)
    return here & (x >= -0.5) & (x < size[1] - 0.5) & (y >= -0.5) & (y < size[0] - 0.5)

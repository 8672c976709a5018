"""Map points from canvas to canvas.

Owns: `Path`, the maps and canvases between the pixels of two pictures, and `follow`, which maps points along it.
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
"""A matrix (b, 3, 3) from canvas to canvas, or a map with a displacement field; and the (height, width) of the canvas it leads to,
or None if that canvas does not cut."""

Path: TypeAlias = Sequence[Hop]
"""From the input to the output, canvas by canvas."""


def follow(points: Tensor, path: Path) -> tuple[Tensor, Tensor]:
    """Map points (b, n, 2), in pixel-centre coordinates, along a path.

    Returns:
        The mapped points, and which of them lay on every canvas on the way (b, n): a point that left a canvas stays invalid.
    """
    moved, seen = points, None
    matrix: Tensor | None = None  # product of the matrices since the last field
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
    """Expand a matrix to a row for each of ``rows`` samples; a map with a field expands by itself."""
    return step.expand(rows, *step.shape[1:]) if isinstance(step, Tensor) else step


def places_of(back: Sequence[Tensor | BentMap], canvases_of: Sequence[Size], size: Size, rows: int) -> Float[Tensor, "b 2 h w"]:
    """Map all pixels of a picture along a path of maps; infinite for pixels that a canvas cuts off."""
    like = back[0] if isinstance(back[0], Tensor) else back[0].first
    path = list(zip([expanded(step, rows) for step in back], [*canvases_of, None], strict=True))
    moved, inside = follow(pixel_centers(size, like.dtype, like.device).expand(rows, -1, 2), path)
    return torch.where(inside[..., None], moved, torch.inf).mT.unflatten(2, size)


def inside(points: Tensor, size: Size | None) -> Tensor:
    """Return which points (b, n, 2) are finite and, given a canvas (height, width), lie on it."""
    here = torch.isfinite(points).all(-1)
    if size is None:
        return here
    x, y = points.unbind(-1)
    return here & (x >= -0.5) & (x < size[1] - 0.5) & (y >= -0.5) & (y < size[0] - 0.5)

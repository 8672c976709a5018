"""A grid whose rows and columns of cells are stretched or squeezed: GridDistortion.

Owns: GridDistortion.
Must not: evaluate splines.
Read next: ``warping.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.geometry.bends import Bend
from pellucid.random.fields import Chance, Range, interval
from pellucid.random.patterns import symmetric_field
from pellucid.transforms.base import Params, as_size, drawn
from pellucid.transforms.warping import Bending
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode, Size

__all__ = ["GridDistortion"]


@dataclass(frozen=True)
class GridDistortion(Bending):
    """Divide the picture in cells and stretch or squeeze each row and each column of them; the picture's border stays.

    Along an axis of n cells, cell i shows a strip of the picture of length proportional to 1 + magnitude * u_i, with u_i uniform
    on [-1, 1]. The map is linear within a cell, along each axis for itself, and is evaluated while the picture is read.

    Args:
        cells: along y and along x, 2 to 64, or one number for both.
        magnitude: 0 to 1/3, within which Newton's method converges for points: a number, pair, `Learnable` or distribution.

    The record keeps two words and the magnitude per sample, not the grid. Frames of a video share it.

    On each target:
        as `RandomElastic`.
    Identity at:
        magnitude = 0, bit for bit.
    Errors:
        InvalidArgument for a magnitude out of its range, or fewer than two cells, or more than 64.
    Source:
        ``numpy.interp`` along each axis; albumentations' GridDistortion with ``normalized=True`` is meant.

    Example:
        >>> pellucid.GridDistortion(4, magnitude=0.3)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 3, 32, 32])
    """

    cells: int | Size = 5
    magnitude: Range = field(default=0.3, metadata=drawn(interval, low=0.0, high=1 / 3))
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    keyed: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    def check(self) -> None:
        rows, columns = as_size("GridDistortion.cells", self.cells)
        object.__setattr__(self, "cells", (rows, columns))
        if min(rows, columns) < 2 or max(rows, columns) > 64:
            raise invalid("GridDistortion.cells", expected="2 to 64 along each axis", got=self.cells)

    def bend(self, values: Params, spec: ImageSpec, like: Tensor) -> Bend:
        magnitude = values["magnitude"]
        rows, columns = self.cells  # type: ignore[misc] # a pair by now
        lengths = 1.0 + symmetric_field(values["words"], (1, 1, rows + columns), magnitude[:, None])[:, 0, 0]  # b n
        return stretched(lengths[:, :rows], lengths[:, rows:], spec)


def stretched(rows: Float[Tensor, "b n"], columns: Float[Tensor, "b m"], spec: ImageSpec) -> Bend:
    """The field in which each row and each column of equal cells shows a strip of the picture of its relative length."""
    height, width = (max(1, int(length) - 1) for length in spec.size)
    down, across = _knot_shifts(rows, height), _knot_shifts(columns, width)
    control = torch.stack(torch.broadcast_tensors(across[:, None, :], down[:, :, None]), 1)  # b 2 gh gw
    grid = constant((0.0, 0.0, width / columns.shape[1], height / rows.shape[1]), rows.dtype, rows.device)[None]
    return Bend(control, grid, linear=True)


def _knot_shifts(lengths: Float[Tensor, "b n"], whole: int) -> Float[Tensor, "b g"]:
    """How far each knot of an axis lies from its place under equal lengths, in pixels; with one unused number at either end."""
    count = lengths.shape[1]
    even = torch.arange(1, count, dtype=lengths.dtype, device=lengths.device) / count
    ends = torch.cumsum(lengths, 1)
    moved = whole * (ends[:, :-1] / ends[:, -1:] - even)
    none = torch.zeros_like(lengths[:, :2])
    return torch.cat((none, moved, none), 1)

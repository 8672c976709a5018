"""Split pictures into cells or channels, transform each as a picture of its own, and join the results.

Owns: dividing pictures by a grid.
Must not: know the transforms of a cell.
Read next: ``execution.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.engine.lowering import Lowered
from pellucid.engine.passes import compute_dtype, in_units, mixed
from pellucid.segments import Cells
from pellucid.transforms.base import as_size
from pellucid.transforms.mixture import PerCell, PerPatch

__all__ = ["cell_by_cell"]


def cell_by_cell(
    segment: Cells,
    index: int,
    lowered: Lowered,
    image: Shaped[Tensor, "b c h w"],
    through: Callable[[Lowered, Tensor], Float[Tensor, "bn c h2 w2"]],
) -> Float[Tensor, "b c h w"]:
    """Transform each cell (or channel) of pictures by a plan for cells; ``through`` applies a plan to a batch of cells, row by row.

    If the grid does not divide a picture evenly, its right and lower edge pixels are repeated, and cut off again.
    """
    owner, (samples, _, height, width) = lowered.plan.steps[index].transform, image.shape
    assert isinstance(owner, PerCell)
    (count, cell), whole, slopes = owner.cells(lowered.plan.specs[index]), image, lowered.slopes
    params = tuple({name: value.flatten(0, 1) for name, value in values.items()} for values in segment.steps)
    slopes = slopes if slopes is None or len(slopes) == 1 else slopes.repeat_interleave(count, 0)
    inside = Lowered(lowered.plan_beside((index, 0), owner.transforms, cell), params, lowered.device, slopes, lowered.frames)
    gate = None if segment.gate is None else segment.gate.to(compute_dtype(image.dtype))
    if not isinstance(owner, PerPatch):  # channels
        return mixed(through(inside, image.flatten(0, 1)[:, None]).reshape(image.shape), in_units(image), gate)
    rows, columns = as_size("PerPatch.grid", owner.grid)
    if (rows * cell.height, columns * cell.width) != (height, width):
        down, across = (
            torch.arange(rows * cell.height, device=image.device),
            torch.arange(columns * cell.width, device=image.device),
        )
        whole = image[:, :, torch.clamp(down, max=height - 1)[:, None], torch.clamp(across, max=width - 1)]
    cells = whole.unflatten(3, (columns, cell.width)).unflatten(2, (rows, cell.height)).permute(0, 2, 4, 1, 3, 5).flatten(0, 2)
    made = through(inside, cells.contiguous())
    made = made.unflatten(0, (samples, rows, columns)).permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)
    return mixed(made[..., :height, :width], in_units(image), gate)

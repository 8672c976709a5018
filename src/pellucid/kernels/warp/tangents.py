"""Forward-mode differentiation of a compiled pass.

Owns: `tangents`, the rule, and `has_tangent`, for which passes it is one.
Must not: compute on pixels. The pass is linear in the image and in the first mix: their tangents go through the pass itself.
Read next: ``cpu/tangent.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pellucid.kernels.derivatives import first_moves_alone, forward_alone
from pellucid.kernels.warp.layout import FIRST_MIX, MATRIX
from pellucid.kernels.warp.operators import arguments
from pellucid.kernels.warp.packing import Recipe, Resample

__all__ = ["has_tangent", "tangents"]


def has_tangent(image: Tensor, resample: Resample) -> bool:
    """Whether forward mode is all that asks for a derivative of floating-point images, and only they move through what is linear
    in them, or the pass has no antialiasing or blurred slopes, on the CPU.
    """
    recipe = resample.recipe
    stages = [part for stage in (*resample.prologue, *resample.epilogue) for part in stage]
    moves = resample.mapping, resample.window, resample.params, resample.field, resample.links, resample.table
    if not image.is_floating_point() or not forward_alone(image, *moves, *(p for p in stages if isinstance(p, Tensor))):
        return False
    if first_moves_alone(image, *moves):
        return True
    plain = recipe.footprint is None and resample.slopes is None
    return plain and recipe.dtype in (None, torch.float32, torch.float64) and image.device.type == "cpu"


def tangents(forward: Callable[..., Tensor], moved: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The rule, of the operators of a linear pass: its tensors are image, mapping, window, params, field, links and table."""

    def rule(tensors: Sequence[Tensor | None], changes: Sequence[Tensor | None], static: tuple[Recipe, ...]) -> Tensor:
        (recipe,) = static
        image, mapping, window, params, field, *_ = tensors
        by_image, by_mapping, by_window, by_params, by_field, *_ = changes
        assert image is not None
        assert mapping is not None
        assert params is not None
        options = arguments(image, mapping, recipe)
        matrix, offset, fill = _first_mix(params, options[1][3], recipe)
        parts = []
        if by_image is not None:
            homogeneous = torch.cat((matrix, torch.zeros_like(offset), torch.zeros_like(fill)), 1)
            parts.append(forward(by_image, mapping, window, homogeneous, field, None, None, *options))
        if by_params is not None and recipe.flags & FIRST_MIX:
            source = image if recipe.flags & MATRIX else torch.zeros_like(image)  # what has no matrix has the identity
            parts.append(forward(source, mapping, window, by_params, field, None, None, *options))
        if recipe.interpolation != "nearest" and any(by is not None for by in (by_mapping, by_window, by_field)):
            difference = torch.cat((matrix, offset - fill, torch.zeros_like(fill)), 1)
            parts.append(moved(image, mapping, window, difference, field, by_mapping, by_window, by_field, *options))
        if not parts:  # nothing that counts has moved
            return torch.zeros((image.shape[0], options[1][3], *recipe.size), dtype=options[-1])
        return sum(parts[1:], parts[0])

    return rule


def _first_mix(params: Tensor, out_channels: int, recipe: Recipe) -> tuple[Tensor, Tensor, Tensor]:
    """A row's matrix, offset and fill; where there is no mix, all of it counts as matrix."""
    ends = 2 * out_channels if recipe.flags & FIRST_MIX else 0
    cut = params.shape[1] - ends
    return params[:, :cut], params[:, cut : cut + ends // 2], params[:, cut + ends // 2 :]

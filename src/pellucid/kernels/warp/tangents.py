"""Forward-mode differentiation of a compiled pass.

Owns: `tangents`, the rule, and `has_tangent`, which tells the passes that it holds for.
Must not: compute on pixels. The pass is linear in the first mix, whose tangent goes through the pass itself.
Read next: ``cpu/tangent.py``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pellucid.kernels.derivatives import first_moves_alone, forward_alone
from pellucid.kernels.stages.chain import colors_of, has_stages
from pellucid.kernels.warp.operators import arguments
from pellucid.kernels.warp.packing import Recipe, Resample

__all__ = ["has_tangent", "tangents"]


def has_tangent(image: Tensor, resample: Resample) -> bool:
    """Whether the rule holds: images have floats, and forward mode is the only derivative asked for; and either only the images
    have a tangent, or the pass runs on the CPU without blurred slopes and without an antialiased footprint.
    """
    recipe = resample.recipe
    stages = [part for stage in (*resample.prologue, *resample.epilogue) for part in stage]
    moves = resample.mapping, resample.window, resample.params, resample.field, resample.links, resample.table
    if not image.is_floating_point() or not forward_alone(image, *moves, *(p for p in stages if isinstance(p, Tensor))):
        return False
    if first_moves_alone(image, *moves):
        return True
    plain = recipe.footprint is None and resample.slopes is None
    return plain and recipe.dtype in _COMPUTED and image.device.type == "cpu"


def tangents(forward: Callable[..., Tensor], dual: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Any]:
    """The rule for the operators of a linear pass of image, mapping, window, params, and for a warp of field, links and table."""

    def rule(
        tensors: Sequence[Tensor | None], changes: Sequence[Tensor | None], static: tuple[Recipe, ...]
    ) -> tuple[Tensor, Tensor] | None:
        (recipe,) = static
        absent: list[Tensor | None] = [None] * 3
        image, mapping, window, params, field, links, table = [*tensors, *absent][:7]
        by_image, by_mapping, by_window, by_params, by_field = [*changes, *absent][:5]
        assert image is not None
        assert mapping is not None
        assert params is not None
        if links is not None or table is not None or has_stages(recipe.flags) or recipe.dtype not in _COMPUTED:
            return None
        options = arguments(image, mapping, recipe)
        colors = colors_of(recipe.flags, image.shape[1], options[1][3])
        matrix, offset, fill = (
            params.tensor_split((colors.offset, colors.offset + colors.outputs), 1)
            if colors.mixes
            else (params, params[:, :0], params[:, :0])
        )
        if recipe.interpolation == "nearest":  # points that move change nothing
            by_mapping = by_window = by_field = None
        if all(part is None for part in (by_image, by_mapping, by_window, by_field)):
            out = forward(image, mapping, window, params, field, None, None, *options)
            along = torch.zeros_like(out) if by_params is None else None
        else:
            difference = torch.cat((matrix, offset - fill, torch.zeros_like(fill)), 1)
            moves = by_mapping, by_window, by_field
            out, along = dual(image, by_image, mapping, window, params, difference, field, *moves, *options)
        if by_params is not None and colors.mixes:
            source = image if colors.matrix >= 0 else torch.zeros_like(image)  # without a matrix it is the identity
            mixed = forward(source, mapping, window, by_params, field, None, None, *options)
            along = mixed if along is None else along + mixed
        return out, torch.zeros_like(out) if along is None else along

    return rule


_COMPUTED = None, torch.float32, torch.float64
"""Dtypes of results that nothing rounds."""

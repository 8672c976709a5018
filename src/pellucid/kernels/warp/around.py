"""What is the same around every pass, whoever computes it and whatever it is.

Owns: `between_stages`, the stages that the pass itself does not hold, `compiled`, a pass by a primitive, and its `parts`.
Must not: choose who computes.
Read next: ``../explicit.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.kernels import color
from pellucid.kernels.explicit import Primitive, run
from pellucid.kernels.softened import blurred
from pellucid.kernels.warp.dtypes import compute_dtype, rounded, to_colors
from pellucid.kernels.warp.packing import Recipe, Resample

__all__ = ["between_stages", "blurred_colors", "compiled", "parts"]


def between_stages(
    function: Callable[[Tensor, Resample], Tensor], image: Shaped[Tensor, "b c h w"], resample: Resample
) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Run prologue, pass and epilogue, with all numbers in the dtype in which everything is computed."""
    recipe, computed = resample.recipe, compute_dtype(image, resample.mapping)
    resample = resample.to(computed)
    if resample.prologue:
        image = color.stages(to_colors(image, computed, levels=recipe.levels), resample.prologue)
    if not resample.epilogue:
        return function(image, resample)
    # What follows must see the result unrounded.
    found = function(image, resample.returning(None if recipe.dtype is None else computed))
    return rounded(color.stages(found, resample.epilogue), recipe.dtype, levels=recipe.levels)


def blurred_colors(image: Shaped[Tensor, "b c h w"], sigma: Tensor, recipe: Recipe) -> Tensor:
    """The source of a pass, blurred."""
    dtype = torch.promote_types(image.dtype, torch.float32) if image.is_floating_point() else torch.float32
    return blurred(to_colors(image, dtype, levels=recipe.levels), sigma)


def compiled(primitive: Primitive, image: Shaped[Tensor, "b c h w"], resample: Resample, *, moves: bool = True) -> Tensor:
    """The pass by softened operators; ``moves``: whether they take a displacement field, canvases and weights."""
    recipe, tensors = resample.recipe, parts(image, resample, moves=moves)
    if recipe.dtype == torch.uint8:  # which has no derivative
        tensors = tuple(None if tensor is None else tensor.detach() for tensor in tensors)
    return run(primitive, (recipe,), *tensors)


def parts(image: Tensor, resample: Resample, *, moves: bool = True) -> tuple[Tensor | None, ...]:
    """The pass's tensors as softened operators take them; there is nothing to learn of how the slopes are blurred."""
    slopes = None if resample.slopes is None else resample.slopes.detach()
    further = (resample.field, resample.links, resample.table) if moves else ()
    return (image, resample.mapping, resample.window, resample.params, *further, slopes)

"""What is the same around every pass, whoever computes it and whatever it is.

Owns: `between_stages`, the stages that the pass itself does not hold, and `compiled`, a pass by a compiled primitive.
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
from pellucid.kernels.warp.dtypes import compute_dtype, rounded, to_colors
from pellucid.kernels.warp.packing import Resample

__all__ = ["between_stages", "compiled"]


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


def compiled(primitive: Primitive, image: Shaped[Tensor, "b c h w"], resample: Resample, *, moves: bool = True) -> Tensor:
    """The pass by compiled operators; ``moves``: whether they take a displacement field and canvases."""
    recipe, *tensors = resample[:6]
    tensors = [image, *(tensors if moves else tensors[:3])]
    if recipe.dtype == torch.uint8:  # which has no derivative
        tensors = [None if tensor is None else tensor.detach() for tensor in tensors]
    return run(primitive, (recipe,), *tensors)

"""The steps around every pass, which all implementations of warp and resize share.

Owns: `between_stages`, the stages that the pass itself does not hold, `compiled`, a pass by a primitive, and its `parts`; and
`mixed_after`, for more channels than Triton's kernels mix.
Must not: choose who computes.
Read next: ``../explicit.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.core.tape import is_plain_eager
from pellucid.kernels import color
from pellucid.kernels.explicit import run
from pellucid.kernels.primitive import Primitive
from pellucid.kernels.several import Pictures
from pellucid.kernels.softened import blurred
from pellucid.kernels.stages.chain import FIRST_MIX, blends_channels
from pellucid.kernels.warp.dtypes import compute_dtype, rounded, to_colors
from pellucid.kernels.warp.packing import Recipe, Resample, unpack
from pellucid.segments.chain import Stage

__all__ = [
    *("Stages", "between_stages", "blurred_colors", "by_torch", "compiled", "mixed_after", "mixes_many"),
    *("parts", "takes_pictures"),
]

Stages: TypeAlias = Callable[[Tensor, Sequence[Stage], torch.dtype, bool], Tensor]
"""Runs stages one after the other: the image, the stages, the dtype of arithmetic and result, whether bytes are levels."""


def by_torch(image: Tensor, stages: Sequence[Stage], dtype: torch.dtype, levels: bool) -> Tensor:
    """Stages in plain PyTorch."""
    return color.stages(to_colors(image, dtype, levels=levels), stages)


def between_stages(
    function: Callable[[Any, Resample], Tensor],
    image: Shaped[Tensor, "b c h w"] | Pictures,
    resample: Resample,
    stages: Stages = by_torch,
) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Run prologue, pass and epilogue, with all numbers in the dtype of the computation; ``stages`` runs the first and the last."""
    recipe, computed = resample.recipe, compute_dtype(image, resample.mapping)
    resample = resample.to(computed)
    if resample.prologue:
        before = partial(_before, stages, computed, recipe.levels)
        image = before(image, resample.prologue) if isinstance(image, Tensor) else image.each(before, resample.prologue)
    if not resample.epilogue:
        return function(image, resample)
    # The epilogue must see the result unrounded.
    found = function(image, resample.returning(None if recipe.dtype is None else computed))
    return rounded(stages(found, resample.epilogue, found.dtype, recipe.levels), recipe.dtype, levels=recipe.levels)


def _before(stages: Stages, dtype: torch.dtype, levels: bool, image: Tensor, prologue: Sequence[Stage]) -> Tensor:
    return stages(image, prologue, dtype, levels)


def blurred_colors(image: Shaped[Tensor, "b c h w"], sigma: Tensor, recipe: Recipe) -> Tensor:
    """The source of a pass, blurred."""
    dtype = torch.promote_types(image.dtype, torch.float32) if image.is_floating_point() else torch.float32
    return blurred(to_colors(image, dtype, levels=recipe.levels), sigma)


def compiled(
    primitive: Primitive, image: Shaped[Tensor, "b c h w"] | Pictures, resample: Resample, *, moves: bool = True
) -> Tensor:
    """Run the pass by softened operators; ``moves``: whether they take a displacement field, canvases and weights."""
    recipe, tensors = resample.recipe, parts(resample, moves=moves)
    if recipe.dtype == torch.uint8:  # bytes have no derivative
        image, tensors = image.detach(), tuple(None if tensor is None else tensor.detach() for tensor in tensors)
    return run(primitive, (recipe,), image, *tensors)


def takes_pictures(chosen: str, resample: Resample) -> bool:
    """Whether passes of this implementation take pictures of several sizes in place of a batch."""
    return chosen == "cpu" and resample.slopes is None and is_plain_eager()


def mixes_many(image: Tensor | Pictures, resample: Resample) -> bool:
    """Whether a pass mixes more channels than Triton's kernels do."""
    recipe = resample.recipe
    return max(image.shape[1], recipe.out_channels) > _MOST_MIXED and blends_channels(recipe.flags)


def mixed_after(
    function: Callable[[Tensor, Resample], Tensor], image: Shaped[Tensor, "b c h w"], resample: Resample
) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Colour the result: matrix @ s + offset * c + fill * (1 - c) with s and c resampled by ``function``, then the stages."""
    recipe, plain = resample.recipe, resample.without_colors()
    fill, matrix, offset, stages, _ = unpack(resample, image.shape[1])
    total = function(image, plain).flatten(2)
    covered = total.new_ones(())
    if offset is not None or fill is not None:  # coverage is a black picture with offset 1 and fill 0
        shown = plain.recipe._replace(flags=plain.recipe.flags | FIRST_MIX, out_channels=1)
        black = total.new_zeros(()).expand(image.shape[0], 1, *image.shape[2:])
        one = constant((1.0, 0.0), total.dtype, total.device)[None]
        covered = function(black, plain._replace(recipe=shown, params=one)).flatten(2)
    out = color.stages(color.compose(total, covered, fill, matrix, offset).unflatten(-1, recipe.size), stages)
    return rounded(out, recipe.dtype, levels=recipe.levels)


_MOST_MIXED = 4


def parts(resample: Resample, *, moves: bool = True) -> tuple[Tensor | None, ...]:
    """The pass's tensors after the image, as softened operators take them; how slopes are blurred gets no gradient."""
    slopes = None if resample.slopes is None else resample.slopes.detach()
    further = (resample.field, resample.links, resample.table) if moves else ()
    return (resample.mapping, resample.window, resample.params, *further, slopes)

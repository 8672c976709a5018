"""Nearest warps with a gradient to the map: whole pixels forward, the slope between pixels backward.

Owns: `nearest`; `read`, which calls it wherever a map may have a gradient.
Must not: change a value.
Read next: ``warp/__init__.py``.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Shaped
from torch import Tensor

from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.several import Pictures
from pellucid.kernels.warp import Resample, warp
from pellucid.kernels.warp.dtypes import compute_dtype, rounded
from pellucid.segments.chain import Stage

__all__ = ["nearest", "read"]


def nearest(image: Shaped[Tensor, "b c h w"] | Pictures, resample: Resample, *, impl: str = "auto") -> Shaped[Tensor, "b c h2 w2"]:
    """Warp with nearest interpolation; arguments as in the warp kernel.

    A nearest warp jumps from one input pixel to the next, so its derivative to the map is zero wherever it exists. The slope of
    the bilinear interpolation is the secant of those jumps, over half a pixel to either side.

    Gradient:
        image, fill, matrix, offset, epilogue: exact. src_from_dst: surrogate (secant over one pixel).
    """
    recipe = resample.recipe
    if not needs_grad(resample.mapping, resample.field, resample.links, resample.table):
        return warp(image, resample, impl=impl)
    if recipe.dtype is not None:
        resample = resample.returning(compute_dtype(image, resample.mapping))
    still = resample._replace(
        recipe=resample.recipe._replace(interpolation="bilinear"),
        params=resample.params.detach(),
        prologue=tuple(map(_still, resample.prologue)),
        epilogue=tuple(map(_still, resample.epilogue)),
    )
    soft = warp(image.detach(), still, impl=impl)
    return rounded(warp(image, resample, impl=impl) + (soft - soft.detach()), recipe.dtype, levels=recipe.levels)


def _still(stage: Stage) -> Stage:
    parts: list[Any] = [part.detach() if isinstance(part, Tensor) else part for part in stage]
    return type(stage)(*parts)


def read(image: Shaped[Tensor, "b c h w"], resample: Resample, *, impl: str = "auto") -> Shaped[Tensor, "b c h2 w2"]:
    """Warp an image; a nearest warp of floating-point numbers goes through `nearest`, which adds the gradient to the map."""
    hard = resample.recipe.interpolation == "nearest" and image.is_floating_point()
    return (nearest if hard else warp)(image, resample, impl=impl)

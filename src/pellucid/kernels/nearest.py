"""Nearest warps with a gradient to the map: whole pixels forward, the slope between pixels backward.

Owns: `nearest`.
Must not: change a value.
Read next: ``warp/__init__.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.warp import warp
from pellucid.segments.chain import AffineStage, HueStage, Stage

__all__ = ["nearest"]


def nearest(
    image: Float[Tensor, "b c h w"],
    src_from_dst: Float[Tensor, "..."],
    *,
    fill: Tensor | None,
    matrix: Tensor | None,
    offset: Tensor | None,
    epilogue: Sequence[Stage],
    **options: Any,
) -> Float[Tensor, "b c h2 w2"]:
    """Warp with nearest interpolation; arguments as in the warp kernel.

    A pixel that a nearest warp shows jumps by a whole pixel at a time, so its derivative to the map is zero wherever it exists.
    The slope of the bilinear interpolation is the secant of those jumps, over half a pixel to either side.

    Gradient:
        image, fill, matrix, offset, epilogue: exact. src_from_dst: surrogate (secant over one pixel).
    """
    colors: dict[str, Any] = {"fill": fill, "matrix": matrix, "offset": offset}
    hard = warp(image, src_from_dst, interpolation="nearest", epilogue=epilogue, **colors, **options)
    if not needs_grad(src_from_dst, options.get("field")):
        return hard
    still: dict[str, Any] = {name: None if value is None else value.detach() for name, value in colors.items()}
    soft = warp(
        image.detach(), src_from_dst, interpolation="bilinear", epilogue=[_still(stage) for stage in epilogue], **still, **options
    )
    return hard + (soft - soft.detach())


def _still(stage: Stage) -> Stage:
    if isinstance(stage, AffineStage):
        return AffineStage(stage.matrix.detach(), None if stage.offset is None else stage.offset.detach())
    return HueStage(stage.hue_shift.detach()) if isinstance(stage, HueStage) else stage

"""The fused resample in plain PyTorch: the specification every faster implementation must meet.

Owns: gathering, coverage, fill and the colour map of one pass over the image.
Must not: know where the matrices come from.
Read next: ``footprint.py``.
"""

from __future__ import annotations

from functools import reduce

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from pellucid.kernels.color import compose, stages
from pellucid.kernels.warp.chain import coordinates, follow, laid_over
from pellucid.kernels.warp.dtypes import as_before, as_signed, compute_dtype, rounded, to_colors
from pellucid.kernels.warp.footprint import gather_stretched, gather_table
from pellucid.kernels.warp.packing import Recipe, Resample, unpack
from pellucid.kernels.warp.taps import FILLED_MODES, Tap, axis_taps

__all__ = ["warp"]


def warp(image: Shaped[Tensor, "b c h w"], resample: Resample) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Resample through a homography and a displacement field and apply a colour map, reading and interpolating once.

    With s the interpolated colour over in-image taps and c their total weight (the coverage), the result is
    ``matrix @ s + offset * c + fill * (1 - c)``: colour map and resampling commute exactly, and fill is mixed once.

    Args:
        image: floating point; integer dtypes are accepted for ``nearest`` without colour map.
        resample: see :func:`pellucid.kernels.warp.packing.pack`; its prologue and epilogue are not run here.

    Gradient:
        image, matrix, offset, fill: exact. src_from_dst, field, window, table: almost everywhere (``nearest``: none).
            epilogue: as its stages. Twice differentiable. None where ``dtype`` is uint8.
    Source:
        ``scipy.ndimage.map_coordinates`` (modes grid-constant, nearest, reflect, mirror, grid-wrap) to 1e-12 in float64.
    """
    recipe, mapping, window, _, field, links, table, *_ = resample
    fill, matrix, offset, epilogue, grounds = unpack(resample, image.shape[1])
    if recipe.dtype is not None or image.dtype.is_floating_point:
        image = to_colors(image, compute_dtype(image, mapping), levels=recipe.levels)
    src_from_dst = mapping.unflatten(1, (-1, 3))
    chained = None if links is None else follow(src_from_dst, links, grounds, recipe.canvases, recipe.size, table)
    x, y = coordinates(src_from_dst, recipe.size) if chained is None else (chained.x, chained.y)
    if field is not None:
        x, y = x + field[:, 0], y + field[:, 1]
    if recipe.footprint is None:
        total, covered = _read(image, x, y, recipe, window)
    else:
        assert table is not None
        assert window is None
        assert links is None
        total, covered = _footprints(image, x, y, table, recipe)
    if total.dtype.is_floating_point:
        total = compose(total, covered[:, None], fill, matrix, offset)
    else:
        total = torch.where(covered[:, None], total, total.new_zeros(()) if fill is None else fill[:, :, None].to(total.dtype))
    warped = total.unflatten(-1, recipe.size)
    if chained is not None:
        warped = laid_over(warped, chained.share, chained.ground)
    return rounded(stages(warped, epilogue), recipe.dtype, levels=recipe.levels)


def _read(
    image: Tensor, x: Tensor, y: Tensor, recipe: Recipe, window: Tensor | None
) -> tuple[Float[Tensor, "b c n"], Shaped[Tensor, "#b n"]]:
    """The weighted sums of the pixels around points, and their total weight inside of the image."""
    (height, width), padding_mode = image.shape[-2:], recipe.padding_mode
    usable = torch.isfinite(x) & torch.isfinite(y)  # b h2 w2
    x, y = torch.where(usable, x, 0.0), torch.where(usable, y, 0.0)
    if window is not None:
        (x, in_x), (y, in_y) = _clamp(x, window[:, 0], window[:, 2]), _clamp(y, window[:, 1], window[:, 3])
        if padding_mode in FILLED_MODES:
            usable = usable & in_x & in_y
        padding_mode = "border"
    x_taps = axis_taps(x, width, recipe.interpolation, padding_mode)
    y_taps = axis_taps(y, height, recipe.interpolation, padding_mode)
    total = _gather(image, x_taps, y_taps)  # b c h2*w2
    covered = _coverage(x_taps, y_taps, usable, total.dtype).flatten(-2)  # b n
    return torch.where(usable.flatten(-2)[:, None], total, 0.0) if total.dtype.is_floating_point else total, covered


def _footprints(
    image: Tensor, x: Tensor, y: Tensor, table: Tensor, recipe: Recipe
) -> tuple[Float[Tensor, "b c n"], Float[Tensor, "b n"]]:
    """As :func:`_read`, with the sums over all pixels that each output pixel spans."""
    bound, padding_mode = recipe.footprint, recipe.padding_mode
    assert bound is not None
    usable = torch.isfinite(x) & torch.isfinite(y)  # b h2 w2
    x, y = torch.where(usable, x, 0.0), torch.where(usable, y, 0.0)
    if table.ndim == 3:
        total, covered = gather_stretched(image, x, y, table, bound, recipe.interpolation, padding_mode)
    else:
        total, covered = gather_table(image, x, y, table, padding_mode)
    usable = usable.flatten(1)
    return torch.where(usable[:, None], total, 0.0), torch.where(usable, covered, 0.0)


def _clamp(x: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Bool[Tensor, "b h2 w2"]]:
    """Clamp coordinates to [low, high], and say which were within half a pixel of it."""
    low, high = low[:, None, None], high[:, None, None]
    inside = (x >= low - 0.5) & (x < high + 0.5)
    return torch.minimum(torch.maximum(x, low), high), inside


def _gather(image: Tensor, x_taps: list[Tap], y_taps: list[Tap]) -> Tensor:
    """Weighted sum over the taps' outer product: b c n."""
    batch, channels, height, width = image.shape
    del height
    flat = as_signed(image).flatten(2)  # b c h*w
    total: Tensor | None = None
    for y_tap in y_taps:
        row = y_tap.position * width
        for x_tap in x_taps:
            index = (row + x_tap.position).flatten(-2)[:, None].expand(batch, channels, -1)
            value = torch.gather(flat, 2, index)
            if x_tap.weight is not None and y_tap.weight is not None:
                value = value * (x_tap.weight * y_tap.weight).flatten(-2)[:, None]
            elif image.dtype.is_floating_point and x_tap.inside is not None and y_tap.inside is not None:
                value = torch.where((x_tap.inside & y_tap.inside).flatten(-2)[:, None], value, 0.0)
            total = value if total is None else total + value
    assert total is not None
    return as_before(total, image.dtype) if not image.dtype.is_floating_point else total


def _coverage(x_taps: list[Tap], y_taps: list[Tap], usable: Tensor, dtype: torch.dtype) -> Tensor:
    """The total weight of in-image taps, those of nearest as they are: b h2 w2 (bool for integer images)."""
    if not dtype.is_floating_point:
        for tap in (x_taps[0], y_taps[0]):
            usable = usable if tap.inside is None else usable & tap.inside
        return usable
    cover: Tensor = usable.to(dtype)
    for taps in (x_taps, y_taps):
        if taps[0].inside is not None:
            parts = [tap.inside if tap.weight is None else tap.weight for tap in taps]
            cover = cover * reduce(torch.add, [part for part in parts if part is not None])
    return cover

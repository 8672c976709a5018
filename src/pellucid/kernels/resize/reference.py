"""Antialiased crop and resize in plain PyTorch: two small weight matrices per sample.

Owns: axis-aligned resampling with a tent as wide as the footprint, weights normalised inside a window.
Must not: handle rotation (that is ``../warp``).
Read next: ``../color/reference.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.constants import full_precision
from pellucid.kernels.color import compose, stages
from pellucid.kernels.stages.chain import is_sharp
from pellucid.kernels.warp.dtypes import compute_dtype, rounded, to_colors
from pellucid.kernels.warp.packing import Resample, unpack
from pellucid.kernels.warp.taps import FILLED_MODES, tent

__all__ = ["resize"]


def resize(image: Shaped[Tensor, "b c h w"], resample: Resample) -> Shaped[Tensor, "b c2 h2 w2"]:
    """Resample along the axes, each output pixel a tent over its whole footprint in the input.

    Args:
        image: floating point, or uint8 with a dtype for the result.
        resample: see :func:`pellucid.kernels.warp.packing.pack`; its prologue and epilogue are not run here. The map is a scaling
            (possibly mirrored) and a shift per axis; other entries are not read. The window is required, and holds the pixel
            centres of the crop's corner pixels: pixels outside take no part, those cut by its edge take part by their share, and
            the weights are normalised inside. Output pixels more than half a pixel outside of it show the fill in the modes that
            fill, else the window's border. Where the map is not finite, only the fill shows. Interpolation
            is ``bilinear`` (a tent) or ``bicubic`` (Keys, a = -0.5).

    Gradient:
        image, matrix, offset, fill: exact. src_from_dst, window: almost everywhere. epilogue: as its stages.
    Source:
        ``PIL.Image.resize`` (BILINEAR, BICUBIC), and but for outputs of one pixel
        ``torch.nn.functional.interpolate(..., antialias=True)``, for whole-pixel windows.
    """
    recipe, mapping, window, *_ = resample
    assert window is not None
    fill, matrix, offset, epilogue, _ = unpack(resample, image.shape[1])
    image = to_colors(image, compute_dtype(image, mapping), levels=recipe.levels)
    kernel, filled = tent if recipe.interpolation == "bilinear" else keys, recipe.padding_mode in FILLED_MODES
    axes = []
    for axis in (0, 1):
        row, length, out = mapping[:, 3 * axis : 3 * axis + 3], image.shape[3 - axis], recipe.size[1 - axis]
        axes.append(_axis(kernel, row, axis, window[:, axis::2], length, out, filled, not is_sharp(recipe.flags)))
    (columns, in_x), (rows, in_y) = axes
    with full_precision(image.device):  # positions and weights need all their bits
        total = rows[:, None] @ image @ columns.mT[:, None]  # b c h2 w2
    seen = (in_y[:, :, None] & in_x[:, None, :])[:, None]  # b 1 h2 w2
    total, covered = torch.where(seen, total, 0.0), seen.to(total.dtype)
    found = compose(total.flatten(2), covered.flatten(2), fill, matrix, offset).unflatten(-1, recipe.size)
    return rounded(stages(found, epilogue), recipe.dtype, levels=recipe.levels)


def keys(t: Tensor) -> Tensor:
    """The cubic convolution kernel with a = -0.5 (Keys 1981), zero from 2 on."""
    t = t.abs()
    inner = 1.0 + t * t * (1.5 * t - 2.5)
    outer = 2.0 + t * (-4.0 + t * (2.5 - 0.5 * t))
    return torch.where(t < 1.0, inner, torch.where(t < 2.0, outer, 0.0))


def _axis(
    kernel: Callable[[Tensor], Tensor],
    row: Float[Tensor, "b 3"],
    axis: int,
    ends: Float[Tensor, "#b 2"],
    length: int,
    out: int,
    filled: bool,
    antialias: bool,
) -> tuple[Tensor, Tensor]:
    """Weights (b, out, length) of one axis, and which outputs see something (b, out)."""
    scale, shift, low, high = row[:, axis, None], row[:, 2, None], ends[:, :1], ends[:, 1:]  # b 1
    u = torch.arange(out, dtype=scale.dtype, device=scale.device)
    finite = torch.isfinite(scale * u + shift) & ~(torch.isnan(low) | torch.isnan(high))  # b out
    scale = torch.where(torch.isfinite(scale), scale, 1.0)
    centre = torch.where(finite, scale * u + shift, 0.0)
    low, high = torch.where(torch.isnan(low), 0.0, low), torch.where(torch.isnan(high), 0.0, high)
    inside = (centre >= low - 0.5) & (centre < high + 0.5)
    centre = torch.minimum(torch.maximum(centre, low - 0.5), high + 0.5)
    pixel = torch.arange(length, dtype=scale.dtype, device=scale.device)
    width = (scale.abs().clamp(min=1.0) if antialias else torch.ones_like(scale))[:, :, None]
    share = torch.relu(torch.minimum(pixel + 0.5, high + 0.5) - torch.maximum(pixel - 0.5, low - 0.5))  # b length
    weights = kernel((pixel - centre[:, :, None]) / width) * share[:, None]  # b out length
    total = weights.sum(-1, keepdim=True)
    empty = (total <= 0) | ~finite[:, :, None]
    return torch.where(empty, 0.0, weights / torch.where(empty, 1.0, total)), finite & inside if filled else finite

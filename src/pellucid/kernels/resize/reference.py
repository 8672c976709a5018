"""Antialiased crop and resize in plain PyTorch: two small weight matrices per sample.

Owns: axis-aligned resampling with a tent as wide as the footprint, weights normalised inside a window.
Must not: handle rotation (that is ``../warp``).
Read next: ``../color/reference.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.color import compose, stages
from pellucid.kernels.warp.prefilter import tent
from pellucid.segments.chain import Stage
from pellucid.types import Size

__all__ = ["resize"]


def resize(
    image: Float[Tensor, "b c h w"],
    src_from_dst: Float[Tensor, "#b rows 3"],
    *,
    size: Size,
    window: Float[Tensor, "#b 4"],
    filled: bool,
    interpolation: str = "bilinear",
    antialias: bool = True,
    fill: Float[Tensor, "#b c2"] | None = None,
    matrix: Float[Tensor, "#b c2 c"] | None = None,
    offset: Float[Tensor, "#b c2"] | None = None,
    epilogue: Sequence[Stage] = (),
) -> Float[Tensor, "b c2 h2 w2"]:
    """Resample along the axes, each output pixel a tent over its whole footprint in the input.

    Args:
        image: floating point.
        src_from_dst: a scaling (possibly mirrored) and a shift per axis; other entries are not read.
        size: (height, width) of the output.
        window: (x0, y0, x1, y1), pixel centres of the crop's corner pixels; pixels outside take no part, those cut by its
            edge take part by their share, and the weights are normalised inside.
        interpolation: ``bilinear`` (a tent) or ``bicubic`` (Keys, a = -0.5).
        antialias: stretch it to the footprint where that is more than a pixel.
        filled: whether output pixels more than half a pixel outside the window show ``fill``, or the window's border. Where the
            map is not finite there is nothing to show but ``fill``.
        fill, matrix, offset, epilogue: as in :func:`pellucid.kernels.warp.reference.warp`.

    Gradient:
        image, matrix, offset, fill: exact. src_from_dst, window: almost everywhere. epilogue: as its stages.
    Source:
        ``PIL.Image.resize`` (BILINEAR, BICUBIC), and but for outputs of one pixel
        ``torch.nn.functional.interpolate(..., antialias=True)``, for whole-pixel windows.
    """
    kernel = tent if interpolation == "bilinear" else keys
    columns, in_x = _axis(kernel, src_from_dst[:, 0], 0, window[:, 0::2], image.shape[-1], size[1], filled, antialias)
    rows, in_y = _axis(kernel, src_from_dst[:, 1], 1, window[:, 1::2], image.shape[-2], size[0], filled, antialias)
    with torch.autocast(image.device.type, enabled=False):  # positions and weights need all their bits
        total = rows[:, None] @ image @ columns.mT[:, None]  # b c h2 w2
    seen = (in_y[:, :, None] & in_x[:, None, :])[:, None]  # b 1 h2 w2
    total, covered = torch.where(seen, total, 0.0), seen.to(total.dtype)
    out = compose(total.flatten(2), covered.flatten(2), fill, matrix, offset).unflatten(-1, size)
    return stages(out, epilogue)


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
    ends: Float[Tensor, "b 2"],
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

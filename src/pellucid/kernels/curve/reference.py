"""Tone curves in plain PyTorch.

Owns: the two curves that read the histogram; pointwise curves are in ``../../color/curves.py``.
Must not: mix channels, or invent gradients where an operation has none (``surrogate.py`` does).
Read next: ``surrogate.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pellucid.color.curves import power

__all__ = ["autocontrast", "equalize", "flattening", "power", "stretch"]


def autocontrast(image: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """Stretch each channel so that its darkest pixel is 0 and its brightest 1; a flat channel stays as it is.

    Gradient:
        image: almost everywhere, through both extremes (shared equally by tied pixels).
    Source:
        ``torchvision.transforms.v2.functional.autocontrast``.
    """
    return stretch(image, image.amin((-2, -1), keepdim=True), image.amax((-2, -1), keepdim=True))


def stretch(image: Float[Tensor, "*shape"], low: Float[Tensor, "#b #c 1 1"], high: Float[Tensor, "#b #c 1 1"]) -> Tensor:
    """Send ``low`` to 0 and ``high`` to 1, where they differ."""
    flat = high == low
    span = torch.where(flat, 1.0, high - low)
    return torch.where(flat, image, (image - low) / span)


def equalize(image: Float[Tensor, "b c h w"], scale: float) -> tuple[Float[Tensor, "b c h w"], Float[Tensor, "b c h w"]]:
    """Flatten the histogram of each channel, in 256 grey levels.

    A channel with fewer than 255 pixels below its brightest level stays as it is.

    Args:
        image: in [0, 1].
        scale: 255 for images that came as 8 bits (levels are rounded to), 1 for others (levels are cut off at).

    Returns:
        The equalised image, and the slope of the curve at each pixel, over one level to either side.

    Gradient:
        none: a staircase, of the pixel and of the histogram.
    Source:
        ``torchvision.transforms.v2.functional.equalize``, which follows Pillow.
    """
    level = torch.floor(image * 255.999) if scale == 1.0 else torch.floor(image * scale + 0.5)
    index = torch.clamp(torch.nan_to_num(level), 0.0, 255.0).to(torch.int64).flatten(2)  # b c n
    empty = torch.zeros((*index.shape[:2], 256), dtype=torch.int64, device=image.device)
    curve, stays = flattening(empty.scatter_add(2, index, empty.new_ones(()).expand_as(index)))
    curve, stays = curve.to(image.dtype), stays[..., None]
    rise = torch.cat((curve[..., 1:], curve[..., -1:]), 2) - torch.cat((curve[..., :1], curve[..., :-1]), 2)
    toned = curve.gather(2, index).unflatten(2, image.shape[2:]) / 255.0
    slope = rise.gather(2, index).unflatten(2, image.shape[2:]) / 2.0
    return torch.where(stays, image, toned), torch.where(stays, 1.0, slope)


def flattening(histogram: Int64[Tensor, "b c 256"]) -> tuple[Int64[Tensor, "b c 256"], Bool[Tensor, "b c 1"]]:
    """For each channel the grey level that every level becomes, and whether the channel stays as it is."""
    below = histogram.cumsum(2)
    level = torch.arange(256, device=histogram.device)
    brightest = histogram.gather(2, torch.where(histogram > 0, level, 0).amax(2, keepdim=True))
    step = torch.div(below[..., -1:] - brightest, 255, rounding_mode="floor")  # b c 1
    curve = torch.div(below + torch.div(step, 2, rounding_mode="floor"), step.clamp(min=1), rounding_mode="floor").clamp(0, 255)
    return torch.cat((torch.zeros_like(curve[..., :1]), curve[..., :-1]), 2), step == 0

"""Conversions between ways to write a colour.

Owns: `rgb_to_grayscale`, `rgb_to_hsv`, `hsv_to_rgb`, `invert`, `normalize`, `denormalize`, `to_dtype`.
Must not: clip.
Read next: ``filters.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.color import hsv
from pellucid.color.maps import channel_weights
from pellucid.errors import invalid
from pellucid.functional.fills import FillValue, read_channels
from pellucid.functional.images import (
    Layout,
    close_image,
    close_unit,
    compute_dtype,
    join_batch,
    open_image,
    open_unit,
    require_channels,
    require_float,
    to_compute,
)
from pellucid.types import FLOATING

__all__ = ["denormalize", "hsv_to_rgb", "invert", "normalize", "rgb_to_grayscale", "rgb_to_hsv", "to_dtype"]


def rgb_to_grayscale(image: Shaped[Tensor, "*b 3 h w"], *, num_output_channels: int = 1) -> Shaped[Tensor, "*b c2 h w"]:
    """Reduce RGB to its luma, 0.299 R + 0.587 G + 0.114 B.

    Args:
        image: (3, H, W) or (B, 3, H, W), floating point or uint8; a single channel is grey already.
        num_output_channels: 1, or 3 for three equal channels.

    Source:
        ITU-R BT.601; ``cv2.cvtColor(..., COLOR_RGB2GRAY)``. (torchvision rounds the first weight to 0.2989.)

    Example:
        >>> rgb_to_grayscale(torch.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1))
        tensor([[[0.2990]]])
    """
    if num_output_channels not in (1, 3):
        raise invalid("num_output_channels", expected="1 or 3", got=num_output_channels)
    pixels, layout = open_image(image)
    require_channels(pixels, (3, 1), "RGB or grey")
    work = open_unit(pixels)
    weights = channel_weights(work.shape[1], work.dtype, work.device)
    grey = (work * weights[:, None, None]).sum(1, keepdim=True)
    return close_unit(grey.repeat(1, num_output_channels, 1, 1), layout)


def rgb_to_hsv(image: Float[Tensor, "*b 3 h w"]) -> Float[Tensor, "*b 3 h w"]:
    """Convert RGB to hue (turns in [0, 1)), saturation and value.

    Args:
        image: (3, H, W) or (B, 3, H, W), floating point.

    Returns:
        Hue, saturation and value in the three channels.

    Gradient:
        image: almost everywhere; finite at grey and black.

    Source:
        ``colorsys.rgb_to_hsv``.

    Example:
        >>> rgb_to_hsv(torch.tensor([0.0, 0.5, 0.0]).reshape(3, 1, 1)).flatten()
        tensor([0.3333, 1.0000, 0.5000])
    """
    require_float(image, "hue is a part of a turn")
    pixels, layout = open_image(image)
    require_channels(pixels, (3,), "RGB")
    return close_image(hsv.rgb_to_hsv(to_compute(pixels)), layout)


def hsv_to_rgb(image: Float[Tensor, "*b 3 h w"]) -> Float[Tensor, "*b 3 h w"]:
    """Convert hue (turns), saturation and value to RGB; the inverse of `rgb_to_hsv`.

    Args:
        image: (3, H, W) or (B, 3, H, W), floating point; any hue, of which only the fraction counts.

    Returns:
        Red, green and blue in the three channels.

    Gradient:
        image: almost everywhere.

    Source:
        ``colorsys.hsv_to_rgb``.

    Example:
        >>> hsv_to_rgb(torch.tensor([0.5, 1.0, 0.5]).reshape(3, 1, 1)).flatten()
        tensor([0.0000, 0.5000, 0.5000])
    """
    require_float(image, "hue is a part of a turn")
    pixels, layout = open_image(image)
    require_channels(pixels, (3,), "hue, saturation, value")
    return close_image(hsv.hsv_to_rgb(to_compute(pixels)), layout)


def invert(image: Shaped[Tensor, "*b c h w"]) -> Shaped[Tensor, "*b c h w"]:
    """Replace x by 1 - x, or by 255 - x for 8-bit images.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.

    Source:
        ``torchvision.transforms.v2.functional.invert``.

    Example:
        >>> invert(torch.tensor([[[0, 55, 255]]], dtype=torch.uint8))
        tensor([[[255, 200,   0]]], dtype=torch.uint8)
    """
    pixels, layout = open_image(image)
    if pixels.dtype == torch.uint8:
        return close_image(255 - pixels, layout)
    return close_image(1.0 - to_compute(pixels), layout)


def normalize(image: Float[Tensor, "*b c h w"], mean: FillValue, std: FillValue) -> Float[Tensor, "*b c h w"]:
    """(image - mean) / std, per channel.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point.
        mean: a number, one per channel, or a tensor (), (C,) or (B, C).
        std: likewise, greater than 0.

    Source:
        ``torchvision.transforms.v2.functional.normalize``.

    Example:
        >>> normalize(torch.tensor([[[0.5, 1.0]]]), mean=0.5, std=0.25)
        tensor([[[0., 2.]]])
    """
    require_float(image, "statistics are in [0, 1] units")
    pixels, layout = open_image(image)
    pixels, layout, shift, scale = _statistics(pixels, layout, mean, std)
    return close_image((to_compute(pixels) - shift) / scale, layout)


def denormalize(image: Float[Tensor, "*b c h w"], mean: FillValue, std: FillValue) -> Float[Tensor, "*b c h w"]:
    """Image * std + mean, per channel: undo `normalize`.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point.
        mean: the one that `normalize` got.
        std: the one that `normalize` got.

    Source:
        `normalize`.

    Example:
        >>> denormalize(torch.tensor([[[0.0, 2.0]]]), mean=0.5, std=0.25)
        tensor([[[0.5000, 1.0000]]])
    """
    require_float(image, "statistics are in [0, 1] units")
    pixels, layout = open_image(image)
    pixels, layout, shift, scale = _statistics(pixels, layout, mean, std)
    return close_image(to_compute(pixels) * scale + shift, layout)


def to_dtype(
    image: Shaped[Tensor, "*b c h w"], dtype: torch.dtype = torch.float32, *, scale: bool = True
) -> Shaped[Tensor, "*b c h w"]:
    """Change the dtype of an image, and its range with it.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point, or uint8.
        dtype: floating point, or ``torch.uint8``.
        scale: True keeps white white: 255 as bytes, 1 as fractions. (torchvision's default is False.) False keeps the numbers.

    Returns:
        A new image; numbers that become bytes are clipped and rounded. (torchvision truncates 255.999 x, which differs by one
        level for every other fraction.)

    Gradient:
        image: exact between floating-point dtypes; none to or from bytes.

    Source:
        ``torchvision.transforms.v2.functional.to_dtype``, for bytes into fractions.

    Example:
        >>> to_dtype(torch.tensor([[[0.0, 0.5, 1.0]]]), torch.uint8)
        tensor([[[  0, 128, 255]]], dtype=torch.uint8)
    """
    if dtype not in (*FLOATING, torch.uint8):
        raise invalid("dtype", expected="torch.float32, float64, float16, bfloat16 or uint8", got=dtype)
    pixels, layout = open_image(image)
    work = to_compute(pixels).to(torch.promote_types(compute_dtype(pixels.dtype), compute_dtype(dtype)))
    before, after = (255.0 if one == torch.uint8 else 1.0 for one in (pixels.dtype, dtype))
    if scale and before != after:
        work = work * after / before
    return close_image(work * 1.0, layout._replace(dtype=dtype))


def _statistics(pixels: Tensor, layout: Layout, mean: FillValue, std: FillValue) -> tuple[Tensor, Layout, Tensor, Tensor]:
    numbers = [std] if isinstance(std, int | float) else std
    if isinstance(numbers, list | tuple) and any(isinstance(number, int | float) and number <= 0 for number in numbers):
        raise invalid("std", expected="numbers > 0", got=std)
    values = []
    for name, statistic in (("mean", mean), ("std", std)):
        value, batched = read_channels(name, statistic, channels=pixels.shape[1], device=pixels.device)
        pixels, layout = join_batch(pixels, layout, name, value.shape[0], batched)
        values.append(value)
    shift, scale = (value.to(compute_dtype(pixels.dtype))[:, :, None, None] for value in values)
    return pixels, layout, shift, scale

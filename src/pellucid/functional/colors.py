"""Brightness, contrast, saturation, hue and gamma, as torchvision defines them, with gradients to the factors.

Owns: the ``adjust_*`` functions that act on single pixels, `shift_hsv`, `color_temperature`, `rgb_shift`, `channel_dropout`.
Must not: hold formulas of its own; the colour kernels do.
Read next: ``conversions.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.color.temperature import LIMITS, gains_of
from pellucid.core.formerly import formerly
from pellucid.errors import invalid
from pellucid.functional.fills import Factor, FillValue, read_fill
from pellucid.functional.images import close_image, close_unit, open_image, open_unit, open_with, require_channels
from pellucid.kernels import color, curve

__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation", "channel_dropout",
    "color_temperature", "rgb_shift", "shift_hsv",
]  # fmt: skip


def adjust_brightness(image: Shaped[Tensor, "*b c h w"], brightness_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Multiply by a factor, and clip.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        brightness_factor: >= 0; a number or a tensor () or (B,). 0 is black, 1 the image. One image and B factors give B results.

    Returns:
        The image, clipped to [0, 1]; 8-bit results are rounded (torchvision truncates them).

    Gradient:
        image, brightness_factor: almost everywhere (zero where clipped).

    Source:
        ``torchvision.transforms.v2.functional.adjust_brightness``.

    Example:
        >>> adjust_brightness(torch.tensor([[[0.2, 0.8]]]), 1.5)
        tensor([[[0.3000, 1.0000]]])
    """
    return _step(image, "brightness", brightness_factor)


def adjust_contrast(image: Shaped[Tensor, "*b c h w"], contrast_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Scale the difference from the image's mean luma by a factor, and clip.

    Args:
        image: as in `adjust_brightness`; the luma of other than three channels is their mean.
        contrast_factor: >= 0; a number or a tensor () or (B,). 0 is flat grey, 1 the image.

    Gradient:
        image (the mean included), contrast_factor: almost everywhere (zero where clipped).

    Source:
        ``torchvision.transforms.v2.functional.adjust_contrast``, with its luma weights.

    Example:
        >>> adjust_contrast(torch.tensor([[[0.2, 0.6]]]), 0.5)
        tensor([[[0.3000, 0.5000]]])
    """
    return _step(image, "contrast", contrast_factor)


def adjust_saturation(image: Shaped[Tensor, "*b c h w"], saturation_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Scale each pixel's difference from its grey by a factor, and clip.

    Args:
        image: as in `adjust_brightness`, three channels; one channel has no saturation and comes back as it is.
        saturation_factor: >= 0; a number or a tensor () or (B,). 0 is grey, 1 the image.

    Gradient:
        image, saturation_factor: almost everywhere (zero where clipped).

    Source:
        ``torchvision.transforms.v2.functional.adjust_saturation``, with its luma weights.

    Example:
        >>> adjust_saturation(torch.tensor([0.5, 0.5, 0.5]).reshape(3, 1, 1), 3.0).flatten()
        tensor([0.5001, 0.5001, 0.5001])
    """
    return _step(image, "saturation", saturation_factor)


def adjust_hue(image: Shaped[Tensor, "*b c h w"], hue_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Turn the hue circle by a part of a turn, and clip.

    Args:
        image: as in `adjust_brightness`, three channels; one channel has no hue and comes back as it is.
        hue_factor: turns, in [-0.5, 0.5]; a number or a tensor () or (B,).

    Gradient:
        image, hue_factor: almost everywhere; finite at grey, whose hue counts as 0 with no gradient of its own.

    Source:
        ``torchvision.transforms.v2.functional.adjust_hue``.

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)
        >>> adjust_hue(red, 0.5).flatten()
        tensor([0., 1., 1.])
    """
    if isinstance(hue_factor, int | float) and not -0.5 <= hue_factor <= 0.5:
        raise invalid("hue_factor", expected="turns in [-0.5, 0.5]", got=hue_factor, fix="180 degrees are 0.5.")
    return _step(image, "hue", hue_factor)


def adjust_gamma(image: Shaped[Tensor, "*b c h w"], gamma: Factor, *, gain: Factor = 1.0) -> Shaped[Tensor, "*b c h w"]:
    """Raise to a power and multiply, gain * image ** gamma, and clip.

    Args:
        image: as in `adjust_brightness`.
        gamma: >= 0; a number or a tensor () or (B,). Above 1 shadows get darker.
        gain: likewise.

    Gradient:
        image, gamma, gain: almost everywhere; 0 at black, where the true slope is infinite for gamma < 1.

    Source:
        ``torchvision.transforms.v2.functional.adjust_gamma``.

    Example:
        >>> adjust_gamma(torch.tensor([[[0.25, 1.0]]]), 0.5)
        tensor([[[0.5000, 1.0000]]])
    """
    pixels, layout, factors = open_with(image, {"gamma": (gamma, 0.0, inf), "gain": (gain, -inf, inf)})
    work = open_unit(pixels)
    exponent, scale = (factor.to(work.dtype) for factor in factors)
    return close_unit(curve.power(work, exponent, scale, clip=True), layout)


def _step(image: Tensor, name: str, value: Factor) -> Tensor:
    pixels, layout, (factor,) = open_with(image, {f"{name}_factor": (value, -0.5 if name == "hue" else 0.0, inf)})
    work = open_unit(pixels)
    if name in ("saturation", "hue"):
        require_channels(pixels, (3, 1), f"RGB, or a grey image, which has no {name}")
        if pixels.shape[1] == 1:
            return close_unit(work.clone(), layout)
    return close_unit(color.jitter_steps(work, None, {name: factor.to(work.dtype)}), layout)


@formerly("hue", "saturation", "value")
def shift_hsv(
    image: Shaped[Tensor, "*b 3 h w"], *, hue: Factor = 0.0, saturation: Factor = 0.0, value: Factor = 0.0
) -> Shaped[Tensor, "*b 3 h w"]:
    """Add to hue, saturation and value; the latter two are clipped. Grey stays grey.

    Args:
        image: (3, H, W) or (B, 3, H, W): floating point in [0, 1], or uint8.
        hue: in turns: a number or a tensor () or (B,).
        saturation, value: on a scale where 1 is the whole range, likewise.

    Returns:
        The image, in its own dtype; 8-bit results are rounded.

    Gradient:
        image, hue, saturation, value: almost everywhere; none to hue and saturation at exact grey.

    Source:
        ``colorsys``; albumentations' HueSaturationValue in other units.

    Example:
        >>> shift_hsv(torch.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1), hue=1 / 3).flatten()
        tensor([0., 1., 0.])
    """
    added = {"hue": hue, "saturation": saturation, "value": value}
    return _apply_to_rgb(image, {name: (number, -inf, inf) for name, number in added.items()}, color.shift_hsv)


def color_temperature(image: Shaped[Tensor, "*b 3 h w"], temperature: Factor) -> Shaped[Tensor, "*b 3 h w"]:
    """Change the colour of the light to that of a black body, and clip.

    Args:
        image: (3, H, W) or (B, 3, H, W): floating point in [0, 1], or uint8.
        temperature: in kelvin, 2000 to 25000: a number or a tensor () or (B,). Lower ones are warmer.

    Gradient:
        image, temperature: almost everywhere (zero where clipped).

    Source:
        See `PlanckianJitter`.

    Example:
        >>> red, green, blue = color_temperature(torch.full((3, 1, 1), 0.4), 3000.0).flatten().tolist()
        >>> red > green > blue
        True
    """

    def lit(pixels: Tensor, kelvin: Tensor) -> Tensor:
        return color.clip(pixels * gains_of(kelvin)[:, :, None, None])

    return _apply_to_rgb(image, {"temperature": (temperature, *LIMITS)}, lit)


@formerly("red", "green", "blue")
def rgb_shift(
    image: Shaped[Tensor, "*b 3 h w"], *, red: Factor = 0.0, green: Factor = 0.0, blue: Factor = 0.0, clip: bool = True
) -> Shaped[Tensor, "*b 3 h w"]:
    """Add a number of its own to each of the three channels.

    Args:
        image: (3, H, W) or (B, 3, H, W): floating point in [0, 1], or uint8.
        red, green, blue: in units of white for every dtype: a number or a tensor () or (B,).

    Returns:
        The image, in its own dtype; 8-bit results are rounded and clipped in any case.

    Gradient:
        image, red, green, blue: almost everywhere (zero where clipped); exact without ``clip``.

    Source:
        Its formula in numpy; albumentations' RGBShift.

    Example:
        >>> rgb_shift(torch.full((3, 1, 1), 0.25), red=0.5, blue=-0.5).flatten()
        tensor([0.7500, 0.2500, 0.0000])
    """

    def moved(pixels: Tensor, *numbers: Tensor) -> Tensor:
        shifted = pixels + torch.stack(numbers, -1)[:, :, None, None]
        return color.clip(shifted) if clip else shifted

    return _apply_to_rgb(image, {"red": (red, -inf, inf), "green": (green, -inf, inf), "blue": (blue, -inf, inf)}, moved)


def channel_dropout(
    image: Shaped[Tensor, "*b c h w"], channels: Sequence[int], *, fill: FillValue = 0.0
) -> Shaped[Tensor, "*b c h w"]:
    """Paint whole channels over.

    Args:
        image: (C, H, W) or (B, C, H, W), any dtype.
        channels: their numbers, from 0; an empty list leaves the image as it is.
        fill: their value, as in :func:`crop`, in the image's units.

    Source:
        An assignment in numpy.

    Example:
        >>> channel_dropout(torch.ones(3, 1, 1), [0, 2]).flatten()
        tensor([0., 1., 0.])
    """
    pixels, layout = open_image(image)
    count = pixels.shape[1]
    if not isinstance(channels, Sequence) or not all(type(channel) is int and 0 <= channel < count for channel in channels):
        raise invalid("channels", expected=f"a list of whole numbers from 0 to {count - 1}", got=repr(channels))
    colors = read_fill("fill", fill, channels=count, batch=pixels.shape[0], like=pixels)
    rest = pixels.new_zeros(()) if colors is None else colors[:, :, None, None]
    places = torch.arange(count, device=pixels.device)[:, None, None]
    dropped = torch.zeros_like(places, dtype=torch.bool)
    for channel in channels:
        dropped = dropped | (places == channel)
    return close_image(torch.where(dropped, rest, pixels), layout)


def _apply_to_rgb(image: Tensor, values: Mapping[str, tuple[Factor, float, float]], function: Callable[..., Tensor]) -> Tensor:
    """Apply a function to an RGB image in [0, 1] and one number per image of each name (value, least, most)."""
    pixels, layout, numbers = open_with(image, values)
    require_channels(pixels, (3,), "red, green and blue")
    work = open_unit(pixels)
    return close_unit(function(work, *(number.to(work.dtype).expand(len(work)) for number in numbers)), layout)

"""Brightness, contrast, saturation, hue and gamma, as torchvision defines them, with gradients to the factors.

Owns: the ``adjust_*`` functions that act on single pixels.
Must not: hold formulas of its own; the colour kernels do.
Read next: ``conversions.py``.
"""

from __future__ import annotations

from jaxtyping import Shaped
from torch import Tensor

from pellucid.errors import invalid
from pellucid.functional.fills import Factor, read_factor
from pellucid.functional.images import Layout, close_image, join_batch, open_image, require_channels, to_compute
from pellucid.kernels import color, curve

__all__ = ["adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation", "close_unit", "open_unit"]


def adjust_brightness(image: Shaped[Tensor, "*b c h w"], brightness_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Multiply by a factor, and clip.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        brightness_factor: >= 0; a number or a tensor () or (B,). 0 is black, 1 the image. One image and B factors give B results.

    Returns:
        The image, clipped to [0, 1]; 8-bit results are rounded (torchvision cuts the fraction off).

    Gradient:
        image, brightness_factor: almost everywhere (zero where clipped).

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes and numbers that do not fit.

    Source:
        ``torchvision.transforms.v2.functional.adjust_brightness``.

    Example:
        >>> import torch
        >>> from pellucid.functional import adjust_brightness
        >>> adjust_brightness(torch.tensor([[[0.2, 0.8]]]), 1.5)
        tensor([[[0.3000, 1.0000]]])
    """
    return _step(image, "brightness", brightness_factor)


def adjust_contrast(image: Shaped[Tensor, "*b c h w"], contrast_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Scale the difference from the image's mean luma by a factor, and clip.

    Args:
        image: as in `adjust_brightness`; the luma of other than three channels is their mean.
        contrast_factor: >= 0; a number or a tensor () or (B,). 0 is flat grey, 1 the image.

    Returns:
        The image, clipped to [0, 1].

    Gradient:
        image (the mean included), contrast_factor: almost everywhere (zero where clipped).

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes and numbers that do not fit.

    Source:
        ``torchvision.transforms.v2.functional.adjust_contrast``, with its luma weights.

    Example:
        >>> import torch
        >>> from pellucid.functional import adjust_contrast
        >>> adjust_contrast(torch.tensor([[[0.2, 0.6]]]), 0.5)
        tensor([[[0.3000, 0.5000]]])
    """
    return _step(image, "contrast", contrast_factor)


def adjust_saturation(image: Shaped[Tensor, "*b c h w"], saturation_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Scale each pixel's difference from its grey by a factor, and clip.

    Args:
        image: as in `adjust_brightness`, three channels; one channel has no saturation and comes back as it is.
        saturation_factor: >= 0; a number or a tensor () or (B,). 0 is grey, 1 the image.

    Returns:
        The image, clipped to [0, 1].

    Gradient:
        image, saturation_factor: almost everywhere (zero where clipped).

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes, channels and numbers that do not fit.

    Source:
        ``torchvision.transforms.v2.functional.adjust_saturation``, with its luma weights.

    Example:
        >>> import torch
        >>> from pellucid.functional import adjust_saturation
        >>> adjust_saturation(torch.tensor([0.5, 0.5, 0.5]).reshape(3, 1, 1), 3.0).flatten()
        tensor([0.5001, 0.5001, 0.5001])
    """
    return _step(image, "saturation", saturation_factor)


def adjust_hue(image: Shaped[Tensor, "*b c h w"], hue_factor: Factor) -> Shaped[Tensor, "*b c h w"]:
    """Turn the hue circle by a part of a turn, and clip.

    Args:
        image: as in `adjust_brightness`, three channels; one channel has no hue and comes back as it is.
        hue_factor: turns, in [-0.5, 0.5]; a number or a tensor () or (B,).

    Returns:
        The image, clipped to [0, 1].

    Gradient:
        image, hue_factor: almost everywhere; finite at grey, whose hue counts as 0 with no gradient of its own.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes, channels and numbers that do not fit.

    Source:
        ``torchvision.transforms.v2.functional.adjust_hue``.

    Example:
        >>> import torch
        >>> from pellucid.functional import adjust_hue
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

    Returns:
        The image, clipped to [0, 1].

    Gradient:
        image, gamma, gain: almost everywhere; 0 at black, where the true slope is infinite for gamma < 1.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes and numbers that do not fit.

    Source:
        ``torchvision.transforms.v2.functional.adjust_gamma``.

    Example:
        >>> import torch
        >>> from pellucid.functional import adjust_gamma
        >>> adjust_gamma(torch.tensor([[[0.25, 1.0]]]), 0.5)
        tensor([[[0.5000, 1.0000]]])
    """
    _check_not_negative("gamma", gamma)
    pixels, layout = open_image(image)
    factors = []
    for name, value in (("gamma", gamma), ("gain", gain)):
        factor, batched = read_factor(name, value, device=pixels.device)
        pixels, layout = join_batch(pixels, layout, name, factor.shape[0], batched)
        factors.append(factor)
    work = open_unit(pixels)
    exponent, scale = (factor.to(work.dtype) for factor in factors)
    return close_unit(color.clip(curve.power(work, exponent, scale)), layout)


def _step(image: Tensor, name: str, value: Factor) -> Tensor:
    argument = f"{name}_factor"
    if name != "hue":
        _check_not_negative(argument, value)
    pixels, layout = open_image(image)
    factor, batched = read_factor(argument, value, device=pixels.device)
    pixels, layout = join_batch(pixels, layout, argument, factor.shape[0], batched)
    work = open_unit(pixels)
    if name in ("saturation", "hue"):
        require_channels(pixels, (3, 1), f"RGB, or a grey image, which has no {name}")
        if pixels.shape[1] == 1:
            return close_unit(work.clone(), layout)
    return close_unit(color.jitter_steps(work, None, {name: factor.to(work.dtype)}), layout)


def _check_not_negative(name: str, value: Factor) -> None:
    if isinstance(value, int | float) and value < 0:
        raise invalid(name, expected="a number >= 0", got=value)


def open_unit(pixels: Shaped[Tensor, "b c h w"]) -> Tensor:
    """Pixels for the arithmetic, 8-bit values as parts of 255."""
    work = to_compute(pixels)
    return work if pixels.dtype.is_floating_point else work * (1.0 / 255.0)


def close_unit(work: Tensor, layout: Layout) -> Tensor:
    """Return to the caller's units, dtype and layout."""
    return close_image(work if layout.dtype.is_floating_point else work * 255.0, layout)

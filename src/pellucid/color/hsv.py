"""Hue, saturation and value with gradients that stay finite at grey.

Owns: RGB <-> HSV and the hue rotation.
Must not: clip; every formula here is defined for any real colour.
Read next: ``../kernels/color/reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["FAINT", "hsv_to_rgb", "rgb_to_hsv", "shift_hsv", "shift_hue"]

FAINT = torch.finfo(torch.float32).tiny
"""A pixel is grey if its channels differ by less, and black if its largest channel is less: every divisor has a finite inverse."""


def _faint(number: Tensor) -> Tensor:
    return number < max(FAINT, torch.finfo(number.dtype).tiny)


def _hue_parts(image: Float[Tensor, "*b 3 h w"]) -> tuple[Tensor, Tensor, Tensor]:
    """(hue in sixths of a turn, chroma, value), each without the channel axis; hue is 0 with zero gradient at grey."""
    red, green, blue = image.unbind(-3)
    value = image.amax(-3)
    chroma = value - image.amin(-3)
    grey = _faint(chroma)
    is_red, is_green = value == red, value == green
    start = torch.where(is_red, 0.0, torch.where(is_green, 2.0, value.new_full((), 4.0)))
    ahead = torch.where(is_red, green, torch.where(is_green, blue, red))
    behind = torch.where(is_red, blue, torch.where(is_green, red, green))
    # A division, and no product with 1 / chroma: the derivative of that inverse overflows long before the inverse does.
    sixths = start + (ahead - behind) / torch.where(grey, 1.0, chroma)
    return torch.where(grey, 0.0, sixths), chroma, value


def _from_parts(sixths: Tensor, chroma: Tensor, value: Tensor) -> Float[Tensor, "*b 3 h w"]:
    """RGB. The share of the chroma that a channel lacks is a trapezium over the hue; at red, blue has the slope below red."""
    hue = torch.remainder(sixths, 6.0)
    again = torch.where(hue < 1.0, hue + 6.0, hue)
    lacks = (2.0 - (hue - 3.0).abs(), (hue - 2.0).abs() - 1.0, (again - 4.0).abs() - 1.0)
    return torch.stack([value - chroma * torch.clamp(lack, 0.0, 1.0) for lack in lacks], -3)


def shift_hue(image: Float[Tensor, "*b 3 h w"], hue_shift: Float[Tensor, "*b"]) -> Float[Tensor, "*b 3 h w"]:
    """Rotate the hue of each image by a number of turns (1 is all the way round), keeping saturation and value.

    Gradient:
        image, hue_shift: almost everywhere; at exact grey the hue counts as 0 and its own gradient as none.
    Source:
        The hexcone model (Smith 1978), as torchvision's ``adjust_hue`` before its clip.
    """
    sixths, chroma, value = _hue_parts(image)
    return _from_parts(sixths + 6.0 * hue_shift[..., None, None], chroma, value)


def shift_hsv(
    image: Float[Tensor, "*b 3 h w"], hue: Float[Tensor, "*b"], saturation: Float[Tensor, "*b"], value: Float[Tensor, "*b"]
) -> Float[Tensor, "*b 3 h w"]:
    """Add to hue (turns), saturation and value; the latter two clipped to [0, 1]. Grey stays grey.

    Gradient:
        image, hue, saturation, value: almost everywhere; at exact grey the hue counts as 0 and neither it nor the saturation has a
        gradient.
    Source:
        ``colorsys``.
    """
    sixths, chroma, bright = _hue_parts(image)
    grey = _faint(chroma) | _faint(bright)
    share = torch.where(grey, 0.0, chroma / torch.where(grey, 1.0, bright) + saturation[..., None, None])
    level = torch.clamp(bright + value[..., None, None], 0.0, 1.0)
    return _from_parts(sixths + 6.0 * hue[..., None, None], torch.clamp(share, 0.0, 1.0) * level, level)


def rgb_to_hsv(image: Float[Tensor, "*b 3 h w"]) -> Float[Tensor, "*b 3 h w"]:
    """Convert RGB to hue (turns in [0, 1)), saturation and value.

    Gradient:
        almost everywhere; finite (zero for hue and saturation) at grey and black.
    Source:
        ``colorsys.rgb_to_hsv``.
    """
    sixths, chroma, value = _hue_parts(image)
    black = _faint(value.abs())
    saturation = torch.where(black, 0.0, chroma / torch.where(black, 1.0, value))
    return torch.stack((torch.remainder(sixths / 6.0, 1.0), saturation, value), -3)


def hsv_to_rgb(image: Float[Tensor, "*b 3 h w"]) -> Float[Tensor, "*b 3 h w"]:
    """Convert hue (turns), saturation and value to RGB; the inverse of :func:`rgb_to_hsv`.

    Source:
        ``colorsys.hsv_to_rgb``.
    """
    hue, saturation, value = image.unbind(-3)
    return _from_parts(6.0 * hue, saturation * value, value)

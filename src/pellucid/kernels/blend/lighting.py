"""Light that falls unevenly: by which plane of numbers a picture is multiplied, and which is added.

Owns: `lit`, which does both, and the planes of gradients of light, spots, shadows and flares. Those of clouds are `plasma.py`'s.
Must not: draw; clip floats.
Read next: ``plasma.py``.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from jaxtyping import Float, Num
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.kernels.blend import cpu

__all__ = ["Light", "band", "corner", "flare", "lit", "slope", "spot"]

Light: TypeAlias = tuple[Float[Tensor, "#b 1 #h #w"] | None, Float[Tensor, "#b 1 #h #w"] | None]
"""Gain and offset of every pixel; None for 1 and for 0."""

_GHOSTS = (0.35, 0.5, 0.06), (0.7, 0.35, 0.04), (1.3, 0.4, 0.05), (1.7, 0.3, 0.09)
"""Reflections in a lens: their place on the line from the sun through the picture's middle, their brightness and their width."""


def lit(
    image: Num[Tensor, "b c h w"], gain: Float[Tensor, "#b 1 #h #w"] | None, offset: Float[Tensor, "#b 1 #h #w"] | None
) -> Num[Tensor, "b c h w"]:
    """The image times the gain, plus the offset; bytes as fractions of 255, clipped, and as bytes again.

    Gradient:
        all: exact; bytes have none.
    """
    if image.dtype == torch.uint8:
        known = gain if gain is not None else offset
        assert known is not None
        gain = known.new_ones((1, 1, 1, 1)) if gain is None else gain
        return cpu.lit(image, gain, known.new_zeros((1, 1, 1, 1)) if offset is None else offset)
    if gain is None or offset is None:
        return image + offset if gain is None else image * gain  # type: ignore[operator]  # one of them is there
    return torch.addcmul(offset, image, gain)


def _each(number: Float[Tensor, "#b"]) -> Float[Tensor, "#b 1 1 1"]:
    return number[:, None, None, None]


def _centered(image: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """X and y of pixel centres from the picture's middle, along axes that broadcast."""
    x, y = (torch.arange(side, dtype=like.dtype, device=image.device) - (side - 1) / 2 for side in (image.shape[3], image.shape[2]))
    return x, y[:, None]


def _squared_distance(image: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The squared distance, in pixels, of every pixel from the place (x, y), given in shares of the picture's sides."""
    across, down = _centered(image, x)
    return (across - (_each(x) - 0.5) * image.shape[3]) ** 2 + (down - (_each(y) - 0.5) * image.shape[2]) ** 2


def slope(image: Num[Tensor, "b c h w"], intensity: Float[Tensor, "#b"], degrees: Float[Tensor, "#b"]) -> Light:
    """A gain that grows in one direction, from 1 - intensity to 1 + intensity."""
    angle = _each(torch.deg2rad(degrees))
    x, y = _centered(image, angle)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    farthest = 0.5 * (image.shape[3] * cosine.abs() + image.shape[2] * sine.abs())
    return 1.0 + _each(intensity) * (x * cosine - y * sine) / farthest, None


def corner(image: Num[Tensor, "b c h w"], gain: Tensor, sign: Tensor, x: Tensor, y: Tensor) -> Light:
    """An offset that is largest in one corner, and 0 in the opposite one."""
    x, y, most = _each(x), _each(y), (image.shape[3] - 1, image.shape[2] - 1)
    across, down = _centered(image, x)
    across, down = across / max(most[0], 1) + 0.5, down / max(most[1], 1) + 0.5
    near = x * across + (1.0 - x) * (1.0 - across) + y * down + (1.0 - y) * (1.0 - down)
    return None, _each(gain * sign) * 0.5 * near


def spot(image: Num[Tensor, "b c h w"], intensity: Tensor, x: Tensor, y: Tensor, sigma: Tensor) -> Light:
    """A gain that falls off as a Gaussian about a place, to 1."""
    width = _each(sigma) * max(image.shape[2], image.shape[3])
    return 1.0 + _each(intensity) * torch.exp(-0.5 * _squared_distance(image, x, y) / width**2), None


def band(image: Num[Tensor, "b c h w"], darkness: Tensor, x: Tensor, width: Tensor, degrees: Tensor) -> Light:
    """A gain of 1 - darkness in a slanted band with soft edges, and 1 elsewhere."""
    angle = _each(torch.deg2rad(degrees))
    across, down = _centered(image, angle)
    side = image.shape[3]
    beside = (across - (_each(x) - 0.5) * side) * torch.cos(angle) - down * torch.sin(angle)
    inside = 0.5 * _each(width) * side - beside.abs()
    # The last bit of torch's sigmoid depends on a number's place in the tensor; rounding from a wider dtype removes that.
    share = torch.sigmoid((2.0 * inside).to(wide_dtype(image.device))).to(inside.dtype)
    return 1.0 - _each(darkness) * share, None


def flare(image: Num[Tensor, "b c h w"], strength: Tensor, x: Tensor, y: Tensor, radius: Tensor) -> Light:
    """The sun's glow and its reflections in a lens, towards white: what is added, and as much taken from the picture."""
    side = max(image.shape[2], image.shape[3])
    light = torch.exp(-0.5 * _squared_distance(image, x, y) / (_each(radius) * side) ** 2)
    for way, bright, size in _GHOSTS:
        squared = _squared_distance(image, x + way * (0.5 - x), y + way * (0.5 - y)) / (size * side) ** 2
        light = light + bright * torch.exp(-(squared**2))
    shown = torch.clamp(_each(strength) * light, 0.0, 1.0)
    return 1.0 - shown, shown

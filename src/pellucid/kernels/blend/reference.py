"""Blends in plain PyTorch: rectangles of another colour, and additive noise.

Owns: antialiased rectangles, and noise fields that are a function of two words and the pixel's position.
Must not: keep a noise field anywhere; it is made again from its key.
Read next: ``grain.py``.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.random.normals import normal_pairs
from pellucid.random.patterns import as_field, field_words
from pellucid.types import Size

__all__ = ["cover", "gaussian_field", "noise", "poisson_quantile", "shares", "terms"]


def shares(box: Float[Tensor, "#b n 4"], size: Size) -> tuple[Float[Tensor, "#b n h"], Float[Tensor, "#b n w"]]:
    """How much of every row and of every column each rectangle (x0, y0, x1, y1), in pixel-edge coordinates, covers.

    Gradient:
        box: almost everywhere.
    """
    x0, y0, x1, y1 = box[..., None].unbind(2)  # b n 1
    return _share(y0, y1, size[0]), _share(x0, x1, size[1])


def cover(
    image: Float[Tensor, "b c h w"],
    down: Float[Tensor, "#b n h"],
    across: Float[Tensor, "#b n w"],
    values: Float[Tensor, "#b c s"],
) -> Float[Tensor, "b c h w"]:
    """Paint n rectangles over an image: they cover of each pixel the sum of the products of their shares, at most 1.

    Args:
        values: a number for each channel, or one for each pixel.

    Gradient:
        all: exact; none to shares that add up to more than 1.
    """
    one = down.shape[1] == 1
    mask = down[..., None] * across[:, :, None] if one else torch.clamp(down.mT @ across, max=1.0)[:, None]  # b 1 h w
    value = values[..., None] if values.shape[2] == 1 else values.unflatten(2, image.shape[2:])
    # Zero times NaN or infinity is NaN: a pixel that is covered whole is not read, and an uncovered one stays as it is.
    return torch.where(mask > 0, torch.lerp(torch.where(mask < 1, image, value), value, mask), image)


def _share(low: Tensor, high: Tensor, length: int) -> Float[Tensor, "*b length"]:
    """The share of each unit pixel [p, p + 1] inside [low, high]."""
    left = torch.arange(length, dtype=low.dtype, device=low.device)
    return torch.relu(torch.minimum(left + 1.0, high) - torch.maximum(left, low))


def gaussian_field(words: Int64[Tensor, "b 2"], shape: tuple[int, int, int], dtype: torch.dtype) -> Float[Tensor, "b c h w"]:
    """Standard normal noise of shape (C, H, W) per sample, a pure function of the sample's two words and the position."""
    return as_field(normal_pairs(field_words(words, shape), dtype), shape)


def noise(
    image: Float[Tensor, "b c h w"],
    words: Int64[Tensor, "#b 2"],
    mean: Float[Tensor, "#b"],
    sigma: Float[Tensor, "#b"],
    *,
    clip: bool = False,
) -> Float[Tensor, "b c h w"]:
    """Image + mean + sigma * n, with n the sample's own standard normal field; then clip to [0, 1] if asked.

    Gradient:
        image, mean, sigma: exact; with ``clip`` almost everywhere.
    """
    field = gaussian_field(words, (image.shape[1], image.shape[2], image.shape[3]), image.dtype)
    noisy = image + (mean[:, None, None, None] + sigma[:, None, None, None] * field)
    return torch.clamp(noisy, 0.0, 1.0) if clip else noisy


def poisson_quantile(rate: Float[Tensor, "*n"], field: Float[Tensor, "*n"], most: float) -> Float[Tensor, "*n"]:
    """The smallest count whose cumulative probability is at least ``field``.

    Counts end where those of a rate of ``most`` are less likely than 2 ** -24.

    Gradient:
        none.
    Source:
        ``scipy.stats.poisson.ppf``.
    """
    share = torch.exp(-rate)
    below, count = share, torch.zeros_like(rate)
    for k in range(1, terms(most)):
        count = count + (field > below).to(rate.dtype)
        share = share * (rate / k)
        below = below + share
    return count


def terms(most: float) -> int:
    """How many terms of Poisson's sum are added up for rates of at most ``most``."""
    return math.ceil(most + 6.0 * math.sqrt(most)) + 12

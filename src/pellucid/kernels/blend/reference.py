"""Blends in plain PyTorch: rectangles of another colour, and additive noise.

Owns: antialiased rectangles, and noise fields that are a function of two words and the pixel's position.
Must not: keep a noise field anywhere; it is made again from its key.
Read next: ``grain.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.random.normals import normal_pairs
from pellucid.random.patterns import as_field, field_words

__all__ = ["gaussian_field", "noise", "patch"]


def patch(image: Float[Tensor, "b c h w"], box: Float[Tensor, "#b n 4"], value: Float[Tensor, "..."]) -> Float[Tensor, "b c h w"]:
    """Replace rectangles (x0, y0, x1, y1), in pixel-edge coordinates, by a colour or another image.

    Pixels cut by an edge are mixed by the share covered, so the result is continuous in the boxes; whole-pixel boxes are exact.
    Where several boxes share a pixel, their shares add up to at most 1.

    Gradient:
        image, value: exact. box: almost everywhere.
    """
    x0, y0, x1, y1 = box[..., None].unbind(2)  # b n 1
    columns = _share(x0, x1, image.shape[-1])  # b n w
    rows = _share(y0, y1, image.shape[-2])  # b n h
    one = box.shape[1] == 1
    mask = rows[..., None] * columns[:, :, None] if one else torch.clamp(rows.mT @ columns, max=1.0)[:, None]  # b 1 h w
    if value.dim() == 2:
        value = value[:, :, None, None]
    # A product would turn a NaN under the patch into NaN; where nothing of the pixel remains, nothing of it is read.
    return torch.lerp(torch.where(mask < 1, image, value), value, mask)


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

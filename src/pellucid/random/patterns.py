"""Fields of random numbers from two words per sample: each number is a function of the words and its position.

Owns: hashing positions, `uniform_field` and `symmetric_field`.
Must not: cache a field.
Read next: ``normals.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.random import compiled
from pellucid.random.philox import philox4x32, round_keys

__all__ = ["as_field", "field_words", "symmetric_field", "uniform_field"]


def uniform_field(words: Int64[Tensor, "b 2"], shape: tuple[int, int, int], dtype: torch.dtype) -> Float[Tensor, "b c h w"]:
    """Return 24-bit numbers uniform on (0, 1), (C, H, W) per sample: a pure function of the sample's two words and the position."""
    known = compiled.uniform_field(words, shape, dtype)
    if known is not None:
        return known
    return as_field(((field_words(words, shape) >> 8).to(dtype) + 0.5) * 2.0**-24, shape)


def symmetric_field(
    words: Int64[Tensor, "b 2"], shape: tuple[int, int, int], scale: Float[Tensor, "b #c"]
) -> Float[Tensor, "b c h w"]:
    """Return the same field, uniform on (-scale, scale), with a scale for each channel or one for all.

    Gradient:
        scale: exact.
    """
    known = compiled.symmetric_field(words, shape, scale)
    return (2.0 * uniform_field(words, shape, scale.dtype) - 1.0) * scale[:, :, None, None] if known is None else known


def field_words(words: Int64[Tensor, "b 2"], shape: tuple[int, int, int]) -> Int64[Tensor, "b n 4"]:
    """Return the hash of every block of four positions, one word for each position."""
    blocks = (shape[0] * shape[1] * shape[2] + 3) // 4
    known = compiled.field_words(words, blocks)
    if known is not None:
        return known
    block = torch.arange(blocks, dtype=torch.int64, device=words.device)  # n
    zero = words[:, :1] * 0  # b 1
    even = torch.stack((zero + block, zero + 0 * block))  # 2 b n; one call never needs more than 2^34 values
    keys = round_keys(words[:, 0], words[:, 1])[..., None]  # 10 2 b 1
    return philox4x32(even, torch.zeros_like(even), keys)


def as_field(values: Float[Tensor, "b n 4"], shape: tuple[int, int, int]) -> Float[Tensor, "b c h w"]:
    """Reshape the four numbers of each hash into a field of (C, H, W), and drop those too many."""
    return values.flatten(1)[:, : shape[0] * shape[1] * shape[2]].unflatten(1, shape)

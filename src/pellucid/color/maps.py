"""Affine colour maps as small matrices, differentiable in their parameters.

Owns: building and composing (matrix, offset) pairs.
Must not: see pixels.
Read next: ``hsv.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.color.luma import LUMA
from pellucid.core.constants import constant

__all__ = ["apply_to_vector", "channel_weights", "compose", "luma_map"]


def channel_weights(channels: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "c"]:
    """The weights of the channels in a pixel's grey: luma for three channels, the plain mean otherwise."""
    weights = LUMA if channels == 3 else (1.0 / channels,) * channels
    return constant(weights, dtype, device)


def luma_map(chroma: Float[Tensor, "b"], luma: Float[Tensor, "b"], channels: int) -> Float[Tensor, "b c c"]:
    """The map that scales a pixel's luma by ``luma`` and its difference from grey by ``chroma``.

    Brightness f is (f, f), saturation s is (s, 1), contrast c is (c, c) up to its pivot, greyscale is (0, 1): all of them
    are diagonal in (luma, chroma), so their composition is a product of numbers.
    """
    weights = channel_weights(channels, chroma.dtype, chroma.device)
    identity = torch.eye(channels, dtype=chroma.dtype, device=chroma.device)
    return chroma[:, None, None] * identity + (luma - chroma)[:, None, None] * weights


def compose(
    later: tuple[Tensor, Tensor | None], earlier: tuple[Tensor, Tensor | None] | None
) -> tuple[Float[Tensor, "b c c"], Float[Tensor, "b c"] | None]:
    """The map that applies ``earlier`` first and ``later`` second."""
    if earlier is None:
        return later
    matrix = later[0] @ earlier[0]
    if earlier[1] is None:
        return matrix, later[1]
    moved = (later[0] @ earlier[1][:, :, None])[:, :, 0]
    return matrix, moved if later[1] is None else moved + later[1]


def apply_to_vector(color_map: tuple[Tensor, Tensor | None] | None, vector: Float[Tensor, "v c"]) -> Float[Tensor, "b c2"]:
    """Send one colour per sample through a map."""
    if color_map is None:
        return vector
    moved = (color_map[0] @ vector[:, :, None])[:, :, 0]
    return moved if color_map[1] is None else moved + color_map[1]

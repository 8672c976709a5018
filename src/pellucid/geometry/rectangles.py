"""How much of each pixel lies in a rectangle.

Owns: `cover`, and `covered_along` for one axis.
Must not: touch pixels.
Read next: ``matrices.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.types import Size

__all__ = ["cover", "covered_along"]


def cover(box: Float[Tensor, "*b 4"], size: Size, edge: float) -> Float[Tensor, "*b h w"]:
    """How much of each pixel lies in a rectangle (x0, y0, x1, y1), in pixel edges."""
    x0, y0, x1, y1 = box.unbind(-1)
    return covered_along(y0, y1, size[0], edge)[..., :, None] * covered_along(x0, x1, size[1], edge)[..., None, :]


def covered_along(low: Float[Tensor, "*b"], high: Float[Tensor, "*b"], length: int, edge: float) -> Float[Tensor, "*b length"]:
    """How much of each pixel lies between two places.

    Over ``edge`` pixels, half of them inside, this goes from 1 to 0; with 0 a pixel is inside where its centre is.
    """
    low, high = low[..., None], high[..., None]
    centre = torch.arange(length, dtype=low.dtype, device=low.device) + 0.5
    if edge == 0.0:
        return ((centre >= low) & (centre < high)).to(low.dtype)
    entered, left = ((centre - end) / edge + 0.5 for end in (low, high))
    return torch.clamp(entered, 0.0, 1.0) - torch.clamp(left, 0.0, 1.0)

"""The share of each pixel that a rectangle covers.

Owns: `cover`, and `covered_along` for one axis.
Must not: read or change images.
Read next: ``matrices.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.types import Size

__all__ = ["cover", "covered_along"]


def cover(box: Float[Tensor, "*b 4"], size: Size, edge: float) -> Float[Tensor, "*b h w"]:
    """Return the share of each pixel, 0 to 1, that a rectangle (x0, y0, x1, y1) in pixel-edge coordinates covers."""
    x0, y0, x1, y1 = box.unbind(-1)
    return covered_along(y0, y1, size[0], edge)[..., :, None] * covered_along(x0, x1, size[1], edge)[..., None, :]


def covered_along(low: Float[Tensor, "*b"], high: Float[Tensor, "*b"], length: int, edge: float) -> Float[Tensor, "*b length"]:
    """Return the share of each pixel along an axis that an interval covers.

    At each end the share falls from 1 to 0 over ``edge`` pixels, half of them inside; with 0, a pixel is in if its centre is.
    """
    low, high = low[..., None], high[..., None]
    centre = torch.arange(length, dtype=low.dtype, device=low.device) + 0.5
    if edge == 0.0:
        return ((centre >= low) & (centre < high)).to(low.dtype)
    entered, left = ((centre - end) / edge + 0.5 for end in (low, high))
    return torch.clamp(entered, 0.0, 1.0) - torch.clamp(left, 0.0, 1.0)

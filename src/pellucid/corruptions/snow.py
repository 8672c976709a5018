"""What falls from the sky.

Owns: `snow_layer`.
Must not: draw; the normal field is given.
Read next: ``table.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.corruptions.lines import along_both, motion, zoom_matrix

__all__ = ["snow_layer"]


def snow_layer(
    normal: Float[Tensor, "b h w"],
    degrees: Float[Tensor, "b"],
    *,
    mean: float,
    spread: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
) -> Float[Tensor, "b h w"]:
    """Flakes of thresholded noise, enlarged, and drawn out by their fall.

    Gradient:
        none: it is made of draws.
    """
    height, width = normal.shape[-2:]
    flakes = along_both(mean + spread * normal, zoom_matrix(height, zoom), zoom_matrix(width, zoom))
    flakes = torch.floor(torch.clamp(torch.where(flakes < threshold, 0.0, flakes), 0.0, 1.0) * 255.0) / 255.0
    fallen = motion(flakes[:, None], radius, sigma, degrees)[:, 0]
    return torch.round(torch.clamp(fallen, 0.0, 1.0) * 255.0) / 255.0

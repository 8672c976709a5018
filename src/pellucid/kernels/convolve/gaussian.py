"""The taps of Gaussians, one row per sample.

Owns: `gaussian`.
Must not: convolve.
Read next: ``reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["gaussian"]

_SMALLEST_SIGMA = 1e-6
"""Below this the kernel is one tap to the last bit, and its formula's derivative would be 0 * inf."""


def gaussian(sigma: Float[Tensor, "b"], taps: int, *, truncate: float | None = None) -> Float[Tensor, "b taps"]:
    """Weights that sum to 1; one tap where sigma is not a finite number > 0. ``truncate``: zeros beyond so many sigmas."""
    sigma = sigma.to(torch.promote_types(sigma.dtype, torch.float32))[:, None]
    usable = torch.isfinite(sigma) & (sigma > _SMALLEST_SIGMA)
    reach = torch.arange(taps, dtype=sigma.dtype, device=sigma.device) - (taps - 1) / 2
    weights = torch.exp(-0.5 * (reach / torch.where(usable, sigma, 1.0)) ** 2)
    if truncate is not None:
        weights = torch.where(reach.abs() <= torch.floor(truncate * sigma + 0.5), weights, 0.0)
    return torch.where(usable, weights / weights.sum(-1, keepdim=True), (reach == 0).to(sigma.dtype))

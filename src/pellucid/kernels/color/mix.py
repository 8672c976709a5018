"""Channel mixes in plain PyTorch: the arithmetic that colour maps and resamples share.

Owns: `compose`, which mixes channels, coverage and fill.
Must not: resample.
Read next: ``reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["compose"]


def compose(total: Tensor, covered: Tensor, fill: Tensor | None, matrix: Tensor | None, offset: Tensor | None) -> Tensor:
    """Matrix @ s + offset c + fill (1 - c), for b c n."""
    if matrix is not None:
        total = _mix_channels(matrix, total)
    if offset is not None:
        total = total + offset[:, :, None] * covered
    if fill is not None:
        total = total + fill[:, :, None] * (1.0 - covered)
    return total


def _mix_channels(matrix: Float[Tensor, "#b c2 c"], pixels: Float[Tensor, "#b c n"]) -> Float[Tensor, "b c2 n"]:
    """A channel mix in full precision: elementwise, because a matmul may run in TF32 and would not keep 1 * x exact."""
    if pixels.shape[1] > 4:
        with torch.autocast(pixels.device.type, enabled=False):
            return torch.matmul(matrix, pixels)
    mixed = matrix[:, :, 0, None] * pixels[:, 0, None]
    for channel in range(1, pixels.shape[1]):
        mixed = mixed + matrix[:, :, channel, None] * pixels[:, channel, None]
    return mixed

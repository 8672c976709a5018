"""Per-sample convolution in plain PyTorch: a sum of shifted images.

Owns: separable filters with mirrored borders, and 3x3 filters that leave the border alone.
Must not: build kernels.
Read next: ``../blend/reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.warp.taps import fold_index

__all__ = ["interior", "separable"]


def separable(
    image: Float[Tensor, "b c h w"], vertical: Float[Tensor, "#b kh"], horizontal: Float[Tensor, "#b kw"]
) -> Float[Tensor, "b c h w"]:
    """Correlate with one vertical and one horizontal kernel per sample; borders mirror without repeating the edge pixel.

    Gradient:
        image, kernels: exact, to any order.
    Source:
        ``scipy.ndimage.correlate1d(mode="mirror")``.
    """
    return _along(_along(image, horizontal, -1), vertical, -2)


def _along(image: Tensor, kernel: Tensor, dim: int) -> Tensor:
    length, taps = image.shape[dim], kernel.shape[1]
    reach = taps // 2
    index = torch.arange(-reach, length + reach, device=image.device)
    padded = image.index_select(dim, fold_index(index, length, "reflect_101"))
    total = padded.narrow(dim, 0, length) * kernel[:, 0, None, None, None]
    for tap in range(1, taps):
        total = total + padded.narrow(dim, tap, length) * kernel[:, tap, None, None, None]
    return total


def interior(image: Float[Tensor, "b c h w"], kernel: Float[Tensor, "#b 3 3"], *, clip: bool = False) -> Float[Tensor, "b c h w"]:
    """Correlate with one 3x3 kernel per sample where it fits; the outermost pixels keep their values; then clip to [0, 1] if asked.

    Gradient:
        image, kernel: exact, to any order; with ``clip`` almost everywhere.
    """
    if clip:
        return torch.clamp(interior(image, kernel), 0.0, 1.0)
    height, width = image.shape[-2:]
    if height < 3 or width < 3:
        return image * 1.0
    total = torch.zeros_like(image[..., 1:-1, 1:-1])
    for row in range(3):
        for column in range(3):
            part = image[..., row : row + height - 2, column : column + width - 2]
            total = total + part * kernel[:, row, column, None, None, None]
    middle = torch.cat((image[..., 1:-1, :1], total, image[..., 1:-1, -1:]), dim=-1)
    return torch.cat((image[..., :1, :], middle, image[..., -1:, :]), dim=-2)

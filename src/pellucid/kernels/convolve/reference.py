"""Per-sample convolution in plain PyTorch: a sum of shifted images.

Owns: separable and square filters with mirrored borders, 3x3 filters that leave the border alone, and medians.
Must not: build kernels.
Read next: ``../blend/reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.warp.taps import fold_index

__all__ = ["dense", "interior", "median", "separable"]


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
    padded = _padded(image, dim, taps // 2, "reflect_101")
    total = padded.narrow(dim, 0, length) * kernel[:, 0, None, None, None]
    for tap in range(1, taps):
        total = total + padded.narrow(dim, tap, length) * kernel[:, tap, None, None, None]
    return total


def _padded(image: Tensor, dim: int, reach: int, mode: str) -> Tensor:
    """The image continued along an axis."""
    length = image.shape[dim]
    index = torch.arange(-reach, length + reach, device=image.device)
    return image.index_select(dim, fold_index(index, length, mode))


def dense(image: Float[Tensor, "b c h w"], kernel: Float[Tensor, "#b k k"]) -> Float[Tensor, "b c h w"]:
    """Correlate with one square kernel per sample; borders mirror without repeating the edge pixel.

    Gradient:
        image, kernel: exact, to any order.
    Source:
        ``scipy.ndimage.correlate(mode="mirror")``.
    """
    batch, channels, height, width = image.shape
    if not batch:
        return image - _nothing(kernel)
    reach = kernel.shape[-1] // 2
    padded = _padded(_padded(image, -1, reach, "reflect_101"), -2, reach, "reflect_101")
    weights = kernel[:, None, None].expand(batch, channels, 1, -1, -1).flatten(0, 1)
    mixed = torch.nn.functional.conv2d(padded.flatten(0, 1)[None], weights, groups=batch * channels)
    return mixed.reshape(batch, channels, height, width)


def _nothing(kernel: Tensor) -> Tensor:
    """Zero, with a gradient of zeros to the kernel: what learns has one for every picture."""
    return kernel[:, :0].sum()


def median(
    image: Float[Tensor, "b c h w"], taps: tuple[int, int], gate: Float[Tensor, "#b"] | None = None
) -> Float[Tensor, "b c h w"]:
    """The median of windows of so many rows and columns, mixed in by the gate; borders repeat the edge pixel.

    Gradient:
        image: almost everywhere. gate: exact.
    Source:
        ``scipy.ndimage.median_filter(mode="nearest")``.
    """
    height, width = image.shape[-2:]
    padded = _padded(_padded(image, -1, taps[1] // 2, "border"), -2, taps[0] // 2, "border")
    places = [(row, column) for row in range(taps[0]) for column in range(taps[1])]
    around = torch.stack([padded[..., row : row + height, column : column + width] for row, column in places])
    result = around.median(0).values
    if gate is None:
        return result
    gate = gate[:, None, None, None]
    return gate * result + (1.0 - gate) * image


def interior(image: Float[Tensor, "b c h w"], kernel: Float[Tensor, "#b 3 3"], *, clip: bool = False) -> Float[Tensor, "b c h w"]:
    """Correlate with one 3x3 kernel per sample where it fits; the outermost pixels keep their values; then clip to [0, 1] if asked.

    Gradient:
        image, kernel: exact, to any order; with ``clip`` almost everywhere.
    """
    if clip:
        return torch.clamp(interior(image, kernel), 0.0, 1.0)
    height, width = image.shape[-2:]
    if height < 3 or width < 3:
        return image - _nothing(kernel)
    total = torch.zeros_like(image[..., 1:-1, 1:-1])
    for row in range(3):
        for column in range(3):
            part = image[..., row : row + height - 2, column : column + width - 2]
            total = total + part * kernel[:, row, column, None, None, None]
    middle = torch.cat((image[..., 1:-1, :1], total, image[..., 1:-1, -1:]), dim=-1)
    return torch.cat((image[..., :1, :], middle, image[..., -1:, :]), dim=-2)

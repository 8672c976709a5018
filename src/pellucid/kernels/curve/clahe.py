"""Histograms flattened tile by tile, with a limit to how steep the curve may get, as OpenCV does it.

Owns: `clahe`.
Must not: have a gradient; it is declared in ``surrogate.py``.
Read next: ``surrogate.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.kernels.curve.layout import between, padded_size
from pellucid.kernels.warp.taps import fold_index
from pellucid.types import Size

__all__ = ["clahe"]


def clahe(
    image: Float[Tensor, "b c h w"], limit: Float[Tensor, "#b"], tiles: Size, *, sloped: bool = True
) -> tuple[Float[Tensor, "b c h w"], Float[Tensor, "slopes c h w"]]:
    """Flatten the histogram of each channel's tiles, and blend the curves between tiles' centres.

    Args:
        image: in [0, 1]; rounded to 256 grey levels.
        limit: how often a level may occur, in units of its share of a flat histogram; what is beyond is spread over all levels.
        tiles: how many (along y, along x).
        sloped: whether to compute slopes; without them the second result has no samples.

    Returns:
        The image in 256 levels, and the slope of the blended curve at each pixel, over one level to either side.

    Gradient:
        none: a staircase, of the pixel and of the histogram.
    Source:
        ``cv2.createCLAHE(limit, tiles)`` on bytes.
    """
    levels = torch.floor(torch.nan_to_num(image) * 255.0 + 0.5).clamp(0.0, 255.0).to(torch.int64)
    curves = _curves(_padded(levels, tiles), limit, tiles)  # b c ty tx 256
    rise = torch.cat((curves[..., 1:], curves[..., -1:]), -1) - torch.cat((curves[..., :1], curves[..., :-1]), -1)
    size = padded_size(levels.shape[-2], levels.shape[-1], tiles)
    above, below, down = between(levels.shape[-2], size[0] // tiles[0], tiles[0], levels.device)
    left, right, across = between(levels.shape[-1], size[1] // tiles[1], tiles[1], levels.device)
    flat = levels.flatten(2)

    def blended(table: Tensor) -> Tensor:
        def read(row: Tensor, column: Tensor) -> Tensor:
            tile = row[:, None] * tiles[1] + column  # h w
            return table.flatten(2).gather(2, tile.flatten() * 256 + flat).unflatten(2, levels.shape[2:])

        top = read(above, left) * (1.0 - across) + read(above, right) * across
        bottom = read(below, left) * (1.0 - across) + read(below, right) * across
        return top * (1.0 - down[:, None]) + bottom * down[:, None]

    toned = (torch.round(blended(curves)) / 255.0).to(image.dtype)
    return toned, (blended(rise) / 2.0).to(image.dtype) if sloped else toned[:0]


def _padded(levels: Int64[Tensor, "b c h w"], tiles: Size) -> Int64[Tensor, "b c h2 w2"]:
    size = padded_size(levels.shape[-2], levels.shape[-1], tiles)
    for dim, length in zip((-2, -1), size, strict=True):
        index = torch.arange(length, device=levels.device)
        levels = levels.index_select(dim, fold_index(index, levels.shape[dim], "reflect_101"))
    return levels


def _curves(levels: Int64[Tensor, "b c h w"], limit: Tensor, tiles: Size) -> Float[Tensor, "b c ty tx 256"]:
    """The curve of every tile, in float32: rounding is OpenCV's."""
    parts = levels.unflatten(-1, (tiles[1], -1)).unflatten(-3, (tiles[0], -1)).transpose(-3, -2).flatten(-2)  # b c ty tx n
    area = parts.shape[-1]
    empty = torch.zeros((*parts.shape[:-1], 256), dtype=torch.int64, device=levels.device)
    histogram = empty.scatter_add(-1, parts, torch.ones_like(parts))
    most = torch.floor(limit.to(wide_dtype(limit.device)) * area / 256.0).clamp(min=1.0).to(torch.int64)[:, None, None, None, None]
    spare = torch.relu(histogram - most).sum(-1, keepdim=True)
    each, rest = spare // 256, spare % 256
    step = (256 // rest.clamp(min=1)).clamp(min=1)
    level = torch.arange(256, device=levels.device)
    one_more = (level % step == 0) & (level // step < rest)
    histogram = torch.minimum(histogram, most) + each + one_more
    return torch.round(histogram.cumsum(-1).to(torch.float32) * (torch.full((), 255.0, device=levels.device) / area)).clamp(
        0.0, 255.0
    )

"""Patches from a pyramid in plain PyTorch: the specification every faster implementation must meet.

Owns: the pyramid, the choice and the blend of levels, the taps and the border.
Must not: know where frames come from, or guard against frames that are not finite.
Read next: ``layout.py``.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.kernels.patches.layout import BINOMIAL, Level, levels_of
from pellucid.types import Size

__all__ = ["patches", "pyramid"]


def patches(
    image: Float[Tensor, "b c h w"],
    frames: Float[Tensor, "b n 2 3"],
    span: Float[Tensor, "b n"],
    *,
    size: Size,
    levels: int,
) -> Float[Tensor, "b n c h2 w2"]:
    """Sample patches out of a pyramid of the image, bilinearly within a level and smoothly between levels.

    Args:
        image: repeats its border outside.
        frames: maps [-1, 1]^2, edge to edge, to pixel centres of the image. Finite.
        span: the squared distance, in image pixels, up to which to blur; at least 1, which reads the image itself. The blur's
            variance is near (span - 1) / 3 pixels.
        size: (height, width) of a patch.
        levels: how many levels to build. 1 is the image alone, and ``span`` means nothing then.

    Gradient:
        image: exact. frames: almost everywhere (one-sided where a sample lies on a pixel centre of its level). span: exact; it is
        continuous, and 0 where one level is read alone. Twice differentiable.
    Source:
        ``scipy.ndimage.correlate1d`` and ``map_coordinates``, mode nearest, to 1e-12 in float64.
    """
    packed = pyramid(image, levels)
    stack = levels_of(image.shape[-2], image.shape[-1], levels)
    x, y = _coordinates(frames, size)  # b n h2*w2
    if levels == 1:
        return _read(packed, stack, torch.zeros_like(span, dtype=torch.int64), x, y).unflatten(-1, size)
    fine, weight = _blend(span, levels)
    low = _read(packed, stack, fine, x, y)  # b n c h2*w2
    high = _read(packed, stack, fine + 1, x, y)
    weight = weight[..., None, None]
    high = torch.where(weight > 0, high, low)  # what is not read must not matter, even if it is not finite
    return (low + weight * (high - low)).unflatten(-1, size)


def pyramid(image: Float[Tensor, "b c h w"], levels: int) -> Float[Tensor, "b c t"]:
    """The image and its halvings, one after the other; ``layout.py`` says where each is.

    Gradient:
        image: exact. Twice differentiable.
    """
    stack = levels_of(image.shape[-2], image.shape[-1], levels)
    current, packed = image, [image.flatten(2)]
    for above, level in pairwise(stack):
        current = _halve(_halve(current, above, level, rows=False), above, level, rows=True)
        packed.append(current.flatten(2))
    return torch.cat(packed, 2) if levels > 1 else packed[0]


def _halve(image: Tensor, above: Level, level: Level, *, rows: bool) -> Tensor:
    """Blur with the five taps along one axis and keep every second pixel."""
    low, length, first, count = (
        (above.low_y, above.height, level.low_y, level.height) if rows else (above.low_x, above.width, level.low_x, level.width)
    )
    before, after = low - (2 * first - 2), 2 * (first + count - 1) + 2 - (low + length - 1)
    padded = F.pad(image, (0, 0, before, after) if rows else (before, after, 0, 0), mode="replicate")
    total: Tensor | None = None
    for tap, share in enumerate(BINOMIAL):
        every = slice(tap, tap + 2 * count - 1, 2)
        part = share * (padded[:, :, every] if rows else padded[..., every])
        total = part if total is None else total + part
    assert total is not None
    return total


def _coordinates(frames: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """Image x and y of every sample, each (b, n, h2*w2)."""
    v, u = ((2.0 * torch.arange(n, dtype=frames.dtype, device=frames.device) + 1.0) / n - 1.0 for n in size)
    m = frames[..., None, None]  # b n 2 3 1 1
    v = v[:, None]
    x = m[:, :, 0, 0] * u + (m[:, :, 0, 1] * v + m[:, :, 0, 2])  # b n h2 w2
    y = m[:, :, 1, 0] * u + (m[:, :, 1, 1] * v + m[:, :, 1, 2])
    return x.flatten(2), y.flatten(2)


def _blend(span: Tensor, levels: int) -> tuple[Int64[Tensor, "b n"], Tensor]:
    """The finer of the two levels each patch reads, and the other's weight: an S-shaped curve of the blur's variance.

    Level l has a variance of (4^l - 1) / 3 pixels, so t is where the wanted one lies between two levels. The curve is flat at both
    ends, which makes the result's derivative in the scale continuous across levels.
    """
    fine = torch.zeros_like(span, dtype=torch.int64)
    for level in range(1, levels - 1):
        fine = fine + (span >= 4.0**level)
    t = (span * 0.25**fine - 1.0) / 3.0
    t = torch.where(t > 0, torch.where(t < 1, t, 1.0), 0.0)
    return fine, t * t * (3.0 - 2.0 * t)


def _read(packed: Tensor, stack: list[Level], which: Tensor, x: Tensor, y: Tensor) -> Float[Tensor, "b n c p"]:
    """Bilinear samples of each patch's own level."""
    batch, channels, _ = packed.shape
    low_y, low_x, height, width, start = (
        constant(column, torch.int64, x.device)[which][..., None]  # b n 1
        for column in zip(*stack, strict=True)
    )
    shrink = 0.5 ** which[..., None].to(x.dtype)
    left, right, tx = _axis(x * shrink - low_x, width)
    upper, lower, ty = _axis(y * shrink - low_y, height)

    def gather(row: Tensor, column: Tensor) -> Tensor:
        index = (start + row * width + column).flatten(1)[:, None].expand(batch, channels, -1)
        return torch.gather(packed, 2, index).unflatten(2, x.shape[1:])  # b c n p

    tx, ty = tx[:, None], ty[:, None]
    top_left, bottom_left = gather(upper, left), gather(lower, left)
    top = top_left + tx * (gather(upper, right) - top_left)
    bottom = bottom_left + tx * (gather(lower, right) - bottom_left)
    return (top + ty * (bottom - top)).transpose(1, 2)


def _axis(x: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The two neighbours of a coordinate on an axis that repeats its ends, and the position between them."""
    last = length - 1
    x = torch.where(x > 0, torch.where(x < last, x, last.to(x.dtype)), 0.0)
    base = torch.floor(x)
    first = base.to(torch.int64)
    return first, torch.minimum(first + 1, last), x - base

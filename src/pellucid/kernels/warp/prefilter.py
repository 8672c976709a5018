"""Antialiasing of a general warp: low-pass the source to the footprint of an output pixel, then interpolate.

Owns: footprints from a matrix, and the separable tent filter with a per-sample width.
Must not: resample; widths follow the matrix differentiably and need no host sync.
Read next: ``../resize/reference.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.constants import constant
from pellucid.kernels.warp.taps import FILLED_MODES, fold_index
from pellucid.types import Size

__all__ = ["fold_coordinate", "footprints", "prefilter", "tent"]


def tent(t: Tensor) -> Tensor:
    """max(0, 1 - |t|)."""
    return torch.relu(1.0 - t.abs())


def footprints(src_from_dst: Float[Tensor, "b rows 3"], size: Size) -> tuple[Tensor, Tensor]:
    """(vertical, horizontal) extent in input pixels of one output pixel, at least 1, at the output's centre: each (b,).

    The norm of each row of the Jacobian: for a pure scaling its factor; under rotation the same in both directions.
    """
    linear = src_from_dst[:, :2, :2]
    if src_from_dst.shape[1] == 3:
        centre = constant(((size[1] - 1) / 2, (size[0] - 1) / 2, 1.0), linear.dtype, linear.device)
        point = src_from_dst @ centre  # b 3
        w = torch.where(point[:, 2] == 0, 1.0, point[:, 2])[:, None, None]
        linear = (linear - point[:, :2, None] / w * src_from_dst[:, 2:, :2]) / w
    norms = torch.sqrt((linear * linear).sum(-1).clamp(min=1.0))  # b 2; below 1 nothing aliases
    return norms[:, 1], norms[:, 0]


def fold_coordinate(x: Tensor, length: int, padding_mode: str) -> Tensor:
    """Bring coordinates back onto the image by the border rule, so that the filtered canvas needs no other rule."""
    if padding_mode == "reflection":
        t = torch.remainder(x + 0.5, 2 * length)
        return torch.where(t < length, t, 2 * length - t) - 0.5
    if padding_mode == "reflect_101":
        period = max(2 * (length - 1), 1)
        t = torch.remainder(x, period)
        return torch.where(t <= length - 1, t, period - t)
    return torch.remainder(x + 0.5, length) - 0.5 if padding_mode == "wrap" else x


def prefilter(
    image: Float[Tensor, "b c h w"], src_from_dst: Float[Tensor, "b rows 3"], size: Size, padding_mode: str, bound: Size
) -> tuple[Tensor, tuple[Tensor, Tensor] | None, Size]:
    """Low-pass with a tent as wide as the footprint; widths are cut off at the static ``bound``.

    Returns:
        The filtered image on a canvas with a margin (what leaks over the border stays visible), the filtered coverage of
        each axis (None where the padding leaves no outside), and the margin (vertical, horizontal).
    """
    margin = (bound[0] + 1, bound[1] + 1)
    with torch.autocast(image.device.type, enabled=False):  # positions and weights need all their bits
        vertical, horizontal = (torch.clamp(f, max=float(b)) for f, b in zip(footprints(src_from_dst, size), bound, strict=True))
        rows = _filter_matrix(vertical.to(image.dtype), image.shape[-2], margin[0], padding_mode)  # b h+2m h
        columns = _filter_matrix(horizontal.to(image.dtype), image.shape[-1], margin[1], padding_mode)  # b w+2m w
        filtered = rows[:, None] @ image @ columns.mT[:, None]
    coverage = (rows.sum(-1), columns.sum(-1)) if padding_mode in FILLED_MODES else None
    return filtered, coverage, margin


def _filter_matrix(width: Float[Tensor, "b"], length: int, margin: int, padding_mode: str) -> Float[Tensor, "b n length"]:
    """Row p holds the normalised tent of the given width around position p - margin, folded by the border rule."""
    position = torch.arange(-margin, length + margin, device=width.device)  # n
    source = torch.arange(-2 * margin, length + 2 * margin, device=width.device)  # e
    weights = tent((position[:, None] - source) / width[:, None, None])  # b n e
    weights = weights / weights.sum(-1, keepdim=True)
    folded = source if padding_mode in FILLED_MODES else fold_index(source, length, padding_mode)
    fold = (folded[:, None] == torch.arange(length, device=width.device)).to(width.dtype)  # e length
    return weights @ fold

"""One axis of a resampling: which pixels a coordinate touches, and with which weights.

Owns: the interpolation kernels and the border rules, one axis at a time.
Must not: see an image.
Read next: ``reference.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

__all__ = ["FILLED_MODES", "PADDING_MODES", "Tap", "axis_taps", "fold_index", "half_up", "keys_cubic", "tent"]

PADDING_MODES = ("zeros", "constant", "border", "reflection", "reflect_101", "wrap")
FILLED_MODES = ("zeros", "constant")
"""The modes in which the fill shows outside, mixed by coverage."""

_FAR = float(1 << 22)


class Tap(NamedTuple):
    """One neighbour on one axis."""

    position: Int64[Tensor, "*grid"]  # in [0, length)
    weight: Float[Tensor, "*grid"] | None  # None: 1
    inside: Bool[Tensor, "*grid"] | None  # None: always


def fold_index(index: Int64[Tensor, "*grid"], length: int, padding_mode: str) -> Int64[Tensor, "*grid"]:
    """Map any integer position to the pixel the border rule puts there."""
    if padding_mode in ("zeros", "constant", "border"):
        return index.clamp(0, length - 1)
    if padding_mode == "wrap":
        return torch.remainder(index, length)
    if padding_mode == "reflection":  # edge pixel repeated: ... b a | a b c ...
        index = torch.remainder(index, 2 * length)
        return torch.where(index < length, index, 2 * length - 1 - index)
    period = max(2 * (length - 1), 1)  # reflect_101, edge pixel not repeated: ... c b | a b c ...
    index = torch.remainder(index, period)
    return torch.where(index < length, index, period - index)


def keys_cubic(t: Float[Tensor, "*grid"], a: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights of the four neighbours for the fraction t in [0, 1] (Keys 1981); exact on linear ramps for a = -0.5."""
    s = 1.0 - t
    outer_left = a * t * s * s
    outer_right = a * s * t * t
    inner_left = 1.0 + t * t * ((a + 2.0) * t - (a + 3.0))
    inner_right = 1.0 + s * s * ((a + 2.0) * s - (a + 3.0))
    return outer_left, inner_left, inner_right, outer_right


def tent(t: Float[Tensor, "*grid"]) -> Float[Tensor, "*grid"]:
    """max(0, 1 - |t|)."""
    return torch.relu(1.0 - t.abs())


def half_up(length: int, dtype: torch.dtype) -> float:
    """The number added before nearest rounds down: a half, and what rounding may have lost of a coordinate on this axis.

    A scaling by a ratio of sizes and its shift are rounded, and so are product and sum: less than four half units of the last place
    of ``length`` together. Coordinates that are half-way in exact arithmetic are therefore rounded up, in every dtype.
    """
    return 0.5 + 2.0 * torch.finfo(dtype).eps * length


def axis_taps(coordinate: Float[Tensor, "*grid"], length: int, interpolation: str, padding_mode: str) -> list[Tap]:
    """The neighbours of finite coordinates on an axis of ``length`` pixels.

    Gradient:
        coordinate: that of the interpolation weights (almost everywhere; one-sided on pixel centres); none for nearest.
    """
    # Beyond these bounds the taps no longer change, so neither may the gradient; and int64 conversion stays defined.
    low, high = (-3.0, length + 2.0) if padding_mode in ("zeros", "constant", "border") else (-_FAR, _FAR)
    coordinate = coordinate.clamp(low, high)
    if interpolation == "nearest":
        return [_tap(torch.floor(coordinate + half_up(length, coordinate.dtype)).to(torch.int64), None, length, padding_mode)]
    base = torch.floor(coordinate)
    t = coordinate - base
    first = base.to(torch.int64)
    if interpolation == "bilinear":
        return [_tap(first, 1.0 - t, length, padding_mode), _tap(first + 1, t, length, padding_mode)]
    weights = keys_cubic(t, -0.75 if interpolation == "bicubic_opencv" else -0.5)
    return [_tap(first + k - 1, weight, length, padding_mode) for k, weight in enumerate(weights)]


def _tap(index: Tensor, weight: Tensor | None, length: int, padding_mode: str) -> Tap:
    if padding_mode not in FILLED_MODES:
        return Tap(fold_index(index, length, padding_mode), weight, None)
    inside = (index >= 0) & (index < length)
    if weight is not None:
        weight = weight * inside
    return Tap(index.clamp(0, length - 1), weight, inside)

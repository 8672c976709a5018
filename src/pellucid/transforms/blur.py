"""Blur and sharpness.

Owns: RandomGaussianBlur, RandomSharpness.
Must not: convolve; they build kernels.
Read next: ``noise.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.fields import Chance, Range, around_one, interval
from pellucid.random.numbers import is_finite
from pellucid.segments import Convolve, ConvolveSpec, Sharpen
from pellucid.transforms.base import Params, Transform, as_size, drawn, gated
from pellucid.types import EndClip, ImageSpec, Size

__all__ = ["RandomGaussianBlur", "RandomSharpness"]

_LARGEST_AUTOMATIC_KERNEL = 63


@dataclass(frozen=True)
class RandomGaussianBlur(Transform):
    """Blur with a Gaussian of random width.

    Args:
        kernel_size: odd number of taps, or (vertical, horizontal); None takes what the largest sigma needs (three sigmas to
            each side, at most 63 taps).
        sigma: standard deviation in pixels: a pair, a number, a `Learnable` or a distribution of values > 0.
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image, sigma, gate: exact.
    On each target:
        image only.
    Identity at:
        p = 0.
    Errors:
        InvalidArgument for an even number of taps, or a width that is not above 0.
    Source:
        ``torchvision.transforms.v2.functional.gaussian_blur``; borders mirror without repeating the edge pixel.

    Example:
        >>> import torch, pellucid
        >>> edge = torch.tensor([[[[0.0, 0.0, 1.0, 1.0]]]])
        >>> pellucid.RandomGaussianBlur((1, 3), sigma=1.0)(edge).flatten()
        tensor([0.0000, 0.2741, 0.7259, 1.0000])
    """

    kernel_size: int | Size | None = None
    sigma: Range = field(default=(0.1, 2.0), metadata=drawn(interval, low=1e-3))
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "sigma": "exact", "gate": "exact"}

    def check(self) -> None:
        if not all(taps % 2 for taps in self._taps()):
            raise invalid("RandomGaussianBlur.kernel_size", expected="odd numbers of taps", got=self.kernel_size)

    def _taps(self) -> tuple[int, int]:
        if self.kernel_size is not None:
            return as_size("RandomGaussianBlur.kernel_size", self.kernel_size)
        widest = self._fixed["sigma"].span()[1]
        taps = 2 * math.ceil(3.0 * widest) + 1 if is_finite(widest) else _LARGEST_AUTOMATIC_KERNEL
        return (min(taps, _LARGEST_AUTOMATIC_KERNEL), min(taps, _LARGEST_AUTOMATIC_KERNEL))

    def segment(self, spec: ImageSpec) -> ConvolveSpec:
        return ConvolveSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Convolve:
        vertical, horizontal = (_gaussian(values, taps) for taps in self._taps())
        return Convolve(vertical, horizontal)


def _gaussian(values: Params, taps: int) -> Tensor:
    sigma = values["sigma"][:, None]
    reach = torch.arange(taps, dtype=sigma.dtype, device=sigma.device) - (taps - 1) / 2
    weights = torch.exp(-0.5 * (reach / sigma) ** 2)
    return gated(values, weights / weights.sum(-1, keepdim=True), (reach == 0).to(sigma.dtype))


@dataclass(frozen=True)
class RandomSharpness(Transform):
    """Blend with a smoothed copy: factors above 1 sharpen, below 1 blur, 0 is the smoothed image.

    Args:
        sharpness: a number v draws the factor from (max(0, 1 - v), 1 + v); a pair or distribution is drawn from directly; a
            `Learnable` is a learned v.
        clip: ``end`` clips the result to [0, 1], ``none`` does not.
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image, sharpness, gate: almost everywhere (kinks of the clip).
    On each target:
        image only; the outermost pixels keep their values.
    Identity at:
        sharpness = 1.
    Errors:
        InvalidArgument for a negative factor, or an unknown option.
    Source:
        ``torchvision.transforms.v2.functional.adjust_sharpness`` and PIL's smoothing kernel.

    Example:
        >>> import torch, pellucid
        >>> grey = torch.full((1, 1, 3, 3), 0.5)
        >>> bool((pellucid.RandomSharpness((2, 2), p=1.0)(grey) - grey).abs().max() < 1e-6)
        True
    """

    sharpness: Range = field(default=0.5, metadata=drawn(around_one))
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = dict.fromkeys(("image", "sharpness", "gate"), "almost_everywhere")

    def segment(self, spec: ImageSpec) -> ConvolveSpec:
        return ConvolveSpec("interior")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Sharpen:
        amount = gated(values, values["sharpness"], 1.0)[:, None, None]
        smooth = torch.full((3, 3), 1.0 / 13.0, dtype=like.dtype, device=like.device)
        grid = torch.arange(3, device=like.device)
        middle = ((grid[:, None] == 1) & (grid == 1)).to(like.dtype)
        smooth = smooth + middle * (4.0 / 13.0)
        return Sharpen(amount * middle + (1.0 - amount) * smooth, self.clip == "end")

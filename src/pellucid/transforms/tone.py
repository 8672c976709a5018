"""Tone curves.

Owns: RandomGamma, RandomToneCurve.
Must not: mix channels.
Read next: ``blur.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.random.fields import Chance, Range, interval
from pellucid.segments import BlendSpec, Curve, CurveSpec, SegmentSpec
from pellucid.transforms.base import Params, Transform, drawn, gated, slopes
from pellucid.transforms.noise import Formula, wide
from pellucid.types import EndClip, ImageSpec

__all__ = ["RandomGamma", "RandomToneCurve"]


@dataclass(frozen=True)
class RandomGamma(Transform):
    """gain * x ** gamma.

    Args:
        gamma: a number, pair, `Learnable` or distribution of values > 0.
        gain: likewise, >= 0.

    Gradient:
        image, gamma, gain, gate: almost everywhere; 0 at black, where the true slope is infinite for gamma < 1.
    Identity at:
        gamma = 1, gain = 1.
    Source:
        ``torchvision.transforms.v2.functional.adjust_gamma``.

    Example:
        >>> pellucid.RandomGamma(2.0)(torch.tensor([[[[0.5, 1.0]]]])).flatten()
        tensor([0.2500, 1.0000])
    """

    gamma: Range = field(default=(0.7, 1.5), metadata=drawn(interval, low=1e-6))
    gain: Range = field(default=1.0, metadata=drawn(interval, low=0.0))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    gradients = slopes()

    def segment(self, spec: ImageSpec) -> CurveSpec:
        return CurveSpec(bounded=self.clip != "none", alone=True)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Curve:
        return Curve(gated(values, values["gamma"], 1.0), gated(values, values["gain"], 1.0), self.clip == "end")


def _bent(image: Tensor, low: Tensor, high: Tensor) -> Tensor:
    x = torch.clamp(image, 0.0, 1.0)
    return 3.0 * (1.0 - x) ** 2 * x * wide(low) + 3.0 * (1.0 - x) * x**2 * wide(high) + x**3


@dataclass(frozen=True)
class RandomToneCurve(Formula):
    """Replace each value x by that of a curve from 0 to 1, 3 (1 - x)^2 x low + 3 (1 - x) x^2 high + x^3.

    Args:
        low, high: the heights at which shadows and lights pull, from 0 to 1: a number, pair, `Learnable` or distribution.
            Values are clipped to [0, 1] before.

    Identity at:
        low = 1/3, high = 2/3 (to rounding), on images in [0, 1].
    Source:
        albumentations' transform of this name, in floating point; it draws both from normal distributions about 1/4 and 3/4.

    Example:
        >>> pellucid.RandomToneCurve(0.25, 0.75, p=1.0)(torch.tensor([[[[0.0, 0.25, 0.5, 1.0]]]])).flatten()
        tensor([0.0000, 0.2266, 0.5000, 1.0000])
    """

    low: Range = field(default=(0.05, 0.45), metadata=drawn(interval, low=0.0, high=1.0))
    high: Range = field(default=(0.55, 0.95), metadata=drawn(interval, low=0.0, high=1.0))
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    _formula = staticmethod(_bent)
    lowers_to: ClassVar[SegmentSpec | None] = BlendSpec(tabled=True)
    keyed: ClassVar[bool] = False
    white: ClassVar[bool] = True

"""Tone curves.

Owns: RandomGamma.
Must not: mix channels.
Read next: ``blur.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from pellucid.random.fields import Chance, Range, interval
from pellucid.segments import Curve, CurveSpec
from pellucid.transforms.base import Params, Transform, drawn, gated
from pellucid.types import EndClip, ImageSpec

__all__ = ["RandomGamma"]


@dataclass(frozen=True)
class RandomGamma(Transform):
    """gain * x ** gamma.

    Args:
        gamma: a number, pair, `Learnable` or distribution of values > 0.
        gain: likewise, >= 0.
        clip: ``end`` clips the result to [0, 1], ``none`` does not.
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image, gamma, gain, gate: almost everywhere; 0 at black, where the true slope is infinite for gamma < 1.
    On each target:
        image only.
    Identity at:
        gamma = 1, gain = 1.
    Errors:
        InvalidArgument for a gamma that is not above 0, or a negative gain.
    Source:
        ``torchvision.transforms.v2.functional.adjust_gamma``.

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomGamma(2.0)(torch.tensor([[[[0.5, 1.0]]]])).flatten()
        tensor([0.2500, 1.0000])
    """

    gamma: Range = field(default=(0.7, 1.5), metadata=drawn(interval, low=1e-6))
    gain: Range = field(default=1.0, metadata=drawn(interval, low=0.0))
    clip: EndClip = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = dict.fromkeys(("image", "gamma", "gain", "gate"), "almost_everywhere")

    def segment(self, spec: ImageSpec) -> CurveSpec:
        return CurveSpec(bounded=self.clip != "none", alone=True)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Curve:
        return Curve(gated(values, values["gamma"], 1.0), gated(values, values["gain"], 1.0), self.clip == "end")

"""Noise and erasing.

Owns: RandomGaussianNoise, RandomErasing.
Must not: generate noise; they draw its key.
Read next: ``__init__.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.constants import constant
from pellucid.errors import invalid
from pellucid.random.distributions import Bits, Distribution, Uniform
from pellucid.random.fields import Chance, Range, interval, log_range, no_lone_number
from pellucid.segments import BlendSpec, Noise, Patch
from pellucid.transforms.base import Params, Transform, drawn, gated, keep_learned
from pellucid.types import EndClip, Fill, ImageSpec, RandomNoise

__all__ = ["RandomErasing", "RandomGaussianNoise"]


@dataclass(frozen=True)
class RandomGaussianNoise(Transform):
    """Add Gaussian noise, drawn per pixel and channel.

    Args:
        mean: of the noise: a number, pair, `Learnable` or distribution.
        sigma: its standard deviation, likewise, >= 0.
        clip: ``end`` clips the result to [0, 1], ``none`` does not.
        p: probability.
        same_on_batch: one draw for the whole batch (and so one noise field).

    The record keeps two words per sample, not the field: replay makes the same field again. Frames of a video share it.

    Gradient:
        image, mean, sigma, gate: almost everywhere (kinks of the clip). words: none.
    On each target:
        image only.
    Identity at:
        mean = 0, sigma = 0.
    Errors:
        InvalidArgument for a negative standard deviation, or an unknown option.

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomGaussianNoise(mean=0.25, sigma=0.0)(torch.tensor([[[[0.5, 1.0]]]])).flatten()
        tensor([0.7500, 1.0000])
    """

    mean: Range = field(default=0.0, metadata=drawn(interval))
    sigma: Range = field(default=0.1, metadata=drawn(interval, low=0.0))
    clip: EndClip = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("image", "mean", "sigma", "gate"), "almost_everywhere"),
        "words": "none",
    }

    def check(self) -> None:
        keep_learned(self, "scale", "ratio")

    def segment(self, spec: ImageSpec) -> BlendSpec:
        return BlendSpec(noise=True)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "words": Bits()}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Noise:
        return Noise(values["words"], gated(values, values["mean"], 0.0), gated(values, values["sigma"], 0.0), self.clip == "end")


def _area(name: str, value: Range) -> Distribution:
    no_lone_number(name, value, lambda area: (0.0, area))
    return interval(name, value, low=0.0, high=1.0)


@dataclass(frozen=True)
class RandomErasing(Transform):
    """Paint a random rectangle over, with probability p.

    The rectangle is continuous: pixels cut by its edge are mixed by the share covered, so it has gradients.

    Args:
        p: probability.
        scale: area of the rectangle as a fraction of the image's: a pair, a `Learnable` or a distribution. A single number other
            than 0 and 1 raises: it could mean a range or always the same.
        ratio: width / height, likewise; a pair draws log-uniformly. Limited so that the rectangle fits the image.
        value: a number, one per channel, or ``"random"`` for standard normal noise; in [0, 1] units.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image: exact (zero under the rectangle). scale, ratio, x, y, gate: almost everywhere. words: none.
    On each target:
        image only.
    Identity at:
        p = 0.
    Errors:
        InvalidArgument for an area outside of [0, 1], a ratio that is not above 0, or a number of values that is not that
        of the channels.

    Example:
        >>> import torch, pellucid
        >>> erased = pellucid.RandomErasing(p=1.0, scale=(0.5, 0.5), ratio=(1.0, 1.0))(torch.ones(1, 1, 8, 8))
        >>> round(erased.mean().item(), 4)
        0.5
    """

    p: Chance = 0.5
    scale: Range = field(default=(0.02, 0.33), metadata=drawn(_area))
    ratio: Range = field(default=(0.3, 3.3), metadata=drawn(log_range))
    value: Fill | RandomNoise = 0.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {
        "image": "exact",
        **dict.fromkeys(("scale", "ratio", "x", "y", "gate"), "almost_everywhere"),
        "words": "none",
    }

    def check(self) -> None:
        keep_learned(self, "scale", "ratio")

    def segment(self, spec: ImageSpec) -> BlendSpec:
        if isinstance(self.value, tuple) and len(self.value) not in (1, spec.channels):
            raise invalid("RandomErasing.value", expected=f"{spec.channels} numbers, one per channel", got=self.value)
        return BlendSpec()

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        words = {"words": Bits()} if self.value == "random" else {}
        return {**super().draws(spec), "x": Uniform(0.0, 1.0), "y": Uniform(0.0, 1.0), **words}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Patch:
        area = values["scale"] * (spec.height * spec.width)
        # An empty rectangle is legal; the square root's slope there is not, so the area is kept off zero for it.
        area = torch.where(area > 0, area, 1e-12)
        ratio = torch.maximum(torch.minimum(values["ratio"], spec.width**2 / area), area / spec.height**2)
        width, height = torch.sqrt(area * ratio), torch.sqrt(area / ratio)
        left, top = values["x"] * (spec.width - width), values["y"] * (spec.height - height)
        width, height = gated(values, width, 0.0), gated(values, height, 0.0)
        box = torch.stack((left, top, left + width, top + height), dim=-1)
        if isinstance(self.value, str):
            return Patch(box, None, values["words"])
        colors = self.value if isinstance(self.value, tuple) else (self.value,)
        colors = colors * (spec.channels // len(colors))
        return Patch(box, constant(colors, like.dtype, like.device)[None], None)

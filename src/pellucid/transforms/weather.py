"""Rain and snow: RandomRain, RandomSnow.

Owns: RandomRain, RandomSnow.
Must not: make streaks or flakes; they draw their key.
Read next: ``plasma.py``.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.random.fields import Chance, Range, interval, symmetric
from pellucid.segments import Grain
from pellucid.transforms.base import Params, drawn, slopes
from pellucid.transforms.filters import distances, line
from pellucid.transforms.noise import Grained
from pellucid.types import EndClip, ImageSpec

__all__ = ["RandomRain", "RandomSnow"]

_LONGEST = 60.0
"""The longest streak, in pixels."""


@dataclass(frozen=True)
class RandomRain(Grained):
    """Let it rain: slanted streaks of light, mixed in as white.

    A share of the pixels get a brightness, uniform on (0, 1), and a streak of this brightness: a line through the pixel, spread
    bilinearly over the pixels beside it. Where streaks meet, their light adds up to at most 1. The picture x becomes
    x + strength * light * (1 - x).

    Args:
        strength: how white streaks are, 0 to 1: a number, pair, `Learnable` or distribution.
        density: the share of pixels at which a streak has its middle, from 1e-6 to 1, likewise.
        length: of streaks in pixels, 0 to 60, likewise.
        slant: of streaks in degrees counter-clockwise from the vertical: a number d for (-d, d), a pair, a `Learnable` magnitude
            or a distribution.

    The record keeps two words per sample, not the streaks. Frames of a video share them. Rain without sun is darker, too: add
    `RandomBrightness`.

    Identity at:
        strength = 0.
    Errors:
        InvalidArgument for a strength, density or length outside of its range.
    Source:
        Its formula: points of noise, blurred along a line (oracle: ``scipy.ndimage.shift(order=1)``).

    Example:
        >>> wet = pellucid.RandomRain(strength=0.5, density=0.05, p=1.0)(torch.zeros(1, 3, 64, 64))
        >>> bool((wet >= 0).all()), bool((wet <= 0.5).all()), bool(wet.any())
        (True, True, True)
    """

    strength: Range = field(default=(0.2, 0.7), metadata=drawn(interval, low=0.0, high=1.0))
    density: Range = field(default=(0.001, 0.01), metadata=drawn(interval, low=1e-6, high=1.0))
    _: KW_ONLY
    length: Range = field(default=(8.0, 24.0), metadata=drawn(interval, low=0.0, high=_LONGEST))
    slant: Range = field(default=15.0, metadata=drawn(symmetric))
    p: Chance = 0.5
    same_on_batch: bool = False

    law: ClassVar[str] = "rain"
    white: ClassVar[bool] = True
    gradients = slopes("exact", strength="exact", gate="exact")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        length = values["length"]
        reach = distances(1.0 + self._fixed["length"].span()[1] / 2.0, like)
        streak = line(length, values["slant"] + 90.0, reach) * (1.0 + length)[:, None, None]
        return super().lower(values, spec, like)._replace(numbers=(values["strength"], values["density"], streak))


@dataclass(frozen=True)
class RandomSnow(Grained):
    """Let it snow: flakes drawn out by their fall, over a picture that they make paler.

    At a strength of 1 this is ImageNet-C's snow of the given severity, for any size of picture; less is a mixture with the picture.

    Args:
        strength: 0 to 1: a number, pair, `Learnable` or distribution.
        angle: the direction that flakes come from, in degrees clockwise from the x axis, likewise; ImageNet-C has -135 to -45.
        severity: 1 to 5, as in ImageNet-C: how many flakes there are, how large, and how pale the picture is.

    The record keeps two words per sample, not the flakes. Frames of a video share them.

    Gradient:
        image, strength, gate: almost everywhere. angle: none (flakes are drawn out along whole pixels). words: none.
    Identity at:
        strength = 0, on images in [0, 1].
    Errors:
        InvalidArgument for a strength outside of [0, 1], another severity, or an unknown option.
    Source:
        Hendrycks and Dietterich, ICLR 2019; see ``pellucid.corruptions``.

    Example:
        >>> white = pellucid.RandomSnow(1.0, severity=3, p=1.0)(torch.zeros(1, 3, 32, 32))
        >>> bool((white >= 0.15 - 1e-6).all())  # paler everywhere
        True
    """

    strength: Range = field(default=(0.3, 1.0), metadata=drawn(interval, low=0.0, high=1.0))
    _: KW_ONLY
    angle: Range = field(default=(-135.0, -45.0), metadata=drawn(interval))
    severity: int = 2
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    law: ClassVar[str] = "snow"
    gradients = slopes(angle="none")

    def check(self) -> None:
        object.__setattr__(self, "severity", whole_number("RandomSnow.severity", self.severity, 1, 5))

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        return super().lower(values, spec, like)._replace(most=float(self.severity))

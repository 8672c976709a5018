"""Noise, by its law.

Owns: RandomGaussianNoise, MultiplicativeNoise, ISONoise, PoissonGaussianNoise, ShotNoise, RicianNoise, SaltAndPepper.
Must not: draw noise; it follows from a key.
Read next: ``holes.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.color.hsv import shift_hue
from pellucid.random.distributions import Distribution
from pellucid.random.fields import Chance, Range, interval
from pellucid.random.patterns import uniform_field
from pellucid.segments import BlendSpec, Grain, Noise, SegmentSpec
from pellucid.transforms.base import Names, Params, Transform, drawn, gated, slopes
from pellucid.types import EndClip, ImageSpec

__all__ = [
    "ISONoise", "MultiplicativeNoise", "PoissonGaussianNoise", "RandomGaussianNoise", "RicianNoise", "SaltAndPepper",
    "ShotNoise",
]  # fmt: skip

_MOST_SQUARED = 1e18
"""A deviation whose squared noise float32 holds."""


@dataclass(frozen=True)
class RandomGaussianNoise(Transform):
    """Add Gaussian noise, drawn per pixel and channel.

    Args:
        mean: of the noise: a number, pair, `Learnable` or distribution.
        sigma: its standard deviation, likewise, >= 0.

    The record keeps two words per sample, not the field: replay makes the same field again. Frames of a video share it, unless the
    pipeline's ``per_frame`` names it.

    Identity at:
        mean = 0, sigma = 0.

    Example:
        >>> pellucid.RandomGaussianNoise(mean=0.25, sigma=0.0)(torch.tensor([[[[0.5, 1.0]]]])).flatten()
        tensor([0.7500, 1.0000])
    """

    mean: Range = field(default=0.0, metadata=drawn(interval))
    sigma: Range = field(default=0.1, metadata=drawn(interval, low=0.0))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    keyed: ClassVar[bool] = True
    like: ClassVar[Names] = {"torchvision": "GaussianNoise", "albumentations": ("AdditiveNoise", "GaussNoise")}
    gradients = slopes()
    lowers_to: ClassVar[SegmentSpec | None] = BlendSpec(noise=True)
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Noise:
        return Noise(values["words"], gated(values, values["mean"], 0.0), gated(values, values["sigma"], 0.0), self.clip == "end")


class Grained(Transform):
    """The base: a law by name, with the drawn numbers and the words of a random field."""

    law: ClassVar[str]
    keyed: ClassVar[bool] = True
    gradients = slopes()
    lowers_to: ClassVar[SegmentSpec | None] = BlendSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        numbers = tuple(values[name] for name in self._fixed if name != "gate")
        clip = getattr(self, "clip", "none") == "end"
        return Grain(self.law, values.get("words"), numbers, values.get("gate"), clip, self._most())

    def _most(self) -> float:
        """The largest rate that may be drawn, for laws that count photons."""
        return 0.0


class Formula(Grained):
    """The base: a formula in plain torch, through which gradients pass to all drawn values but words."""

    law: ClassVar[str] = "formula"
    _formula: ClassVar[Callable[..., Tensor]]

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        return super().lower(values, spec, like)._replace(law=self._formula)


def wide(number: Float[Tensor, "#b"]) -> Float[Tensor, "#b 1 1 1"]:
    """A number for each sample, with axes that broadcast over images."""
    return number[:, None, None, None]


@dataclass(frozen=True)
class MultiplicativeNoise(Grained):
    """Multiply every value by a factor of its own, uniform on (1 - strength, 1 + strength).

    One factor for the whole picture is `RandomBrightness`.

    Args:
        strength: 0 to 1: a number, pair, `Learnable` or distribution.

    Identity at:
        strength = 0, on images in [0, 1].
    Source:
        albumentations' transform of this name with ``elementwise=True, per_channel=True``.

    Example:
        >>> noisy = pellucid.MultiplicativeNoise(0.2, p=1.0)(torch.full((1, 3, 8, 8), 0.5))
        >>> bool((noisy >= 0.4).all()), bool((noisy <= 0.6).all())
        (True, True)
    """

    strength: Range = field(default=(0.0, 0.2), metadata=drawn(interval, low=0.0, high=1.0))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    law: ClassVar[str] = "speckle"


def _sensed(image: Tensor, words: Tensor, color_shift: Tensor, intensity: Tensor) -> Tensor:
    normal = torch.special.ndtri(uniform_field(words, (2, image.shape[2], image.shape[3]), image.dtype))
    turned = shift_hue(image.movedim(1, -1)[..., None, None], (color_shift * intensity)[:, None, None] * normal[:, 0])
    turned = turned[..., 0, 0].movedim(-1, 1)
    light = 0.5 * (turned.amax(1, keepdim=True) + turned.amin(1, keepdim=True))
    # An empty batch has no variance, and torch would warn of it.
    variance = light.var((2, 3), keepdim=True, unbiased=False) if len(light) else light[:, :, :1, :1]
    varies = variance > 1e-12  # the square root of a flat picture's variance has no slope
    rate = torch.where(varies, torch.sqrt(torch.where(varies, variance, 1.0)), 0.0) * wide(intensity)
    counted = rate + torch.where(varies, torch.sqrt(torch.where(varies, rate, 1.0)), 0.0) * normal[:, 1:]
    brighter = torch.clamp(light + wide(intensity) * counted * (1.0 - light), 0.0, 1.0)
    room = 1.0 - (2.0 * light - 1.0).abs()
    grey = room < 1e-6
    share = torch.where(grey, 0.0, (1.0 - (2.0 * brighter - 1.0).abs()) / torch.where(grey, 1.0, room))
    return brighter + (turned - light) * share


@dataclass(frozen=True)
class ISONoise(Formula):
    """Add the noise of a camera at a high ISO: a hue and a light of its own for every pixel.

    In HLS, the hue is shifted by a normal number of standard deviation color_shift * intensity turns. To the light l is added
    intensity * n * (1 - l), where n is normal with a mean and a variance of intensity times the standard deviation of the picture's
    light. Saturation stays.

    Args:
        color_shift: 0 to 0.5: a number, pair, `Learnable` or distribution.
        intensity: 0.001 to 1, likewise.

    Source:
        albumentations' transform of this name, with a normal number in the place of a Poisson number of the same mean and variance.

    Example:
        >>> grey = torch.full((1, 3, 8, 8), 0.5)
        >>> bool(torch.allclose(pellucid.ISONoise(p=1.0)(grey), grey))  # neither hue nor contrast
        True
    """

    color_shift: Range = field(default=(0.01, 0.05), metadata=drawn(interval, low=0.0, high=0.5))
    intensity: Range = field(default=(0.1, 0.5), metadata=drawn(interval, low=1e-3, high=1.0))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    channels: ClassVar[tuple[int, ...]] = (3,)
    absent: ClassVar[Mapping[str, str]] = {"mps": "special.ndtri"}
    _formula = staticmethod(_sensed)


@dataclass(frozen=True)
class PoissonGaussianNoise(Grained):
    """Add the noise of a camera's sensor: Gaussian, with a variance that grows with the light, gain * x + sigma ** 2.

    Args:
        gain: the light that one photon adds to a pixel: a number, pair, `Learnable` or distribution, >= 0.
        sigma: standard deviation in the dark, likewise.

    Gradient:
        image, gain, sigma, gate: almost everywhere (kinks of the clip; none where the variance is 0). words: none.
    Identity at:
        gain = 0, sigma = 0.
    Source:
        Foi et al., "Practical Poissonian-Gaussian noise modeling and fitting for single-image raw-data", 2008, without its clipping
        of what is too bright.

    Example:
        >>> black = torch.zeros(1, 1, 2, 2)
        >>> bool((pellucid.PoissonGaussianNoise(0.1, 0.0)(black) == 0).all())
        True
    """

    gain: Range = field(default=(0.001, 0.01), metadata=drawn(interval, low=0.0))
    sigma: Range = field(default=(0.0, 0.02), metadata=drawn(interval, low=0.0))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    law: ClassVar[str] = "poisson_gaussian"


@dataclass(frozen=True)
class ShotNoise(Grained):
    """Count photons: draw from the Poisson distribution of mean photons * x, and divide by photons.

    Args:
        photons: how many make white: a number, pair, `Learnable` or distribution, in [1, 80]. Few are noisy.

    Images are clipped to [0, 1] first, and the result at 1. Each pixel's count is the quantile of a number that the key fixes.

    Gradient:
        image: surrogate (1, the slope of the mean; zero where clipped). photons: surrogate (that of the normal distribution of
        the same mean and variance). gate: exact. words: none.
    Source:
        Hendrycks and Dietterich, "Benchmarking neural network robustness", ICLR 2019 (oracle: ``scipy.stats.poisson``).

    Example:
        >>> levels = pellucid.ShotNoise(4.0, p=1.0)(torch.full((1, 1, 16, 16), 0.5)) * 4
        >>> bool((levels == levels.round()).all())
        True
    """

    photons: Range = field(default=(5.0, 60.0), metadata=drawn(interval, low=1.0, high=80.0))
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    law: ClassVar[str] = "shot"
    gradients = slopes("surrogate: mean", photons="surrogate: normal", gate="exact")
    white: ClassVar[bool] = True

    def _most(self) -> float:
        return min(80.0, self._fixed["photons"].span()[1])


def _deviation(name: str, value: Range) -> Distribution:
    """As `interval`, but so that float32 holds the squares; a `Learnable` is bounded below only."""
    return interval(name, interval(name, value, low=0.0), high=_MOST_SQUARED)


@dataclass(frozen=True)
class RicianNoise(Grained):
    """Add the noise of magnetic resonance scans, which show the length of complex numbers: sqrt((x + n) ** 2 + m ** 2).

    Args:
        sigma: standard deviation of n and of m: a number, pair, `Learnable` or distribution, from 0 to 1e18.

    Gradient:
        image, sigma, gate: almost everywhere. words: none.
    Identity at:
        sigma = 0, where nothing is negative.
    Source:
        Gudbjartsson and Patz, "The Rician distribution of noisy MRI data", 1995 (oracle: ``scipy.stats.rice``; MONAI's
        RandRicianNoise).

    Example:
        >>> pellucid.RicianNoise(0.0)(torch.tensor([[[[0.5, -1.0]]]])).flatten()
        tensor([0.5000, 1.0000])
    """

    sigma: Range = field(default=(0.0, 0.1), metadata=drawn(_deviation))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    law: ClassVar[str] = "rician"
    like: ClassVar[Names] = {"monai": "RandRicianNoised"}


@dataclass(frozen=True)
class SaltAndPepper(Grained):
    """Replace a share of the values by white or black, each channel for itself.

    Args:
        amount: the share, in [0, 1]: a number, pair, `Learnable` or distribution.
        salt: the share of the replaced values that is white, likewise.

    Gradient:
        image: exact (zero where replaced). amount, salt: surrogate (the slope of the mean result). gate: exact. words: none.
    Identity at:
        amount = 0.
    Source:
        ``skimage.util.random_noise(mode="s&p")``.

    Example:
        >>> pellucid.SaltAndPepper(amount=1.0, salt=1.0, p=1.0)(torch.zeros(1, 1, 1, 3)).flatten()
        tensor([1., 1., 1.])
    """

    amount: Range = field(default=(0.01, 0.06), metadata=drawn(interval, low=0.0, high=1.0))
    salt: Range = field(default=0.5, metadata=drawn(interval, low=0.0, high=1.0))
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    law: ClassVar[str] = "salt_and_pepper"
    like: ClassVar[Names] = {"kornia": "RandomSaltAndPepperNoise"}
    gradients = slopes("exact", amount="surrogate: mean", salt="surrogate: mean", gate="exact")

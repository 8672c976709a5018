"""Colour by channel, as one affine map: dropped channels, shifts, colour temperature, additive brightness and contrast.

Owns: ChannelDropout, RGBShift, FancyPCA, PlanckianJitter, RandomSepia, RandomBrightnessContrast.
Must not: mix pixels; all of it joins the run's resample.
Read next: ``hsv.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.color.temperature import LIMITS, gains_of
from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.random.distributions import Distribution, Normal, Permutation
from pellucid.random.fields import Chance, Range, confined, interval, symmetric
from pellucid.random.numbers import as_number
from pellucid.segments import Color
from pellucid.transforms.base import Names, Params, drawn, gated
from pellucid.transforms.color import Coloring
from pellucid.types import EndClip, ImageSpec

__all__ = ["ChannelDropout", "FancyPCA", "PlanckianJitter", "RGBShift", "RandomBrightnessContrast", "RandomSepia"]

_SEPIA = (0.393, 0.769, 0.189), (0.349, 0.686, 0.168), (0.272, 0.534, 0.131)


def _scaled(factors: Float[Tensor, "#b #c"], channels: int) -> Float[Tensor, "b c c"]:
    """The matrix that multiplies every channel by its factor."""
    return factors[:, :, None] * torch.eye(channels, dtype=factors.dtype, device=factors.device)


@dataclass(frozen=True)
class ChannelDropout(Coloring):
    """Paint whole channels over, with probability p.

    Args:
        count: how many channels: a number, pair, `Learnable` or distribution of values >= 0. At 1.5, a second channel is mixed half
            with the fill; ``Categorical((1, 2))`` draws whole numbers.
        fill: their value, in [0, 1] units.

    Identity at:
        count = 0.

    Example:
        >>> pellucid.ChannelDropout(2, p=1.0)(torch.ones(1, 3, 1, 1)).sum()
        tensor(1.)
    """

    count: Range = field(default=1.0, metadata=drawn(interval, low=0.0))
    _: KW_ONLY
    fill: float = 0.0
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomChannelDropout"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "exact", "count": "almost_everywhere", "order": "none"}

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "order": Permutation(spec.channels)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        rank = values["order"].to(like.dtype)  # b c: a permutation is a rank, too
        share = gated(values, 1.0 - torch.clamp(values["count"][:, None] - rank, 0.0, 1.0), 1.0)
        return Color(_scaled(share, spec.channels), (1.0 - share) * self.fill)


@dataclass(frozen=True)
class RGBShift(Coloring):
    """Add a number of its own to each of the three channels.

    Args:
        red, green, blue: a number m draws from (-m, m); a pair or distribution is drawn from directly; a `Learnable` is a learned
            m. In [0, 1] units.

    Identity at:
        red = green = blue = 0.

    Example:
        >>> pellucid.RGBShift(red=(0.5, 0.5), green=0.0, blue=(-0.25, -0.25), p=1.0)(torch.full((1, 3, 1, 1), 0.25)).flatten()
        tensor([0.7500, 0.2500, 0.0000])
    """

    _: KW_ONLY
    red: Range = field(default=0.08, metadata=drawn(symmetric))
    green: Range = field(default=0.08, metadata=drawn(symmetric))
    blue: Range = field(default=0.08, metadata=drawn(symmetric))
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomRGBShift"}
    channels: ClassVar[tuple[int, ...]] = (3,)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        shift = torch.stack((values["red"], values["green"], values["blue"]), -1)
        return Color(_scaled(torch.ones_like(shift), 3), gated(values, shift, 0.0))


_PRINCIPAL = (-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203)
_SPREAD = (0.2175, 0.0188, 0.0045)
"""The principal axes of the colours of ImageNet's pictures, and the variances along them."""


def _along_axes(name: str, alpha: Range) -> dict[str, Distribution]:
    if isinstance(alpha, tuple | list):
        raise invalid(name, expected="a standard deviation, a Learnable or a distribution", got=repr(alpha))
    if isinstance(alpha, Distribution):
        return dict.fromkeys(FancyPCA.tied, interval(name, alpha))
    interval(name, alpha, low=0.0)  # its errors name the field
    return dict.fromkeys(FancyPCA.tied, Normal(0.0, as_number(name, confined(name, alpha, 0.0, math.inf))))


@dataclass(frozen=True)
class FancyPCA(Coloring):
    """Shift the colour along the principal axes of ImageNet's colours, by how much these vary along each.

    Args:
        alpha: the standard deviation of a normal number for each axis: a number, or a `Learnable` one; or a distribution that they
            are drawn from.

    Identity at:
        alpha = 0.
    Source:
        Krizhevsky et al., "ImageNet classification with deep convolutional neural networks", 2012; the axes of fb.resnet.torch.

    Example:
        >>> pellucid.FancyPCA(pellucid.Constant(1.0), p=1.0)(torch.full((1, 3, 1, 1), 0.5)).flatten()
        tensor([0.3919, 0.3699, 0.3619])
    """

    alpha: Range = field(default=0.1, metadata=drawn(_along_axes, "alpha_0", "alpha_1", "alpha_2"))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    tied: ClassVar[tuple[str, ...]] = ("alpha_0", "alpha_1", "alpha_2")
    channels: ClassVar[tuple[int, ...]] = (3,)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        along = torch.stack([values[name] * spread for name, spread in zip(self.tied, _SPREAD, strict=True)], -1)
        shift = along @ constant(sum(_PRINCIPAL, ()), along.dtype, along.device).unflatten(0, (3, 3)).T
        return Color(_scaled(torch.ones_like(shift), 3), gated(values, shift, 0.0))


@dataclass(frozen=True)
class PlanckianJitter(Coloring):
    """Change the colour of the light to that of a black body at a random temperature.

    Red and blue are multiplied by their strength in such a light relative to green in linear sRGB, where 6500 K is almost white:
    lower temperatures are warmer.

    Args:
        temperature: in kelvin, 2000 to 25000: a number, pair, `Learnable` or distribution.

    Source:
        Zini et al., "Planckian jitter", ICLR 2023; the Planckian locus by Kim et al., "Design of advanced color temperature control
        system for HDTV applications", 2002 (oracle: the chromaticity of CIE illuminant A).

    Example:
        >>> warm = pellucid.PlanckianJitter(3000, p=1.0)(torch.full((1, 3, 1, 1), 0.4)).flatten()
        >>> bool(warm[0] > warm[1] > warm[2])
        True
    """

    temperature: Range = field(default=(3000.0, 15000.0), metadata=drawn(interval, low=LIMITS[0], high=LIMITS[1]))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "RandomPlanckianJitter"}
    channels: ClassVar[tuple[int, ...]] = (3,)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        return Color(_scaled(gated(values, gains_of(values["temperature"]), 1.0), 3))


@dataclass(frozen=True)
class RandomSepia(Coloring):
    """Mix the picture with its sepia print.

    Args:
        strength: 0 is the picture, 1 the print: a number, pair, `Learnable` or distribution of values in [0, 1].

    Identity at:
        strength = 0.
    Source:
        albumentations' ``ToSepia`` at strength 1, whose matrix Microsoft published.

    Example:
        >>> pellucid.RandomSepia(1.0, p=1.0)(torch.full((1, 3, 1, 1), 0.5)).flatten()
        tensor([0.6755, 0.6015, 0.4685])
    """

    strength: Range = field(default=1.0, metadata=drawn(interval, low=0.0, high=1.0))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "ToSepia"}
    channels: ClassVar[tuple[int, ...]] = (3,)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        strength = gated(values, values["strength"], 0.0)[:, None, None]
        same = torch.eye(3, dtype=like.dtype, device=like.device)
        rows = [constant(row, like.dtype, like.device) for row in _SEPIA]
        return Color(same + strength * (torch.stack(rows) - same))


@dataclass(frozen=True)
class RandomBrightnessContrast(Coloring):
    """(1 + contrast) * x + brightness: the additive brightness, and the contrast about black, of albumentations.

    `ColorJitter` multiplies by the brightness, and turns the contrast about the mean luma.

    Args:
        brightness, contrast: a number m draws from (-m, m); a pair or distribution is drawn from directly; a `Learnable` is a
            learned m. 1 of brightness is white.

    Identity at:
        brightness = 0, contrast = 0.
    Source:
        albumentations' transform of this name with ``brightness_by_max=True``.

    Example:
        >>> pellucid.RandomBrightnessContrast((0.25, 0.25), (0.5, 0.5), p=1.0)(torch.tensor([[[[0.0, 0.25]]]])).flatten()
        tensor([0.2500, 0.6250])
    """

    brightness: Range = field(default=0.2, metadata=drawn(symmetric))
    contrast: Range = field(default=0.2, metadata=drawn(symmetric))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        scale, shift = 1.0 + gated(values, values["contrast"], 0.0), gated(values, values["brightness"], 0.0)
        return Color(_scaled(scale[:, None], spec.channels), shift[:, None].expand(-1, spec.channels))

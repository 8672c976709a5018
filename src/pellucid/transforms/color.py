"""Colour maps other than jitter: greyscale, inversion, channel order, normalisation.

Owns: RandomGrayscale, RandomInvert, RandomChannelShuffle, Normalize, Denormalize.
Must not: clip; none of these leaves the range by surprise.
Read next: ``tone.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from pellucid.color.maps import luma_map
from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.random.distributions import Distribution, Permutation
from pellucid.random.fields import Chance
from pellucid.segments import Color, ColorSpec
from pellucid.transforms.base import Names, Params, Transform, gated_matrix, slopes
from pellucid.types import ImageSpec

__all__ = ["Denormalize", "Normalize", "RandomChannelShuffle", "RandomGrayscale", "RandomInvert"]


class Coloring(Transform):
    """The base of transforms that lower to one colour map; a subclass has a ``clip`` where users may choose one."""

    gradients = slopes()
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)

    def segment(self, spec: ImageSpec) -> ColorSpec:
        self._check_channels(spec)
        return ColorSpec(clip=getattr(self, "clip", "none"))


@dataclass(frozen=True)
class RandomGrayscale(Coloring):
    """Replace all three channels by the luma, with probability p.

    Args:
        p: probability.

    On each target:
        image only; the number of channels stays.
    Identity at:
        p = 0, and for grey images.

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1)
        >>> pellucid.RandomGrayscale(p=1.0)(red).flatten()
        tensor([0.2990, 0.2990, 0.2990])
    """

    p: Chance = 0.1
    _: KW_ONLY
    same_on_batch: bool = False

    like: ClassVar[Names] = {"torchvision": "Grayscale", "albumentations": "ToGray"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "exact"}
    channels: ClassVar[tuple[int, ...]] = (1, 3)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        gate = values.get("gate", torch.ones_like(like)[None])
        one = torch.ones_like(gate)
        return Color(luma_map(one if spec.channels == 1 else one - gate, one, spec.channels))


@dataclass(frozen=True)
class RandomInvert(Coloring):
    """Replace x by 1 - x, with probability p.

    Args:
        p: probability.


    Example:
        >>> pellucid.RandomInvert(p=1.0)(torch.tensor([[[[0.25, 1.0]]]])).flatten()
        tensor([0.7500, 0.0000])
    """

    p: Chance = 0.5
    _: KW_ONLY
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "InvertImg"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "exact"}
    white: ClassVar[bool] = True

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        gate = values.get("gate", torch.ones_like(like)[None])
        identity = torch.eye(spec.channels, dtype=like.dtype, device=like.device)
        return Color((1.0 - 2.0 * gate)[:, None, None] * identity, gate[:, None].expand(-1, spec.channels))


@dataclass(frozen=True)
class RandomChannelShuffle(Coloring):
    """Reorder the channels at random, with probability p.

    Args:
        p: probability.


    Example:
        >>> image = torch.tensor([0.1, 0.2, 0.3]).reshape(1, 3, 1, 1)
        >>> pellucid.RandomChannelShuffle(p=1.0)(image).flatten().sort().values
        tensor([0.1000, 0.2000, 0.3000])
    """

    p: Chance = 0.5
    _: KW_ONLY
    same_on_batch: bool = False

    like: ClassVar[Names] = {"torchvision": "RandomChannelPermutation", "albumentations": "ChannelShuffle"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "exact", "order": "none"}

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "order": Permutation(spec.channels)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        columns = torch.arange(spec.channels, device=like.device)
        return Color(gated_matrix(values, (values["order"][:, :, None] == columns).to(like.dtype)))


class _Statistics(Transform):
    """The base of `Normalize` and `Denormalize`."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)

    def check(self) -> None:
        owner, count = type(self).__name__, (len(self.mean), len(self.std))
        if count[0] != count[1]:
            expected = "two sequences of one length"
            raise invalid(f"{owner}.mean and std", expected=expected, got=f"{count[0]} and {count[1]} numbers")
        if min(self.std) <= 0:
            raise invalid(f"{owner}.std", expected="numbers > 0", got=self.std)

    def segment(self, spec: ImageSpec) -> ColorSpec:
        count = len(self.mean)
        if count != 1 and count != spec.channels:  # no container: the number of channels may be a symbol
            expected = f"statistics for {spec.channels} channels (or one for all)"
            raise invalid(type(self).__name__, expected=expected, got=f"{count} numbers")
        return ColorSpec()

    def per_channel(self, spec: ImageSpec, like: Tensor) -> list[Tensor]:
        """Mean and standard deviation, one number for every channel."""
        times = spec.channels // len(self.mean)
        return [constant(numbers * times, like.dtype, like.device) for numbers in (self.mean, self.std)]


@dataclass(frozen=True)
class Normalize(_Statistics):
    """(x - mean) / std per channel; the last step before a network, folded into whatever runs before it.

    Args:
        mean, std: one number per channel, or one for all, as numbers, an array or a tensor; in [0, 1] units, also for 8-bit
            images, which count as x / 255 and come back as float32.

    Errors:
        InvalidArgument for statistics of different lengths or of other than the image's channels, and a standard deviation
        that is not above 0.
    Source:
        ``torchvision.transforms.v2.functional.normalize``.

    Example:
        >>> pellucid.Normalize((0.5,), (0.25,))(torch.tensor([[[[0.5, 1.0]]]])).flatten()
        tensor([0., 2.])
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    units: ClassVar[Literal["picture", "normalised"] | None] = "normalised"

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        mean, std = self.per_channel(spec, like)
        return Color(torch.diag(1.0 / std)[None], (-mean / std)[None])


@dataclass(frozen=True)
class Denormalize(_Statistics):
    """x * std + mean per channel: undo `Normalize`.

    Args:
        mean, std: those of the `Normalize` that is undone.

    Errors:
        InvalidArgument for statistics of other than the image's channels, and the others of `Normalize`.

    Example:
        >>> pellucid.Denormalize((0.5,), (0.25,))(torch.tensor([[[[0.0, 2.0]]]])).flatten()
        tensor([0.5000, 1.0000])
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    units: ClassVar[Literal["picture", "normalised"] | None] = "picture"

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        mean, std = self.per_channel(spec, like)
        return Color(torch.diag(std)[None], mean[None])

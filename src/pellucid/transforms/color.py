"""Colour maps other than jitter: greyscale, inversion, channel order, normalisation.

Owns: RandomGrayscale, RandomInvert, RandomChannelShuffle, Normalize, Denormalize.
Must not: clip; none of these leaves the range by surprise.
Read next: ``tone.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from pellucid.color.maps import luma_map
from pellucid.constants import constant
from pellucid.errors import invalid
from pellucid.random.distributions import Distribution, Permutation
from pellucid.random.fields import Chance, probability
from pellucid.segments import Color, ColorSpec
from pellucid.transforms.base import Params, Transform, gated_matrix
from pellucid.types import ImageSpec

__all__ = ["Denormalize", "Normalize", "RandomChannelShuffle", "RandomGrayscale", "RandomInvert"]


@dataclass(frozen=True)
class RandomGrayscale(Transform):
    """Replace all three channels by the luma, with probability p.

    Args:
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image: exact. gate: exact (as a mixing weight).
    On each target:
        image only; the number of channels stays.
    Identity at:
        p = 0, and for grey images.
    """

    p: Chance = 0.1
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "exact"}

    def segment(self, spec: ImageSpec) -> ColorSpec:
        if spec.channels not in (1, 3):
            raise invalid("RandomGrayscale", expected="3 channels (RGB) or 1", got=f"{spec.channels} channels")
        return ColorSpec()

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {"gate": probability("RandomGrayscale.p", self.p)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        gate = values.get("gate", torch.ones_like(like)[None])
        one = torch.ones_like(gate)
        return Color(luma_map(one if spec.channels == 1 else one - gate, one, spec.channels))


@dataclass(frozen=True)
class RandomInvert(Transform):
    """Replace x by 1 - x, with probability p.

    Args:
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image: exact. gate: exact (as a mixing weight).
    On each target:
        image only.
    Identity at:
        p = 0.
    """

    p: Chance = 0.5
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "exact"}
    white: ClassVar[bool] = True

    def segment(self, spec: ImageSpec) -> ColorSpec:
        return ColorSpec()

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {"gate": probability("RandomInvert.p", self.p)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        gate = values.get("gate", torch.ones_like(like)[None])
        identity = torch.eye(spec.channels, dtype=like.dtype, device=like.device)
        return Color((1.0 - 2.0 * gate)[:, None, None] * identity, gate[:, None].expand(-1, spec.channels))


@dataclass(frozen=True)
class RandomChannelShuffle(Transform):
    """Reorder the channels at random, with probability p.

    Args:
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image, gate: exact. order: none.
    On each target:
        image only.
    Identity at:
        p = 0.
    """

    p: Chance = 0.5
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "exact", "order": "none"}

    def segment(self, spec: ImageSpec) -> ColorSpec:
        return ColorSpec()

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {"gate": probability("RandomChannelShuffle.p", self.p), "order": Permutation(spec.channels)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        columns = torch.arange(spec.channels, device=like.device)
        return Color(gated_matrix(values, (values["order"][:, :, None] == columns).to(like.dtype)))


def _check_statistics(owner: str, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    if len(mean) != len(std):
        raise invalid(f"{owner}.mean and std", expected="two sequences of one length", got=f"{len(mean)} and {len(std)} numbers")
    if min(std) <= 0:
        raise invalid(f"{owner}.std", expected="numbers > 0", got=std)


def _per_channel(owner: str, numbers: tuple[float, ...], spec: ImageSpec, like: Tensor) -> Tensor:
    if len(numbers) != 1 and len(numbers) != spec.channels:  # no container: the number of channels may be a symbol
        raise invalid(owner, expected=f"statistics for {spec.channels} channels (or one for all)", got=f"{len(numbers)} numbers")
    numbers = numbers * (spec.channels // len(numbers))
    return constant(numbers, like.dtype, like.device)


@dataclass(frozen=True)
class Normalize(Transform):
    """(x - mean) / std per channel; the last step before a network, folded into whatever runs before it.

    Args:
        mean, std: one number per channel, or one for all, in [0, 1] units (8-bit images count as x / 255).

    Gradient:
        image: exact.
    On each target:
        image only.
    Source:
        ``torchvision.transforms.v2.functional.normalize``.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}
    units: ClassVar[Literal["picture", "normalised"] | None] = "normalised"

    def check(self) -> None:
        _check_statistics("Normalize", self.mean, self.std)

    def segment(self, spec: ImageSpec) -> ColorSpec:
        _per_channel("Normalize", self.mean, spec, torch.empty(()))
        return ColorSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        mean, std = (_per_channel("Normalize", numbers, spec, like) for numbers in (self.mean, self.std))
        return Color(torch.diag(1.0 / std)[None], (-mean / std)[None])


@dataclass(frozen=True)
class Denormalize(Transform):
    """x * std + mean per channel: undo `Normalize`.

    Args:
        mean, std: the numbers given to `Normalize`.

    Gradient:
        image: exact.
    On each target:
        image only.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}
    units: ClassVar[Literal["picture", "normalised"] | None] = "picture"

    def check(self) -> None:
        _check_statistics("Denormalize", self.mean, self.std)

    def segment(self, spec: ImageSpec) -> ColorSpec:
        _per_channel("Denormalize", self.mean, spec, torch.empty(()))
        return ColorSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        mean, std = (_per_channel("Denormalize", numbers, spec, like) for numbers in (self.mean, self.std))
        return Color(torch.diag(std)[None], mean[None])

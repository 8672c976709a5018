"""ColorJitter and its single-parameter relatives.

Owns: brightness, contrast, saturation, hue; the order of operations; the clip rule.
Must not: read pixels.
Read next: ``color.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.color.maps import luma_map
from pellucid.errors import invalid
from pellucid.random.distributions import Distribution, Permutation
from pellucid.random.fields import Chance, Range, confined, factor, interval, probability, symmetric
from pellucid.random.numbers import is_number
from pellucid.segments import Color, ColorSpec, ColorSteps
from pellucid.transforms.base import Params, Transform, gated
from pellucid.types import ClipRule, ImageSpec

__all__ = ["ColorJitter", "RandomBrightness", "RandomContrast", "RandomHue", "RandomSaturation"]

NAMES = ("brightness", "contrast", "saturation", "hue")
_RESTING = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.0}
_COLOR = "almost_everywhere"


def _distribution(owner: str, name: str, value: Range) -> Distribution:
    label = f"{owner}.{name}"
    if name != "hue":
        return interval(label, factor(label, value), low=0.0)
    return interval(label, symmetric(label, confined(label, value, 0.0, 0.5)), low=-0.5, high=0.5)


def _check_channels(owner: str, spec: ImageSpec, names: tuple[str, ...]) -> None:
    needs = [name for name in names if name in ("saturation", "hue")]
    if needs and spec.channels not in (1, 3):
        raise invalid(
            owner,
            expected=f"3 channels (RGB) or 1 (where {' and '.join(needs)} do nothing)",
            got=f"{spec.channels} channels",
            fix="Leave saturation and hue out, or apply the transform to the RGB channels alone.",
        )


def _active(spec: ImageSpec, names: tuple[str, ...]) -> tuple[str, ...]:
    return names if spec.channels != 1 else tuple(name for name in names if name in ("brightness", "contrast"))


def _spec(spec: ImageSpec, names: tuple[str, ...], clip: ClipRule) -> ColorSpec:
    names = _active(spec, names)
    return ColorSpec(clip=clip, stepwise=clip == "each", pivot="contrast" in names)


def _lower(values: Params, spec: ImageSpec, names: tuple[str, ...], clip: ClipRule, like: Tensor) -> Color | ColorSteps:
    factors = {name: gated(values, values[name], _RESTING[name]) for name in _active(spec, names)}
    order = values.get("order")
    if clip == "each":
        return ColorSteps(order, factors)
    one = torch.ones_like(next(iter(factors.values()), like[None]))
    brightness, contrast = factors.get("brightness", one), factors.get("contrast", one)
    saturation, hue_shift = factors.get("saturation", one), factors.get("hue")
    scale = brightness * contrast
    pivot = brightness * (1.0 - contrast) if "contrast" in factors else None
    if hue_shift is None or "saturation" not in factors:
        return Color(luma_map(scale * saturation, scale, spec.channels), None, pivot, hue_shift)
    # Brightness, contrast and saturation commute, and hue commutes with all but saturation: the whole order is one bit.
    before, after = saturation, one
    if order is not None:
        first = _before(order, 2, 3)
        before, after = torch.where(first, saturation, one), torch.where(first, one, saturation)
    return Color(luma_map(scale * before, scale, spec.channels), None, pivot, hue_shift, luma_map(after, one, spec.channels))


def _before(order: Tensor, first: int, second: int) -> Tensor:
    """Whether operation ``first`` comes before ``second`` in each row of a permutation."""
    place = torch.argsort(order, dim=-1)
    return place[:, first] < place[:, second]


@dataclass(frozen=True)
class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue, in a random order per sample.

    Args:
        brightness, contrast, saturation: a number v draws the factor from (max(0, 1 - v), 1 + v); a pair or distribution is drawn
            from directly; a `Learnable` is a learned v. 0 leaves the operation out.
        hue: turns of the hue circle; a number h at most 0.5 draws from (-h, h).
        clip: ``end`` clips once, after the run of colour operations; ``each`` after every step, equal to torchvision's result;
            ``none`` never.
        p: probability of jittering the sample at all.
        same_on_batch: one draw for the whole batch.

    1 is white in floating-point images. A pipeline looks at a few thousand pixels of the first such images it gets on the CPU,
    once, and warns where values go far beyond.

    Under ``end`` and ``none`` the contrast's pivot is the mean luma of the source image, carried through the colour maps before it;
    under ``each`` it is the exact mean at that step, with torchvision's luma weights.

    Gradient:
        image, brightness, contrast, saturation, hue, gate: almost everywhere (kinks of clip and hue). order: none.
    On each target:
        image only.
    Identity at:
        factors 1, hue 0 (to rounding in the hue's round trip).
    Source:
        ``torchvision.transforms.v2.ColorJitter``.
    """

    brightness: Range = 0.0
    contrast: Range = 0.0
    saturation: Range = 0.0
    hue: Range = 0.0
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": _COLOR, **dict.fromkeys(NAMES, _COLOR), "gate": _COLOR, "order": "none"}

    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in NAMES if not (is_number(getattr(self, name)) and getattr(self, name) == 0))

    def segment(self, spec: ImageSpec) -> ColorSpec:
        _check_channels("ColorJitter", spec, self._names())
        return _spec(spec, self._names(), self.clip)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        names = self._names()
        draws: dict[str, Distribution] = {"gate": probability("ColorJitter.p", self.p)}
        draws |= {name: _distribution("ColorJitter", name, getattr(self, name)) for name in names}
        if (self.clip == "each" and len(names) > 1) or {"saturation", "hue"} <= set(names):
            draws["order"] = Permutation(4)
        return draws

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color | ColorSteps:
        return _lower(values, spec, self._names(), self.clip, like)


@dataclass(frozen=True)
class RandomBrightness(Transform):
    """Multiply by a random factor.

    Args:
        brightness: as in `ColorJitter`.
        clip, p, same_on_batch: as in `ColorJitter`.

    Gradient:
        image, brightness, gate: almost everywhere.
    On each target:
        image only.
    Identity at:
        brightness = 1.
    Source:
        ``torchvision.transforms.v2.functional.adjust_brightness``.
    """

    brightness: Range = 0.2
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": _COLOR, "brightness": _COLOR, "gate": _COLOR}

    def segment(self, spec: ImageSpec) -> ColorSpec:
        return _spec(spec, ("brightness",), self.clip)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        name = "brightness"
        return {"gate": probability("RandomBrightness.p", self.p), name: _distribution("RandomBrightness", name, self.brightness)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color | ColorSteps:
        return _lower(values, spec, ("brightness",), self.clip, like)


@dataclass(frozen=True)
class RandomContrast(Transform):
    """Scale the difference from the mean luma by a random factor.

    Args:
        contrast: as in `ColorJitter`.
        clip, p, same_on_batch: as in `ColorJitter`.

    Gradient:
        image, contrast, gate: almost everywhere, through the pivot too.
    On each target:
        image only.
    Identity at:
        contrast = 1.
    Source:
        ``torchvision.transforms.v2.functional.adjust_contrast``.
    """

    contrast: Range = 0.2
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": _COLOR, "contrast": _COLOR, "gate": _COLOR}

    def segment(self, spec: ImageSpec) -> ColorSpec:
        return _spec(spec, ("contrast",), self.clip)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        name = "contrast"
        return {"gate": probability("RandomContrast.p", self.p), name: _distribution("RandomContrast", name, self.contrast)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color | ColorSteps:
        return _lower(values, spec, ("contrast",), self.clip, like)


@dataclass(frozen=True)
class RandomSaturation(Transform):
    """Scale the difference from grey by a random factor.

    Args:
        saturation: as in `ColorJitter`.
        clip, p, same_on_batch: as in `ColorJitter`.

    Gradient:
        image, saturation, gate: almost everywhere.
    On each target:
        image only; single-channel images stay as they are.
    Identity at:
        saturation = 1.
    Source:
        ``torchvision.transforms.v2.functional.adjust_saturation``.
    """

    saturation: Range = 0.2
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": _COLOR, "saturation": _COLOR, "gate": _COLOR}

    def segment(self, spec: ImageSpec) -> ColorSpec:
        _check_channels("RandomSaturation", spec, ("saturation",))
        return _spec(spec, ("saturation",), self.clip)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        name = "saturation"
        return {"gate": probability("RandomSaturation.p", self.p), name: _distribution("RandomSaturation", name, self.saturation)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color | ColorSteps:
        return _lower(values, spec, ("saturation",), self.clip, like)


@dataclass(frozen=True)
class RandomHue(Transform):
    """Rotate the hue by a random part of a turn.

    Args:
        hue: as in `ColorJitter`.
        clip, p, same_on_batch: as in `ColorJitter`.

    Gradient:
        image, hue, gate: almost everywhere; exact grey has no hue, and its gradient is that of the value alone.
    On each target:
        image only; single-channel images stay as they are.
    Identity at:
        hue = 0 (to rounding).
    Source:
        ``torchvision.transforms.v2.functional.adjust_hue``.
    """

    hue: Range = 0.05
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": _COLOR, "hue": _COLOR, "gate": _COLOR}

    def segment(self, spec: ImageSpec) -> ColorSpec:
        _check_channels("RandomHue", spec, ("hue",))
        return _spec(spec, ("hue",), self.clip)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {"gate": probability("RandomHue.p", self.p), "hue": _distribution("RandomHue", "hue", self.hue)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color | ColorSteps:
        return _lower(values, spec, ("hue",), self.clip, like)

"""ColorJitter and its single-parameter relatives.

Owns: brightness, contrast, saturation, hue, and the detectors' combination of them; the order of operations; the clip rule.
Must not: read pixels.
Read next: ``color.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from pellucid.color.maps import luma_map
from pellucid.errors import invalid
from pellucid.random.distributions import Distribution, Permutation
from pellucid.random.fields import Chance, Range, around_one, confined, interval, probability, symmetric
from pellucid.random.numbers import as_number, is_number
from pellucid.segments import Color, ColorSpec, ColorSteps
from pellucid.transforms.base import Names, Params, Transform, by_options, drawn, gated, slopes
from pellucid.transforms.color import Coloring
from pellucid.types import ClipRule, EndClip, ImageSpec

__all__ = ["ColorJitter", "RandomBrightness", "RandomContrast", "RandomHue", "RandomPhotometricDistort", "RandomSaturation"]

NAMES = ("brightness", "contrast", "saturation", "hue")
_RESTING = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.0}


def hue_turns(name: str, value: Range) -> Distribution:
    """A number h means turns from (-h, h); at most half a turn."""
    number = as_number(name, value) if is_number(value) else 0.0
    if isinstance(number, int | float) and number > 0.5:
        raise invalid(name, expected="a number from 0 to 0.5", got=value, fix="It counts turns: 0.5 reaches every hue.")
    return interval(name, symmetric(name, confined(name, value, 0.0, 0.5)), low=-0.5, high=0.5)


def _unless_zero(read: Callable[[str, Range], Distribution], key: str) -> dict[str, Any]:
    """Metadata of a field whose 0 leaves the operation out."""
    return drawn(lambda name, value: {} if is_number(value) and value == 0 else {key: read(name, value)}, key)


class _Jitter(Transform):
    """The base: those of the four operations that are drawn, in one map or, under ``each``, step by step."""

    clip: ClipRule
    gradients = slopes()
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)

    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in NAMES if name in self._fixed)

    def segment(self, spec: ImageSpec) -> ColorSpec:
        needs = [name for name in self._names() if name in ("saturation", "hue")]
        if needs and spec.channels not in (1, 3):
            fix = "Leave saturation and hue out, or apply the transform to the RGB channels alone."
            expected = f"3 channels (RGB) or 1 (where {' and '.join(needs)} do nothing)"
            raise invalid(type(self).__name__, expected=expected, got=f"{spec.channels} channels", fix=fix)
        return ColorSpec(clip=self.clip, stepwise=self.clip == "each", pivot="contrast" in self._names())

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color | ColorSteps:
        active = [name for name in self._names() if spec.channels != 1 or name in ("brightness", "contrast")]
        factors = {name: gated(values, values[name], _RESTING[name]) for name in active}
        order = values.get("order")
        if self.clip == "each":
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
        channels = spec.channels
        return Color(luma_map(scale * before, scale, channels), None, pivot, hue_shift, luma_map(after, one, channels))


def _before(order: Tensor, first: int, second: int) -> Tensor:
    """Whether operation ``first`` comes before ``second`` in each row of a permutation."""
    place = torch.argsort(order, dim=-1)
    return place[:, first] < place[:, second]


@dataclass(frozen=True)
class ColorJitter(_Jitter):
    """Change brightness, contrast, saturation and hue, in a random order per sample.

    Args:
        brightness, contrast, saturation: a number v draws the factor from (max(0, 1 - v), 1 + v); a pair or distribution is drawn
            from directly; a `Learnable` is a learned v. 0 leaves the operation out.
        hue: turns of the hue circle; a number h at most 0.5 draws from (-h, h).
        clip: ``end`` clips once, after the run of colour operations; ``each`` after every step, equal to torchvision's result;
            ``none`` never.

    1 is white in floating-point images. A pipeline looks at a few thousand pixels of the first such images it gets on the CPU,
    once, and warns where values go far beyond.

    Under ``end`` and ``none`` the contrast's pivot is a mean luma, carried through the colour maps before it. If only crops,
    resizes and flips come before, it is that of their result; otherwise that of the source image, or of the part that crops before
    it leave. Under ``each`` it is the exact mean at that step, with torchvision's luma weights.

    Gradient:
        image, brightness, contrast, saturation, hue, gate: almost everywhere (kinks of clip and hue). order: none.
    Identity at:
        factors 1, hue 0 (to rounding in the hue's round trip).
    Errors:
        InvalidArgument for a negative number, a hue beyond 0.5, and, where saturation or hue change, other than 1 or 3
        channels.
    Source:
        ``torchvision.transforms.v2.ColorJitter``.

    Example:
        >>> pellucid.ColorJitter(brightness=(0.5, 0.5))(torch.ones(1, 3, 1, 1)).flatten()
        tensor([0.5000, 0.5000, 0.5000])
    """

    brightness: Range = field(default=0.0, metadata=_unless_zero(around_one, "brightness"))
    contrast: Range = field(default=0.0, metadata=_unless_zero(around_one, "contrast"))
    saturation: Range = field(default=0.0, metadata=_unless_zero(around_one, "saturation"))
    hue: Range = field(default=0.0, metadata=_unless_zero(hue_turns, "hue"))
    _: KW_ONLY
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"kornia": "ColorJiggle"}

    @by_options
    def gradients(self) -> Mapping[str, str]:
        return {**super().gradients, "order": "none"}

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        names = self._names()
        ordered = (self.clip == "each" and len(names) > 1) or {"saturation", "hue"} <= set(names)
        return super().draws(spec) | ({"order": Permutation(4)} if ordered else {})


_CHANCES = (*(f"{name}_gate" for name in NAMES), "shuffle_gate")


def _chances(name: str, value: Chance) -> dict[str, Distribution]:
    return dict.fromkeys(_CHANCES, probability(name, value))


@dataclass(frozen=True)
class RandomPhotometricDistort(Coloring):
    """Change brightness, contrast, saturation, hue and the order of channels, each with probability p: the jitter of SSD.

    Args:
        brightness, contrast, saturation: factors: a pair or distribution is drawn from directly, a number v means
            (max(0, 1 - v), 1 + v), a `Learnable` is a learned v.
        hue: turns of the hue circle; a number h at most 0.5 draws from (-h, h).
        clip: ``end`` clips once, after the run of colour operations; ``none`` never.
        p: probability of each of the five.

    SSD also draws whether contrast comes before or after saturation and hue. Here both orders give one result: there is one clip,
    and the contrast's pivot is that of `ColorJitter`.

    Gradient:
        image, brightness, contrast, saturation, hue, shuffle_gate: almost everywhere (kinks of clip and hue). order: none.
    Identity at:
        p = 0 (to rounding in the hue's round trip).
    Errors:
        InvalidArgument for a negative number, a hue beyond 0.5, or other than 1 or 3 channels.
    Source:
        ``torchvision.transforms.v2.RandomPhotometricDistort``.

    Example:
        >>> darker = pellucid.RandomPhotometricDistort(brightness=(0.5, 0.5), contrast=(1, 1), saturation=(1, 1), hue=(0, 0), p=1.0)
        >>> darker(torch.ones(1, 3, 1, 1)).flatten()
        tensor([0.5000, 0.5000, 0.5000])
    """

    _: KW_ONLY
    brightness: Range = field(default=(0.875, 1.125), metadata=drawn(around_one))
    contrast: Range = field(default=(0.5, 1.5), metadata=drawn(around_one))
    saturation: Range = field(default=(0.5, 1.5), metadata=drawn(around_one))
    hue: Range = field(default=(-0.05, 0.05), metadata=drawn(hue_turns))
    clip: EndClip = "end"
    p: Chance = field(default=0.5, metadata=drawn(_chances, *_CHANCES))
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {**dict.fromkeys(("image", *NAMES, *_CHANCES), "almost_everywhere"), "order": "none"}
    tied: ClassVar[tuple[str, ...]] = _CHANCES
    channels: ClassVar[tuple[int, ...]] = (1, 3)

    def segment(self, spec: ImageSpec) -> ColorSpec:
        return replace(super().segment(spec), pivot=True)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "order": Permutation(spec.channels)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Color:
        def chosen(name: str, value: Tensor, resting: Tensor | float) -> Tensor:
            gate = values.get(f"{name}_gate")
            return gated(values if gate is None else {"gate": gate}, value, resting)

        brightness, contrast, saturation, hue = (chosen(name, values[name], _RESTING[name]) for name in NAMES)
        scale = brightness * contrast
        pivot = brightness * (1.0 - contrast)
        if spec.channels == 1:
            return Color(luma_map(scale, scale, 1), None, pivot)
        columns = torch.arange(3, device=like.device)
        identity = torch.eye(3, dtype=like.dtype, device=like.device)
        order = chosen("shuffle", (values["order"][:, :, None] == columns).to(like.dtype), identity)
        return Color(luma_map(scale * saturation, scale, 3), None, pivot, hue, order)


@dataclass(frozen=True)
class RandomBrightness(_Jitter):
    """Multiply by a random factor.

    Args:
        brightness: as in `ColorJitter`.
        clip: as in `ColorJitter`.

    Identity at:
        brightness = 1.
    Source:
        ``torchvision.transforms.v2.functional.adjust_brightness``.

    Example:
        >>> pellucid.RandomBrightness((0.5, 0.5))(torch.ones(1, 3, 1, 1)).flatten()
        tensor([0.5000, 0.5000, 0.5000])
    """

    brightness: Range = field(default=0.2, metadata=drawn(around_one))
    _: KW_ONLY
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False


@dataclass(frozen=True)
class RandomContrast(_Jitter):
    """Scale the difference from the mean luma by a random factor.

    Args:
        contrast: as in `ColorJitter`.
        clip: as in `ColorJitter`.

    Gradient:
        image, contrast, gate: almost everywhere, through the pivot too.
    Identity at:
        contrast = 1.
    Source:
        ``torchvision.transforms.v2.functional.adjust_contrast``.

    Example:
        >>> pellucid.RandomContrast((0.5, 0.5))(torch.tensor([[[[0.0, 1.0]]]])).flatten()
        tensor([0.2500, 0.7500])
    """

    contrast: Range = field(default=0.2, metadata=drawn(around_one))
    _: KW_ONLY
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False


@dataclass(frozen=True)
class RandomSaturation(_Jitter):
    """Scale the difference from grey by a random factor.

    Args:
        saturation: as in `ColorJitter`.
        clip: as in `ColorJitter`.

    On each target:
        image only; single-channel images stay as they are.
    Identity at:
        saturation = 1.
    Source:
        ``torchvision.transforms.v2.functional.adjust_saturation``.

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1)
        >>> pellucid.RandomSaturation((0, 0))(red).flatten()
        tensor([0.2990, 0.2990, 0.2990])
    """

    saturation: Range = field(default=0.2, metadata=drawn(around_one))
    _: KW_ONLY
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    channels: ClassVar[tuple[int, ...]] = (1, 3)


@dataclass(frozen=True)
class RandomHue(_Jitter):
    """Rotate the hue by a random part of a turn.

    Args:
        hue: as in `ColorJitter`.
        clip: as in `ColorJitter`.

    Gradient:
        image, hue, gate: almost everywhere; exact grey has no hue, and its gradient is that of the value alone.
    On each target:
        image only; single-channel images stay as they are.
    Identity at:
        hue = 0 (to rounding).
    Errors:
        InvalidArgument for a turn beyond 0.5, a reversed pair, or other than 1 or 3 channels.
    Source:
        ``torchvision.transforms.v2.functional.adjust_hue``.

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1)
        >>> pellucid.RandomHue((1 / 3, 1 / 3))(red).flatten().round()
        tensor([0., 1., 0.])
    """

    hue: Range = field(default=0.05, metadata=drawn(hue_turns))
    _: KW_ONLY
    clip: ClipRule = "end"
    p: Chance = 1.0
    same_on_batch: bool = False

    channels: ClassVar[tuple[int, ...]] = (1, 3)

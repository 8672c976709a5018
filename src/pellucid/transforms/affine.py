"""Affine transforms: RandomAffine and its single-parameter relatives.

Owns: RandomAffine, RandomRotation, RandomSafeRotation, RandomTranslate, RandomShear, RandomScale.
Must not: build matrices by hand; ``geometry.matrices`` does.
Read next: ``perspective.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar, TypeAlias

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.geometry.matrices import affine_src_from_dst, cos_sin_degrees, scale_shift
from pellucid.random.distributions import Constant, Distribution
from pellucid.random.fields import Chance, Range, interval, no_lone_number, symmetric
from pellucid.random.learnable import Learnable
from pellucid.segments import Warp, WarpSpec
from pellucid.transforms.base import Names, Params, by_options, drawn, drawn_names, keep_learned, moved_by
from pellucid.transforms.warping import Warping
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode, Point

__all__ = ["RandomAffine", "RandomRotation", "RandomSafeRotation", "RandomScale", "RandomShear", "RandomTranslate"]

Pair: TypeAlias = tuple[Range, Range]
Shear: TypeAlias = Range | tuple[float, float, float, float] | Pair
Scale: TypeAlias = Shear
"""One range for both axes, or one for each."""


def _translations(name: str, translate: Pair) -> dict[str, Distribution]:
    if not isinstance(translate, tuple | list) or len(translate) != 2:
        raise invalid(name, expected="a pair: the largest shift as a fraction of width and of height", got=repr(translate))
    draws = {}
    for i, (axis, part) in enumerate(zip("xy", translate, strict=True)):
        draws[f"translate_{axis}"] = symmetric(f"{name}[{i}]", part)
    return draws


def _check_fractions(name: str, translate: Pair) -> None:
    for i, part in enumerate(translate):
        learned = isinstance(part, Learnable) and part.value is not None
        reach = abs(part.value) if learned else max(map(abs, symmetric(name, part).span()))  # type: ignore[union-attr]
        if 1.0 < reach < math.inf:
            side = ("width", "height")[i]
            fix = f"For pixels divide by the {side}: 10 pixels of 224 are 10 / 224."
            raise invalid(f"{name}[{i}]", expected=f"a fraction of the {side}, at most 1", got=repr(part), fix=fix)


def _by_axis(value: object) -> tuple[Range, Range] | None:
    """Read four numbers, or a pair with a distribution in it, as the ranges of x and of y; None for anything else."""
    if isinstance(value, tuple | list):
        if len(value) == 4:
            return (tuple(value[:2]), tuple(value[2:]))
        if len(value) == 2 and any(isinstance(part, Distribution) for part in value):
            return (value[0], value[1])
    return None


def _shears(name: str, shear: object) -> dict[str, Distribution]:
    """A number or pair is shear along x, as in torchvision."""
    both = _by_axis(shear)
    across = symmetric(name, shear if both is None else both[0])  # type: ignore[arg-type]
    return {"shear_x": across, "shear_y": Constant(0.0) if both is None else symmetric(name, both[1])}


def _scales(name: str, scale: object) -> dict[str, Distribution]:
    """A pair is one factor for both axes."""
    both = _by_axis(scale)
    if both is None:
        return {"scale": _scale(name, scale)}  # type: ignore[arg-type]
    return {f"scale_{axis}": _scale(name, part) for axis, part in zip("xy", both, strict=True)}


def _scale(name: str, scale: Range) -> Distribution:
    no_lone_number(name, scale, lambda s: (1.0 - s, 1.0 + s) if s < 1 else (1.0, s))
    distribution = interval(name, scale, low=0.0)
    # A range that reaches 0 is an error. Learned ends never reach it, and a distribution without ends is not checked.
    if not distribution.start() and -math.inf < distribution.span()[0] <= 0:
        raise invalid(name, expected="values > 0", got=repr(scale), fix="A scale of 0 has no inverse.")
    return distribution


class _Affine(Warping):
    """The base of the affine transforms: the rotation, shift, scale and shear that are drawn, in one map."""

    pixels: bool = False
    whole_pixels: bool = False

    @by_options
    def gradients(self) -> Mapping[str, str]:
        moved = moved_by(*drawn_names(self), interpolation=self.interpolation)
        return {**moved, "translate_x": "none", "translate_y": "none"} if self.whole_pixels else moved

    def check(self) -> None:
        keep_learned(self, "scale")
        translate = getattr(self, "translate", None)
        if translate is not None and not self.pixels:
            _check_fractions(f"{type(self).__name__}.translate", translate)

    def shrink(self) -> tuple[float, float]:
        scales = [distribution for name, distribution in self._fixed.items() if name.startswith("scale")]
        if not scales:
            return (1.0, 1.0)
        low = min(scale.span()[0] for scale in scales)  # learned scales without a lower bound are cut off at 8
        most = max(1.0, min(8.0, 1.0 / low) if low > 0 else 8.0)
        return (most, most)

    def matrix(self, values: Params, spec: ImageSpec, like: Tensor) -> Tensor:
        center = getattr(self, "center", (0.0, 0.0))  # a shift has none
        if center is None:
            center = ((spec.width - 1) / 2, (spec.height - 1) / 2)
        sheared = "shear_x" in values
        shift: tuple[Tensor, Tensor] | None = None
        if "translate_x" in values:
            width, height = (1.0, 1.0) if self.pixels else (spec.width, spec.height)
            shift = values["translate_x"] * width, values["translate_y"] * height
            shift = (torch.round(shift[0]), torch.round(shift[1])) if self.whole_pixels else shift
        return affine_src_from_dst(
            center=center,
            degrees=values.get("degrees"),
            translate=shift,
            shear=(values["shear_x"], values["shear_y"]) if sheared else None,
            scale=(values["scale_x"], values["scale_y"]) if "scale_x" in values else values.get("scale"),
        )


_DEGREES = drawn(symmetric)
_TRANSLATE = drawn(_translations, "translate_x", "translate_y")
_SCALE = drawn(_scales, "scale", "scale_x", "scale_y")
_SHEAR = drawn(_shears, "shear_x", "shear_y")


@dataclass(frozen=True)
class RandomAffine(_Affine):
    """Rotate, translate, scale and shear about a centre, in one map.

    The order is translate . centre . rotate . shear . scale . -centre, and positive degrees turn counter-clockwise.

    Args:
        degrees: a number d for (-d, d), a pair, a `Learnable` magnitude or a distribution.
        translate: largest shift as fractions (of width, of height), at most 1; each a number, pair, `Learnable` or distribution.
        scale: a pair of factors, a `Learnable` factor, or a distribution; None is 1. Four numbers (x low, x high, y low, y high)
            or a pair of distributions (x, y) draw one for each axis, along the axes of the input. A single number raises: it
            could mean both a range around 1 and a constant.
        shear: degrees; a number or pair shears along x, four numbers (x low, x high, y low, y high) along both, a pair of
            distributions is (x, y).
        antialias: low-pass when zooming out. Off by default, as in every affine warp of the field.
        whole_pixels: the shift is rounded to whole pixels.

    Gradient:
        image: exact. degrees, scale, shear, gate: almost everywhere, or surrogate under ``nearest``. translate: almost everywhere,
        surrogate or none (under ``nearest``; with ``whole_pixels``). Second order: yes. Deterministic on CPU.
    On each target:
        image: resampled. mask: nearest. boxes: hull of the mapped corners. keypoints: exact.
    Identity at:
        degrees = 0, translate = (0, 0), scale = 1, shear = 0, bit for bit.
    Errors:
        InvalidArgument for a shift beyond 1, a scale that is a single number or reaches 0, a reversed pair, or an unknown
        option.
    Source:
        ``cv2.warpAffine`` with the inverse of ``record.matrix``.

    Example:
        >>> pellucid.RandomAffine(degrees=15, translate=(0.1, 0.1), shear=5).degrees
        15
    """

    degrees: Range = field(metadata=_DEGREES)
    translate: Pair | None = field(default=None, metadata=_TRANSLATE)
    _: KW_ONLY
    scale: Scale | None = field(default=None, metadata=_SCALE)
    shear: Shear | None = field(default=None, metadata=_SHEAR)
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    center: Point | None = None
    antialias: bool = False
    whole_pixels: bool = False
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": ("Affine", "ShiftScaleRotate")}


@dataclass(frozen=True)
class RandomRotation(_Affine):
    """Rotate about a centre; positive degrees turn counter-clockwise. The canvas keeps its size, or grows to hold every rotation.

    Args:
        degrees: a number d for (-d, d), a pair, a `Learnable` magnitude or a distribution.
        expand: enlarge the canvas, about its middle, so that the image fits at every angle that can be drawn: a batch keeps one
            size. Needs ``center=None``. For one angle it is torchvision's.

    On each target:
        as `RandomAffine`.
    Identity at:
        degrees = 0; multiples of 90 on square images move whole pixels.
    Errors:
        InvalidArgument for a negative number, a reversed pair, an unknown option, or both ``expand`` and ``center``.
    Source:
        ``cv2.getRotationMatrix2D``; ``torchvision.transforms.v2.functional.rotate(expand=True)``.

    Example:
        >>> pellucid.RandomRotation((90, 90))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).flatten()
        tensor([2., 4., 1., 3.])
    """

    degrees: Range = field(metadata=_DEGREES)
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    center: Point | None = None
    expand: bool = False
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Rotate"}

    def check(self) -> None:
        super().check()
        if self.expand and self.center is not None:
            raise invalid("RandomRotation.center", expected="None with expand=True, which turns about the middle", got=self.center)

    def _room(self, spec: ImageSpec) -> tuple[int, int]:
        """How much higher and wider the canvas becomes."""
        if not self.expand:
            return (0, 0)
        low, high = self._fixed["degrees"].span()
        return (grown(spec.height, spec.width, low, high), grown(spec.width, spec.height, low, high))

    def segment(self, spec: ImageSpec) -> WarpSpec:
        more = self._room(spec)
        return replace(super().segment(spec), size=(spec.height + more[0], spec.width + more[1]))

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        src_from_mid, more = super().lower(values, spec, like).src_from_dst, self._room(spec)
        return Warp(src_from_mid @ scale_shift(1.0, -more[1] / 2, 1.0, -more[0] / 2, like) if self.expand else src_from_mid)


@dataclass(frozen=True)
class RandomSafeRotation(Warping):
    """Rotate about the middle, and squeeze the picture along each axis so that all of it is seen and it fills the frame.

    Args:
        degrees: a number d for (-d, d), a pair, a `Learnable` magnitude or a distribution; positive ones turn counter-clockwise.

    On each target:
        as `RandomAffine`.
    Identity at:
        degrees = 0.
    Source:
        albumentations' SafeRotate.

    Example:
        >>> pellucid.RandomSafeRotation((90, 90))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).flatten()
        tensor([2., 4., 1., 3.])
    """

    degrees: Range = field(metadata=_DEGREES)
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "SafeRotate"}

    def shrink(self) -> tuple[float, float]:
        return (8.0, 8.0)

    def matrix(self, values: Params, spec: ImageSpec, like: Tensor) -> Tensor:
        cosine, sine = (part.abs() for part in cos_sin_degrees(values["degrees"]))
        wide, high = spec.width * cosine + spec.height * sine, spec.width * sine + spec.height * cosine
        x, y = (spec.width - 1) / 2, (spec.height - 1) / 2
        across, down = wide / spec.width, high / spec.height
        spread = scale_shift(across, x - across * x, down, y - down * y, like)
        return affine_src_from_dst(center=(x, y), degrees=values["degrees"]) @ spread


def grown(along: int, across: int, low: float, high: float) -> int:
    """By how much a rectangle's extent along an axis grows, at most, when it turns by low to high degrees; negative: it shrinks.

    The number is even, so that pixels stay on whole pixels, except for quarter turns alone, which exchange the sides.
    """
    if low == high and low % 90.0 == 0.0:
        return across - along if low % 180.0 else 0
    if not high - low < 180.0:
        low, high = 0.0, 180.0
    widest = math.degrees(math.atan2(across, along))  # so are its mirror image, and both plus half turns
    peaks = [
        180.0 * k + turn for k in range(math.floor(low / 180.0) - 1, math.ceil(high / 180.0) + 2) for turn in (-widest, widest)
    ]
    turns = [math.radians(angle) for angle in (low, high, *(peak for peak in peaks if low < peak < high))]
    extent = max(along * abs(math.cos(turn)) + across * abs(math.sin(turn)) for turn in turns)
    return 2 * math.ceil(math.floor((extent - along) / 2.0 * 1e4) / 1e4)  # less than a ten-thousandth of a pixel is rounding


@dataclass(frozen=True)
class RandomTranslate(_Affine):
    """Shift by a random fraction of the size, continuously or by whole pixels.

    Args:
        translate: largest shift as fractions (of width, of height), at most 1; each a number, pair, `Learnable` or distribution.
        pixels: the shift is in pixels, whatever the size.
        whole_pixels: the shift is rounded to whole pixels, which moves them bit for bit.

    Gradient:
        image: exact. translate: almost everywhere, surrogate or none (under ``nearest``; with ``whole_pixels``, for which a
        ``Categorical`` of pixels has estimators). gate: almost everywhere, or surrogate under ``nearest``.
    On each target:
        as `RandomAffine`.
    Identity at:
        translate = (0, 0); whole-pixel shifts are copies, bit for bit.
    Errors:
        InvalidArgument for a shift beyond 1, a reversed pair, or an unknown option.

    Example:
        >>> right = pellucid.RandomTranslate(((0.25, 0.25), (0, 0)))
        >>> right(torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])).flatten()
        tensor([0., 1., 2., 3.])
    """

    translate: Pair = field(default=(0.1, 0.1), metadata=_TRANSLATE)
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    pixels: bool = False
    whole_pixels: bool = False
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False


@dataclass(frozen=True)
class RandomShear(_Affine):
    """Shear about a centre.

    Args:
        shear: degrees; a number or pair shears along x, four numbers along both, a pair of distributions is (x, y).

    On each target:
        as `RandomAffine`.
    Identity at:
        shear = 0.

    Example:
        >>> shear = pellucid.Pipeline([pellucid.RandomShear((45, 45))])
        >>> shear.draw(torch.zeros(1, 1, 3, 3)).src_from_dst[0, 0].round()
        tensor([ 1.,  1., -1.], dtype=torch.float64)
    """

    shear: Shear = field(metadata=_SHEAR)
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    center: Point | None = None
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False


@dataclass(frozen=True)
class RandomScale(_Affine):
    """Zoom about a centre; the canvas keeps its size.

    Args:
        scale: a pair of factors (above 1 magnifies), a `Learnable` factor, or a distribution; for each axis as in `RandomAffine`.
        antialias: low-pass when zooming out; off by default, as in `RandomAffine`.

    On each target:
        as `RandomAffine`.
    Identity at:
        scale = 1.
    Errors:
        InvalidArgument for a single number, which could mean two things, for a factor of 0, a reversed pair, or an unknown
        option.

    Example:
        >>> zoom = pellucid.Pipeline([pellucid.RandomScale((2, 2))])
        >>> zoom.draw(torch.zeros(1, 1, 3, 3)).matrix[0, 0]
        tensor([ 2.,  0., -1.], dtype=torch.float64)
    """

    scale: Scale = field(default=(0.8, 1.25), metadata=_SCALE)
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    center: Point | None = None
    antialias: bool = False
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

"""What a field's documentation says of a value: the oracle of the abuse suite, written without looking at the constructors.

A kind maps a value to a `Meaning`, or to None where the value must be refused.
"""

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import Enum
from itertools import permutations
from typing import Any

import numpy as np
import torch

import pellucid
from pellucid.random.distributions import Bernoulli, Bits, Distribution, MultivariateNormal, Permutation
from pellucid.transforms.base import _drawn_as

ABOVE_ZERO = math.nextafter(0.0, 1.0)
LARGEST = torch.finfo(torch.float32).max


@dataclass(frozen=True)
class Meaning:
    """What a value stands for.

    Args:
        value: the canonical spelling.
        must: refusing it is a fault, too; otherwise a clear refusal is as good as the right result.
        exact: the result is that of the canonical spelling; otherwise any finite result will do.
    """

    value: Any = None
    must: bool = True
    exact: bool = True


EITHER = Meaning(must=False, exact=False)
Kind = Callable[[Any], Meaning | None]


def number(low: float = -math.inf, high: float = math.inf, *, whole: bool = False) -> Kind:
    """A finite number in [low, high]; other libraries' numbers may be read or refused."""

    def read(value: Any) -> Meaning | None:
        if isinstance(value, torch.nn.Parameter):
            return None
        must = type(value) in (int, float)
        if isinstance(value, np.ndarray | torch.Tensor) and value.shape == ():
            value = value.detach().numpy()[()] if isinstance(value, torch.Tensor) else value[()]
        if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
            return None
        if whole and not isinstance(value, numbers.Integral):
            return None
        if whole and low == -math.inf and abs(value) > 1e6:
            return EITHER
        if not (isinstance(value, int) or math.isfinite(value)) or not low <= value <= high or abs(value) > LARGEST:
            return None
        extreme = abs(value) > 1e6 or 0 < abs(value) < 1e-12
        if extreme:
            return EITHER
        return Meaning(int(value) if isinstance(value, numbers.Integral) else float(value), must=must)

    return read


def sequence(part: Kind, *lengths: int) -> Kind:
    """A tuple or list of the given lengths; other ordered holders may be read or refused, text and sets must not be read."""

    def read(value: Any) -> Meaning | None:
        if isinstance(value, str | bytes | bytearray | dict | set | frozenset | type) or not isinstance(value, Iterable):
            return None
        if isinstance(value, Distribution | torch.nn.Module | torch.Tensor | np.ndarray) and not getattr(value, "shape", ()):
            return None
        if len(value.shape if isinstance(value, np.ndarray | torch.Tensor) else (0,)) != 1:
            return None
        parts = [part(one) for one in value]
        if not parts or (lengths and len(parts) not in lengths) or any(one is None for one in parts):
            return None
        must = type(value) in (tuple, list) and all(one.must for one in parts)
        return Meaning(tuple(one.value for one in parts), must=must, exact=all(one.exact for one in parts))

    return read


def first(*kinds: Kind) -> Kind:
    """The first kind that knows the value."""
    return lambda value: next((m for m in (kind(value) for kind in kinds) if m is not None), None)


def nothing(value: Any) -> Meaning | None:
    return Meaning(None) if value is None else None


def truth(value: Any) -> Meaning | None:
    if isinstance(value, bool | np.bool_):
        return Meaning(bool(value), must=type(value) is bool)
    return None


def choice(*options: str) -> Kind:
    def read(value: Any) -> Meaning | None:
        if not isinstance(value, str) or value not in options:
            return None
        return Meaning(str(value.value if isinstance(value, Enum) else value), must=type(value) is str)

    return read


def learned(value: Any) -> Meaning | None:
    """Numbers that others supply: what they do in a call is theirs to know, and a refusal names the field."""
    if isinstance(value, pellucid.Learnable | torch.nn.Parameter):
        return EITHER
    if isinstance(value, torch.Tensor):
        return EITHER if value.numel() == 1 and value.is_floating_point() else None
    return EITHER if callable(value) and not isinstance(value, type | Distribution) else None


def distribution(low: float, high: float, *, discrete: bool = True) -> Kind:
    def read(value: Any) -> Meaning | None:
        if not isinstance(value, Distribution) or isinstance(value, MultivariateNormal | Permutation | Bits):
            return None
        if not discrete and isinstance(value, Bernoulli):  # which draws 0
            return None
        reach = value.span()
        outside = (math.isfinite(reach[0]) and reach[0] < low) or (math.isfinite(reach[1]) and reach[1] > high)
        return None if outside else EITHER

    return read


def _ordered(kind: Kind, zero: bool) -> Kind:
    """A pair (low, high) with low <= high, and something above 0 in it."""

    def read(value: Any) -> Meaning | None:
        meaning = kind(value)
        if meaning is None or not meaning.exact:
            return meaning
        low, high = meaning.value
        return meaning if low <= high and (zero or high > 0) else None

    return read


def _mixed(kind: Kind, wanted: type | None = None) -> Kind:
    """A sequence with something learned, or something of a type, in it."""

    def read(value: Any) -> Meaning | None:
        meaning = kind(value)
        found = meaning is not None and any(isinstance(p, wanted) if wanted else learned(p) for p in value)
        return meaning if found else None

    return read


def drawn(
    low: float, high: float = math.inf, *, pairs: tuple[float, float] | None = None, zero: bool = True, alone: Kind | None = None
) -> Kind:
    """A number in [low, high] (or ``alone``), a pair or a distribution within ``pairs`` (0 may not count), or a learned number."""
    inside = pairs or (low, high)
    return first(
        alone or number(low, high),
        _ordered(sequence(number(*inside), 2), zero),
        _mixed(sequence(first(number(*inside), learned), 2)),
        learned,
        distribution(*inside, discrete=zero),
    )


def optional(kind: Kind) -> Kind:
    return first(nothing, kind)


def chance(value: Any) -> Meaning | None:
    return EITHER if isinstance(value, Bernoulli) else first(number(0, 1), learned)(value)


def generators(value: Any) -> Meaning | None:
    return Meaning(value) if isinstance(value, MultivariateNormal) and len(value.mean) == 6 else None


def unordered(kind: Kind) -> Kind:
    """A single value may stand for a sequence of one, or be refused."""

    def read(value: Any) -> Meaning | None:
        meaning = kind(value)
        return None if meaning is None else Meaning((meaning.value,), must=False, exact=meaning.exact)

    return read


PIXELS = 2**24 - 1
"""Beyond, float32 cannot count pixels."""

ANY = (-math.inf, math.inf)
SYMMETRIC = drawn(0, pairs=ANY)
FACTOR = drawn(0)
ONE = number(1, 1)
"""Any other number alone could mean a range or always the same."""
SCALE = drawn(ABOVE_ZERO, alone=ONE)
RATIO = drawn(1e-6, alone=ONE)
NUMBER = number()
FILL = first(NUMBER, sequence(NUMBER, 1, 3))
TAPS = first(number(1, PIXELS, whole=True))
SIZE = first(number(1, PIXELS, whole=True), sequence(number(1, PIXELS, whole=True), 2))
PADDING = first(number(0, PIXELS, whole=True), sequence(number(0, PIXELS, whole=True), 2, 4))
SHEAR = first(
    SYMMETRIC,
    sequence(NUMBER, 4),
    _mixed(sequence(first(SYMMETRIC, distribution(*ANY)), 2), Distribution),
    _mixed(sequence(first(NUMBER, learned), 4)),
)
FRACTION = drawn(0, 1, pairs=(-1, 1))


def divides(kind: Kind, length: int) -> Kind:
    """What does not divide the pictures of this suite is refused when it is used."""

    def read(value: Any) -> Meaning | None:
        meaning = kind(value)
        if meaning is None or not meaning.exact:
            return meaning
        parts = meaning.value if isinstance(meaning.value, tuple) else (meaning.value,)
        return EITHER if any(length % part for part in parts) else meaning

    return read


def odd(kind: Kind) -> Kind:
    def read(value: Any) -> Meaning | None:
        meaning = kind(value)
        if meaning is None or not meaning.exact:
            return meaning
        whole = meaning.value if isinstance(meaning.value, tuple) else (meaning.value,)
        return meaning if all(n % 2 for n in whole) else None

    return read


def increasing(kind: Kind) -> Kind:
    """Four numbers are two ranges."""

    def read(value: Any) -> Meaning | None:
        meaning = kind(value)
        if meaning is None or not isinstance(meaning.value, tuple) or len(meaning.value) != 4 or None in meaning.value:
            return meaning
        low_x, high_x, low_y, high_y = meaning.value
        return meaning if low_x <= high_x and low_y <= high_y else None

    return read


FACTOR_ABOVE_ZERO = number(ABOVE_ZERO)
SCALES = first(
    SCALE,
    increasing(sequence(FACTOR_ABOVE_ZERO, 4)),
    _mixed(sequence(first(SCALE, distribution(ABOVE_ZERO, math.inf)), 2), Distribution),
    _mixed(sequence(first(FACTOR_ABOVE_ZERO, learned), 4)),
)


def _positive(kind: Kind) -> Kind:
    """Numbers that are not all 0."""

    def read(value: Any) -> Meaning | None:
        meaning = kind(value)
        return meaning if meaning is None or not meaning.exact or any(meaning.value) else None

    return read


def ordered(kind: Kind) -> Kind:
    """Two numbers, the smaller first."""

    def read(value: Any) -> Meaning | None:
        meaning = kind(value)
        if meaning is None or not isinstance(meaning.value, tuple) or None in meaning.value:
            return meaning
        return meaning if meaning.value[0] <= meaning.value[1] else None

    return read


OPTIONS = {
    "interpolation": ("bilinear", "nearest", "bicubic"),
    "padding_mode": ("zeros", "constant", "border", "reflection", "reflect_101"),
    "clip": ("end", "none"),
    "subsampling": ("4:2:0", "4:2:2", "4:4:4"),
    "image_gradient": ("straight_through", "soft", "none"),
    "surrogate": ("secant", "straight_through", "none"),
    "pairing": ("xor", "roll"),
}
OPTIONS_OF = {"RandomJPEG.image_gradient": ("proximity", "cubic", "straight_through", "none")}
STEPWISE = ("ColorJitter", "RandomBrightness", "RandomContrast", "RandomSaturation", "RandomHue")

BY_TYPE: dict[str, Kind] = {
    "bool": truth,
    "Chance": chance,
    "Fill": FILL,
    "Point | None": optional(sequence(NUMBER, 2)),
    "Size": SIZE,
    "int | Size": SIZE,
    "Padding": PADDING,
    "Padding | None": optional(PADDING),
    "Pair": sequence(FRACTION, 2),
    "Pair | None": optional(sequence(FRACTION, 2)),
    "MultivariateNormal": generators,
    "Fill | RandomNoise": first(FILL, choice("random")),
}

BY_NAME: dict[str, Kind] = {
    "shear": increasing(SHEAR),
    "RandomAffine.shear": optional(increasing(SHEAR)),
    "RandomAffine.scale": optional(SCALES),
    "RandomScale.scale": SCALES,
    "RandomResizedCrop.scale": drawn(ABOVE_ZERO, 1, pairs=(0, 1), zero=False, alone=ONE),
    "RandomIoUCrop.scale": ordered(sequence(number(ABOVE_ZERO, 1), 2)),
    "RandomIoUCrop.ratio": ordered(sequence(number(ABOVE_ZERO), 2)),
    "options": first(number(0), sequence(number(0)), unordered(number(0))),
    "RandomGaussianBlur.sigma": first(drawn(1e-3), sequence(first(drawn(1e-3), distribution(1e-3, math.inf)), 3)),
    "RandomLowResolution.scale": first(drawn(0, 1), sequence(first(drawn(0, 1), distribution(0, 1)), 3)),
    "RandomLowResolution.axes": choice(*("".join(axes) for count in (1, 2, 3) for axes in permutations("xyz", count))),
    "RandomBiasField.coefficients": drawn(0, 88, pairs=(-88, 88)),
    "RicianNoise.sigma": drawn(0, 1e18),
    "RandomBiasField.order": number(0, 8, whole=True),
    "Crop.top": number(-(2**30), 2**30, whole=True),
    "Crop.left": number(-(2**30), 2**30, whole=True),
    "RandomErasing.scale": drawn(0, 1, alone=first(number(0, 0), ONE)),
    "ratio": RATIO,
    "distortion_scale": drawn(0, 1),
    "brightness": FACTOR,
    "contrast": FACTOR,
    "saturation": FACTOR,
    "hue": drawn(0, 0.5, pairs=(-0.5, 0.5)),
    "h": number(ABOVE_ZERO),
    "kernel_size": optional(odd(first(TAPS, sequence(TAPS, 2)))),
    "RandomMedianBlur.kernel_size": odd(first(TAPS, sequence(TAPS, 2))),
    "Mixture.alpha": number(0.05, 16),
    "lam": drawn(0, 1, alone=first(number(0, 0), ONE)),
    "num_classes": optional(number(1, 2**31 - 1, whole=True)),
    "edge": number(0),
    "CopyPaste.sigma": number(0, 10),
    "Mosaic.center": drawn(0, 1),
    "Mosaic.scale": drawn(1e-6, alone=ONE),
    "grid": divides(SIZE, 8),
    "severity": number(1, 5, whole=True),
    "zooms": number(2, 32, whole=True),
    "ChannelDropout.fill": NUMBER,
    "mask_fill": optional(NUMBER),
    "spacing": number(2),
    "RandomElastic.magnitude": drawn(0, 0.48866),
    "GridDistortion.cells": first(number(2, 64, whole=True), sequence(number(2, 64, whole=True), 2)),
    "border": choice("free", "locked"),
    "points": number(2, 8, whole=True),
    "erosion": number(0, 0.49),
    "reach": number(0, 16, whole=True),
    "FancyPCA.alpha": first(number(0), learned, distribution(*ANY)),
    "RandomMaskCrop.size": first(number(1, 8, whole=True), sequence(number(1, 8, whole=True), 2)),  # of the suite's pictures
    "elements": first(sequence(number(0, 7, whole=True)), unordered(number(0, 7, whole=True))),
    "sizes": first(sequence(number(1, PIXELS, whole=True)), unordered(number(1, PIXELS, whole=True))),
    "max_size": optional(number(1, PIXELS, whole=True)),
    "times": first(sequence(number(whole=True)), unordered(number(whole=True))),
    "transforms": lambda value: None,  # nothing in the pool is one
    "weights": first(
        optional(_positive(sequence(first(number(0), learned), 3))),
        lambda value: EITHER if callable(value) and not isinstance(value, type) else None,  # it predicts all of them
    ),
    "estimator": choice("exact", "arm", "reinforce", "relaxed", "straight_through"),
    "temperature": optional(number(1e-6)),
    "n": number(0, 64, whole=True),
    "mean": first(sequence(NUMBER, 3), unordered(NUMBER)),
    "std": first(sequence(number(ABOVE_ZERO), 3), unordered(number(ABOVE_ZERO))),
}


def _declared(owner: str, field: str) -> Kind | None:
    """What a field takes that says how it is drawn, where a number stands for itself or for a range around 0 or 1."""
    read, _ = _drawn_as(next(one for one in fields(getattr(pellucid, owner)) if one.name == field)) or (None, ())
    name = getattr(getattr(read, "func", None), "__name__", "")
    if name == "interval":
        return drawn(read.keywords.get("low", -math.inf), read.keywords.get("high", math.inf))
    return {"symmetric": SYMMETRIC, "around_one": FACTOR}.get(name)


def kind_of(owner: str, field: str, annotation: str) -> Kind:
    """What a field of a transform takes; one that no declaration and no type says needs a line in the tables above."""
    if f"{owner}.{field}" in BY_NAME:
        return BY_NAME[f"{owner}.{field}"]
    declared = _declared(owner, field)
    if declared is not None:
        return declared
    if field in OPTIONS:
        stepwise = owner in STEPWISE and field == "clip"
        return choice(*OPTIONS_OF.get(f"{owner}.{field}", OPTIONS[field]), *(("each",) if stepwise else ()))
    for table, name in ((BY_NAME, field), (BY_TYPE, annotation)):
        if name in table:
            return table[name]
    raise KeyError(f"tests/abuse/meanings.py does not say what {owner}.{field}: {annotation} takes")

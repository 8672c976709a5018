"""The operations that policies are made of, under the names that their papers gave them.

Owns: which transform each name is, how far it reaches, and its magnitudes.
Must not: say how often an operation is chosen; ``published.py`` and ``search.py`` do.
Read next: ``published.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pellucid.random import Bernoulli, Categorical, Distribution
from pellucid.transforms import (
    RandomAutoContrast,
    RandomBrightness,
    RandomContrast,
    RandomEqualize,
    RandomInvert,
    RandomPosterize,
    RandomRotation,
    RandomSaturation,
    RandomSharpness,
    RandomShear,
    RandomSolarize,
    RandomTranslate,
)
from pellucid.transforms.base import Transform

__all__ = ["ORDER", "REACH", "Magnitudes", "magnitudes", "operation", "signs"]

Magnitudes: TypeAlias = Sequence[float]
Spread: TypeAlias = Callable[[tuple[float, ...]], Distribution]

ORDER = (
    *("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness"),
    *("Posterize", "Solarize", "AutoContrast", "Equalize"),
)
"""TrivialAugment's and RandAugment's, as torchvision lists them."""

REACH = {"shear": 0.3, "translate": 150.0 / 331.0, "rotate": 30.0, "factor": 0.9, "posterize": 4.0}
"""AutoAugment's largest magnitudes: a slope, a fraction of the size, degrees, a factor less 1, bits taken away."""


def magnitudes(name: str, reach: Mapping[str, float], bins: int, *, signed: bool = True) -> Magnitudes:
    """The magnitudes of an operation, from nothing to the largest; with both signs where it has them."""
    share = [i / (bins - 1) for i in range(bins)]
    if name == "Posterize":
        return [float(round(8.0 - reach["posterize"] * s)) for s in share]
    if name == "Solarize":
        return [1.0 - s for s in share]
    kind = name.removesuffix("X").removesuffix("Y").lower()
    values = [reach.get(kind, reach["factor"]) * s for s in share]
    return [v for value in values for v in signs(name, value)] if signed else values


def signs(name: str, value: float) -> Magnitudes:
    """A magnitude with both signs where the operation has them."""
    return (value,) if name in ("Posterize", "Solarize") else (value, -value)


def operation(
    name: str,
    values: Magnitudes,
    p: float | Bernoulli = 1.0,
    *,
    spread: Spread = Categorical,
    pixels: bool = False,
    interpolation: str = "nearest",
    shifts: str = "nearest",
) -> Transform:
    """Build the operation that has this name in the papers.

    Args:
        name: one of `ORDER`, or ``Invert``.
        values: the magnitudes, in the papers' units.
        p: its probability.
        spread: makes a distribution of the magnitudes in the units of the transform; each equally likely by default.
        pixels: shifts are whole pixels, else fractions of the size.
        interpolation, shifts: how rotations and shears interpolate, and how shifts do.
    """
    gate = p if isinstance(p, Bernoulli) else Bernoulli(p)
    corner: Mapping[str, Any] = {"interpolation": interpolation, "center": (-0.5, -0.5)}
    moved: Mapping[str, Any] = {"interpolation": shifts, "pixels": pixels, "p": gate}

    def drawn(change: Callable[[float], float]) -> Distribution:
        return spread(tuple(map(change, values)))

    def factor() -> Distribution:
        return drawn(lambda value: 1.0 + value)

    def slope() -> Distribution:
        return drawn(lambda value: math.degrees(math.atan(value)))

    def shift() -> Distribution:
        return drawn(math.trunc) if pixels else drawn(float)

    still = Categorical((0.0,))
    makers: dict[str, Callable[[], Transform]] = {
        "ShearX": lambda: RandomShear((slope(), still), p=gate, **corner),
        "ShearY": lambda: RandomShear((still, slope()), p=gate, **corner),
        "TranslateX": lambda: RandomTranslate((shift(), 0.0), **moved),
        "TranslateY": lambda: RandomTranslate((0.0, shift()), **moved),
        "Rotate": lambda: RandomRotation(drawn(float), p=gate, interpolation=interpolation),  # type: ignore[arg-type]
        "Brightness": lambda: RandomBrightness(factor(), p=gate),
        "Color": lambda: RandomSaturation(factor(), p=gate),
        "Contrast": lambda: RandomContrast(factor(), p=gate),
        "Sharpness": lambda: RandomSharpness(factor(), p=gate),
        "Posterize": lambda: RandomPosterize(drawn(float), p=gate),
        "Solarize": lambda: RandomSolarize(drawn(float), p=gate),
        "AutoContrast": lambda: RandomAutoContrast(p=gate),
        "Equalize": lambda: RandomEqualize(p=gate),
        "Invert": lambda: RandomInvert(p=gate),
    }
    return makers[name]()

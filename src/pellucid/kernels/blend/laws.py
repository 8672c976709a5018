"""What each law of `Grain` does to a picture.

Owns: `grained`, by the law's name.
Must not: mix by the gate, or clip.
Read next: ``grain.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxtyping import Num
from torch import Tensor

from pellucid.core.constants import compute_dtype
from pellucid.kernels import blend
from pellucid.kernels.blend import grain, plasma, weather
from pellucid.segments.values import Grain

__all__ = ["OF_BYTES", "grained"]

OF_BYTES = ("blocks", "rain", "salt_and_pepper", "snow", "speckle")
"""Laws that take bytes, too, where no gradient is asked for, and make bytes of them."""

_UNDER_CLOUDS: Mapping[str, Callable[..., Tensor]] = {
    "fog": plasma.fog,
    "light": plasma.light,
    "contrast": plasma.contrast,
    "shadow": plasma.shadow,
}
"""What is done with a cloud, by the law's name; the last of its numbers is the cloud's decay."""


def grained(segment: Grain, image: Num[Tensor, "b c h w"], impl: str) -> Num[Tensor, "b c h w"]:
    """The picture under a law whose gate is open everywhere.

    Gradient:
        image, numbers: as the law declares.
    """
    numbers = [number.to(compute_dtype(image.dtype)) for number in segment.numbers]
    if callable(segment.law):
        return segment.law(image, *(() if segment.words is None else (segment.words,)), *numbers)
    if segment.law == "blocks":
        return grain.blocks(image, numbers[0], impl=impl)
    assert segment.words is not None
    _, channels, height, width = image.shape
    if segment.law == "poisson_gaussian":
        field = blend.gaussian_field(segment.words, (channels, height, width), image.dtype, impl=impl)
        return grain.poisson_gaussian(image, field, *numbers)
    if segment.law == "rician":
        return grain.rician(
            image, blend.gaussian_field(segment.words, (2 * channels, height, width), image.dtype, impl=impl), *numbers
        )
    if segment.law == "labels":
        field = blend.gaussian_field(segment.words, (channels, height, width), image.dtype, impl=impl)
        return grain.of_labels(image, field, *numbers)
    if segment.law in _UNDER_CLOUDS:
        cloud = plasma.plasma_of(segment.words, (height, width), numbers[-1], image.dtype)
        return _UNDER_CLOUDS[segment.law](image, cloud, *numbers[:-1])
    if segment.law == "snow":
        strength, angle = numbers
        normal = blend.gaussian_field(segment.words, (1, height, width), strength.dtype, impl=impl)[:, 0]
        return weather.snow(image, normal, angle, weather.SNOW[int(segment.most) - 1], strength, impl=impl)
    if segment.law == "rain":
        return weather.rain(image, segment.words, *numbers, impl=impl)
    if segment.law == "speckle":
        return grain.speckle(image, segment.words, numbers[0])
    if segment.law == "shot":
        return grain.shot(image, segment.words, numbers[0], segment.most)
    return grain.salt_and_pepper(image, segment.words, *numbers)

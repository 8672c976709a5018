"""Noise whose law depends on the pixel, in plain PyTorch, with surrogate gradients where values are counted or replaced.

Owns: `grained`, which applies a law of `Grain` to a picture by its name.
Must not: draw: fields come from two words per sample; mix by the gate, or clip.
Read next: ``../../engine/execution.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor

from pellucid.core.constants import compute_dtype
from pellucid.core.slabs import by_slabs
from pellucid.kernels import curve
from pellucid.kernels.blend import cpu, gaussian_field, lighting, means_of_blocks, plasma, poisson_quantile, weather
from pellucid.kernels.convolve import separable
from pellucid.random.patterns import uniform_field
from pellucid.segments.values import Grain

__all__ = [
    *("OF_BYTES", "blocks", "gamma_in_range", "glass", "grained", "of_labels", "poisson_gaussian", "rician"),
    *("salt_and_pepper", "shot", "speckle"),
]


def _each(number: Float[Tensor, "#b"]) -> Float[Tensor, "#b 1 1 1"]:
    return number[:, None, None, None]


def blocks(image: Num[Tensor, "b c h w"], scale: Float[Tensor, "#b"], *, impl: str = "auto") -> Num[Tensor, "b c h w"]:
    """Replace each pixel by the mean of its block; an axis has ``scale`` blocks per pixel. Bytes come back as bytes.

    Gradient:
        image: exact. scale: none.
    """
    sides = image.new_tensor(image.shape[2:], dtype=scale.dtype)
    counts = torch.clamp(torch.floor(scale[:, None] * sides + 1e-6), min=1.0)
    compiled = None if impl == "reference" else means_of_blocks(image, counts)
    for axis in (-2, -1) if compiled is None else ():
        length, count = image.shape[axis], counts[:, axis, None]
        place = torch.arange(length, dtype=image.dtype, device=image.device)
        block = torch.floor((place + 0.5) * count / length)[..., None]  # b length 1
        low, high = block * length / count[..., None], (block + 1.0) * length / count[..., None]
        share = torch.relu(torch.minimum(place + 1.0, high) - torch.maximum(place, low)) / (high - low)
        image = share[:, None] @ image if axis == -2 else image @ share[:, None].mT
    return image if compiled is None else compiled


def glass(
    image: Float[Tensor, "b c h w"], words: Int64[Tensor, "b 2"], bell: Float[Tensor, "#b k"], reach: int, *, impl: str = "auto"
) -> Float[Tensor, "b c h w"]:
    """Blur by a bell of odd length, let every pixel show one at most ``reach`` away along each axis, and blur again.

    Gradient:
        image, bell: exact. words: none.
    """
    height, width = image.shape[2:]
    soft = separable(image, bell, bell, impl=impl)
    moves = torch.floor(uniform_field(words, (2, height, width), image.dtype) * (2 * reach + 1)).to(torch.int64) - reach
    rows, columns = (torch.arange(side, device=image.device) for side in (height, width))
    y = torch.clamp(rows[:, None] + moves[:, 0], 0, height - 1)
    x = torch.clamp(columns + moves[:, 1], 0, width - 1)
    taken = (y * width + x).flatten(1)[:, None].expand(-1, image.shape[1], -1)
    shown = soft.flatten(2).expand(len(taken), -1, -1).gather(2, taken).unflatten(2, (height, width))
    return separable(shown, bell, bell, impl=impl)


def poisson_gaussian(
    image: Float[Tensor, "b c h w"], normal: Float[Tensor, "#b c h w"], gain: Float[Tensor, "#b"], sigma: Float[Tensor, "#b"]
) -> Float[Tensor, "b c h w"]:
    """Image + sqrt(gain * max(image, 0) + sigma ** 2) * normal.

    Gradient:
        image, gain, sigma: exact, but none where the variance is 0.
    """
    variance = _each(gain) * torch.relu(image) + _each(sigma) ** 2
    some = variance > 0
    return image + torch.where(some, torch.sqrt(torch.where(some, variance, 1.0)), 0.0) * normal


def rician(
    image: Float[Tensor, "b c h w"], normal: Float[Tensor, "#b c2 h w"], sigma: Float[Tensor, "#b"]
) -> Float[Tensor, "b c h w"]:
    """The length of (image + sigma * normal, sigma * another normal).

    Gradient:
        image, sigma: exact, but none where the length is 0.
    """
    first, second = (_each(sigma) * part for part in normal.chunk(2, 1))
    power = (image + first) ** 2 + second**2
    some = power > 0
    return torch.where(some, torch.sqrt(torch.where(some, power, 1.0)), 0.0)


def of_labels(
    labels: Float[Tensor, "b c h w"], normal: Float[Tensor, "#b c h w"], mean: Float[Tensor, "#b n"], sigma: Float[Tensor, "#b n"]
) -> Float[Tensor, "b c h w"]:
    """Mean + sigma * normal, with the mean and sigma of each pixel's label.

    Gradient:
        labels: none. mean, sigma: exact.
    """
    index = torch.round(labels.detach()).to(torch.int64).clamp(0, mean.shape[1] - 1).flatten(1)
    mean, sigma = (torch.take_along_dim(one, index, 1).reshape(labels.shape) for one in (mean, sigma))
    return mean + sigma * normal


def salt_and_pepper(
    image: Num[Tensor, "b c h w"], words: Int64[Tensor, "#b 2"], amount: Float[Tensor, "#b"], salt: Float[Tensor, "#b"]
) -> Float[Tensor, "b c h w"]:
    """Replace the share ``amount`` of the values, ``salt`` of it by 1 and the rest by 0; bytes by 255 and 0.

    Gradient:
        image: exact. amount, salt: surrogate, the slope of the mean: (salt - image) and amount.
    """
    field = uniform_field(words, (image.shape[1], image.shape[2], image.shape[3]), amount.dtype)
    share, white = _each(amount), _each(salt)
    if image.dtype == torch.uint8:
        return cpu.replaced(image, field, share, share * white)
    held, white_held = share.detach(), white.detach()
    result = torch.where(field < held * white_held, 1.0, torch.where(field < held, 0.0, image))
    return result + (share - held) * (white_held - image.detach()) + (white - white_held) * held


def speckle(image: Num[Tensor, "b c h w"], words: Int64[Tensor, "#b 2"], strength: Float[Tensor, "#b"]) -> Num[Tensor, "b c h w"]:
    """Multiply every value by a factor of its own, uniform on (1 - strength, 1 + strength); bytes come back as bytes.

    Gradient:
        image, strength: exact.
    """
    field = uniform_field(words, (image.shape[1], image.shape[2], image.shape[3]), strength.dtype)
    return lighting.lit(image, 1.0 + _each(strength) * (2.0 * field - 1.0), None)


def shot(
    image: Float[Tensor, "b c h w"], words: Int64[Tensor, "#b 2"], photons: Float[Tensor, "#b"], most: float
) -> Float[Tensor, "b c h w"]:
    """Draw from Poisson(photons * image) / photons.

    Args:
        image: clipped to [0, 1].
        words: two per sample.
        photons: at most ``most``.
        most: how far to count.

    Gradient:
        image: surrogate, 1 where it is not clipped. photons: surrogate, as if the normal distribution of the same mean and variance
        had been drawn from.
    """
    light = torch.clamp(image, 0.0, 1.0)
    field = uniform_field(words, (image.shape[1], image.shape[2], image.shape[3]), image.dtype)
    scale = _each(photons)
    held = scale.detach()
    rate = held * light.detach()
    count = poisson_quantile(rate, field, most)
    # Of (rate + sqrt(rate) n) / photons, with the n that gives this count.
    slope = (rate - count) / (2.0 * held**2)
    return count / held + (light - light.detach()) + (scale - held) * slope


def gamma_in_range(
    image: Float[Tensor, "b c h w"], gamma: Float[Tensor, "#b"], inverted: Float[Tensor, "#b"], *, keeps: bool, impl: str = "auto"
) -> Float[Tensor, "b c h w"]:
    """Scale each channel from its least and greatest value to [0, 1], raise it to a power, and scale it back.

    Args:
        inverted: 1 where the picture's negative is raised to the power instead; else 0.
        keeps: each channel keeps its mean and standard deviation.

    Gradient:
        image, gamma: almost everywhere. inverted: none.
    """
    low, high = image.amin((2, 3), keepdim=True), image.amax((2, 3), keepdim=True)
    begin = torch.where(_each(inverted) > 0, high, low)
    length = (high - low) * (1.0 - 2.0 * _each(inverted))
    scale = 1.0 / torch.where(length.abs() < 1e-7, 1e-7, length)

    def raised(part: slice) -> Tensor:
        unit = torch.addcmul(-begin * scale, image[:, :, part], scale)
        unit = torch.clamp(unit, min=1e-30)  # a power below 1 has no slope at 0
        return curve.power(unit, gamma, torch.ones_like(gamma), clip=False, impl=impl)

    found = by_slabs(raised, image, gamma)
    if keeps:
        (mean, spread), (new_mean, new_spread) = _moments(image), _moments(found)
        ratio = spread * scale.abs() / torch.clamp(new_spread, min=1e-7)
        begin, length = begin + length * ((mean - begin) * scale - ratio * new_mean), length * ratio
    return by_slabs(lambda part: torch.addcmul(begin, found[:, :, part], length), found, into=found)


def _moments(image: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b c 1 1"], Float[Tensor, "b c 1 1"]]:
    """Mean and deviation of each channel; ``torch.std_mean`` takes three times as long."""
    mean = image.mean((2, 3), keepdim=True)
    rows = by_slabs(lambda part: torch.linalg.vector_norm(image[:, :, part] - mean, dim=3, keepdim=True), image)
    return mean, torch.linalg.vector_norm(rows, dim=2, keepdim=True) / (image.shape[2] * image.shape[3]) ** 0.5


_LIGHTS: Mapping[str, Callable[..., lighting.Light]] = {
    "band": lighting.band,
    "corner": lighting.corner,
    "flare": lighting.flare,
    "slope": lighting.slope,
    "spot": lighting.spot,
}
_UNDER_CLOUDS: Mapping[str, Callable[..., lighting.Light]] = {
    "fog": plasma.fog,
    "light": plasma.light,
    "contrast": plasma.contrast,
    "shadow": plasma.shadow,
}
"""The light under a cloud, by the law's name; the last of a law's numbers is the cloud's decay."""

OF_BYTES = ("blocks", "rain", "salt_and_pepper", "snow", "speckle", *_LIGHTS, *_UNDER_CLOUDS)
"""Laws that also map bytes to bytes, where no gradient is asked for."""


def grained(segment: Grain, image: Num[Tensor, "b c h w"], impl: str) -> Num[Tensor, "b c h w"]:
    """Apply a law to the picture, as if the gate were open for every sample.

    Gradient:
        image, numbers: as the law declares.
    """
    numbers = [number.to(compute_dtype(image.dtype)) for number in segment.numbers]
    if callable(segment.law):
        return segment.law(image, *(() if segment.words is None else (segment.words,)), *numbers)
    if segment.law == "blocks":
        return blocks(image, numbers[0], impl=impl)
    if segment.law == "gamma_in_range":
        return gamma_in_range(image, *numbers, keeps=bool(segment.most), impl=impl)
    if segment.law in _LIGHTS:
        return lighting.lit(image, *_LIGHTS[segment.law](image, *numbers))
    assert segment.words is not None
    _, channels, height, width = image.shape
    if segment.law == "poisson_gaussian":
        field = gaussian_field(segment.words, (channels, height, width), image.dtype, impl=impl)
        return poisson_gaussian(image, field, *numbers)
    if segment.law == "rician":
        return rician(image, gaussian_field(segment.words, (2 * channels, height, width), image.dtype, impl=impl), *numbers)
    if segment.law == "labels":
        field = gaussian_field(segment.words, (channels, height, width), image.dtype, impl=impl)
        return of_labels(image, field, *numbers)
    if segment.law in _UNDER_CLOUDS:
        cloud = plasma.plasma_of(segment.words, (height, width), numbers[-1], numbers[-1].dtype)
        return lighting.lit(image, *_UNDER_CLOUDS[segment.law](image, cloud, *numbers[:-1]))
    if segment.law == "glass":
        return glass(image, segment.words, numbers[0], int(segment.most), impl=impl)
    if segment.law == "snow":
        strength, angle = numbers
        normal = gaussian_field(segment.words, (1, height, width), strength.dtype, impl=impl)[:, 0]
        return weather.snow(image, normal, angle, weather.SNOW[int(segment.most) - 1], strength, impl=impl)
    if segment.law == "rain":
        return weather.rain(image, segment.words, *numbers, impl=impl)
    if segment.law == "speckle":
        return speckle(image, segment.words, numbers[0])
    if segment.law == "shot":
        return shot(image, segment.words, numbers[0], segment.most)
    return salt_and_pepper(image, segment.words, *numbers)

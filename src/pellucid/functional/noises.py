"""Noise, clouds and weather that a key decides.

Owns: `gaussian_noise`, `poisson_gaussian_noise`, `shot_noise`, `salt_and_pepper`; `plasma_fog`, `plasma_brightness`,
`plasma_shadow`; `rain` and `snow`.
Must not: make noise itself; the kernels do.
Read next: ``blurs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.formerly import formerly
from pellucid.errors import invalid
from pellucid.functional.blurs import check_taps
from pellucid.functional.fills import Factor
from pellucid.functional.images import close_unit, open_unit, open_with
from pellucid.kernels import blend
from pellucid.kernels.blend import grain, weather
from pellucid.kernels.blend import plasma as clouds
from pellucid.kernels.blend.lighting import Light, lit
from pellucid.random.key import Key, draw_words, key_for
from pellucid.transforms.filters import line

__all__ = [
    "gaussian_noise", "plasma_brightness", "plasma_fog", "plasma_shadow", "poisson_gaussian_noise", "rain", "salt_and_pepper",
    "shot_noise", "snow",
]  # fmt: skip


def gaussian_noise(
    image: Shaped[Tensor, "*b c h w"], mean: Factor = 0.0, sigma: Factor = 0.1, *, clip: bool = True, key: Key
) -> Shaped[Tensor, "*b c h w"]:
    """Add Gaussian noise, which a key decides: equal keys add equal noise.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        mean, sigma: of the noise, in units of white for every dtype: a number or a tensor () or (B,); sigma >= 0.

    Gradient:
        image, mean, sigma: exact; with ``clip`` almost everywhere.

    Source:
        ``torchvision.transforms.v2.functional.gaussian_noise``, whose numbers come from the global generator.

    Example:
        >>> from pellucid import Key
        >>> one, two = (gaussian_noise(torch.full((1, 2, 2), 0.5), key=Key(seed=3)) for _ in range(2))
        >>> one.equal(two)
        True
    """

    def law(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor) -> Tensor:
        return blend.noise(image, words, mean, sigma, clip=clip)

    return _noisy(image, key, law, {"mean": (mean, -inf, inf), "sigma": (sigma, 0.0, inf)})


def poisson_gaussian_noise(
    image: Shaped[Tensor, "*b c h w"], gain: Factor = 0.01, sigma: Factor = 0.01, *, clip: bool = True, key: Key
) -> Shaped[Tensor, "*b c h w"]:
    """Add the noise of a camera's sensor, of variance gain * x + sigma ** 2, which a key decides.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        gain: the light of one photon, >= 0, in units of white: a number or a tensor () or (B,).
        sigma: standard deviation in the dark, >= 0, likewise.

    Gradient:
        image, gain, sigma: almost everywhere; none where the variance is 0.

    Source:
        Foi et al., 2008; see `PoissonGaussianNoise`.

    Example:
        >>> from pellucid import Key
        >>> poisson_gaussian_noise(torch.zeros(1, 1, 3), 0.1, 0.0, key=Key(seed=3)).flatten()
        tensor([0., 0., 0.])
    """

    def law(image: Tensor, words: Tensor, gain: Tensor, sigma: Tensor) -> Tensor:
        field = blend.gaussian_field(words, (image.shape[1], image.shape[2], image.shape[3]), image.dtype, impl="auto")
        noisy = grain.poisson_gaussian(image, field, gain, sigma)
        return torch.clamp(noisy, 0.0, 1.0) if clip else noisy

    return _noisy(image, key, law, {"gain": (gain, 0.0, inf), "sigma": (sigma, 0.0, inf)})


def shot_noise(image: Shaped[Tensor, "*b c h w"], photons: Factor = 20.0, *, key: Key) -> Shaped[Tensor, "*b c h w"]:
    """Count photons, Poisson(photons * x) / photons, as a key decides.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point, clipped to [0, 1], or uint8.
        photons: how many make white, 1 to 80: a number or a tensor () or (B,).

    Gradient:
        image: surrogate (1, the slope of the mean). photons: surrogate (that of the normal distribution of the same mean and
        variance).

    Source:
        ``scipy.stats.poisson.ppf`` of the key's numbers; see `ShotNoise`.

    Example:
        >>> from pellucid import Key
        >>> levels = 4 * shot_noise(torch.full((1, 8, 8), 0.5), 4.0, key=Key(seed=3))
        >>> bool((levels == levels.round()).all())
        True
    """

    def law(image: Tensor, words: Tensor, photons: Tensor) -> Tensor:
        return torch.clamp(grain.shot(image, words, photons, 80.0), max=1.0)

    return _noisy(image, key, law, {"photons": (photons, 1.0, 80.0)})


def salt_and_pepper(
    image: Shaped[Tensor, "*b c h w"], amount: Factor = 0.05, salt: Factor = 0.5, *, key: Key
) -> Shaped[Tensor, "*b c h w"]:
    """Replace a share of the values by white or black, as a key decides.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        amount: the share, 0 to 1: a number or a tensor () or (B,).
        salt: the share of the replaced values that is white, 0 to 1, likewise.

    Gradient:
        image: exact (zero where replaced). amount, salt: surrogate (the slope of the mean result).

    Source:
        ``skimage.util.random_noise(mode="s&p")``.

    Example:
        >>> from pellucid import Key
        >>> salt_and_pepper(torch.zeros(1, 1, 3), 1.0, 1.0, key=Key(seed=3)).flatten()
        tensor([1., 1., 1.])
    """
    return _noisy(image, key, grain.salt_and_pepper, {"amount": (amount, 0.0, 1.0), "salt": (salt, 0.0, 1.0)})


def plasma_fog(
    image: Shaped[Tensor, "*b c h w"], strength: Factor = 1.0, decay: Factor = 1.7, *, clip: bool = True, key: Key
) -> Shaped[Tensor, "*b c h w"]:
    """Lay a cloud that a key decides over the image: (x + strength * cloud) * m / (m + strength), with m the image's largest value.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        strength: how thick, >= 0: a number or a tensor () or (B,).
        decay: how smooth the cloud is, 1 to 10, likewise.

    Gradient:
        image, strength, decay: almost everywhere.

    Source:
        Hendrycks and Dietterich, 2019; see `RandomPlasmaFog`.

    Example:
        >>> from pellucid import Key
        >>> foggy = plasma_fog(torch.full((1, 8, 8), 0.5), 2.0, 2.0, key=Key(seed=3))
        >>> bool(abs(foggy.min() - 0.1) < 1e-6), bool(abs(foggy.max() - 0.5) < 1e-6)
        (True, True)
    """
    return _clouded(image, key, clouds.fog, {"strength": (strength, 0.0, inf)}, decay, clip)


def plasma_brightness(
    image: Shaped[Tensor, "*b c h w"], strength: Factor = 0.25, decay: Factor = 1.7, *, clip: bool = True, key: Key
) -> Shaped[Tensor, "*b c h w"]:
    """Brighten and darken unevenly, by a cloud that a key decides: add strength * (2 cloud - 1).

    Args:
        image, decay, clip, key: as in :func:`plasma_fog`.
        strength: the most that is added or taken away, 0 to 1.

    Gradient:
        image, strength, decay: almost everywhere.

    Source:
        Its formula; the cloud is that of :func:`plasma_fog`.

    Example:
        >>> from pellucid import Key
        >>> uneven = plasma_brightness(torch.full((1, 8, 8), 0.5), 0.2, key=Key(seed=3))
        >>> bool(abs(uneven.min() - 0.3) < 1e-6), bool(abs(uneven.max() - 0.7) < 1e-6)
        (True, True)
    """
    return _clouded(image, key, clouds.light, {"strength": (strength, 0.0, 1.0)}, decay, clip)


@formerly("decay")
def plasma_shadow(
    image: Shaped[Tensor, "*b c h w"],
    darkness: Factor = 0.4,
    amount: Factor = 0.5,
    *,
    decay: Factor = 1.7,
    clip: bool = True,
    key: Key,
) -> Shaped[Tensor, "*b c h w"]:
    """Lay shadows on the image where a cloud that a key decides is thin.

    Args:
        image, decay, clip, key: as in :func:`plasma_fog`.
        darkness: the share of the light that a shadow takes, 0 to 1.
        amount: shadow lies where the cloud is below this value, 0 to 1; it grows to its full darkness within a tenth.

    Gradient:
        image, darkness, amount, decay: almost everywhere.

    Source:
        Its formula; the cloud is that of :func:`plasma_fog`.

    Example:
        >>> from pellucid import Key
        >>> dark = plasma_shadow(torch.ones(1, 8, 8), 0.5, 0.5, key=Key(seed=3))
        >>> float(dark.min()), float(dark.max())
        (0.5, 1.0)
    """
    return _clouded(image, key, clouds.shadow, {"darkness": (darkness, 0.0, 1.0), "amount": (amount, 0.0, 1.0)}, decay, clip)


@formerly("length", "slant")
def rain(
    image: Shaped[Tensor, "*b c h w"],
    strength: Factor = 0.5,
    density: Factor = 0.005,
    *,
    length: Factor = 16.0,
    slant: Factor = 0.0,
    kernel_size: int = 31,
    key: Key,
) -> Shaped[Tensor, "*b c h w"]:
    """Let it rain: slanted streaks of light, mixed in as white, whose places a key decides.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        strength: how white streaks are, 0 to 1: a number or a tensor () or (B,).
        density: the share of pixels at which a streak has its middle, from 1e-6 to 1, likewise.
        length: of streaks in pixels, >= 0, likewise.
        slant: in degrees counter-clockwise from the vertical, likewise.
        kernel_size: odd number of rows and columns that hold a streak, which is cut off at their border.
        key: decides the streaks; see :func:`gaussian_noise`.

    Gradient:
        image, strength: exact. density, length, slant: almost everywhere.

    Source:
        `pellucid.RandomRain`.

    Example:
        >>> from pellucid import Key
        >>> bool(rain(torch.zeros(3, 32, 32), 0.5, 0.05, key=Key(0)).max() <= 0.5)
        True
    """
    check_taps(kernel_size)

    def law(image: Tensor, words: Tensor, strength: Tensor, density: Tensor, length: Tensor, slant: Tensor) -> Tensor:
        reach = torch.arange(kernel_size, dtype=image.dtype, device=image.device) - kernel_size // 2
        streak = line(length, slant + 90.0, reach) * (1.0 + length)[:, None, None]
        return weather.rain(image, words, strength, density, streak)

    unit, some = (strength, 0.0, 1.0), (density, 1e-6, 1.0)
    return _noisy(image, key, law, {"strength": unit, "density": some, "length": (length, 0.0, inf), "slant": (slant, -inf, inf)})


def snow(
    image: Shaped[Tensor, "*b c h w"],
    strength: Factor = 1.0,
    angle: Factor = -90.0,
    *,
    severity: int = 2,
    clip: bool = True,
    key: Key,
) -> Shaped[Tensor, "*b c h w"]:
    """Let it snow: flakes drawn out by their fall, which a key decides, over an image that they make paler.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        strength: 0 to 1: a number or a tensor () or (B,). At 1 this is ImageNet-C's snow.
        angle: the direction that flakes come from, in degrees clockwise from the x axis, likewise.
        severity: 1 to 5, as in ImageNet-C.
        clip: to [0, 1].
        key: decides the flakes; see :func:`gaussian_noise`.

    Gradient:
        image, strength: almost everywhere. angle: none.

    Source:
        `pellucid.RandomSnow`.

    Example:
        >>> from pellucid import Key
        >>> bool((snow(torch.zeros(3, 32, 32), severity=3, key=Key(0)) >= 0.15 - 1e-6).all())  # paler everywhere
        True
    """
    if not isinstance(severity, int) or isinstance(severity, bool) or not 1 <= severity <= len(weather.SNOW):
        raise invalid("severity", expected=f"a whole number from 1 to {len(weather.SNOW)}", got=repr(severity))

    def law(image: Tensor, words: Tensor, strength: Tensor, angle: Tensor) -> Tensor:
        normal = blend.gaussian_field(words, (1, *image.shape[2:]), image.dtype)[:, 0]
        result = weather.snow(image, normal, angle, weather.SNOW[severity - 1], strength)
        return torch.clamp(result, 0.0, 1.0) if clip else result

    return _noisy(image, key, law, {"strength": (strength, 0.0, 1.0), "angle": (angle, -inf, inf)})


def _clouded(
    image: Tensor,
    key: Key,
    under: Callable[..., Light],
    numbers: Mapping[str, tuple[Factor, float, float]],
    decay: Factor,
    clip: bool,
) -> Tensor:
    def law(image: Tensor, words: Tensor, *found: Tensor) -> Tensor:
        cloud = clouds.plasma_of(words, (image.shape[2], image.shape[3]), found[-1], image.dtype)
        result = lit(image, *under(image, cloud, *found[:-1]))
        return torch.clamp(result, 0.0, 1.0) if clip else result

    return _noisy(image, key, law, {**numbers, "decay": (decay, 1.0, 10.0)})


def _noisy(image: Tensor, key: Key, law: Callable[..., Tensor], values: Mapping[str, tuple[Factor, float, float]]) -> Tensor:
    """Apply a law to images in [0, 1], the key's words, and one number per image of each name (value, least, most)."""
    pixels, layout, numbers = open_with(image, values)
    work, count = open_unit(pixels), pixels.shape[0]
    slot = torch.zeros(1, dtype=torch.int64, device=work.device)
    words = draw_words(*key_for(key, count, work.device), slot)[:, :2]
    return close_unit(law(work, words, *(number.to(work.dtype).expand(count) for number in numbers)), layout)

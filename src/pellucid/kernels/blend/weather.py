"""Snow and rain.

Owns: `snow`, `snow_layer`, `SNOW`, `rain`.
Must not: draw; fields are given, or come from two words per sample.
Read next: ``plasma.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64, Num
from torch import Tensor

from pellucid.color.luma import LUMA
from pellucid.core.constants import constant
from pellucid.kernels.blend import cpu
from pellucid.kernels.convolve import dense
from pellucid.kernels.convolve.lines import motion, zoomed
from pellucid.random.patterns import uniform_field

__all__ = ["SNOW", "rain", "snow", "snow_layer"]

SNOW = (
    (0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
    (0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
    (0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
    (0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
)
"""ImageNet-C's, by severity: mean, spread, zoom, threshold of flakes; radius, sigma of their fall; share of the picture kept."""


def snow(
    image: Num[Tensor, "b c h w"],
    normal: Float[Tensor, "b h w"],
    degrees: Float[Tensor, "b"],
    constants: tuple[float, float, float, float, int, float, float],
    strength: Float[Tensor, "#b"] | None = None,
    *,
    impl: str = "auto",
) -> Num[Tensor, "b c h w"]:
    """Make the picture paler, and add flakes and their mirror image; not clipped. ``impl`` says who computes their motion blur.

    ``strength``: the share blended in, 0 to 1; None is 1. Bytes need a strength, and come back as bytes, clipped and rounded.

    Gradient:
        image, strength: almost everywhere. normal, degrees: none.
    """
    layer, kept = snow_layer(normal, degrees, *constants[:-1], impl=impl)[:, None], constants[-1]
    layer = layer + layer.flip(-2, -1)
    channels = image.shape[1]
    weights = constant(LUMA if channels == 3 else (1.0 / channels,) * channels, normal.dtype, image.device)
    if image.dtype == torch.uint8 and strength is not None:
        return cpu.snowed(image, layer[:, 0], weights, strength, kept)
    bright = image.mean(1, keepdim=True) if channels != 3 else (image * weights[:, None, None]).sum(1, keepdim=True)
    pale = kept * image + (1.0 - kept) * torch.maximum(image, 1.5 * bright + 0.5)
    snowed = pale + layer
    return snowed if strength is None else image + strength[:, None, None, None] * (snowed - image)


def snow_layer(
    normal: Float[Tensor, "b h w"],
    degrees: Float[Tensor, "b"],
    mean: float,
    spread: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    *,
    impl: str = "auto",
) -> Float[Tensor, "b h w"]:
    """Flakes of thresholded noise, enlarged, and blurred along their fall.

    Gradient:
        none: it is made of draws.
    """
    flakes = zoomed(mean + spread * normal, zoom)
    flakes = torch.floor(torch.clamp(torch.where(flakes < threshold, 0.0, flakes), 0.0, 1.0) * 255.0) / 255.0
    fallen = motion(flakes[:, None], radius, sigma, degrees, impl=impl)[:, 0]
    return torch.round(torch.clamp(fallen, 0.0, 1.0) * 255.0) / 255.0


def rain(
    image: Num[Tensor, "b c h w"],
    words: Int64[Tensor, "b 2"],
    strength: Float[Tensor, "b"],
    density: Float[Tensor, "b"],
    streak: Float[Tensor, "b k k"],
    *,
    impl: str = "auto",
) -> Num[Tensor, "b c h w"]:
    """Mix in white, by ``strength`` times the light of all streaks at each pixel, at most 1.

    Args:
        image: any picture; bytes come back as bytes.
        words: two per sample.
        strength: 0 to 1.
        density: above 0; the share of pixels from which a streak comes, of a brightness uniform on (0, 1).
        streak: the light of a streak of brightness 1, around its middle. Streaks come in from beyond the borders, too.
        impl: who spreads the light; for Triton, which cannot, the reference does.

    Gradient:
        image, strength: exact. density, streak: almost everywhere.
    """
    reach = streak.shape[-1] // 2
    height, width = image.shape[-2:]
    field = uniform_field(words, (1, height + 2 * reach, width + 2 * reach), strength.dtype)
    if image.dtype == torch.uint8:
        light = strength[:, None, None, None] * cpu.fallen(field, density, streak)
        return cpu.lit(image, 1.0 - light, light)
    drops = torch.relu(1.0 - field / density[:, None, None, None])
    spread = dense(drops, streak, impl="reference" if impl == "triton" else impl)
    fallen = spread[..., reach : reach + height, reach : reach + width]
    return image + strength[:, None, None, None] * torch.clamp(fallen, max=1.0) * (1.0 - image)

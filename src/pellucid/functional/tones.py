"""Tone curves that jump or read the histogram, with declared surrogate gradients.

Owns: `posterize`, `solarize`, `equalize`, `clahe`, `autocontrast`.
Must not: hold formulas of its own; the curve kernels do.
Read next: ``../kernels/curve/surrogate.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Any

from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.formerly import formerly
from pellucid.errors import invalid
from pellucid.functional.fills import Factor
from pellucid.functional.images import close_unit, open_unit, open_with
from pellucid.kernels import curve
from pellucid.transforms.base import as_size, check_choice
from pellucid.types import Size

__all__ = ["autocontrast", "clahe", "equalize", "posterize", "solarize"]

_IMAGE_GRADIENTS = ("straight_through", "soft", "none")
_SURROGATES = ("secant", "straight_through", "none")


@formerly(magnitude="surrogate")
def posterize(
    image: Shaped[Tensor, "*b c h w"],
    bits: Factor,
    *,
    image_gradient: str = "straight_through",
    surrogate: str = "secant",
    h: float = 1.0,
) -> Shaped[Tensor, "*b c h w"]:
    """Keep a few bits of every grey level.

    Args:
        image: (C, H, W) or (B, C, H, W): uint8, or floating point in [0, 1] whose grey levels are those of bytes.
        bits: to keep, of 8, rounded to a whole number; a number or a tensor () or (B,).
        image_gradient: ``straight_through`` (1), ``soft`` (of a smooth staircase) or ``none`` (zero).
        surrogate: gradient to the bits: ``secant``, ``straight_through`` or ``none`` (zero).
        h: reach of the secant, in bits.

    Gradient:
        image, bits: surrogate as chosen.

    Source:
        ``torchvision.transforms.v2.functional.posterize`` of bytes; of floats it has the levels k / 2 ** bits.

    Example:
        >>> posterize(torch.tensor([[[100, 200]]], dtype=torch.uint8), 1)
        tensor([[[  0, 128]]], dtype=torch.uint8)
    """
    return _toned(image, "posterize", {"bits": (bits, 0.0, 8.0)}, image_gradient=image_gradient, surrogate=surrogate, h=h)


@formerly(magnitude="surrogate")
def solarize(
    image: Shaped[Tensor, "*b c h w"], threshold: Factor, *, surrogate: str = "secant", h: float = 0.1
) -> Shaped[Tensor, "*b c h w"]:
    """Invert the pixels at or above a threshold.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        threshold: in [0, 1] for every dtype (torchvision's is in the image's own units); a number or a tensor () or (B,).
        surrogate: gradient to the threshold: ``secant``, ``straight_through`` or ``none`` (zero).
        h: reach of the secant.

    Gradient:
        image: almost everywhere (-1 where inverted). threshold: surrogate as chosen.

    Source:
        ``torchvision.transforms.v2.functional.solarize``.

    Example:
        >>> solarize(torch.tensor([[[0.25, 0.75]]]), 0.5)
        tensor([[[0.2500, 0.2500]]])
    """
    return _toned(image, "solarize", {"threshold": (threshold, 0.0, 1.0)}, surrogate=surrogate, h=h)


def equalize(image: Shaped[Tensor, "*b c h w"], *, image_gradient: str = "straight_through") -> Shaped[Tensor, "*b c h w"]:
    """Flatten the histogram of each channel.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8.
        image_gradient: ``straight_through`` (1), ``soft`` (the slope of the curve, with the histogram held) or ``none`` (zero).

    Returns:
        The image, in its own dtype. A channel with fewer than 255 pixels below its brightest level stays as it is.

    Gradient:
        image: surrogate as chosen.

    Source:
        ``torchvision.transforms.v2.functional.equalize``.

    Example:
        >>> dull = (100 + torch.arange(32)).repeat(1, 32, 1).to(torch.uint8)
        >>> int(equalize(dull).min()), int(equalize(dull).max())
        (0, 255)
    """
    return _toned(image, "equalize", image_gradient=image_gradient)


def autocontrast(image: Shaped[Tensor, "*b c h w"]) -> Shaped[Tensor, "*b c h w"]:
    """Stretch each channel to the full range; a flat one stays as it is.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], or uint8, whose results are rounded.

    Gradient:
        image: almost everywhere, through the darkest and the brightest pixel too (ties share).

    Source:
        ``torchvision.transforms.v2.functional.autocontrast``.

    Example:
        >>> autocontrast(torch.tensor([[[0.25, 0.5]]]))
        tensor([[[0., 1.]]])
    """
    return _toned(image, "autocontrast")


@formerly(magnitude="surrogate")
def clahe(
    image: Shaped[Tensor, "*b c h w"],
    clip_limit: Factor = 4.0,
    tiles: int | Size = 8,
    *,
    image_gradient: str = "straight_through",
    surrogate: str = "secant",
    h: float = 0.5,
) -> Shaped[Tensor, "*b c h w"]:
    """Flatten the histogram of each channel tile by tile, but not too steeply.

    Args:
        image: (C, H, W) or (B, C, H, W): floating point in [0, 1], which is brought to 256 levels, or uint8.
        clip_limit: how often a grey level may occur, > 0, in units of its share of a flat histogram: a number or (B,) tensor.
        tiles: how many, (along y, along x), or an int for both.
        image_gradient: ``straight_through`` (1), ``soft`` (the slope of the curve at each pixel) or ``none`` (zero).
        surrogate: gradient to the limit: ``secant``, ``straight_through`` or ``none`` (zero).
        h: reach of the secant.

    Gradient:
        image, clip_limit: surrogate as chosen.

    Source:
        ``cv2.createCLAHE`` on each channel, bit for bit on bytes.

    Example:
        >>> flat = clahe((100 + torch.arange(32)).repeat(1, 32, 1).to(torch.uint8), 40.0, 1)
        >>> int(flat.min()), int(flat.max())
        (8, 255)
    """
    if isinstance(clip_limit, int | float) and not clip_limit > 0:
        raise invalid("clip_limit", expected="a number > 0", got=clip_limit)
    size = as_size("tiles", tiles)
    options: dict[str, Any] = {"image_gradient": image_gradient, "surrogate": surrogate, "h": h}
    return _toned(image, "clahe", {"clip_limit": (clip_limit, 0.0, inf)}, tiles=size, **options)


def _toned(
    image: Tensor,
    name: str,
    amount: Mapping[str, tuple[Factor, float, float]] = MappingProxyType({}),
    *,
    image_gradient: str = "none",
    surrogate: str = "none",
    h: float = 1.0,
    tiles: Size = (1, 1),
) -> Tensor:
    check_choice("image_gradient", image_gradient, _IMAGE_GRADIENTS)
    check_choice("surrogate", surrogate, _SURROGATES)
    if not h > 0:
        raise invalid("h", expected="a reach > 0", got=h)
    pixels, layout, numbers = open_with(image, amount)
    work = open_unit(pixels)
    scale = 1.0 if layout.dtype.is_floating_point else 255.0
    number = numbers[0].to(work.dtype) if numbers else None
    slopes: dict[str, Any] = {"image_gradient": image_gradient, "surrogate": surrogate, "h": float(h)}
    result = curve.tone(work, name, number, None, scale=scale, tiles=tiles, **slopes)
    return close_unit(result, layout)

"""Blur and sharpness.

Owns: RandomGaussianBlur, RandomSharpness, RandomUnsharpMask, RandomEmboss.
Must not: convolve; they build kernels.
Read next: ``noise.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.distributions import Distribution
from pellucid.random.fields import Chance, Range, Ranges, around_one, interval
from pellucid.random.numbers import is_finite
from pellucid.segments import Convolve, ConvolveSpec, Filter, SegmentSpec, Sharpen
from pellucid.transforms.base import Names, Params, Transform, as_size, drawn, gated, slopes
from pellucid.types import EndClip, ImageSpec, Size

__all__ = ["RandomEmboss", "RandomGaussianBlur", "RandomSharpness", "RandomUnsharpMask"]

_LARGEST_AUTOMATIC_KERNEL = 63


def _sigmas(name: str, value: Any) -> dict[str, Distribution]:
    """One standard deviation for all axes, or one for each."""
    if isinstance(value, tuple | list) and len(value) == 3:
        return {f"sigma_{axis}": interval(f"{name}.{axis}", one, low=1e-3) for axis, one in zip("xyz", value, strict=True)}
    return {"sigma": interval(name, value, low=1e-3)}


@dataclass(frozen=True)
class RandomGaussianBlur(Transform):
    """Blur with a Gaussian of random width.

    Args:
        kernel_size: odd number of taps, or (vertical, horizontal); None takes what the largest sigma needs (three sigmas to
            each side, at most 63 taps). Along z, volumes take as many taps as vertically.
        sigma: standard deviation in pixels: a pair, a number, a `Learnable` or a distribution of values > 0; or three of them, for
            x, y and z, of which pictures take the first two.

    Errors:
        InvalidArgument for an even number of taps, or a width that is not above 0.
    Source:
        ``torchvision.transforms.v2.functional.gaussian_blur``; borders mirror without repeating the edge pixel.

    Example:
        >>> edge = torch.tensor([[[[0.0, 0.0, 1.0, 1.0]]]])
        >>> pellucid.RandomGaussianBlur((1, 3), sigma=1.0)(edge).flatten()
        tensor([0.0000, 0.2741, 0.7259, 1.0000])
    """

    kernel_size: int | Size | None = None
    sigma: Ranges = field(default=(0.1, 2.0), metadata=drawn(_sigmas, "sigma", "sigma_x", "sigma_y", "sigma_z"))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"torchvision": "GaussianBlur", "albumentations": "GaussianBlur", "monai": "RandGaussianSmoothd"}
    gradients: ClassVar[Mapping[str, str]] = dict.fromkeys(("image", "sigma", "sigma_x", "sigma_y", "sigma_z", "gate"), "exact")
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec()

    def check(self) -> None:
        if not all(taps % 2 for taps in self._taps()):
            raise invalid("RandomGaussianBlur.kernel_size", expected="odd numbers of taps", got=self.kernel_size)

    def _taps(self) -> tuple[int, int]:
        if self.kernel_size is not None:
            return as_size("RandomGaussianBlur.kernel_size", self.kernel_size)
        widest = max(self._fixed[name].span()[1] for name in self._fixed if name != "gate")
        taps = 2 * math.ceil(3.0 * widest) + 1 if is_finite(widest) else _LARGEST_AUTOMATIC_KERNEL
        return (min(taps, _LARGEST_AUTOMATIC_KERNEL), min(taps, _LARGEST_AUTOMATIC_KERNEL))

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Convolve:
        x, y, z = (values["sigma" if "sigma" in values else f"sigma_{axis}"] for axis in "xyz")
        vertical, horizontal = self._taps()
        through = _gaussian(values, z, vertical) if spec.depth and z is not y else None
        return Convolve(_gaussian(values, y, vertical), _gaussian(values, x, horizontal), through=through)


def _gaussian(values: Params, sigma: Tensor, taps: int) -> Tensor:
    return gated(values, gaussian_taps(sigma, taps), _middle(taps, sigma))


def gaussian_taps(sigma: Float[Tensor, "b"], taps: int) -> Float[Tensor, "b k"]:
    """A Gaussian of sum 1."""
    reach = torch.arange(taps, dtype=sigma.dtype, device=sigma.device) - (taps - 1) / 2
    weights = torch.exp(-0.5 * (reach / sigma[:, None]) ** 2)
    return weights / weights.sum(-1, keepdim=True)


def _middle(taps: int, like: Tensor) -> Float[Tensor, "k"]:
    return (torch.arange(taps, device=like.device) == taps // 2).to(like.dtype)


@dataclass(frozen=True)
class RandomSharpness(Transform):
    """Blend with a smoothed copy: factors above 1 sharpen, below 1 blur, 0 is the smoothed image.

    Args:
        sharpness: a number v draws the factor from (max(0, 1 - v), 1 + v); a pair or distribution is drawn from directly; a
            `Learnable` is a learned v.

    On each target:
        image only; the outermost pixels keep their values.
    Identity at:
        sharpness = 1.
    Source:
        ``torchvision.transforms.v2.functional.adjust_sharpness`` and PIL's smoothing kernel.

    Example:
        >>> grey = torch.full((1, 1, 3, 3), 0.5)
        >>> bool((pellucid.RandomSharpness((2, 2), p=1.0)(grey) - grey).abs().max() < 1e-6)
        True
    """

    sharpness: Range = field(default=0.5, metadata=drawn(around_one))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"torchvision": "RandomAdjustSharpness", "albumentations": "Sharpen"}
    gradients = slopes()
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec("interior")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Sharpen:
        amount = gated(values, values["sharpness"], 1.0)[:, None, None]
        smooth = torch.full((3, 3), 1.0 / 13.0, dtype=like.dtype, device=like.device)
        grid = torch.arange(3, device=like.device)
        middle = ((grid[:, None] == 1) & (grid == 1)).to(like.dtype)
        smooth = smooth + middle * (4.0 / 13.0)
        return Sharpen(amount * middle + (1.0 - amount) * smooth, self.clip == "end")


@dataclass(frozen=True)
class RandomUnsharpMask(Transform):
    """Sharpen by adding the difference to a Gaussian blur, times an amount.

    Args:
        sigma: of the Gaussian in pixels, above 0 and up to 10: a number, pair, `Learnable` or distribution. The kernel reaches
            three times the largest to each side.
        amount: how much of the difference is added, likewise; negative amounts blur.

    Identity at:
        amount = 0.
    Errors:
        InvalidArgument for a sigma outside of (0, 10], or an unknown option.
    Source:
        ``scipy.ndimage.gaussian_filter(mode="mirror")``. Pillow and albumentations skip pixels that would change little; this has
        no such threshold.

    Example:
        >>> edge = torch.tensor([[[[0.25, 0.25, 0.75, 0.75]]]])
        >>> sharp = pellucid.RandomUnsharpMask(0.5, 1.0, p=1.0)(edge).flatten()
        >>> bool(sharp[1] < 0.25) and bool(sharp[2] > 0.75)
        True
    """

    sigma: Range = field(default=(0.5, 2.0), metadata=drawn(interval, low=1e-3, high=10.0))
    amount: Range = field(default=(0.2, 0.5), metadata=drawn(interval))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "UnsharpMask"}
    gradients = slopes()
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Convolve:
        bell = gaussian_taps(values["sigma"], 2 * math.ceil(3.0 * min(self._fixed["sigma"].span()[1], 10.0)) + 1)
        return Convolve(bell, bell, gated(values, values["amount"], 0.0), self.clip == "end")


@dataclass(frozen=True)
class RandomEmboss(Transform):
    """Mix the picture with its relief, lit from the top left.

    Args:
        share: of the relief, 0 to 1: a number, pair, `Learnable` or distribution.
        strength: how deep it is, at least 0, likewise.

    Identity at:
        share = 0.
    Source:
        albumentations' ``Emboss``, with share for its alpha; ``cv2.filter2D`` of its kernel.

    Example:
        >>> grey = torch.full((1, 1, 3, 3), 0.5)
        >>> bool((pellucid.RandomEmboss(0.5, 0.5, p=1.0)(grey) - grey).abs().max() < 1e-6)
        True
    """

    share: Range = field(default=(0.2, 0.5), metadata=drawn(interval, low=0.0, high=1.0))
    strength: Range = field(default=(0.2, 0.7), metadata=drawn(interval, low=0.0))
    _: KW_ONLY
    clip: EndClip = "end"
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Emboss"}
    gradients = slopes()
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec("dense")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Filter:
        # From the top left to the bottom right: -1 and 1 at these corners, and the strength there and at the sides next to them.
        place = torch.arange(3, dtype=like.dtype, device=like.device) - 1.0
        slope = torch.sign(place[:, None] + place)  # -1 -1 0, -1 0 1, 0 1 1
        middle = _middle(3, like)
        corners = slope * (place[:, None] * place)
        share, strength = gated(values, values["share"], 0.0)[:, None, None], values["strength"][:, None, None]
        return Filter(middle[:, None] * middle + share * (corners + strength * slope), self.clip == "end")

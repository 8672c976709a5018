"""Operations that jump: posterise, solarise, equalise, and the contrast stretch that goes with them.

Owns: RandomPosterize, RandomSolarize, RandomEqualize, RandomCLAHE, RandomAutoContrast.
Must not: hide that a gradient is a surrogate; each declares it.
Read next: ``../kernels/curve/surrogate.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.fields import Chance, Range, interval
from pellucid.segments import CurveSpec, Tone
from pellucid.transforms.base import Names, Params, Transform, as_size, by_options, drawn
from pellucid.types import ImageGradient, ImageSpec, Size, Surrogate

__all__ = ["RandomAutoContrast", "RandomCLAHE", "RandomEqualize", "RandomPosterize", "RandomSolarize"]


def _chosen(option: str) -> str:
    return "none" if option == "none" else f"surrogate: {option}"


class _Toned(Transform):
    """The base: one curve by name, with at most one amount, and the gradients that the fields choose."""

    curve: ClassVar[str]
    amount: ClassVar[str] = ""
    image_gradient: ImageGradient = "none"
    surrogate: Surrogate = "none"
    h: float = 1.0
    tiles: int | Size = 1
    slope: ClassVar[str] = ""  # to the image, where no field chooses it

    @by_options
    def gradients(self) -> Mapping[str, str]:
        amount = {self.amount: _chosen(self.surrogate)} if self.amount else {}
        return {"image": self.slope or _chosen(self.image_gradient), **amount, "gate": "exact"}

    def check(self) -> None:
        if not self.h > 0:
            raise invalid(f"{type(self).__name__}.h", expected="a reach > 0", got=self.h)

    def segment(self, spec: ImageSpec) -> CurveSpec:
        return CurveSpec(tabled=self.curve != "clahe", alone=bool(self.amount) and self.curve != "clahe")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Tone:
        how = self.image_gradient, self.surrogate, self.h
        return Tone(self.curve, values.get(self.amount), values.get("gate"), *how, as_size("tiles", self.tiles))


@dataclass(frozen=True)
class RandomPosterize(_Toned):
    """Keep a few bits of every grey level, with probability p.

    Args:
        bits: to keep, of 8: a number, pair, `Learnable` or distribution, in [0, 8]. A drawn value is rounded to a whole number, so
            ``(3.5, 7.5)`` gives 4, 5, 6 and 7 equal chances.
        image_gradient: ``straight_through`` (as if nothing were rounded), ``soft`` (of a smooth staircase) or ``none`` (zero).
        surrogate: gradient to the bits: ``secant`` (the difference of the results with h bits more and less), ``straight_through``
            or ``none`` (zero).
        h: reach of the secant, in bits.

    Levels are k * 2 ** (8 - bits) of 255 for bytes and for floating point: one picture gives one result. That is albumentations'
    way; torchvision gives floats the levels k / 2 ** bits, which are up to 1/255 darker and begin up to 1/255 earlier.

    Gradient:
        image, bits: surrogate or none, as chosen; a range of bits learns without bias under ``boundary``. gate: exact.
    Identity at:
        p = 0, and 8 bits for grey levels of 255.
    Errors:
        InvalidArgument for bits outside of [0, 8], a reach that is not above 0, or an unknown option.
    Source:
        ``torchvision.transforms.v2.functional.posterize`` of bytes.

    Example:
        >>> pellucid.RandomPosterize(bits=1, p=1.0)(torch.tensor([[[[100, 200]]]], dtype=torch.uint8)).flatten()
        tensor([  0, 128], dtype=torch.uint8)
    """

    bits: Range = field(default=4, metadata=drawn(interval, low=0.0, high=8.0))
    _: KW_ONLY
    image_gradient: ImageGradient = "straight_through"
    surrogate: Surrogate = "secant"
    h: float = 1.0
    p: Chance = 0.5
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    curve: ClassVar[str] = "posterize"
    amount: ClassVar[str] = "bits"
    like: ClassVar[Names] = {"albumentations": "Posterize"}


@dataclass(frozen=True)
class RandomSolarize(_Toned):
    """Invert the pixels at or above a threshold, with probability p.

    Args:
        threshold: in [0, 1] for every dtype: a number, pair, `Learnable` or distribution.
        surrogate: gradient to the threshold: ``secant`` (the difference of the results at threshold + h and - h),
            ``straight_through`` or ``none`` (zero).
        h: reach of the secant.

    Gradient:
        image: almost everywhere (-1 for inverted pixels). threshold: surrogate or none, as chosen; a range of thresholds learns
        without bias under ``boundary``. gate: exact.
    Source:
        ``torchvision.transforms.v2.functional.solarize``.

    Example:
        >>> pellucid.RandomSolarize(0.5, p=1.0)(torch.tensor([[[[0.25, 0.75]]]])).flatten()
        tensor([0.2500, 0.2500])
    """

    threshold: Range = field(default=0.5, metadata=drawn(interval, low=0.0, high=1.0))
    _: KW_ONLY
    surrogate: Surrogate = "secant"
    h: float = 0.1
    p: Chance = 0.5
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    curve: ClassVar[str] = "solarize"
    amount: ClassVar[str] = "threshold"
    slope: ClassVar[str] = "almost_everywhere"
    like: ClassVar[Names] = {"albumentations": "Solarize"}


@dataclass(frozen=True)
class RandomEqualize(_Toned):
    """Flatten the histogram of each channel, with probability p.

    Args:
        image_gradient: ``straight_through`` (as if nothing were mapped), ``soft`` (the slope of the curve at each pixel, with the
            histogram held) or ``none`` (zero).

    A channel with fewer than 255 pixels below its brightest level stays as it is, as in torchvision and Pillow.

    Gradient:
        image: surrogate or none, as chosen. gate: exact.
    Source:
        ``torchvision.transforms.v2.functional.equalize``.

    Example:
        >>> dull = (100 + torch.arange(32.0)).repeat(1, 1, 32, 1).to(torch.uint8)
        >>> flat = pellucid.RandomEqualize(p=1.0)(dull)
        >>> int(flat.min()), int(flat.max())
        (0, 255)
    """

    _: KW_ONLY
    image_gradient: ImageGradient = "straight_through"
    p: Chance = 0.5
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    curve: ClassVar[str] = "equalize"
    like: ClassVar[Names] = {"albumentations": "Equalize"}


@dataclass(frozen=True)
class RandomCLAHE(_Toned):
    """Flatten the histogram of each channel tile by tile, but not too steeply, with probability p.

    Args:
        clip_limit: how often a grey level may occur before the rest is spread over all levels, in units of its share of a flat
            histogram: a number, pair, `Learnable` or distribution of values above 0.
        tiles: how many, (along y, along x), or an int for both.
        image_gradient: as in `RandomEqualize`.
        surrogate: gradient to the limit: ``secant`` (the difference of the results with h more and less), ``straight_through`` or
            ``none`` (zero).
        h: reach of the secant.

    Floating-point images are brought to 256 levels first, and so clipped to [0, 1].

    Gradient:
        image, clip_limit: surrogate or none, as chosen. gate: exact.
    Source:
        ``cv2.createCLAHE`` on each channel, bit for bit on bytes.

    Example:
        >>> dull = (100 + torch.arange(32.0)).repeat(1, 1, 32, 1).to(torch.uint8)
        >>> flat = pellucid.RandomCLAHE((40, 40), tiles=1, p=1.0)(dull)
        >>> int(flat.min()), int(flat.max())
        (8, 255)
    """

    clip_limit: Range = field(default=(1.0, 4.0), metadata=drawn(interval, low=1e-3))
    tiles: int | Size = 8
    _: KW_ONLY
    image_gradient: ImageGradient = "straight_through"
    surrogate: Surrogate = "secant"
    h: float = 0.5
    p: Chance = 0.5
    same_on_batch: bool = False

    curve: ClassVar[str] = "clahe"
    amount: ClassVar[str] = "clip_limit"
    like: ClassVar[Names] = {"kornia": "RandomClahe", "albumentations": "CLAHE"}


@dataclass(frozen=True)
class RandomAutoContrast(_Toned):
    """Stretch each channel to the full range, with probability p.

    Args:
        p: probability.

    A flat channel stays as it is. Images that come as 8 bits are rounded at the end, where torchvision truncates: up to one grey
    level of difference.

    Gradient:
        image: almost everywhere, through the darkest and the brightest pixel too (ties share). gate: exact.
    Source:
        ``torchvision.transforms.v2.functional.autocontrast``.

    Example:
        >>> pellucid.RandomAutoContrast(p=1.0)(torch.tensor([[[[0.25, 0.5]]]])).flatten()
        tensor([0., 1.])
    """

    p: Chance = 0.5
    _: KW_ONLY
    same_on_batch: bool = False

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    curve: ClassVar[str] = "autocontrast"
    like: ClassVar[Names] = {"torchvision": "RandomAutocontrast", "albumentations": "AutoContrast"}
    slope: ClassVar[str] = "almost_everywhere"

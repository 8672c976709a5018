"""Resizing and padding to a size.

Owns: Resize, LongestMaxSize, RandomShortestSize, RandomRescale, Pad, PadIfNeeded, Letterbox.
Must not: resample; a resize is a scaling of the sampling grid.
Read next: ``color.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar

from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.geometry.matrices import scale_shift
from pellucid.random.distributions import Categorical, Distribution
from pellucid.random.fields import Chance, Range, interval
from pellucid.segments import Warp, WarpSpec
from pellucid.transforms.base import Names, Params, Transform, as_padding, as_size, drawn, undecided
from pellucid.transforms.warping import resizing, shifting
from pellucid.types import Fill, ImageSpec, Interpolation, Padding, PaddingMode, Size

__all__ = ["Letterbox", "LongestMaxSize", "Pad", "PadIfNeeded", "RandomRescale", "RandomShortestSize", "Resize"]


def _fit(size: Size, spec: ImageSpec, like: Tensor) -> Tensor:
    step_y, step_x = spec.height / size[0], spec.width / size[1]
    return scale_shift(step_x, 0.5 * step_x - 0.5, step_y, 0.5 * step_y - 0.5, like[None])


def _lengths(name: str, sizes: tuple[int, ...]) -> Distribution:
    return Categorical(tuple(float(as_size(name, size)[0]) for size in sizes))


class _Resized(Transform):
    """The base: one size for all images of a kind."""

    interpolation: Interpolation
    antialias: bool

    def _target(self, spec: ImageSpec) -> Size:
        raise NotImplementedError

    def segment(self, spec: ImageSpec) -> WarpSpec:
        size = self._target(spec)
        return resizing(self, size, spec.height / size[0], spec.width / size[1], resamples=size != spec.size, exposes=False)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        return Warp(_fit(self._target(spec), spec, like))


@dataclass(frozen=True)
class Resize(_Resized):
    """Resize to a fixed size.

    Args:
        size: (height, width), or an int for the shorter side (the aspect ratio is kept).

    Gradient:
        image: exact; with antialiasing every pixel has one.
    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled.
    Identity at:
        the image's own size.
    Source:
        ``F.interpolate(mode="bilinear", antialias=True)``.

    Example:
        >>> pellucid.Resize(4)(torch.zeros(1, 3, 8, 16)).shape
        torch.Size([1, 3, 4, 8])
    """

    size: int | Size
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    like: ClassVar[Names] = {"kornia": "SmallestMaxSize", "albumentations": "SmallestMaxSize"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def _target(self, spec: ImageSpec) -> Size:
        if not isinstance(self.size, int):
            return as_size("Resize.size", self.size)
        if spec.height <= spec.width:
            return (self.size, max(1, math.floor(self.size * spec.width / spec.height)))
        return (max(1, math.floor(self.size * spec.height / spec.width)), self.size)


@dataclass(frozen=True)
class LongestMaxSize(_Resized):
    """Resize the longer side to ``size`` pixels, keeping the aspect ratio.

    `Resize` with an int fixes the shorter side.

    Args:
        size: of the longer side; a pair (height, width) is the size that the result just fits into.

    Gradient:
        image: exact; with antialiasing every pixel has one.
    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled.
    Identity at:
        the image's own longer side.
    Source:
        albumentations' transform of this name, which rounds half up.

    Example:
        >>> pellucid.LongestMaxSize(8)(torch.zeros(1, 3, 12, 16)).shape
        torch.Size([1, 3, 6, 8])
    """

    size: int | Size
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    antialias: bool = True

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def _target(self, spec: ImageSpec) -> Size:
        return fitting_size(as_size("LongestMaxSize.size", self.size), spec)


def fitting_size(size: Size, spec: ImageSpec) -> Size:
    """The largest size of the picture's proportions within this one."""
    zoom = min(size[0] / spec.height, size[1] / spec.width)
    return (max(1, math.floor(spec.height * zoom + 0.5)), max(1, math.floor(spec.width * zoom + 0.5)))


@dataclass(frozen=True)
class RandomShortestSize(_Resized):
    """Resize the shorter side to one of several lengths, keeping the aspect ratio.

    Args:
        sizes: of the shorter side in pixels, equally likely; ``range(low, high)`` are all of them.
        max_size: bound of the longer side; a picture that would exceed it is made smaller. None for no bound.
        same_on_batch: one draw for the whole batch. Without it, samples of a batch that draw different sizes must end in one, by
            a later crop or resize; a list comes back as a list.

    Gradient:
        image: exact; with antialiasing every pixel has one. sizes: none.
    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled.
    Identity at:
        the image's own shorter side.
    Errors:
        InvalidArgument for a size below 1, an unknown option, or samples of a batch that end in different sizes.
    Source:
        ``torchvision.transforms.v2.RandomShortestSize``; its ``RandomResize`` are all sizes of a range.

    Example:
        >>> pellucid.RandomShortestSize((4,), max_size=6)(torch.zeros(1, 3, 8, 16)).shape
        torch.Size([1, 3, 3, 6])
    """

    sizes: tuple[int, ...] = field(metadata=drawn(_lengths))
    max_size: int | None = None
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    same_on_batch: bool = False

    like: ClassVar[Names] = {"torchvision": "RandomResize"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "sizes": "none"}

    def check(self) -> None:
        if self.max_size is not None:
            object.__setattr__(self, "max_size", whole_number("RandomShortestSize.max_size", self.max_size, 1, 1 << 24))

    def decides(self, spec: ImageSpec) -> bool:
        first, *others = self.sizes
        return any(self._zoomed(size, spec) != self._zoomed(first, spec) for size in others)

    def settled(self, values: Mapping[str, float]) -> RandomShortestSize:
        return replace(self, sizes=(round(values["sizes"]),))

    def _zoomed(self, size: int, spec: ImageSpec) -> Size:
        short, long = min(spec.size), max(spec.size)
        zoom = size / short if self.max_size is None else min(size / short, self.max_size / long)
        return (max(1, math.floor(spec.height * zoom)), max(1, math.floor(spec.width * zoom)))

    def _target(self, spec: ImageSpec) -> Size:
        if self.decides(spec):
            raise undecided("RandomShortestSize", spec, "Use same_on_batch=True, or a Resize after it.")
        return self._zoomed(self.sizes[0], spec)


@dataclass(frozen=True)
class RandomRescale(_Resized):
    """Make the whole picture larger or smaller by a factor, keeping the aspect ratio: its number of pixels changes.

    `RandomScale` shows the picture larger or smaller on a canvas that stays.

    Args:
        scale: the factor: a number, a pair or a distribution, from 0.01 to 100; not learned, as a size has no gradient.
        same_on_batch: one draw for the whole batch. Without it, samples of a batch that draw different sizes must end in one, by
            a later crop or resize; a list comes back as a list.

    Gradient:
        image: exact; with antialiasing every pixel has one. scale, gate: none.
    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled.
    Identity at:
        scale = 1.
    Errors:
        InvalidArgument for a scale outside of its range or a learned one, an unknown option, or samples of a batch that end in
        different sizes.
    Source:
        albumentations' RandomScale; sizes are rounded down to whole pixels.

    Example:
        >>> pellucid.RandomRescale(0.5)(torch.zeros(1, 3, 8, 17)).shape
        torch.Size([1, 3, 4, 8])
    """

    scale: Range = field(default=(0.9, 1.1), metadata=drawn(interval, low=0.01, high=100.0))
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    p: Chance = 1.0
    same_on_batch: bool = False

    many_sizes: ClassVar[bool] = True
    like: ClassVar[Names] = {"albumentations": "RandomScale"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "scale": "none", "gate": "none"}

    def decides(self, spec: ImageSpec) -> bool:
        low, high = self._fixed["scale"].span()
        return bool(self.p != 0.0 and (low != high or (self.p != 1.0 and low != 1.0)))

    def settled(self, values: Mapping[str, float]) -> RandomRescale:
        scale = values["scale"] if values.get("gate", 1.0) else 1.0
        return replace(self, scale=(scale, scale), p=1.0)

    def _target(self, spec: ImageSpec) -> Size:
        if self.decides(spec):
            raise undecided("RandomRescale", spec, "Use same_on_batch=True, or a Resize after it.")
        zoom = self._fixed["scale"].span()[0] if self.p != 0.0 else 1.0
        return (max(1, math.floor(spec.height * zoom)), max(1, math.floor(spec.width * zoom)))


@dataclass(frozen=True)
class Pad(Transform):
    """Add pixels around the image.

    Args:
        padding: an int, (left-right, top-bottom) or (left, top, right, bottom).

    On each target:
        image, mask: whole pixels move, bit for bit. boxes, keypoints: shifted.
    Identity at:
        padding = 0.
    Errors:
        InvalidArgument for negative padding, or an unknown option.
    Source:
        ``numpy.pad`` modes constant, edge, symmetric and reflect.

    Example:
        >>> pellucid.Pad((1, 0), fill=9.0)(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[9., 1., 2., 9.]]]])
    """

    padding: Padding
    _: KW_ONLY
    fill: Fill = 0.0
    padding_mode: PaddingMode = "constant"
    mask_fill: float | None = None

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        left, top, right, bottom = as_padding("Pad.padding", self.padding)
        size = (spec.height + top + bottom, spec.width + left + right)
        return shifting(self, size, exposes=True)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        left, top, _, _ = as_padding("Pad.padding", self.padding)
        return Warp(scale_shift(1.0, -left, 1.0, -top, like[None]))


@dataclass(frozen=True)
class PadIfNeeded(Transform):
    """Add pixels evenly on both sides until the image has at least a given size.

    Args:
        size: the least (height, width), or an int for both.

    An odd pixel goes to the right and to the bottom.

    On each target:
        image, mask: whole pixels move, bit for bit. boxes, keypoints: shifted.
    Identity at:
        images that are large enough.
    Source:
        albumentations' transform of this name.

    Example:
        >>> pellucid.PadIfNeeded((1, 4), fill=9.0)(torch.tensor([[[[1.0], [2.0]]]]))[0, 0]
        tensor([[9., 1., 9., 9.],
                [9., 2., 9., 9.]])
    """

    size: int | Size
    _: KW_ONLY
    fill: Fill = 0.0
    padding_mode: PaddingMode = "constant"
    mask_fill: float | None = None

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        height, width = as_size("PadIfNeeded.size", self.size)
        size = (max(height, spec.height), max(width, spec.width))
        return shifting(self, size, exposes=size != spec.size)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        height, width = as_size("PadIfNeeded.size", self.size)
        top, left = (max(height, spec.height) - spec.height) // 2, (max(width, spec.width) - spec.width) // 2
        return Warp(scale_shift(1.0, -left, 1.0, -top, like[None]))


@dataclass(frozen=True)
class Letterbox(Transform):
    """Resize to fit inside a fixed size, keeping the aspect ratio, and fill the rest evenly on both sides.

    Args:
        size: (height, width) of the output, or an int for a square.
        fill: the colour of the bars, in the image's units.

    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled and shifted.
    Identity at:
        the image's own size.

    Example:
        >>> pellucid.Letterbox(4, fill=0.5)(torch.zeros(1, 1, 2, 4))[0, 0, :, 0]
        tensor([0.5000, 0.0000, 0.0000, 0.5000])
    """

    size: int | Size
    _: KW_ONLY
    fill: Fill = 0.0
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    mask_fill: float | None = None

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        size = as_size("Letterbox.size", self.size)
        inner, _, _ = letterboxed(size, spec)
        shown = {"padding_mode": "constant", "fill": self.fill, "mask_fill": self.mask_fill}
        return resizing(self, size, spec.height / inner[0], spec.width / inner[1], resamples=inner != spec.size, **shown)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        inner, top, left = letterboxed(as_size("Letterbox.size", self.size), spec)
        return Warp(_fit(inner, spec, like) @ scale_shift(1.0, -left, 1.0, -top, like[None]))


def letterboxed(size: Size, spec: ImageSpec) -> tuple[Size, int, int]:
    """Size of the resized image in a letterbox, and its offset (top, left) there."""
    height, width = size
    zoom = min(height / spec.height, width / spec.width)
    inner = (min(height, max(1, round(spec.height * zoom))), min(width, max(1, round(spec.width * zoom))))
    return inner, (height - inner[0]) // 2, (width - inner[1]) // 2

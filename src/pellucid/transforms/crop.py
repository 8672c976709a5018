"""Crops.

Owns: RandomCrop, RandomCropFromBorders, Crop, CenterCrop, RandomResizedCrop, RandomIoUCrop,
RandomBoxSafeCrop, RandomMaskCrop.
Must not: cut tensors; a crop is a shift of the sampling grid and a smaller output.
Read next: ``resize.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.errors import invalid
from pellucid.geometry.matrices import scale_shift
from pellucid.random.distributions import Bernoulli, Categorical, Distribution, Offset, Uniform
from pellucid.random.fields import Chance, Range, interval, log_range, no_lone_number
from pellucid.random.windows import IoUWindow, MaskWindow, SafeWindow
from pellucid.segments import Warp, WarpSpec
from pellucid.transforms.base import (
    Names,
    Params,
    Transform,
    as_padding,
    as_size,
    by_options,
    drawn,
    gated,
    keep_learned,
    moved_by,
    undecided,
)
from pellucid.transforms.warping import resizing, shifting
from pellucid.types import Fill, ImageSpec, Interpolation, Padding, PaddingMode, Size

__all__ = [
    "CenterCrop", "Crop", "RandomBoxSafeCrop", "RandomCrop", "RandomCropFromBorders", "RandomIoUCrop", "RandomMaskCrop",
    "RandomResizedCrop",
]  # fmt: skip

_SIDES = ("left", "top", "right", "bottom")


@dataclass(frozen=True)
class RandomCrop(Transform):
    """Cut a random rectangle of whole pixels.

    Args:
        size: height and width of the crop, or an int for a square.
        padding: pixels to add around the image first: an int, (left-right, top-bottom) or (left, top, right, bottom).
        pad_if_needed: enlarge the padding where the image is smaller than the crop.
        padding_mode, fill: the content of the padding.
        p: probability of a random place; the other samples are cut in the middle, as a batch keeps one size.

    Gradient:
        image: exact. top, left, gate: almost everywhere (when set by hand; their draw is an integer).
    On each target:
        image, mask: whole pixels move, bit for bit. boxes, keypoints: shifted.
    Identity at:
        size equal to the image's, no padding.
    Errors:
        InvalidArgument where the image is smaller than the crop and ``pad_if_needed`` is off.

    Example:
        >>> pellucid.RandomCrop(2)(torch.zeros(1, 3, 5, 5)).shape
        torch.Size([1, 3, 2, 2])
    """

    size: int | Size
    padding: Padding | None = None
    _: KW_ONLY
    pad_if_needed: bool = False
    fill: Fill = 0.0
    padding_mode: PaddingMode = "constant"
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", **dict.fromkeys(("top", "left", "gate"), "almost_everywhere")}

    def _room(self, spec: ImageSpec) -> tuple[Offset, Offset]:
        """The offsets (top, left) a crop may have."""
        size = as_size("RandomCrop.size", self.size)
        left, top, right, bottom = as_padding("RandomCrop.padding", self.padding or 0)
        offsets = []
        for wanted, length, before, after in ((size[0], spec.height, top, bottom), (size[1], spec.width, left, right)):
            missing = max(0, wanted - (length + before + after)) if self.pad_if_needed else 0
            spare = length + before + after + 2 * missing - wanted
            if spare < 0:
                fix = "Use pad_if_needed=True, or resize first."
                expected = f"at most the (padded) image, {spec.height}x{spec.width} plus padding"
                raise invalid("RandomCrop.size", expected=expected, got=f"{size[0]}x{size[1]}", fix=fix)
            offsets.append(Offset(-before - missing, spare + 1))
        return offsets[0], offsets[1]

    def segment(self, spec: ImageSpec) -> WarpSpec:
        top, left = self._room(spec)
        size = as_size("RandomCrop.size", self.size)
        inside = (
            min(top.span()[0], left.span()[0]) >= 0
            and top.span()[1] + size[0] <= spec.height
            and left.span()[1] + size[1] <= spec.width
        )
        return shifting(self, size, exposes=not inside)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        top, left = self._room(spec)
        return {**super().draws(spec), "top": top, "left": left}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        height, width = as_size("RandomCrop.size", self.size)
        left = gated(values, values["left"], _middle(spec.width, width))
        return Warp(scale_shift(1.0, left, 1.0, gated(values, values["top"], _middle(spec.height, height)), like))


@dataclass(frozen=True)
class RandomCropFromBorders(Transform):
    """Cut a share of the width off on the left and on the right, and of the height at the top and at the bottom: whole pixels.

    Args:
        left, top, right, bottom: the shares, from 0 to 0.49: a number, a pair or a distribution; not learned, as a size has no
            gradient.
        same_on_batch: one draw for the whole batch. Without it, samples of a batch that end in different sizes are refused, unless
            a later crop or resize brings them to one; a list comes back as a list.

    On each target:
        image, mask: whole pixels move, bit for bit. boxes, keypoints: shifted.
    Identity at:
        left = top = right = bottom = 0.
    Errors:
        InvalidArgument for a share outside of its range or a learned one, or samples of a batch that end in different sizes.
    Source:
        albumentations' transform of this name.

    Example:
        >>> cut = pellucid.RandomCropFromBorders(left=0.25, top=0.0, right=0.0, bottom=0.0)
        >>> cut(torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])).flatten()
        tensor([2., 3., 4.])
    """

    _: KW_ONLY
    left: Range = field(default=(0.0, 0.1), metadata=drawn(interval, low=0.0, high=0.49))
    top: Range = field(default=(0.0, 0.1), metadata=drawn(interval, low=0.0, high=0.49))
    right: Range = field(default=(0.0, 0.1), metadata=drawn(interval, low=0.0, high=0.49))
    bottom: Range = field(default=(0.0, 0.1), metadata=drawn(interval, low=0.0, high=0.49))
    p: Chance = 1.0
    same_on_batch: bool = False

    many_sizes: ClassVar[bool] = True
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", **dict.fromkeys((*_SIDES, "gate"), "none")}

    def decides(self, spec: ImageSpec) -> bool:
        least, most = (self._cut([self._fixed[side].span()[end] for side in _SIDES], spec) for end in (0, 1))
        return bool(self.p != 0.0 and (least != most or (self.p != 1.0 and any(most))))

    def settled(self, values: Mapping[str, float]) -> RandomCropFromBorders:
        taken = (min(max(values[side] * values.get("gate", 1.0), 0.0), 0.49) for side in _SIDES)
        left, top, right, bottom = ((share, share) for share in taken)
        return replace(self, left=left, top=top, right=right, bottom=bottom, p=1.0)

    def _cut(self, shares: Sequence[float], spec: ImageSpec) -> tuple[int, ...]:
        """Pixels off (left, top, right, bottom)."""
        lengths = 2 * (spec.width, spec.height)
        return tuple(round(min(max(share, 0.0), 0.49) * length) for share, length in zip(shares, lengths, strict=True))

    def _taken(self, spec: ImageSpec) -> tuple[int, ...]:
        return self._cut([self._fixed[side].span()[0] if self.p != 0.0 else 0.0 for side in _SIDES], spec)

    def segment(self, spec: ImageSpec) -> WarpSpec:
        if self.decides(spec):
            raise undecided("RandomCropFromBorders", spec, "Use same_on_batch=True, or a Resize after it.")
        left, top, right, bottom = self._taken(spec)
        size = (spec.height - top - bottom, spec.width - left - right)
        return WarpSpec(size, resamples=False, along_axes=True, exposes=False)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        left, top, _, _ = self._taken(spec)
        return Warp(scale_shift(1.0, left, 1.0, top, like[None]))


@dataclass(frozen=True)
class Crop(Transform):
    """Cut a rectangle of whole pixels, always at the same place.

    Args:
        size: height and width, or an int for a square.
        top, left: the row and the column of its first pixel.
        fill: the value outside of the image, unless ``padding_mode`` repeats it.

    On each target:
        image, mask: whole pixels move, bit for bit. boxes, keypoints: shifted.
    Identity at:
        size equal to the image's, top = left = 0.
    Source:
        ``torchvision.transforms.v2.functional.crop``.

    Example:
        >>> pellucid.Crop((1, 2), left=1)(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
        tensor([[[[2., 3.]]]])
    """

    size: int | Size
    _: KW_ONLY
    top: int = 0
    left: int = 0
    fill: Fill = 0.0
    padding_mode: PaddingMode = "constant"
    mask_fill: float | None = None

    like: ClassVar[Names] = {"albumentations": "Crop"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def check(self) -> None:
        for name in ("top", "left"):
            whole_number(f"Crop.{name}", getattr(self, name), -(1 << 30), 1 << 30)

    def segment(self, spec: ImageSpec) -> WarpSpec:
        height, width = as_size("Crop.size", self.size)
        inside = self.top >= 0 and self.left >= 0 and self.top + height <= spec.height and self.left + width <= spec.width
        return shifting(self, (height, width), exposes=not inside)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        return Warp(scale_shift(1.0, self.left, 1.0, self.top, like[None]))


@dataclass(frozen=True)
class CenterCrop(Transform):
    """Cut the middle, of whole pixels; an image smaller than the crop is padded with ``fill``.

    Args:
        size: height and width, or an int for a square.
        fill: the value outside of the image.

    On each target:
        image, mask: whole pixels move, bit for bit. boxes, keypoints: shifted.
    Source:
        ``torchvision.transforms.v2.functional.center_crop``.

    Example:
        >>> pellucid.CenterCrop(1)(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
        tensor([[[[2.]]]])
    """

    size: int | Size
    _: KW_ONLY
    fill: Fill = 0.0
    mask_fill: float | None = None

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        size = as_size("CenterCrop.size", self.size)
        return shifting(self, size, exposes=size[0] > spec.height or size[1] > spec.width)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        height, width = as_size("CenterCrop.size", self.size)
        top, left = _middle(spec.height, height), _middle(spec.width, width)
        return Warp(scale_shift(1.0, left, 1.0, top, like[None]))


def _middle(length: int, wanted: int) -> int:
    spare = length - wanted
    twice = spare + abs(spare)  # no comparison, so that one tape serves all sizes
    return round(twice / 4) - (twice - 2 * spare) // 4  # where pixels are missing, the smaller half comes first


def _area(name: str, value: Range) -> Distribution:
    no_lone_number(name, value, lambda area: (area, 1.0))
    scale = interval(name, value, low=0.0, high=1.0)
    low, high = scale.span()
    if high <= 0 or (low <= 0 and isinstance(scale, Bernoulli | Categorical)):  # a continuous draw is never its end
        raise invalid(name, expected="an area above 0", got=repr(value))
    return scale


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """Cut a random rectangle of random area and aspect ratio, and resize it to a fixed size.

    The rectangle is continuous (not rounded to pixels), so its parameters have gradients. The result is that
    of cropping and then resizing: nothing outside the rectangle is read, whatever it is composed with (except together with
    other warps under ``Pipeline(canvas="image")``).

    Args:
        size: height and width of the output, or an int for a square.
        scale: area of the crop as a fraction of the image's: a pair, a `Learnable` or a distribution. A single number other than
            1 raises: it could mean a range or always the same.
        ratio: width / height of the crop, likewise; a pair draws log-uniformly. Limited so that the crop fits the image.
        antialias: low-pass where the crop is larger than the output.
        p: probability of a crop; the other samples show the whole image, resized.

    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled and shifted.
    Identity at:
        scale = (1, 1), ratio = W / H, size equal to the image's.
    Errors:
        InvalidArgument for an area that is 0 or beyond 1, a ratio that is not above 0, or an unknown option.
    Source:
        ``F.interpolate(crop, size, mode="bilinear", antialias=True)`` for whole-pixel rectangles.

    Example:
        >>> pellucid.RandomResizedCrop((4, 6))(torch.zeros(1, 3, 20, 30)).shape
        torch.Size([1, 3, 4, 6])
    """

    size: int | Size
    scale: Range = field(default=(0.08, 1.0), metadata=drawn(_area))
    _: KW_ONLY
    ratio: Range = field(default=(3.0 / 4.0, 4.0 / 3.0), metadata=drawn(log_range))
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "RandomSizedCrop"}

    @by_options
    def gradients(self) -> Mapping[str, str]:
        return moved_by("scale", "ratio", "x", "y", "gate", interpolation=self.interpolation)

    def check(self) -> None:
        keep_learned(self, "scale", "ratio")

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return _resizing(self, spec)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "x": Uniform(0.0, 1.0), "y": Uniform(0.0, 1.0)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        size = as_size("RandomResizedCrop.size", self.size)
        area = values["scale"] * (spec.height * spec.width)
        ratio = torch.maximum(torch.minimum(values["ratio"], spec.width**2 / area), area / spec.height**2)
        width, height = torch.sqrt(area * ratio), torch.sqrt(area / ratio)
        width, height = gated(values, width, spec.width), gated(values, height, spec.height)
        left, top = values["x"] * (spec.width - width), values["y"] * (spec.height - height)
        return _resized(left, top, width, height, size, like)


class _ByWindow(Transform):
    """The base of crops to a window that boxes decide, resized."""

    size: int | Size
    interpolation: Interpolation
    antialias: bool

    @by_options
    def gradients(self) -> Mapping[str, str]:
        return moved_by("window", "gate", interpolation=self.interpolation)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        left, top, right, bottom = values["window"].unbind(-1)
        width, height = gated(values, right - left, spec.width), gated(values, bottom - top, spec.height)
        left, top = gated(values, left, 0.0), gated(values, top, 0.0)
        return _resized(left, top, width, height, as_size(f"{type(self).__name__}.size", self.size), like)


@dataclass(frozen=True)
class RandomIoUCrop(_ByWindow):
    """Cut a random rectangle that shows an object well, and resize it to a fixed size: the crop that SSD is trained with.

    Forty rectangles of whole pixels are proposed. The ``options`` are tried in a random order: each is a least overlap, as
    intersection over union, of the rectangle with some box whose centre lies in it. The first proposal that meets the first option
    that can be met is taken; an option of 1 or more means the whole picture, and so does an order in which none can be met.

    It reads the boxes of the batch, so it must stand before all transforms that move them. A video has one rectangle per clip, for
    the boxes of all frames. A batch without boxes is cropped as if each picture were a box.

    Args:
        size: height and width of the output, or an int for a square.
        scale: least and largest sides of the rectangle, as fractions of the picture's; each side has its own.
        ratio: least and largest width / height of the rectangle.
        options: least overlaps.
        antialias: low-pass where the rectangle is larger than the output.
        p: probability of a crop; the other samples show the whole picture, resized.
        same_on_batch: one draw for the whole batch, for the boxes of all samples.

    Gradient:
        image: exact. window, gate: almost everywhere, or surrogate under ``nearest``. The draw of a window is a choice: it has none
        to boxes.
    On each target:
        image: resampled. mask: nearest. keypoints: scaled and shifted. boxes: likewise; invalid where the rectangle does not show
        their centre, unless it is the whole picture.
    Identity at:
        options = (1.0,), size equal to the image's.
    Errors:
        InvalidArgument for a scale outside of (0, 1], a ratio that is not above 0, an option below 0, and for boxes that a
        transform before this one moves.
    Source:
        Liu et al., SSD, ECCV 2016 (oracle: ``torchvision.transforms.v2.RandomIoUCrop``, whose rectangles have sizes of their own).

    Example:
        >>> batch = {"image": torch.zeros(1, 3, 30, 40), "boxes": torch.tensor([[[4.0, 5.0, 20.0, 20.0]]])}
        >>> out = pellucid.RandomIoUCrop((16, 16), options=(0.3,))(batch)
        >>> out["image"].shape, out["boxes_valid"]
        (torch.Size([1, 3, 16, 16]), tensor([[True]]))
    """

    size: int | Size
    scale: tuple[float, ...] = (0.3, 1.0)
    _: KW_ONLY
    ratio: tuple[float, ...] = (0.5, 2.0)
    options: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    p: Chance = 1.0
    same_on_batch: bool = False

    def check(self) -> None:
        as_size("RandomIoUCrop.size", self.size)
        for name, value, high in (("scale", self.scale, 1.0), ("ratio", self.ratio, math.inf)):
            if len(value) != 2 or not 0.0 < value[0] <= value[1] <= high:
                expected = "(low, high), 0 < low <= high" + (" <= 1" if high == 1 else "")
                raise invalid(f"RandomIoUCrop.{name}", expected=expected, got=repr(value))
        if not self.options or min(self.options) < 0.0:
            raise invalid("RandomIoUCrop.options", expected="least overlaps >= 0, at least one", got=repr(self.options))

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return _resizing(self, spec, centers=True)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        scale, ratio = (self.scale[0], self.scale[1]), (self.ratio[0], self.ratio[1])
        return {**super().draws(spec), "window": IoUWindow(spec.size, scale, ratio, self.options)}


@dataclass(frozen=True)
class RandomBoxSafeCrop(_ByWindow):
    """Cut a random rectangle that holds all boxes of the sample, and resize it to a fixed size.

    Each edge lies anywhere between the picture's border and the rectangle around all boxes, on whole pixels. A picture without
    boxes shows a part of its own proportions. It reads the boxes of the batch, so it must stand before all transforms that move
    them; a video has one rectangle per clip.

    Args:
        size: height and width of the output, or an int for a square.
        erosion: by which share of its width and height each side of a box may be cut off, from 0 to 0.49; and how much smaller than
            the picture the rectangle of a picture without boxes may be.
        antialias: low-pass where the rectangle is larger than the output.
        p: probability of a crop; the other samples show the whole picture, resized.
        same_on_batch: one draw for the whole batch, for the boxes of all samples.

    Gradient:
        image: exact. window, gate: almost everywhere, or surrogate under ``nearest``. The draw of a window has none to boxes.
    On each target:
        image: resampled. mask: nearest. boxes, keypoints: scaled and shifted.
    Identity at:
        boxes that fill the picture, size equal to the image's.
    Errors:
        InvalidArgument for an erosion outside of its range, and for boxes that a transform before this one moves.
    Source:
        albumentations' RandomSizedBBoxSafeCrop, which rounds the far edges towards the boxes.

    Example:
        >>> batch = {"image": torch.zeros(1, 3, 30, 40), "boxes": torch.tensor([[[4.0, 5.0, 20.0, 20.0]]])}
        >>> pellucid.RandomBoxSafeCrop((16, 16))(batch)["boxes_valid"]
        tensor([[True]])
    """

    size: int | Size
    erosion: float = 0.0
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    antialias: bool = True
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "RandomSizedBBoxSafeCrop"}

    def check(self) -> None:
        as_size("RandomBoxSafeCrop.size", self.size)
        if not 0.0 <= self.erosion <= 0.49:
            raise invalid("RandomBoxSafeCrop.erosion", expected="a share from 0 to 0.49", got=repr(self.erosion))

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return _resizing(self, spec)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "window": SafeWindow(spec.size, self.erosion)}


@dataclass(frozen=True)
class RandomMaskCrop(Transform):
    """Cut a random rectangle of whole pixels that shows something of the masks, where they have something to show.

    One of the pixels at which a mask is not 0 is drawn, and then where in the rectangle it lies. Where all masks are 0, or there
    are none, the rectangle lies anywhere. It reads the masks of the batch, so it must stand before all transforms that move them.

    Args:
        size: height and width of the crop, or an int for a square; at most the picture's.
        p: probability; the other samples are cut in the middle, as a batch keeps one size.
        same_on_batch: one draw for the whole batch, for the masks of all samples.

    Gradient:
        image: exact. place, gate: almost everywhere (when set by hand; their draw is an integer).
    On each target:
        image, mask: whole pixels move, bit for bit. boxes, keypoints: shifted.
    Identity at:
        size equal to the image's.
    Errors:
        InvalidArgument where the image is smaller than the crop, and for masks that a transform before this one moves.
    Source:
        albumentations' CropNonEmptyMaskIfExists.

    Example:
        >>> mask = torch.zeros(1, 9, 9, dtype=torch.int64)
        >>> mask[0, 7, 2] = 1
        >>> pellucid.RandomMaskCrop(3)({"image": torch.zeros(1, 3, 9, 9), "mask": mask})["mask"].sum()
        tensor(1)
    """

    size: int | Size
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "CropNonEmptyMaskIfExists"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", **dict.fromkeys(("place", "gate"), "almost_everywhere")}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        size = as_size("RandomMaskCrop.size", self.size)
        if size[0] > spec.height or size[1] > spec.width:
            got, expected = f"{size[0]}x{size[1]}", f"at most the image, {spec.height}x{spec.width}"
            raise invalid("RandomMaskCrop.size", expected=expected, got=got, fix="Put a PadIfNeeded before it.")
        return WarpSpec(size, resamples=False, along_axes=True, exposes=False)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {**super().draws(spec), "place": MaskWindow(spec.size, as_size("RandomMaskCrop.size", self.size))}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        height, width = as_size("RandomMaskCrop.size", self.size)
        left, top = values["place"].unbind(-1)
        left = gated(values, left, _middle(spec.width, width))
        return Warp(scale_shift(1.0, left, 1.0, gated(values, top, _middle(spec.height, height)), like))


def _resizing(crop: RandomResizedCrop | _ByWindow, spec: ImageSpec, *, centers: bool = False) -> WarpSpec:
    """The spec of a crop and resize, before the rectangle is drawn."""
    size = as_size(f"{type(crop).__name__}.size", crop.size)
    return resizing(crop, size, spec.height / size[0], spec.width / size[1], exposes=False, windowed=True, centers=centers)


def _resized(left: Tensor, top: Tensor, width: Tensor, height: Tensor, size: Size, like: Tensor) -> Warp:
    """The map that shows a rectangle, in pixel edges, on the whole output."""
    step_x, step_y = width / size[1], height / size[0]
    # output pixel centre q sits at edge coordinate (q + 1/2) * step + left, one half less in centre coordinates
    matrix = scale_shift(step_x, left + 0.5 * step_x - 0.5, step_y, top + 0.5 * step_y - 0.5, like)
    return Warp(matrix, torch.stack((left, top, left + width - 1.0, top + height - 1.0), dim=-1))

"""Transforms of volumes that change their size: crops, pads, resizes.

Owns: RandomCrop3, CenterCrop3, Pad3, Resize3.
Must not: interpolate, except in Resize3; the others move whole voxels.
Read next: ``space.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.errors import invalid
from pellucid.geometry.space import spread
from pellucid.random.distributions import Distribution
from pellucid.random.internal import Offset
from pellucid.random.windows import MaskWindow
from pellucid.segments import Warp3, Warp3Spec
from pellucid.transforms.base import Names, Params, by_options
from pellucid.transforms.space import InSpace, Outside, Trilinear
from pellucid.types import Fill, ImageSpec, Size3

__all__ = ["CenterCrop3", "Pad3", "RandomCrop3", "Resize3"]


def _three(name: str, value: Any, least: int, expected: str) -> tuple[int, ...]:
    """Whole numbers: one for all, or one for each axis (or side)."""
    parts = tuple(value) if isinstance(value, tuple | list) else (value,) * 3
    if len(parts) != 3:
        raise invalid(name, expected=expected, got=repr(value))
    return tuple(whole_number(name, part, least, 1 << 24) for part in parts)


def _size3(name: str, value: Any) -> Size3:
    return cast(Size3, _three(name, value, 1, "a whole number, or (depth, height, width)"))


def _window_map(start: Tensor) -> Tensor:
    """The map of a volume that begins at voxel (x, y, z) of another."""
    return spread(torch.eye(3, dtype=start.dtype, device=start.device).expand(*start.shape, 3), start)


class _Cropping(InSpace):
    """A window of whole voxels, where ``lower`` finds it."""

    size: int | Size3
    pad_if_needed: bool

    def check(self) -> None:
        super().check()
        _size3(f"{type(self).__name__}.size", self.size)

    def segment(self, spec: ImageSpec) -> Warp3Spec:
        name = f"{type(self).__name__}.size"
        size = _size3(name, self.size)
        small = any(length < wanted for length, wanted in zip(spec.extent, size, strict=True))
        if small and not self.pad_if_needed:
            got, extent = ("x".join(map(str, one)) for one in (size, spec.extent))
            raise invalid(name, expected=f"at most the volume, {extent}", got=got, fix="Use pad_if_needed=True.")
        return Warp3Spec(size, resamples=False, exposes=small, **self.shown())


@dataclass(frozen=True)
class RandomCrop3(_Cropping):
    """Cut a window of whole voxels out of volumes, at a random place, or where it shows something of their labels.

    Args:
        size: (depth, height, width) of the window, or one number.
        foreground: the share of windows, drawn for each sample, that are to show a voxel whose label is not 0. Each such voxel is
            as likely, and so is each place of it in the window, as far as the volume reaches. The crop then reads the label volumes
            of the batch, so it must stand before all transforms that move them; without label volumes, windows lie anywhere.
        labels: the labels to show: one is drawn first, among those that the sample has. None takes all but 0 as one.
        pad_if_needed: let a volume that is smaller than the window along an axis lie in the middle of the window.
        padding_mode: around it lies the ``fill`` (``zeros``), or the nearest voxel (``border``).
        fill: a number, or one per channel, in the volume's units.
        mask_fill: the label there; None for the pipeline's ``mask_fill``.

    Gradient:
        image: exact. left, top, front, or with ``foreground`` place: almost everywhere (when set by hand; draws are integers).
    On each target:
        volume, labelmap: whole voxels move, bit for bit. points3, cuboids: shifted. affine: follows.
    Identity at:
        size equal to the volume's.
    Errors:
        InvalidArgument where the volume is smaller than the window and ``pad_if_needed`` is off, and with ``foreground`` for labels
        that a transform before this one moves.
    Source:
        Isensee et al., nnU-Net, Nature Methods 2021, which puts the voxel in the middle of a third of the windows.

    Example:
        >>> labels = torch.zeros(1, 8, 8, 8, dtype=torch.int64)
        >>> labels[0, 6, 1, 3] = 2
        >>> crop = pellucid.RandomCrop3((2, 3, 4), foreground=1.0)
        >>> crop({"volume": torch.zeros(1, 1, 8, 8, 8), "labelmap": labels})["labelmap"].sum()
        tensor(2)
    """

    size: int | Size3
    _: KW_ONLY
    foreground: float = 0.0
    labels: tuple[int, ...] | None = None
    pad_if_needed: bool = False
    padding_mode: Outside = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    same_on_batch: bool = False

    like: ClassVar[Names] = {
        "monai": ("RandSpatialCropd", "RandCropByLabelClassesd"),
        "torchio": ("UniformSampler", "LabelSampler"),
    }

    @by_options
    def gradients(self) -> Mapping[str, str]:
        names = ("place",) if self.foreground else ("left", "top", "front")
        return {"image": "exact", **dict.fromkeys(names, "almost_everywhere")}

    def check(self) -> None:
        super().check()
        if not 0.0 <= self.foreground <= 1.0:
            raise invalid("RandomCrop3.foreground", expected="a share from 0 to 1", got=self.foreground)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        size = _size3("RandomCrop3.size", self.size)
        extent = spec.extent if spec.depth else (1 << 24,) * 3
        if self.foreground:
            return {"place": MaskWindow(extent, size, self.foreground, self.labels or ())}
        rooms = zip(("front", "top", "left"), extent, size, strict=True)
        return {
            name: Offset(0, length - wanted + 1) if length >= wanted else Offset(-((wanted - length) // 2), 1)
            for name, length, wanted in rooms
        }

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp3:
        if "place" in values:
            return Warp3(_window_map(values["place"]))
        return Warp3(_window_map(torch.stack((values["left"], values["top"], values["front"]), -1)))


@dataclass(frozen=True)
class CenterCrop3(_Cropping):
    """Cut the middle of volumes out, in whole voxels.

    Args:
        size: (depth, height, width) of the window, or one number.
        pad_if_needed: let a volume that is smaller than the window along an axis lie in the middle of the window.
        padding_mode: around it lies the ``fill`` (``zeros``), or the nearest voxel (``border``).
        fill: a number, or one per channel, in the volume's units.
        mask_fill: the label there; None for the pipeline's ``mask_fill``.

    Gradient:
        image: exact. Deterministic.
    On each target:
        as `RandomCrop3`.
    Identity at:
        size equal to the volume's.
    Errors:
        InvalidArgument where the volume is smaller than the window and ``pad_if_needed`` is off.

    Example:
        >>> pellucid.CenterCrop3((1, 1, 2))(torch.tensor([[[[[1.0, 2.0, 3.0, 4.0]]]]])).flatten()
        tensor([2., 3.])
    """

    size: int | Size3
    _: KW_ONLY
    pad_if_needed: bool = False
    padding_mode: Outside = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}
    like: ClassVar[Names] = {"monai": "CenterSpatialCropd", "torchio": "CropOrPad"}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp3:
        rooms = (length - wanted for length, wanted in zip(spec.extent, _size3("CenterCrop3.size", self.size), strict=True))
        start = torch.stack([torch.full_like(like, room // 2 if room >= 0 else -(-room // 2)) for room in rooms])
        return Warp3(_window_map(start.flip(0)[None]))


@dataclass(frozen=True)
class Pad3(InSpace):
    """Add voxels around volumes.

    Args:
        padding: how many on either side: one number, or (front and back, top and bottom, left and right).
        padding_mode: they are the ``fill`` (``zeros``), or the nearest voxel (``border``).
        fill: a number, or one per channel, in the volume's units.
        mask_fill: the label there; None for the pipeline's ``mask_fill``.

    Gradient:
        image: exact. Deterministic.
    On each target:
        volume, labelmap: whole voxels move, bit for bit. points3, cuboids: shifted. affine: follows.
    Identity at:
        padding = 0.

    Example:
        >>> pellucid.Pad3((0, 0, 1))(torch.ones(1, 1, 1, 1, 2)).flatten()
        tensor([0., 1., 1., 0.])
    """

    padding: int | Size3
    _: KW_ONLY
    padding_mode: Outside = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def check(self) -> None:
        super().check()
        self._room()

    def _room(self) -> tuple[int, ...]:
        return _three("Pad3.padding", self.padding, 0, "a whole number, or one each for the depth, height and width")

    def segment(self, spec: ImageSpec) -> Warp3Spec:
        size = tuple(length + 2 * more for length, more in zip(spec.extent, self._room(), strict=True))
        return Warp3Spec(cast(Size3, size), resamples=False, exposes=any(self._room()), **self.shown())

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp3:
        start = torch.stack([torch.full_like(like, -more) for more in reversed(self._room())])
        return Warp3(_window_map(start[None]))


@dataclass(frozen=True)
class Resize3(InSpace):
    """Bring volumes to a size; each axis is stretched by itself, and nothing is averaged when it shrinks.

    Args:
        size: (depth, height, width), or one number.
        interpolation: ``trilinear`` or ``nearest``.

    Gradient:
        image: exact. Deterministic.
    On each target:
        volume, labelmap: resampled, labels nearest or by majority. points3, cuboids: scaled. affine: follows.
    Identity at:
        size equal to the volume's, bit for bit.
    Source:
        ``torch.nn.functional.interpolate(mode="trilinear", align_corners=False)``.

    Example:
        >>> pellucid.Resize3((1, 1, 4))(torch.tensor([[[[[0.0, 1.0]]]]])).flatten()
        tensor([0.0000, 0.2500, 0.7500, 1.0000])
    """

    size: int | Size3
    _: KW_ONLY
    interpolation: Trilinear = "trilinear"

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact"}

    def check(self) -> None:
        super().check()
        _size3("Resize3.size", self.size)

    def segment(self, spec: ImageSpec) -> Warp3Spec:
        size = _size3("Resize3.size", self.size)
        return Warp3Spec(size, resamples=size != spec.extent, exposes=False, interpolation=self.interpolation)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp3:
        sizes = zip(reversed(spec.extent), reversed(_size3("Resize3.size", self.size)), strict=True)
        scale = torch.stack([torch.full_like(like, before / after) for before, after in sizes])
        return Warp3(spread(torch.diag(scale), 0.5 * scale - 0.5)[None])

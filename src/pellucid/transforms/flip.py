"""Flips, quarter turns and their combinations: maps that move whole pixels.

Owns: RandomHorizontalFlip, RandomVerticalFlip, RandomRotation90, RandomD4.
Must not: interpolate; their matrices are exact.
Read next: ``affine.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.geometry.matrices import affine_src_from_dst, scale_shift
from pellucid.random.distributions import Categorical, Distribution
from pellucid.random.fields import Chance
from pellucid.segments import Warp, WarpSpec
from pellucid.transforms.base import Names, Params, Transform, drawn, gated_matrix, undecided
from pellucid.types import ImageSpec, Size

__all__ = ["RandomD4", "RandomHorizontalFlip", "RandomRotation90", "RandomVerticalFlip"]


class _Flip(Transform):
    """The base of the two flips."""

    across: ClassVar[bool] = False
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "almost_everywhere"}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return WarpSpec(spec.size, resamples=False, along_axes=True, exposes=False)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        gate = values.get("gate", torch.ones_like(like)[None])
        if self.across:
            return Warp(scale_shift(1.0 - 2.0 * gate, (spec.width - 1.0) * gate, 1.0, 0.0, like))
        return Warp(scale_shift(1.0, 0.0, 1.0 - 2.0 * gate, (spec.height - 1.0) * gate, like))


def _quarter_turns(name: str, times: tuple[int, ...]) -> Distribution:
    del name
    return Categorical(tuple(float(k % 4) for k in times))


@dataclass(frozen=True)
class RandomHorizontalFlip(_Flip):
    """Mirror left and right with probability p.

    Args:
        p: probability.

    Gradient:
        image: exact. gate: almost everywhere. Deterministic.
    On each target:
        image, mask, heatmap: whole pixels move, bit for bit. boxes, keypoints: x -> W - x and x -> W - 1 - x.

    Example:
        >>> pellucid.RandomHorizontalFlip(p=1.0)(torch.tensor([[[[1.0, 2.0, 3.0]]]])).flatten()
        tensor([3., 2., 1.])
    """

    p: Chance = 0.5
    _: KW_ONLY
    same_on_batch: bool = False

    across: ClassVar[bool] = True
    like: ClassVar[Names] = {"albumentations": "HorizontalFlip"}


@dataclass(frozen=True)
class RandomVerticalFlip(_Flip):
    """Mirror top and bottom with probability p.

    Args:
        p: probability.

    Gradient:
        image: exact. gate: almost everywhere. Deterministic.
    On each target:
        image, mask, heatmap: whole pixels move, bit for bit. boxes, keypoints: y -> H - y and y -> H - 1 - y.

    Example:
        >>> pellucid.RandomVerticalFlip(p=1.0)(torch.tensor([[[[1.0], [2.0]]]])).flatten()
        tensor([2., 1.])
    """

    p: Chance = 0.5
    _: KW_ONLY
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "VerticalFlip"}


class _Turn(Transform):
    """The base of quarter turns, some of them mirrored before. An odd number exchanges height and width."""

    p: Chance

    @property
    def turns(self) -> tuple[int, ...]:
        """The numbers of quarter turns that may be drawn."""
        raise NotImplementedError

    def decides(self, spec: ImageSpec) -> bool:
        turns = (*self.turns, *(() if self.p == 1.0 else (0,))) if self.p != 0.0 else (0,)
        return spec.height != spec.width and len({k % 2 for k in turns}) > 1

    def segment(self, spec: ImageSpec) -> WarpSpec:
        if self.decides(spec):
            raise undecided(type(self).__name__, spec, "Crop or resize to a square first, or take even numbers of turns alone.")
        return WarpSpec(self._turned(spec), resamples=False, exposes=False)

    def _turned(self, spec: ImageSpec) -> Size:
        return (spec.width, spec.height) if self.p != 0.0 and any(k % 2 for k in self.turns) else spec.size

    def _turn(self, values: Params, spec: ImageSpec, times: Tensor, mirror: Tensor | float = 0.0) -> Warp:
        """The map that mirrors left and right where ``mirror`` is 1, then turns counter-clockwise."""
        height, width = self._turned(spec)
        turned = affine_src_from_dst(center=((width - 1) / 2, (height - 1) / 2), degrees=90.0 * times)
        back, down = (spec.width - width) / 2, (spec.height - height) / 2
        flip = scale_shift(1.0 - 2.0 * mirror, (spec.width - 1.0) * mirror, 1.0, 0.0, times)
        return Warp(gated_matrix(values, flip @ scale_shift(1.0, back, 1.0, down, times) @ turned))


@dataclass(frozen=True)
class RandomRotation90(_Turn):
    """Rotate by a random number of quarter turns, counter-clockwise.

    Args:
        times: the numbers of quarter turns to choose from, equally likely. An odd number exchanges height and width; in a batch
            of images that are not square, all draws must then be odd or even, or a later crop or resize end in one size.

    Gradient:
        image: exact. times, gate: almost everywhere (``times`` is an angle, in units of 90 degrees).
    On each target:
        image, mask, heatmap: whole pixels move, bit for bit. boxes, keypoints: exact.
    Identity at:
        times = 0.
    Errors:
        InvalidArgument for samples of a batch that end in different sizes.

    Example:
        >>> pellucid.RandomRotation90(times=(1,))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).flatten()
        tensor([2., 4., 1., 3.])
    """

    times: tuple[int, ...] = field(default=(0, 1, 2, 3), metadata=drawn(_quarter_turns))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "RandomRotate90"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "times": "almost_everywhere", "gate": "almost_everywhere"}
    turns = property(lambda self: self.times)

    def settled(self, values: Mapping[str, float]) -> RandomRotation90:
        return replace(self, times=(round(values["times"] * values.get("gate", 1.0)),), p=1.0)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        return self._turn(values, spec, values["times"])


def _symmetries(name: str, elements: tuple[int, ...]) -> Distribution:
    if not all(0 <= k < 8 for k in elements):
        raise invalid(name, expected="numbers from 0 to 7", got=repr(elements))
    return Categorical(tuple(float(k) for k in elements))


@dataclass(frozen=True)
class RandomD4(_Turn):
    """Show the picture under one of the eight symmetries of a square: four quarter turns, and four of its mirror image.

    Args:
        elements: those to choose from, equally likely: 0 to 3 are that many quarter turns counter-clockwise, 4 to 7 the same
            after left and right were exchanged, so (5,) exchanges rows and columns. Odd numbers exchange height and width; in a
            batch of images that are not square, all draws must then be odd or even, or a later crop or resize end in one size.

    Gradient:
        image: exact. elements, gate: almost everywhere (within the four, an angle in units of 90 degrees).
    On each target:
        image, mask, heatmap: whole pixels move, bit for bit. boxes, keypoints: exact.
    Identity at:
        elements = (0,).
    Errors:
        InvalidArgument for a number that is not from 0 to 7, and for samples of a batch that end in different sizes.
    Source:
        ``numpy.rot90`` and ``numpy.fliplr``; albumentations' D4, and Transpose with ``elements=(5,), p=0.5``.

    Example:
        >>> pellucid.RandomD4((5,))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).flatten()
        tensor([1., 3., 2., 4.])
    """

    elements: tuple[int, ...] = field(default=(0, 1, 2, 3, 4, 5, 6, 7), metadata=drawn(_symmetries))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": ("D4", "SquareSymmetry", "Transpose")}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "elements": "almost_everywhere", "gate": "almost_everywhere"}
    turns = property(lambda self: self.elements)

    def settled(self, values: Mapping[str, float]) -> RandomD4:
        return replace(self, elements=(round(values["elements"] * values.get("gate", 1.0)),), p=1.0)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        mirror = (values["elements"] >= 4.0).to(like.dtype)
        return self._turn(values, spec, values["elements"] - 4.0 * mirror, mirror)

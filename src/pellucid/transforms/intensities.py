"""Values of scans: gamma and contrast in a scan's own range, and scans made of labels.

Owns: RandomContrastInRange, RandomGammaInRange, RandomLabelsToImage.
Must not: move voxels.
Read next: ``scans.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.core.slabs import by_slabs
from pellucid.errors import invalid
from pellucid.random.distributions import Distribution
from pellucid.random.fields import Chance, Range, interval
from pellucid.random.internal import Repeated
from pellucid.segments import Grain
from pellucid.transforms.base import Names, Params, by_options, drawn
from pellucid.transforms.noise import Grained, wide
from pellucid.types import ImageSpec

__all__ = ["RandomContrastInRange", "RandomGammaInRange", "RandomLabelsToImage"]


@dataclass(frozen=True)
class RandomGammaInRange(Grained):
    """Raise each channel to a power, measured between its least and its greatest value, which stay.

    It suits scans, standardised or in any unit: nothing is clipped, and 1 is not white.

    Args:
        gamma: the power: a pair, number, `Learnable` or distribution, > 0.
        invert: raise the negative of the scan, and negate the result.
        retain_stats: each channel keeps its mean and standard deviation.

    Identity at:
        gamma = 1, but for rounding.
    Source:
        nnU-Net (oracle: batchgeneratorsv2's GammaTransform).

    Example:
        >>> import torch, pellucid
        >>> scan = torch.tensor([[[[-1.0, 0.0, 3.0]]]])
        >>> pellucid.RandomGammaInRange(2.0, retain_stats=False)(scan).flatten()
        tensor([-1.0000, -0.7500,  3.0000])
    """

    gamma: Range = field(default=(0.7, 1.5), metadata=drawn(interval, low=1e-3))
    _: KW_ONLY
    invert: bool = False
    retain_stats: bool = True
    p: Chance = 1.0
    same_on_batch: bool = False

    law: ClassVar[str] = "gamma_in_range"
    keyed: ClassVar[bool] = False
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    like: ClassVar[Names] = {"monai": "RandAdjustContrastd", "torchio": "RandomGamma"}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        invert = torch.full_like(values["gamma"], float(self.invert))
        return Grain(self.law, None, (values["gamma"], invert), values.get("gate"), clip=False, most=float(self.retain_stats))


def _contrast_in_range(image: Tensor, contrast: Tensor) -> Tensor:
    mean, factor = image.mean((2, 3), keepdim=True), wide(contrast)
    low, high = image.amin((2, 3), keepdim=True), image.amax((2, 3), keepdim=True)
    base = mean - mean * factor
    return by_slabs(lambda part: torch.clamp(torch.addcmul(base, image[:, :, part], factor), low, high), image, contrast)


@dataclass(frozen=True)
class RandomContrastInRange(Grained):
    """Stretch each channel about its mean, and clip it to the range it had.

    Args:
        contrast: the factor: a pair, number, `Learnable` or distribution, >= 0.

    Identity at:
        contrast = 1, but for rounding.
    Source:
        nnU-Net (oracle: batchgeneratorsv2's ContrastTransform with ``preserve_range=True``).

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomContrastInRange(2.0)(torch.tensor([[[[-1.0, 1.0, 3.0]]]])).flatten()
        tensor([-1.,  1.,  3.])
    """

    contrast: Range = field(default=(0.75, 1.25), metadata=drawn(interval, low=0.0))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    keyed: ClassVar[bool] = False
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        return Grain(_contrast_in_range, None, (values["contrast"],), values.get("gate"), clip=False, most=0.0)


def _by_label(name: str, value: Any, *, low: float = -math.inf) -> dict[str, Distribution]:
    """One range for all labels, or one for each."""
    what = name.rpartition(".")[2]
    if isinstance(value, tuple | list) and (len(value) != 2 or any(isinstance(one, tuple | list) for one in value)):
        return {f"{what}_{i}": interval(f"{name}[{i}]", one, low=low) for i, one in enumerate(value)}
    return {what: interval(name, value, low=low)}


@dataclass(frozen=True)
class RandomLabelsToImage(Grained):
    """Make a scan of labels: each label has a mean and a deviation, drawn for each sample, and each voxel its noise.

    Voxels of the volume are labels, whole numbers, also bytes, as in ``{"volume": labels[:, None].float(), "labelmap": labels}``.
    Maps before this one need ``interpolation="nearest"``; maps after it mix neighbouring voxels.

    Args:
        labels: how many labels there are, 0 included; a greater label counts as the last.
        mean: a pair, number, `Learnable` or distribution for all labels, or one for each.
        sigma: standard deviation within a label, >= 0, likewise.

    Gradient:
        image: none. mean, sigma, gate: exact. words: none.
    Source:
        Billot et al., "SynthSeg", Medical Image Analysis 2023; TorchIO's RandomLabelsToImage.

    Example:
        >>> import torch, pellucid
        >>> paint = pellucid.RandomLabelsToImage(2, mean=((0.25, 0.25), (0.75, 0.75)), sigma=0.0)
        >>> paint({"volume": torch.tensor([[[[[0.0, 1.0, 1.0]]]]])})["volume"].flatten()
        tensor([0.2500, 0.7500, 0.7500])
    """

    labels: int
    mean: Any = field(default=(0.1, 0.9), metadata=drawn(_by_label, "mean"))
    _: KW_ONLY
    sigma: Any = field(default=(0.01, 0.1), metadata=drawn(_by_label, "sigma", low=0.0))
    p: Chance = 1.0
    same_on_batch: bool = False

    law: ClassVar[str] = "labels"
    dimensions: ClassVar[tuple[int, ...]] = (3,)
    like: ClassVar[Names] = {"torchio": "RandomLabelsToImage"}

    @by_options
    def gradients(self) -> Mapping[str, str]:
        names = ("mean", "sigma", "gate") if isinstance(self, type) else (*self._fixed, "gate")
        return {"image": "none", **dict.fromkeys(names, "exact"), "words": "none"}

    def check(self) -> None:
        whole_number("RandomLabelsToImage.labels", self.labels, 1, 1 << 16)
        for what in ("mean", "sigma"):
            given = getattr(self, what)
            if isinstance(given, list):
                object.__setattr__(self, what, tuple(tuple(one) if isinstance(one, list) else one for one in given))
            count = sum(name.startswith(f"{what}_") for name in self._fixed)
            if count not in (0, self.labels):
                expected = f"one range for all labels, or {self.labels}, one for each"
                raise invalid(f"RandomLabelsToImage.{what}", expected=expected, got=f"{count} of them")

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        found = super().draws(spec)
        return found | {what: Repeated(found[what], self.labels) for what in ("mean", "sigma") if what in found}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        each = (
            values[what] if what in values else torch.stack([values[f"{what}_{i}"] for i in range(self.labels)], 1)
            for what in ("mean", "sigma")
        )
        return Grain(self.law, values["words"], tuple(each), values.get("gate"), clip=False, most=0.0)

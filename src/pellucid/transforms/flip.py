"""Flips and quarter turns: maps that move whole pixels.

Owns: RandomHorizontalFlip, RandomVerticalFlip, RandomRotation90.
Must not: interpolate; their matrices are exact.
Read next: ``affine.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.geometry.matrices import affine_src_from_dst, scale_shift
from pellucid.random.distributions import Categorical, Distribution
from pellucid.random.fields import Chance, probability
from pellucid.segments import Warp, WarpSpec
from pellucid.transforms.base import Params, Transform, gated_matrix
from pellucid.types import ImageSpec

__all__ = ["RandomHorizontalFlip", "RandomRotation90", "RandomVerticalFlip"]


@dataclass(frozen=True)
class RandomHorizontalFlip(Transform):
    """Mirror left and right with probability p.

    Args:
        p: probability of the flip.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image: exact. gate: almost everywhere. Deterministic.
    On each target:
        image, mask, heatmap: whole pixels move, bit for bit. boxes, keypoints: x -> W - x and x -> W - 1 - x.
    Identity at:
        p = 0.
    """

    p: Chance = 0.5
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "almost_everywhere"}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return WarpSpec(spec.size, resamples=False, along_axes=True, exposes=False)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {"gate": probability("RandomHorizontalFlip.p", self.p)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        gate = values.get("gate", torch.ones_like(like)[None])
        return Warp(scale_shift(1.0 - 2.0 * gate, (spec.width - 1.0) * gate, 1.0, 0.0, like))


@dataclass(frozen=True)
class RandomVerticalFlip(Transform):
    """Mirror top and bottom with probability p.

    Args:
        p: probability of the flip.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image: exact. gate: almost everywhere. Deterministic.
    On each target:
        image, mask, heatmap: whole pixels move, bit for bit. boxes, keypoints: y -> H - y and y -> H - 1 - y.
    Identity at:
        p = 0.
    """

    p: Chance = 0.5
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "gate": "almost_everywhere"}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return WarpSpec(spec.size, resamples=False, along_axes=True, exposes=False)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {"gate": probability("RandomVerticalFlip.p", self.p)}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        gate = values.get("gate", torch.ones_like(like)[None])
        return Warp(scale_shift(1.0, 0.0, 1.0 - 2.0 * gate, (spec.height - 1.0) * gate, like))


@dataclass(frozen=True)
class RandomRotation90(Transform):
    """Rotate by a random number of quarter turns, counter-clockwise.

    Args:
        times: the numbers of quarter turns to choose from, equally likely. Odd numbers need square images, because the batch
            keeps one size.
        p: probability of rotating at all.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image: exact. times, gate: almost everywhere (``times`` is an angle, in units of 90 degrees).
    On each target:
        image, mask, heatmap: whole pixels move, bit for bit. boxes, keypoints: exact.
    Identity at:
        times = 0.
    Errors:
        InvalidArgument for odd turns of non-square images.
    """

    times: tuple[int, ...] = (0, 1, 2, 3)
    p: Chance = 1.0
    same_on_batch: bool = False

    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "times": "almost_everywhere", "gate": "almost_everywhere"}

    def segment(self, spec: ImageSpec) -> WarpSpec:
        if spec.height != spec.width and any(k % 2 for k in self.times):
            raise invalid(
                "RandomRotation90",
                expected="square images for odd quarter turns (a batch keeps one size)",
                got=f"{spec.height}x{spec.width}",
                fix="Crop or resize to a square first, or use times=(0, 2).",
            )
        return WarpSpec(spec.size, resamples=False, exposes=False)

    def draws(self, spec: ImageSpec) -> dict[str, Distribution]:
        return {"gate": probability("RandomRotation90.p", self.p), "times": Categorical(tuple(float(k % 4) for k in self.times))}

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        center = ((spec.width - 1) / 2, (spec.height - 1) / 2)
        return Warp(gated_matrix(values, affine_src_from_dst(center=center, degrees=90.0 * values["times"])))

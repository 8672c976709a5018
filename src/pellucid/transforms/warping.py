"""What transforms share that resample the whole picture through one map or one field each.

Owns: `Warping` and `Bending`: their segment, their gate and their gradients.
Must not: know the maps.
Read next: ``affine.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.geometry.bends import Bend
from pellucid.segments import Warp, WarpSpec
from pellucid.transforms.base import Params, Transform, by_options, drawn_names, gated, gated_matrix, moved_by
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode

__all__ = ["Bending", "Warping"]


class Warping(Transform):
    """A relative declares its fields, with how they are drawn, and gives ``matrix``; the canvas keeps its size."""

    interpolation: Interpolation
    padding_mode: PaddingMode
    fill: Fill
    antialias: bool = False
    projective: ClassVar[bool] = False
    bends: ClassVar[bool] = False

    @by_options
    def gradients(self) -> Mapping[str, str]:
        return moved_by(*drawn_names(self), interpolation=self.interpolation)

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return WarpSpec(
            spec.size,
            projective=self.projective,
            padding_mode=self.padding_mode,
            fill=self.fill,
            interpolation=self.interpolation,
            antialias=self.antialias,
            shrink=self.shrink(),
            bends=self.bends,
        )

    def shrink(self) -> tuple[float, float]:
        """Bounds (vertical, horizontal) of the input pixels that an output pixel may span."""
        return (1.0, 1.0)

    def matrix(self, values: Params, spec: ImageSpec, like: Tensor) -> Tensor:
        """From output pixel to input pixel, one 3x3 matrix per sample, the gate left aside."""
        raise NotImplementedError

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        return Warp(gated_matrix(values, self.matrix(values, spec, like)))


class Bending(Warping):
    """A relative gives ``bend``, the displacements of the picture's own pixels, instead of a matrix."""

    bends = True

    def bend(self, values: Params, spec: ImageSpec, like: Tensor) -> Bend:
        """From output pixel to input pixel, the gate left aside."""
        raise NotImplementedError

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        control, grid = self.bend(values, spec, like)
        still = torch.eye(3, dtype=control.dtype, device=control.device)[None]
        return Warp(still, None, Bend(gated(values, control, 0.0), grid))

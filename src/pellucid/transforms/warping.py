"""The common part of transforms that resample the whole picture through one map or one field.

Owns: `Warping`, `Bending` and `Fitting`: their segment, their gate and their gradients; where the knots of a grid lie.
Must not: know the maps.
Read next: ``affine.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.geometry.bends import Bend, fitted, sampled
from pellucid.segments import Warp, WarpSpec
from pellucid.transforms.base import Params, Transform, by_options, drawn_names, gated, gated_matrix, moved_by
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode, Size

__all__ = ["Bending", "Fitting", "Warping", "cells_of", "locked", "resizing", "shifting"]


class Warping(Transform):
    """The base: a subclass declares its fields and how they are drawn, and gives ``matrix``; the canvas keeps its size."""

    interpolation: Interpolation
    padding_mode: PaddingMode
    fill: Fill
    mask_fill: float | None = None
    antialias: bool = False
    projective: ClassVar[bool] = False
    bends: ClassVar[bool] = False
    linear: ClassVar[bool] = False

    @by_options
    def gradients(self) -> Mapping[str, str]:
        moved = moved_by(*drawn_names(self), interpolation=self.interpolation)
        return {**moved, "words": "none"} if self.keyed else moved

    def segment(self, spec: ImageSpec) -> WarpSpec:
        return WarpSpec(
            spec.size,
            projective=self.projective,
            padding_mode=self.padding_mode,
            fill=self.fill,
            mask_fill=self.mask_fill,
            interpolation=self.interpolation,
            antialias=self.antialias,
            shrink=self.shrink(),
            bends=self.bends,
            linear=self.linear,
        )

    def shrink(self) -> tuple[float, float]:
        """Bounds (vertical, horizontal) of the input pixels that an output pixel may span."""
        return (1.0, 1.0)

    def matrix(self, values: Params, spec: ImageSpec, like: Tensor) -> Tensor:
        """From output pixel to input pixel, one 3x3 matrix per sample, without the gate."""
        raise NotImplementedError

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        return Warp(gated_matrix(values, self.matrix(values, spec, like)))


def locked(control: Float[Tensor, "b c *knots"]) -> Float[Tensor, "b c *knots"]:
    """Make control numbers odd about the outer knots, so that the spline is zero along the border."""
    for axis in range(2, control.dim()):
        knots = control.shape[axis] - 2
        edge = torch.zeros_like(control.narrow(axis, 0, 1))
        inner = torch.cat((edge, control.narrow(axis, 2, knots - 2), edge), axis)
        control = torch.cat((-inner.narrow(axis, 1, 1), inner, -inner.narrow(axis, knots - 2, 1)), axis)
    return control


def shifting(transform: Any, size: Size, *, exposes: bool) -> WarpSpec:
    """The spec of a crop or pad by whole pixels, with the transform's fill, and its padding mode if it has one."""
    mode = getattr(transform, "padding_mode", "constant")
    shown = {"padding_mode": mode, "fill": transform.fill, "mask_fill": transform.mask_fill}
    return WarpSpec(size, resamples=False, along_axes=True, exposes=exposes, **shown)


def resizing(transform: Any, size: Size, down: float, across: float, **more: Any) -> WarpSpec:
    """The spec of a scaling along the axes, in which an output pixel spans at most ``down`` x ``across`` input pixels."""
    how = {"interpolation": transform.interpolation, "antialias": transform.antialias, **more}
    return WarpSpec(size, along_axes=True, shrink=(max(1.0, down), max(1.0, across)), **how)


class Bending(Warping):
    """The base: a subclass gives ``bend``, the displacements of the picture's own pixels, instead of a matrix."""

    bends = True

    def bend(self, values: Params, spec: ImageSpec, like: Tensor) -> Bend:
        """From output pixel to input pixel, without the gate."""
        raise NotImplementedError

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Warp:
        bend = self.bend(values, spec, like)
        return _bent(bend._replace(control=gated(values, bend.control, 0.0), linear=self.linear))

    def without_field(self, like: Tensor) -> Warp:
        """The segment that it lowers to, but with a field of one cell that moves nothing."""
        return _bent(Bend(like.new_zeros((1, 2, 4, 4)), like.new_zeros((1, 4)), self.linear))


def _bent(bend: Bend) -> Warp:
    return Warp(torch.eye(3, dtype=bend.control.dtype, device=bend.control.device)[None], None, bend)


class Fitting(Bending):
    """The base: a subclass gives ``moves``, a smooth field by formula; a cubic B-spline through its values at the knots, and
    halfway in the outer cells, approximates it.
    """

    def moves(
        self, values: Params, x: Float[Tensor, "1 1 w"], y: Float[Tensor, "1 h 1"], spec: ImageSpec
    ) -> tuple[Float[Tensor, "#b #h #w"], Float[Tensor, "#b #h #w"]]:
        """Displacements along x and y of points about the picture's centre, in pixels; ``values`` have the shape (b, 1, 1)."""
        raise NotImplementedError

    def spacing_of_knots(self) -> float:
        """The largest distance between knots in pixels, approximately."""
        return 8.0

    def cells(self, length: int) -> tuple[int, float]:
        """The number of cells between knots along an axis of so many pixels, three at least, and their length."""
        return cells_of(length, self.spacing_of_knots(), least=3)

    def bend(self, values: Params, spec: ImageSpec, like: Tensor) -> Bend:
        (rows, down), (columns, across) = (self.cells(int(length)) for length in spec.size)
        x, y = (step * (sampled(cells + 1, like) - cells / 2) for cells, step in ((columns, across), (rows, down)))
        named = {name: value if name == "words" else value[:, None, None] for name, value in values.items()}
        moved = (fitted(part[:, None]) for part in self.moves(named, x[None, None], y[None, :, None], spec))
        dx, dy, _ = torch.broadcast_tensors(*moved, like.new_zeros((1, 1, rows + 3, columns + 3)))
        return Bend(torch.cat((dx, dy), 1), constant((0.0, 0.0, across, down), like.dtype, like.device)[None])


def cells_of(length: int, spacing: float, least: int = 1, times: int = 1) -> tuple[int, float]:
    """The number of cells between knots, a multiple of ``times``, whose length comes nearest to ``spacing``, and that length; the
    outer knots lie on the picture's border.
    """
    cells = times * max(-(-least // times), round((length - 1) / (times * spacing)))
    return cells, max(1, length - 1) / cells

"""Compose the colour segments of a run, so that neighbouring affine colour maps become one.

Owns: `Chain`, which folds segments in order into a prologue, one colour map fused with the resample, and an epilogue.
Must not: touch pixels; it works on matrices alone.
Read next: ``../engine/plan/make.py``.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from pellucid.color.curves import Curved
from pellucid.color.maps import apply_to_vector, channel_weights, compose
from pellucid.segments.values import Color, Curve, Tone

__all__ = ["AffineStage", "Chain", "ClipStage", "ColorMap", "CurveStage", "FillColors", "HueStage", "Stage"]

ColorMap: TypeAlias = tuple[Tensor, Tensor | None]
"""(matrix (b, c, c), offset (b, c) or None)."""


class AffineStage(NamedTuple):
    """A pointwise affine colour map."""

    matrix: Tensor
    offset: Tensor | None


class HueStage(NamedTuple):
    """A pointwise hue rotation."""

    hue_shift: Tensor


class ClipStage(NamedTuple):
    """A pointwise clip to [0, 1]."""


class CurveStage(NamedTuple):
    """A pointwise tone curve, as :func:`pellucid.color.curves.curved` takes it."""

    numbers: Tensor
    how: Curved


Stage: TypeAlias = AffineStage | HueStage | ClipStage | CurveStage


class FillColors:
    """The colour maps after one warp, which act on its fill: ``stages`` of the prologue, then the fused ``map``."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.map: ColorMap | None = None


class Chain:
    """The colour maps of a run, folded in their order. Each call makes its own object.

    ``prologue`` stages act on the source before the resample, ``fused`` inside it, ``epilogue`` after it. Affine maps commute
    with the resample, so they are composed until a non-linear stage ends the composition.
    """

    def __init__(self, mean: Tensor | None) -> None:
        self.mean = mean  # b c: mean colour of the source, after the affine maps up to the last pivot
        self._not_on_mean: list[ColorMap] = []
        self.prologue: list[Stage] = []
        self.epilogue: list[Stage] = []
        self.fused: ColorMap | None = None
        self._fills: list[FillColors] = []
        self._open: ColorMap | None = None
        self._closed_fused = False
        self._resampled = False
        self._clip_pending = False

    def mark_fill(self) -> FillColors:
        """Note that a warp with fill comes next: earlier colour maps do not act on its fill."""
        self._fills.append(FillColors())
        return self._fills[-1]

    def mark_resample(self) -> None:
        """Note that the last interpolating warp comes next: all stages so far are the prologue."""
        self._resampled = True

    def add(self, color: Color, clip: str) -> None:
        """Fold in the next colour segment."""
        if self._clip_pending and clip == "none":
            self._close(ClipStage())
            self._clip_pending = False
        offset = color.offset
        if color.pivot is not None and self.mean is not None:
            mean = self._current_mean(self.mean)
            weights = channel_weights(mean.shape[1], mean.dtype, mean.device)
            luma = mean.sum(1) / mean.shape[1] if color.plain_pivot else (mean * weights).sum(1)
            shift = (color.pivot * luma)[:, None].expand(-1, color.matrix.shape[1])
            offset = shift if offset is None else offset + shift
        self._fold((color.matrix, offset))
        if color.hue_shift is not None:
            self._close(HueStage(color.hue_shift))
        if color.post is not None:
            self._fold((color.post, None))
        self._clip_pending = self._clip_pending or clip != "none"

    def bend(self, curve: Curve | Tone, scale: float) -> None:
        """Add a tone curve. No later segment needs the source's mean. ``scale`` is 255 for images that came as bytes."""
        if self._clip_pending:
            self._close(ClipStage())
            self._clip_pending = False
        self._close(_stage(curve, scale))
        if isinstance(curve, Curve) and curve.clip:
            self._close(ClipStage())

    def finish(self) -> None:
        """Close the chain after the last segment."""
        if self._clip_pending:
            self._close(ClipStage())
        if not self._closed_fused:
            self._resampled = True
            self._take_open()
        elif self._open is not None:
            self.epilogue.append(AffineStage(*self._open))

    def _current_mean(self, mean: Tensor) -> Tensor:
        for color_map in self._not_on_mean:
            mean = apply_to_vector(color_map, mean)
        self.mean, self._not_on_mean = mean, []
        return mean

    def _fold(self, color_map: ColorMap) -> None:
        before, self._open = self._open, compose(color_map, self._open)
        for fill in self._fills if not self._closed_fused else ():
            # After a warp that shows fill, both are one map: compose it once.
            fill.map = self._open if fill.map is before else compose(color_map, fill.map)
        self._not_on_mean.append(color_map)

    def _take_open(self) -> None:
        self.fused, self._open = self._open, None
        self._closed_fused = True

    def _close(self, barrier: Stage) -> None:
        if self._resampled and not self._closed_fused:
            self._take_open()
            self.epilogue.append(barrier)
            return
        stages = self.epilogue if self._resampled else self.prologue
        if self._open is not None:
            stages.append(AffineStage(*self._open))
        stages.append(barrier)
        self._open = None
        for fill in self._fills if not self._resampled else ():
            fill.stages += [barrier] if fill.map is None else [AffineStage(*fill.map), barrier]
            fill.map = None


def _stage(curve: Curve | Tone, scale: float) -> CurveStage:
    """Make the stage of a tone curve; a missing gain or gate becomes 1."""
    if isinstance(curve, Curve):
        given, reach, how = [curve.exponent, curve.gain, None], 1.0, Curved("power")
    else:
        given, reach = [curve.amount, None, curve.gate], curve.h
        how = Curved(curve.name, curve.image_gradient, curve.surrogate, scale)
    like = next(part for part in given if part is not None)
    one = like.new_ones((1,))
    numbers = [one if part is None else part for part in (*given, one * reach)]
    return CurveStage(torch.stack(torch.broadcast_tensors(*numbers), 1), how)

"""Composing a run: its geometry as one map, its colours as one, and its fill, in tensor code.

Owns: what a pass needs beside the image. This is the specification; tapes are recordings of it.
Must not: touch images: the one thing it knows of them is their mean colour.
Read next: ``tapes.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.color.maps import apply_to_vector
from pellucid.constants import constant, wide_dtype
from pellucid.kernels import color
from pellucid.plan import Plan, Run
from pellucid.segments import Color, Segment, Warp
from pellucid.segments.chain import Chain, Stage
from pellucid.segments.specs import ColorSpec
from pellucid.types import Fill

__all__ = ["Composed", "SegmentOf", "compose", "geometry", "unmoved"]

SegmentOf: TypeAlias = Callable[[int], Segment]
"""A transform's segment by its place in the plan."""


class Composed(NamedTuple):
    """A run but for the image, in the precision of drawn values: prologue, one resample with its colour map, epilogue.

    Colour alone has no map and no prologue.
    """

    src_from_dst: Float[Tensor, "b_or_1 3 3"] | None
    window: Float[Tensor, "b_or_1 4"] | None
    fill: Float[Tensor, "b_or_1 c2"] | None
    matrix: Float[Tensor, "b_or_1 c2 c"] | None
    offset: Float[Tensor, "b_or_1 c2"] | None
    prologue: tuple[Stage, ...]
    epilogue: tuple[Stage, ...]

    def to(self, dtype: torch.dtype) -> Composed:
        """The resample's numbers in the precision of the image; stages convert theirs when they run."""
        src_from_dst, window, fill, matrix, offset = (part if part is None else part.to(dtype) for part in self[:5])
        return Composed(src_from_dst, window, fill, matrix, offset, self.prologue, self.epilogue)


def unmoved(dtype: torch.dtype, device: torch.device) -> Float[Tensor, "1 3 3"]:
    """The map of a run that moves nothing."""
    return constant((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), dtype, device).reshape(1, 3, 3)


def geometry(run: Run, segment_of: SegmentOf, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
    """Output pixel to input pixel across the run, and the rectangle that sampling may not leave (None where there is none)."""
    total: Tensor | None = None
    for index in run.warps:
        mid_from_dst = _warp(segment_of(index)).src_from_dst
        total = mid_from_dst if total is None else total @ mid_from_dst
    return total, _window(run, segment_of, device) if run.clamped else None


def compose(
    plan: Plan, run: Run, segment_of: SegmentOf, mean: Float[Tensor, "b c"] | None, scale: float, device: torch.device
) -> Composed:
    """Everything a run's pass needs.

    Args:
        plan, run, segment_of: the run and its segments.
        mean: the images' mean colour, where ``run.pivot`` says that a colour map needs it.
        scale: the image's own units per unit (255 for 8-bit input): fills are given in those.
        device: of the drawn values.
    """
    src_from_dst, window = geometry(run, segment_of, device)
    chain = Chain(mean)
    if not run.warps:
        chain.mark_resample()  # as if a map that moves nothing came first
    for index in run.indices:
        segment = segment_of(index)
        if isinstance(segment, Color):
            spec = plan.segments[index]
            assert isinstance(spec, ColorSpec)
            chain.add(segment, spec.clip)
        if index == run.fill_at:
            chain.mark_fill()
        if index == run.resample_at:
            chain.mark_resample()
    chain.finish()
    matrix, offset = chain.fused or (None, None)
    fill = _fill(run, chain, plan.specs[run.indices[0]].channels, scale, device) if run.warps else None
    return Composed(src_from_dst, window, fill, matrix, offset, tuple(chain.prologue), tuple(chain.epilogue))


def _warp(segment: Segment) -> Warp:
    assert isinstance(segment, Warp)
    return segment


def _fill(run: Run, chain: Chain, channels: int, scale: float, device: torch.device) -> Tensor | None:
    """The fill as the resample must show it: the last exposing warp's, with the colour maps that follow it."""
    if run.fill_at is None or run.padding_mode not in ("zeros", "constant"):
        return None
    plain = run.padding_mode == "zeros" and run.fill in (0, 0.0)
    if plain and not chain.fill_stages and (chain.fill_map is None or chain.fill_map[1] is None):
        return None
    fill = _fill_vector(run.fill, channels, device) / scale
    if chain.fill_stages:
        fill = color.stages(fill[:, :, None, None], chain.fill_stages)[:, :, 0, 0]
    return apply_to_vector(chain.fill_map, fill)


def _fill_vector(fill: Fill, channels: int, device: torch.device) -> Float[Tensor, "1 c"]:
    numbers = (float(fill),) if isinstance(fill, int | float) else tuple(float(f) for f in fill)
    return constant(numbers * (channels // len(numbers)), wide_dtype(device), device)[None]


def _window(run: Run, segment_of: SegmentOf, device: torch.device) -> Float[Tensor, "b 4"]:
    """The rectangle sampling may not leave, in pixel centres of the run's input: the crop's, else the whole image."""
    if run.window_at is None:
        return constant((0.0, 0.0, run.size_in[1] - 1.0, run.size_in[0] - 1.0), wide_dtype(device), device)[None]
    window = _warp(segment_of(run.window_at)).window
    assert window is not None
    before: Tensor | None = None
    for index in run.warps[: run.warps.index(run.window_at)]:
        step = _warp(segment_of(index)).src_from_dst
        before = step if before is None else before @ step
    if before is not None:  # earlier flips and shifts: send the corners back to the input; they stay axis-aligned
        scale = torch.stack((before[:, 0, 0], before[:, 1, 1], before[:, 0, 0], before[:, 1, 1]), -1)
        shift = torch.stack((before[:, 0, 2], before[:, 1, 2], before[:, 0, 2], before[:, 1, 2]), -1)
        ends = window * scale + shift
        window = torch.cat((torch.minimum(ends[:, :2], ends[:, 2:]), torch.maximum(ends[:, :2], ends[:, 2:])), -1)
    return window

"""Compose a run in tensor code: its geometry becomes one map, its colours become one map, with the fill in these colours.

Owns: everything that a pass needs besides the image. This is the specification; tapes are recordings of it.
Must not: touch images, of which it gets the mean colour only.
Read next: ``tapes.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.color.maps import apply_to_vector
from pellucid.core.constants import constant, wide_dtype
from pellucid.core.tape import Number
from pellucid.engine.lowering.segments_of import Segments, widened
from pellucid.engine.plan import Canvas, Run
from pellucid.geometry.matrices import scale_shift
from pellucid.kernels import color
from pellucid.kernels.warp.packing import Link, canvas_kind
from pellucid.kernels.warp.taps import half_up
from pellucid.segments import Color, Curve, Segment, Tone, Warp
from pellucid.segments.chain import Chain, FillColors, Stage
from pellucid.segments.specs import ColorSpec, WarpSpec
from pellucid.types import Fill, Size

__all__ = ["Composed", "Geometry", "Link", "compose", "frame", "geometry", "unmoved"]


class Geometry(NamedTuple):
    """A run's maps: from the first canvas (or the result, without canvases) to the source, and ``links`` from canvas to canvas."""

    src_from_dst: Float[Tensor, "b_or_1 3 3"] | None
    window: Float[Tensor, "b_or_1 4"] | None
    links: tuple[Link, ...] = ()

    def to(self, dtype: torch.dtype) -> Geometry:
        """Return this geometry in another precision."""
        src_from_dst, window = (part if part is None else part.to(dtype) for part in self[:2])
        return Geometry(src_from_dst, window, tuple(link.to(dtype) for link in self.links))

    @property
    def total(self) -> Float[Tensor, "b_or_1 3 3"] | None:
        """The map from the result to the source, regardless of canvases."""
        return None if self.src_from_dst is None else _product([self.src_from_dst, *(link.mid_from_dst for link in self.links)])


class Composed(NamedTuple):
    """Everything of a run but the image, in the precision of drawn values: prologue, one resample with its colour map, epilogue.

    A run of colours alone has no map and no prologue. ``links`` lead from canvas to canvas, up to the result.
    """

    src_from_dst: Float[Tensor, "b_or_1 3 3"] | None
    window: Float[Tensor, "b_or_1 4"] | None
    fill: Float[Tensor, "b_or_1 c2"] | None
    matrix: Float[Tensor, "b_or_1 c2 c"] | None
    offset: Float[Tensor, "b_or_1 c2"] | None
    prologue: tuple[Stage, ...]
    epilogue: tuple[Stage, ...]
    links: tuple[Link, ...] = ()


def unmoved(dtype: torch.dtype, device: torch.device) -> Float[Tensor, "1 3 3"]:
    """Return the identity map."""
    return constant((1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), dtype, device).reshape(1, 3, 3)


def geometry(segment_of: Segments, run: Run, nearest: torch.dtype | None = None) -> Geometry:
    """Return the maps from output pixel to input pixel across the run, canvas by canvas, and the rectangles that bound sampling.

    Args:
        segment_of, run: the run and its segments.
        nearest: the precision in which nearest interpolation rounds coordinates; None for other interpolations.
    """
    if not run.warps:
        return Geometry(None, None)
    device = segment_of.device
    parts: list[list[Tensor]] = [[]]  # the factors of each map
    between: list[tuple[Any, Tensor | None]] = []  # between two maps: rectangle or grid, displacements
    facing: Tensor | None = None
    pictures: dict[int, list[Canvas]] = {}
    for canvas in run.canvases:
        pictures.setdefault(canvas.at, []).extend([] if canvas.bends else [canvas])
    for index in run.warps:
        warp = _warp(segment_of(index))
        if nearest is not None and run.moved and index == run.resample_at:
            facing = _product([one for part in parts for one in part])
        for canvas in pictures.get(index, ()):
            between.append((_cut(warp) if canvas.windowed else _rectangle(canvas.size, device), None))
            parts.append([])
        parts[-1].append(warp.src_from_dst)
        if warp.bend is not None:
            between.append((warp.bend.grid, warp.bend.control))
            parts.append([])
    maps = [_product(part) if part else unmoved(wide_dtype(device), device) for part in parts]
    if facing is not None and nearest is not None:
        maps[0] = _half_way_back(facing, run.size_in, nearest) @ maps[0]
    kinds = (canvas_kind(canvas.padding_mode, hard=canvas.hard or run.interpolation == "nearest") for canvas in run.canvases)
    links = tuple(
        Link(kind, mid_from_dst, window, control=control)
        for kind, mid_from_dst, (window, control) in zip(kinds, maps[1:], between, strict=True)
    )
    return Geometry(maps[0], _window(segment_of, run) if run.clamped else None, links)


def frame(segment_of: Segments, run: Run) -> Int64[Tensor, "b_or_1 4"]:
    """Return the pixels of the source that a run's first crops keep, as :func:`pellucid.kernels.color.pixels_of` counts them."""
    device = segment_of.device
    ends = _rectangle(segment_of.plan.size_after(run.framing[-1]), device)
    edges = ends + constant((-0.5, -0.5, 0.5, 0.5), wide_dtype(device), device)
    src_from_mid = _product([_warp(segment_of(index)).src_from_dst for index in run.framing])
    return color.pixels_of(_sent_back(edges, src_from_mid), _rectangle(run.size_in, device))


def _product(maps: list[Tensor]) -> Float[Tensor, "b 3 3"]:
    return reduce(torch.matmul, maps)


def _half_way_back(src_from_mid: Float[Tensor, "b 3 3"], size: Size, dtype: torch.dtype) -> Float[Tensor, "b 3 3"]:
    """Return a tiny shift along the axes that a flip or turn has reversed.

    Nearest interpolation rounds half-way points up. A point that is half-way in the interpolated frame must be rounded up there,
    and therefore down here. The shift is too small to change anything else.
    """
    reversed_axes = src_from_mid[:, :2, :2].sum(-1) < 0  # b 2
    back = reversed_axes.to(src_from_mid.dtype) * (-2.0 * (half_up(1, dtype) - 0.5))
    return scale_shift(1.0, back[:, 0] * size[1], 1.0, back[:, 1] * size[0], src_from_mid)


def compose(
    segment_of: Segments,
    run: Run,
    mean: Float[Tensor, "b c"] | None,
    scale: float,
    nearest: torch.dtype | None = None,
) -> Composed:
    """Compose everything that a run's pass needs.

    Args:
        segment_of, run: the run and its segments.
        mean: the images' mean colour, if a colour map needs it (``run.pivot``).
        scale: the image's own units per unit (255 for 8-bit input); fills are in these units.
        nearest: as in :func:`geometry`.
    """
    plan, (src_from_dst, window, links) = segment_of.plan, geometry(segment_of, run, nearest)
    chain = Chain(mean)
    fills: dict[int, FillColors] = {}
    if not run.warps:
        chain.mark_resample()  # as if the identity map came first
    marks = {*run.fills, *(index for canvas in run.canvases for index in canvas.fills)}
    for index in run.indices:
        segment = segment_of(index)
        if isinstance(segment, Color):
            spec = plan.segments[index]
            assert isinstance(spec, ColorSpec)
            chain.add(segment, spec.clip)
        elif isinstance(segment, Curve | Tone):
            chain.bend(segment, scale)
        if index in marks:
            fills[index] = chain.mark_fill()
        if index == run.resample_at:
            chain.mark_resample()
    chain.finish()
    matrix, offset = chain.fused or (None, None)
    fill_of = partial(_fill, segment_of, colors=fills, channels=plan.specs[run.indices[0]].channels, scale=scale)
    links = tuple(link._replace(fill=fill_of(canvas)) for link, canvas in zip(links, run.canvases, strict=True))
    fill = fill_of(run)
    return Composed(src_from_dst, window, fill, matrix, offset, tuple(chain.prologue), tuple(chain.epilogue), links)


def _warp(segment: Segment) -> Warp:
    assert isinstance(segment, Warp)
    return segment


def _fill(
    segment_of: Segments, layer: Run | Canvas, *, colors: Mapping[int, FillColors], channels: int, scale: float
) -> Tensor | None:
    """Return the fill for the resample, in the colours after its warp; among alternative warps, that of the open one."""
    if layer.padding_mode not in ("zeros", "constant"):
        return None
    device = segment_of.device
    found: list[tuple[int, Tensor | None]] = []
    for index in layer.fills:
        spec = segment_of.plan.segments[index]
        assert isinstance(spec, WarpSpec)
        found.append((index, _one_fill(layer.padding_mode, spec.fill, colors[index], channels, scale, device)))
    if all(fill is None for _, fill in found):
        return None
    nothing = _fill_vector(0.0, channels, device)
    rows = [(segment_of.opened(index), nothing if fill is None else fill) for index, fill in found]
    chosen = [fill if gate is None or len(rows) == 1 else gate[:, None] * fill for gate, fill in rows]
    return reduce(torch.add, chosen)


def _one_fill(padding_mode: str, own: Fill, colors: FillColors, channels: int, scale: float, device: torch.device) -> Tensor | None:
    if padding_mode == "zeros" and own in (0, 0.0) and not colors.stages and (colors.map is None or colors.map[1] is None):
        return None
    fill = _fill_vector(own, channels, device) / scale
    if colors.stages:
        fill = color.stages(fill[:, :, None, None], colors.stages)[:, :, 0, 0]
    return apply_to_vector(colors.map, fill)


def _fill_vector(fill: Fill, channels: int, device: torch.device) -> Float[Tensor, "1 c"]:
    numbers = (float(fill),) if isinstance(fill, int | float) else tuple(float(f) for f in fill)
    return constant(numbers * (channels // len(numbers)), wide_dtype(device), device)[None]


def _window(segment_of: Segments, run: Run) -> Float[Tensor, "b 4"]:
    """Return the rectangle that bounds sampling, in pixel centres of the run's input: that of its crops, or the whole image."""
    device = segment_of.device
    total: Tensor | None = None
    before: Tensor | None = None
    bounds = {canvas.at: canvas for canvas in run.windows}
    for index in run.warps[: 1 + run.warps.index(run.windows[-1].at)] if bounds else ():
        warp = _warp(segment_of(index))
        if index in bounds:
            gate = segment_of.opened(index)
            window = _cut(warp) if bounds[index].windowed else widened(_rectangle(bounds[index].size, device), gate)
            if total is None and gate is not None:  # a sample with a closed crop is bounded by its picture alone
                total = _rectangle(run.size_in, device)
            window = window if before is None else _sent_back(window, before)
            total = window if total is None else _common(total, window)
        before = warp.src_from_dst if before is None else before @ warp.src_from_dst
    return _rectangle(run.size_in, device) if total is None else total


def _cut(warp: Warp) -> Float[Tensor, "b 4"]:
    """Return a crop's own rectangle; if one end is not finite, all are NaN, so that nothing is read."""
    assert warp.window is not None
    return warp.window + 0.0 * warp.window.sum(-1, keepdim=True)


def _rectangle(size: Size, device: torch.device) -> Float[Tensor, "1 4"]:
    lengths: tuple[Any, Any] = size
    if not any(isinstance(length, Number) for length in lengths):
        return constant((0.0, 0.0, size[1] - 1.0, size[0] - 1.0), wide_dtype(device), device)[None]
    ends = torch.eye(4, dtype=wide_dtype(device), device=device)[2:]
    return (ends[0] * (size[1] - 1.0) + ends[1] * (size[0] - 1.0))[None]


def _sent_back(window: Float[Tensor, "b 4"], before: Float[Tensor, "b 3 3"]) -> Float[Tensor, "b 4"]:
    """Map an upright rectangle by a map under which it stays upright: flips, turns, crops, resizes."""
    x, y = (window[:, None, i::2] * before[:, :2, i, None] for i in (0, 1))  # b axis end
    ends = x + y + before[:, :2, 2:]
    return torch.cat((torch.minimum(ends[..., 0], ends[..., 1]), torch.maximum(ends[..., 0], ends[..., 1])), -1)


def _common(first: Tensor, second: Tensor) -> Tensor:
    """Return the intersection of two rectangles."""
    return torch.cat((torch.maximum(first[:, :2], second[:, :2]), torch.minimum(first[:, 2:], second[:, 2:])), -1)

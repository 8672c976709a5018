"""Turn drawn values into a list of operations on bytes for each picture.

Owns: `operations_of`: the operation of each step, and its numbers.
Must not: touch pixels, or read values that need a gradient.
Read next: ``../../kernels/bytewise/__init__.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from pellucid.core.tape import cached_recording
from pellucid.engine.lowering.lowered import Lowered
from pellucid.engine.lowering.openings import gate_of
from pellucid.engine.lowering.segments_of import Segments
from pellucid.engine.plan import Part, Plan, Run, make_plan
from pellucid.kernels.bytewise import MOST, Operations
from pellucid.kernels.bytewise.layout import BILINEAR, COLOR, CURVES, NEAREST, SHARPEN, count_of
from pellucid.segments import Color, ColorSpec, Curve, Mixture, Segment, Sharpen, Tone, Warp, WarpSpec
from pellucid.transforms.mixture import Mixture as MixtureTransform

__all__ = ["operations_of"]


class _Layout(NamedTuple):
    """Each step's operation, the place of its first number, and how many chains a mixture has (0 without a mixture)."""

    kinds: NDArray[np.int64]
    places: NDArray[np.int64]
    mixed: int = 0


def operations_of(lowered: Lowered, part: Part, shape: Sequence[int]) -> Operations | None:
    """Return the operations of these passes on each picture; None for large pictures, or if a step is no operation on bytes.

    Args:
        lowered: the plan and its values, which may be read.
        part: the passes of a choice that rounds.
        shape: of the pictures (b c h w).
    """
    plan, indices, (batch, _, height, width) = lowered.plan, part.indices, shape
    if batch == 0 or height * width > MOST or any(isinstance(g, Run) and g.size_in != g.size_out for g in part.groups):
        return None
    layout = cached_recording(plan.owner, ("kinds", indices), lambda: _layout(lowered, indices))
    if layout is None:
        return None
    found = lowered.of_all(_mixed if layout.mixed else _numbers, indices)
    gates, numbers, shares = (_repeated(each.numpy(), batch) for each in found)
    gates, numbers = (each.reshape(batch * max(layout.mixed, 1), -1) for each in (gates, numbers))
    opened = gates != 0.0
    steps = opened.nonzero()[1]
    starts = np.zeros(len(opened) + 1, np.int64)
    np.cumsum(opened.sum(1), out=starts[1:])
    weights = shares.astype(np.float32)
    if layout.mixed:
        weights[:, 1:] *= np.float32(1.0) - weights[:, :1]
    return Operations(np.stack((layout.kinds[steps], layout.places[steps]), 1), starts, numbers, weights)


def _repeated(rows: NDArray[np.float64], batch: int) -> NDArray[np.float64]:
    return rows if len(rows) == batch else np.repeat(rows, batch, 0)


def _layout(lowered: Lowered, indices: tuple[int, ...]) -> _Layout | None:
    """Find the operations of a part's steps, by their segments; None if one of them has none."""
    plan, first = lowered.plan, indices[0]
    transform = plan.steps[first].transform
    if not isinstance(transform, MixtureTransform):
        return _kinds(plan, lowered.segment, indices)
    inner = lowered.plan_beside((first, 0), transform.chains[0], plan.specs[first])
    if any(chain != transform.chains[0] for chain in transform.chains) or not all(part.rounds for part in inner.parts):
        return None
    segment = lowered.segment(first)
    assert isinstance(segment, Mixture)
    found = _kinds(inner, Segments(inner, segment.chains[0], lowered.device), _steps(inner))
    return None if found is None else found._replace(mixed=len(transform.chains))


def _steps(plan: Plan) -> tuple[int, ...]:
    return tuple(index for index, spec in enumerate(plan.segments) if spec is not None)


def _kinds(plan: Plan, segment_of: Callable[[int], Segment], indices: tuple[int, ...]) -> _Layout | None:
    channels = plan.specs[0].channels
    kinds = [_kind(plan, segment_of(index), index) for index in indices]
    if None in kinds:
        return None
    counts = [count_of(kind, channels) for kind in kinds if kind is not None]
    return _Layout(np.array(kinds, np.int64), np.cumsum([0, *counts[:-1]]))


def _kind(plan: Plan, segment: Segment, index: int) -> int | None:
    """Return the operation of a step; None if it has none."""
    spec = plan.segments[index]
    if isinstance(segment, Tone):
        return CURVES.get(segment.name)
    if isinstance(segment, Curve):
        return CURVES["power"]
    if isinstance(segment, Sharpen):
        return SHARPEN
    if isinstance(segment, Color):
        assert isinstance(spec, ColorSpec)
        plain = segment.hue_shift is None and segment.post is None and not segment.plain_pivot and not spec.stepwise
        return COLOR if plain and plan.specs[index].channels in (1, 3) else None
    if not isinstance(segment, Warp):
        return None
    assert isinstance(spec, WarpSpec)
    if spec.projective or spec.bends or spec.windowed or (spec.exposes and (spec.padding_mode != "zeros" or spec.fill != 0.0)):
        return None
    if not spec.resamples or spec.interpolation == "nearest":
        return NEAREST if spec.size == plan.specs[index].size and (spec.exposes or not spec.resamples) else None
    return BILINEAR if spec.interpolation == "bilinear" and spec.exposes and not (spec.along_axes or spec.antialias) else None


def _numbers(segment_of: Segments, indices: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the steps' gates, their numbers side by side, and no weights."""
    found = [(gate_of(segment_of, index), _row(segment_of(index))) for index in indices]
    batch = max(len(row) for _, row in found)
    gates = [(row.new_ones((1,)) if gate is None else gate).expand(batch) for gate, row in found]
    numbers = torch.cat([row.expand(batch, -1) for _, row in found], 1)
    return torch.stack(gates, 1), numbers, numbers[:, :0]


def _mixed(segment_of: Segments, indices: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gates and numbers of a mixture's chains side by side, and its weights."""
    plan, (index,) = segment_of.plan, indices
    segment, transform = segment_of(index), plan.steps[index].transform
    assert isinstance(segment, Mixture)
    assert isinstance(transform, MixtureTransform)
    inner = make_plan(transform.chains[0], plan.specs[index], fuse=plan.fuse, canvas=plan.canvas)
    found = [_numbers(Segments(inner, params, segment.share.device), _steps(inner)) for params in segment.chains]
    gates, numbers, _ = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
    return gates, numbers, torch.cat((segment.share[:, None], segment.weights), 1)


def _row(segment: Segment) -> Float[Tensor, "b n"]:
    """Return a segment's numbers in the order of the kernel's ``layout.py``."""
    if isinstance(segment, Warp):
        return segment.src_from_dst[:, :2].flatten(1)
    if isinstance(segment, Sharpen):
        return segment.kernel.flatten(1)
    if isinstance(segment, Color):
        matrix, batch = segment.matrix, len(segment.matrix)
        offset = matrix.new_zeros((batch, matrix.shape[1])) if segment.offset is None else segment.offset
        pivot = matrix.new_zeros((batch,)) if segment.pivot is None else segment.pivot
        return torch.cat((matrix.flatten(1), offset, pivot[:, None]), 1)
    numbers: tuple[Tensor | None, ...]
    if isinstance(segment, Curve):
        numbers = segment.exponent, segment.gain, None
    else:
        assert isinstance(segment, Tone)
        numbers = segment.amount, None, segment.gate
    known = [part for part in numbers if part is not None]
    one = known[0].new_ones((1,)) if known else torch.ones((1,), dtype=torch.float64, device="cpu")
    return torch.stack(torch.broadcast_tensors(*(one if part is None else part for part in numbers)), 1)

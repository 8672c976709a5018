"""Find out which samples of a batch of bytes each pass changes, so that the others can skip it.

Owns: `Openings`: for every pass the samples that it changes, and whether it is the first or the last to do so.
Must not: touch pixels, or read values that need a gradient.
Read next: ``../execution.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from torch import Tensor

from pellucid.core.tape import Rows, cached_recording
from pellucid.engine.lowering.lowered import Lowered
from pellucid.engine.lowering.segments_of import Segments
from pellucid.engine.plan import Group, Plan, Run, Single, Space
from pellucid.segments import CallSpec, CodecSpec, CurveSpec, LayerSpec
from pellucid.types import Size

__all__ = ["Opening", "Openings", "copies", "gate_of", "keeps_levels", "may_close"]

_CLIPS = ("end", "each", True)


class Opening(NamedTuple):
    """Some samples that a pass changes, and whether it is the first, and the last, pass that changes them."""

    group: Group
    rows: Int64[Tensor, "n"]
    first: bool
    last: bool


class Openings:
    """The passes of a plan, each with the samples in which at least one of its steps is open.

    ``meets`` says whether any sample is changed by two passes, ``resting`` lists the samples that no pass changes.

    Args:
        groups: the passes.
        open_in: (passes, samples), whether a pass changes a sample.
        size: (height, width) after the passes.
    """

    def __init__(self, groups: Sequence[Group], open_in: Rows, size: Size) -> None:
        self._groups, self._open_in, self.size = groups, open_in, size
        counts = open_in.cumsum(0)
        self._kinds = 2 * (counts == 1) + (counts == counts[-1:])
        self.meets, self.resting = bool((counts[-1] > 1).any()), torch.from_numpy((counts[-1] == 0).nonzero()[0])

    @classmethod
    def of(cls, lowered: Lowered, image: Shaped[Tensor, "b c h w"], groups: Sequence[Group]) -> Openings | None:
        """Find which samples each of these passes changes; None unless these are bytes, nothing needs a gradient, and some pass
        skips a sample.

        A closed step is the identity up to clipping. Clipping changes nothing either, as long as passes keep bytes in [0, 1].
        """
        plan, size_in = lowered.plan, (image.shape[2], image.shape[3])
        size = _one_size(groups, size_in)
        if size is None or cls.never(lowered, image, groups):
            return None
        steps: tuple[Tensor | None, ...] = lowered.of_all(_gates)
        open_in = np.ones((len(groups), len(image)), bool)
        for g, group in enumerate(groups):
            indices = group.indices
            gates = [steps[index] for index in indices]
            known = {
                i: gate.numpy() != 0.0
                for i, gate in zip(indices, gates, strict=True)
                if gate is not None and len(gate) == len(image)
            }
            if len(known) == len(gates) and (g > 0 or size_in == size):
                open_in[g] = np.any(list(known.values()), 0)
            if not _bounded(plan, group):
                break
        return None if open_in.all() else cls(groups, open_in, size)

    @staticmethod
    def never(lowered: Lowered, image: Shaped[Tensor, "b c h w"], groups: Sequence[Group]) -> bool:
        """Return whether `of` is None for all such pictures, whatever is drawn."""
        if image.dtype != torch.uint8 or not lowered.taped or len(image) == 0:
            return True
        plan = lowered.plan
        if any(isinstance(segment, LayerSpec) for segment in plan.segments):  # layers read other samples, too
            return True
        if len(groups) == 1 and (_copies_closed(groups[0]) or _looks_up(plan, groups[0])):
            return True
        return not may_close(lowered, groups)

    def __iter__(self) -> Iterator[Opening]:
        """Yield the samples pass by pass."""
        for g, group in enumerate(self._groups):
            rows = self._open_in[g].nonzero()[0]
            kinds = self._kinds[g, rows]
            for kind in np.unique(kinds)[::-1]:
                some = rows if (kinds == kind).all() else rows[kinds == kind]
                yield Opening(group, torch.from_numpy(some), bool(kind & 2), bool(kind & 1))


def may_close(lowered: Lowered, groups: Sequence[Group]) -> bool:
    """Return whether one of these passes may change some samples and not others."""

    def found() -> bool:
        gates: tuple[Tensor | None, ...] = lowered.of_all(_gates)
        return any(all(gates[index] is not None for index in group.indices) for group in groups)

    return cached_recording(lowered.plan.owner, ("closes", *(group.indices for group in groups)), found) is not False


def _gates(segments: Segments) -> tuple[Tensor | None, ...]:
    """Return the gate of every step, a row per sample; None for a step that is always open."""
    return tuple(
        None if spec is None or isinstance(spec, CallSpec) else gate_of(segments, index)  # a choice, or a function of the batch
        for index, spec in enumerate(segments.plan.segments)
    )


def gate_of(segments: Segments, index: int) -> Float[Tensor, "b"] | None:
    """Return a step's gate: the product of its own gate and of those that the choices above give it; None if nothing closes it."""
    gates = [gate for gate in (segments.opened(index), segments.drawn(index).get("gate")) if gate is not None]
    return reduce(torch.mul, gates) if gates else None


def _one_size(groups: Sequence[Group], size_in: Size) -> Size | None:
    """Return the size in which every pass ends (the first may read another size); None if sizes differ."""
    sizes = [run.size_out for run in groups if isinstance(run, Run)]
    size = sizes[-1] if sizes else size_in
    first = bool(groups) and isinstance(groups[0], Run)
    return size if set(sizes) <= {size} and (first or size_in == size) else None


def copies(plan: Plan, group: Group) -> bool:
    """Return whether a pass moves whole pixels and does nothing else."""
    if not isinstance(group, Run) or group.colors:
        return False
    return not any(getattr(plan.segments[i], "resamples", True) for i in group.warps)


def _copies_closed(group: Group) -> bool:
    """Return whether a pass copies samples by itself if all of its steps are closed, as a pass of matrix warps does."""
    return isinstance(group, Run) and not group.colors and not group.bends


def _looks_up(plan: Plan, group: Group) -> bool:
    """Return whether a pass can be a lookup table for each channel."""
    return isinstance(group, Single) and getattr(plan.segments[group.index], "tabled", False)


def keeps_levels(plan: Plan, group: Group) -> bool:
    """Return whether a pass turns bytes into bytes without rounding."""
    return copies(plan, group) and _bounded(plan, group)


def _bounded(plan: Plan, group: Group) -> bool:
    """Return whether a pass keeps values in [0, 1]."""
    if isinstance(group, Space):
        return False
    if not isinstance(group, Run):
        segment = plan.segments[group.index]
        clip = getattr(plan.steps[group.index].transform, "clip", None)
        return clip in _CLIPS or (segment.bounded if isinstance(segment, CurveSpec) else isinstance(segment, CodecSpec))
    if group.colors:
        last = plan.segments[group.colors[-1]]
        return last.bounded if isinstance(last, CurveSpec) else getattr(last, "clip", None) in _CLIPS
    fills = {getattr(plan.segments[i], "fill", 0.0) for i in group.warps}
    return fills == {0.0} and group.interpolation in ("nearest", "bilinear")

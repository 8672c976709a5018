"""Find out which samples of a batch of bytes each pass changes, so that the others can skip it.

Owns: `Openings`: for every pass the samples that it changes, and whether it is the first or the last to do so.
Must not: touch pixels, or read values that need a gradient.
Read next: ``../execution.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.constants import compute_dtype
from pellucid.core.tape import Rows, cached_recording
from pellucid.engine.lowering.lowered import Lowered
from pellucid.engine.lowering.segments_of import Segments
from pellucid.engine.plan import Group, Plan, Run, Single, Space
from pellucid.segments import CallSpec, CodecSpec, ConvolveSpec, CurveSpec, LayerSpec
from pellucid.transforms.holes import CoarseDropout, GridDropout, RandomErasing
from pellucid.types import Size

__all__ = ["Opening", "Openings", "copies", "gate_of", "keeps_levels", "may_close", "paints_rectangles"]

_CLIPS = ("end", "each", True)


class Opening(NamedTuple):
    """Some samples that a pass changes, and whether it is the first pass that does, and one that rounds the result."""

    group: Group
    rows: list[int]
    first: bool
    last: bool


class Openings:
    """The passes of a plan, each with the samples in which at least one of its steps is open.

    Args:
        groups: the passes.
        open_in: (passes, samples), whether a pass changes a sample.
        rounds: whether the result has another dtype than what lies between passes.
    """

    def __init__(self, groups: Sequence[Group], open_in: Rows, *, rounds: bool) -> None:
        self._groups, self._open_in = groups, open_in
        counts = open_in.cumsum(0)
        self._kinds = 2 * (counts == 1) + (rounds & (counts == counts[-1:]))

    @classmethod
    def of(cls, lowered: Lowered, image: Shaped[Tensor, "b c h w"], groups: Sequence[Group], dtype: torch.dtype) -> Openings | None:
        """Find which samples each of these passes changes; None unless these are bytes, nothing needs a gradient, and some pass
        skips a sample. ``dtype``: of the result.

        A closed step is the identity up to clipping. Clipping changes nothing either, as long as passes keep bytes in [0, 1].
        """
        plan, size_in = lowered.plan, (image.shape[2], image.shape[3])
        size = _one_size(groups, size_in)
        if size is None or cls.never(lowered, image, groups):
            return None
        key = ("deciding", size == size_in, *(group.indices for group in groups))
        deciding = cached_recording(plan.owner, key, lambda: _deciding(plan, groups, keeps_size=size == size_in)) or ()
        steps: tuple[Tensor | None, ...] = lowered.of_all(_gates)
        open_in = np.ones((len(groups), len(image)), bool)
        for g, indices in deciding:
            gates = [steps[index] for index in indices]
            known = [gate.numpy() != 0.0 for gate in gates if gate is not None and len(gate) == len(image)]
            if len(known) == len(gates):
                open_in[g] = known[0] if len(known) == 1 else np.any(known, 0)
        return None if open_in.all() else cls(groups, open_in, rounds=dtype != compute_dtype(image.dtype))

    @staticmethod
    def never(lowered: Lowered, image: Shaped[Tensor, "b c h w"], groups: Sequence[Group]) -> bool:
        """Return whether `of` is None for all such pictures, whatever is drawn."""
        if image.dtype != torch.uint8 or not lowered.taped or len(image) == 0:
            return True
        key = ("skips", *(group.indices for group in groups))
        return cached_recording(lowered.plan.owner, key, lambda: _may_skip(lowered, groups)) is False

    def __iter__(self) -> Iterator[Opening]:
        """Yield the samples pass by pass."""
        for g, group in enumerate(self._groups):
            rows = self._open_in[g].nonzero()[0]
            kinds = self._kinds[g, rows]
            present = sorted(set(kinds.tolist()), reverse=True)
            for kind in present:
                some = rows if len(present) == 1 else rows[kinds == kind]
                yield Opening(group, some.tolist(), bool(kind & 2), bool(kind & 1))


def _may_skip(lowered: Lowered, groups: Sequence[Group]) -> bool:
    """Return whether some draws let a sample skip one of these passes."""
    plan = lowered.plan
    if any(isinstance(segment, LayerSpec) for segment in plan.segments):  # layers read other samples, too
        return False
    if len(groups) == 1 and (_copies_closed(groups[0]) or _looks_up(plan, groups[0])):
        return False
    return may_close(lowered, groups)


def _deciding(plan: Plan, groups: Sequence[Group], *, keeps_size: bool) -> list[tuple[int, tuple[int, ...]]]:
    """Return the numbers of the passes that samples may skip, each with the steps whose gates decide it.

    The first pass changes every sample if it changes the size. From the first pass on that may leave [0, 1], others must not be
    skipped if they clip.
    """
    found, bounded = [], True
    for g, group in enumerate(groups):
        if (g > 0 or keeps_size) and (bounded or _never_clips(plan, group)):
            found.append((g, group.indices))
        bounded = bounded and _bounded(plan, group)
    return found


def _never_clips(plan: Plan, group: Group) -> bool:
    """Return whether a closed pass leaves numbers outside of [0, 1] as they are."""
    if not isinstance(group, Single):
        return False
    clips: Any = getattr(plan.steps[group.index].transform, "clip", None)
    blurs = isinstance(plan.segments[group.index], ConvolveSpec) and clips not in _CLIPS
    return blurs or paints_rectangles(plan, group)


def paints_rectangles(plan: Plan, group: Group) -> bool:
    """Return whether a pass paints rectangles over pictures."""
    return isinstance(group, Single) and isinstance(plan.steps[group.index].transform, RandomErasing | CoarseDropout | GridDropout)


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

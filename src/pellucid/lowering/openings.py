"""Which samples of a batch of bytes each pass changes.

Owns: `Openings`: for every pass the samples that it changes, and whether it is the first or the last to do so.
Must not: touch pixels, or look at values that a gradient goes to.
Read next: ``../execute.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from pellucid.kernels.curve import Bend, bend_of
from pellucid.lowering.lowered import Lowered
from pellucid.lowering.segments_of import Segments
from pellucid.plan import Group, Plan, Run, Single
from pellucid.segments import CallSpec, CodecSpec, Curve, CurveSpec, LayerSpec, Segment, Tone
from pellucid.tape import Rows, cached_recording

__all__ = ["Opening", "Openings", "as_bend", "may_close"]

_CLIPS = ("end", "each", True)


class Opening(NamedTuple):
    """Samples for which a pass is the first that changes them or not, and the last or not, and changes no colour."""

    group: Group
    rows: Int64[Tensor, "n"]
    first: bool
    last: bool
    moves: bool


class Openings:
    """The passes of a plan, each with the samples in which some step of it is open.

    ``meets`` says whether two of them change one sample, ``resting`` names the samples that none changes, ``looks_up`` says
    whether some of them are curves.

    Args:
        groups: the passes.
        open_in, moved: (passes, samples), whether a pass changes a sample, and whether only its place.
        steps: for all samples.
    """

    def __init__(self, groups: Sequence[Group], open_in: Rows, moved: Rows, steps: Sequence[_Step]) -> None:
        self._groups, self._open_in, self._steps = groups, open_in, steps
        self._bends: dict[int, Bend | None] = {}
        self.looks_up = any(steps[group.index].curve is not None for group in groups if isinstance(group, Single))
        counts = open_in.cumsum(0)
        self._kinds = 4 * moved + 2 * (counts == 1) + (counts == counts[-1:])
        self.meets, self.resting = bool((counts[-1] > 1).any()), torch.from_numpy((counts[-1] == 0).nonzero()[0])

    @classmethod
    def of(cls, lowered: Lowered, image: Shaped[Tensor, "b c h w"], groups: Sequence[Group]) -> Openings | None:
        """Which samples each of these passes changes; None unless these are bytes, nothing needs a gradient, and some pass skips a
        sample.

        A closed step is the identity, but that it may clip: bytes are in [0, 1], and what passes keep there is.
        """
        plan = lowered.plan
        if image.dtype != torch.uint8 or not lowered.taped or len(image) == 0 or not _one_size(plan):
            return None
        if any(isinstance(segment, LayerSpec) for segment in plan.segments):  # which join samples
            return None
        if len(groups) == 1 and _copies(plan, groups[0]):  # whose pass copies the closed samples as fast as anyone
            return None
        if not may_close(lowered, groups):
            return None
        steps: tuple[_Step, ...] = lowered.of_all("openings", _steps)
        open_in, moved = np.ones((len(groups), len(image)), bool), np.zeros((len(groups), len(image)), bool)
        for g, group in enumerate(groups):
            indices = _indices(group)
            gates = [steps[index].gate for index in indices]
            known = {
                i: gate.numpy() != 0.0
                for i, gate in zip(indices, gates, strict=True)
                if gate is not None and len(gate) == len(image)
            }
            if len(known) == len(gates) and (g > 0 or plan.size_in == plan.size_out):
                open_in[g] = np.any(list(known.values()), 0)
            if isinstance(group, Run) and group.warps and known.keys() >= set(group.colors) and _shows_bytes(plan, group):
                moved[g] = ~np.any([known[i] for i in group.colors], 0) if group.colors else True
            if not _bounded(plan, group):
                break
        return None if open_in.all() and not moved.any() else cls(groups, open_in, moved, steps)

    def bend(self, group: Group) -> Bend | None:
        """The curve of a pass that is one, for all samples."""
        if isinstance(group, Run):
            return None
        if group.index not in self._bends:
            self._bends[group.index] = as_bend(self._steps[group.index].curve)
        return self._bends[group.index]

    def __iter__(self) -> Iterator[Opening]:
        """Pass by pass."""
        for g, group in enumerate(self._groups):
            rows = self._open_in[g].nonzero()[0]
            kinds = self._kinds[g, rows]
            for kind in np.unique(kinds)[::-1]:
                some = rows if (kinds == kind).all() else rows[kinds == kind]
                yield Opening(group, torch.from_numpy(some), bool(kind & 2), bool(kind & 1), bool(kind & 4))


def may_close(lowered: Lowered, groups: Sequence[Group]) -> bool:
    """Whether one of these passes may change some samples and not others."""

    def found() -> bool:
        steps: tuple[_Step, ...] = lowered.of_all("openings", _steps)
        return any(all(steps[index].gate is not None for index in _indices(group)) for group in groups)

    return cached_recording(lowered.plan.owner, f"closes {len(groups)}", found) is not False


class _Step(NamedTuple):
    """How far each sample's step is open (None: always), and the segment where it is a curve."""

    gate: Tensor | None = None
    curve: Segment | None = None


def as_bend(segment: Segment | None) -> Bend | None:
    """The curve that bytes are looked up in, where a segment is one."""
    if isinstance(segment, Curve):
        return bend_of("power", segment.exponent, None, segment.gain, clip=segment.clip)
    return bend_of(segment.name, segment.amount, segment.gate) if isinstance(segment, Tone) else None


def _indices(group: Group) -> tuple[int, ...]:
    return group.indices if isinstance(group, Run) else (group.index,)


def _steps(plan: Plan, segments: Segments) -> tuple[_Step, ...]:
    """What `Openings` needs of every step."""
    return tuple(_step(plan, segments, index) for index in range(len(plan.steps)))


def _step(plan: Plan, segments: Segments, index: int) -> _Step:
    spec = plan.segments[index]
    if spec is None or isinstance(spec, CallSpec):  # a choice, or a function, which sees the whole batch
        return _Step()
    gates = [gate for gate in (segments.opened(index), segments.drawn(index).get("gate")) if gate is not None]
    toned = isinstance(spec, CurveSpec) and spec.tabled
    return _Step(reduce(torch.mul, gates) if gates else None, segments(index) if toned else None)


def _one_size(plan: Plan) -> bool:
    """Whether every pass ends in one size, so that only the first may have read another."""
    sizes = {run.size_out for run in plan.groups if isinstance(run, Run)}
    return sizes <= {plan.size_out} and ((bool(plan.groups) and isinstance(plan.groups[0], Run)) or plan.size_in == plan.size_out)


def _shows_bytes(plan: Plan, run: Run) -> bool:
    """Whether what a run shows while its colours are closed are bytes as they were, or 0."""
    return run.interpolation == "nearest" and {getattr(plan.segments[i], "fill", 0.0) for i in run.warps} == {0.0}


def _copies(plan: Plan, group: Group) -> bool:
    """Whether a pass moves whole pixels and does nothing else."""
    return isinstance(group, Run) and not group.colors and not any(getattr(plan.segments[i], "resamples", True) for i in group.warps)


def _bounded(plan: Plan, group: Group) -> bool:
    """Whether a pass leaves what is in [0, 1] there."""
    if not isinstance(group, Run):
        segment = plan.segments[group.index]
        clip = getattr(plan.steps[group.index].transform, "clip", None)
        return clip in _CLIPS or (segment.bounded if isinstance(segment, CurveSpec) else isinstance(segment, CodecSpec))
    if group.colors:
        last = plan.segments[group.colors[-1]]
        return last.bounded if isinstance(last, CurveSpec) else getattr(last, "clip", None) in _CLIPS
    fills = {getattr(plan.segments[i], "fill", 0.0) for i in group.warps}
    return fills == {0.0} and group.interpolation in ("nearest", "bilinear")

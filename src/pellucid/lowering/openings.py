"""Which samples of a batch of bytes each pass changes.

Owns: `Openings`: for every pass the samples that it changes, and whether it is the first or the last to do so.
Must not: touch pixels, or look at values that a gradient goes to.
Read next: ``../execute.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from pellucid.lowering.lowered import Lowered
from pellucid.lowering.segments_of import opened
from pellucid.plan import Group, Plan, Run
from pellucid.segments import CallSpec, CodecSpec, CurveSpec, LayerSpec
from pellucid.tape import Rows

__all__ = ["Opening", "Openings"]

_CLIPS = ("end", "each", True)


class Opening(NamedTuple):
    """Samples for which a pass is the first that changes them or not, and the last or not."""

    group: Group
    rows: Int64[Tensor, "n"]
    first: bool
    last: bool


class Openings:
    """The passes of a plan, each with the samples in which some step of it is open.

    ``meets`` says whether two of them change one sample, ``resting`` names the samples that none changes, ``looks_up`` says
    whether some of them are curves.

    Args:
        plan: the passes.
        open_in: (passes, samples), whether a pass changes a sample.
    """

    def __init__(self, plan: Plan, open_in: Rows) -> None:
        self._plan, self._open_in = plan, open_in
        counts = open_in.cumsum(0)
        self._first, self._last = open_in & (counts == 1), open_in & (counts == counts[-1:])
        self.looks_up = any(isinstance(segment, CurveSpec) for segment in plan.segments)
        self.meets, self.resting = bool((counts[-1] > 1).any()), torch.from_numpy((counts[-1] == 0).nonzero()[0])

    @classmethod
    def of(cls, lowered: Lowered, image: Shaped[Tensor, "b c h w"]) -> Openings | None:
        """Which samples each pass changes; None unless these are bytes, nothing needs a gradient, and some pass skips a sample.

        A closed step is the identity, but that it may clip: bytes are in [0, 1], and what passes keep there is.
        """
        plan = lowered.plan
        if image.dtype != torch.uint8 or not lowered.taped or len(image) == 0 or not _one_size(plan):
            return None
        if any(isinstance(segment, LayerSpec) for segment in plan.segments):  # which join samples
            return None
        open_in = np.ones((len(plan.groups), len(image)), bool)
        for g, group in enumerate(plan.groups):
            gates = [_gate(lowered, index) for index in (group.indices if isinstance(group, Run) else (group.index,))]
            known = [gate for gate in gates if gate is not None and len(gate) == len(image)]
            if len(known) == len(gates) and (g > 0 or plan.size_in == plan.size_out):
                open_in[g] = np.any(known, 0)
            if not _bounded(plan, group):
                break
        return None if open_in.all() else cls(plan, open_in)

    def __iter__(self) -> Iterator[Opening]:
        """Pass by pass."""
        for g, group in enumerate(self._plan.groups):
            for first in (True, False):
                for last in (True, False):
                    of_kind = self._open_in[g] & (self._first[g] == first) & (self._last[g] == last)
                    if of_kind.any():
                        yield Opening(group, torch.from_numpy(of_kind.nonzero()[0]), first, last)


def _gate(lowered: Lowered, index: int) -> Rows | None:
    """Where a step is open; None: always."""
    params = lowered.params
    if isinstance(lowered.plan.segments[index], CallSpec):  # a function sees the whole batch
        return None
    gates = [opened(lowered.plan, params, index), params[index].get("gate")]
    known = [gate.numpy() != 0.0 for gate in gates if gate is not None]
    return np.all(known, 0) if known else None


def _one_size(plan: Plan) -> bool:
    """Whether every pass ends in one size, so that only the first may have read another."""
    sizes = {run.size_out for run in plan.groups if isinstance(run, Run)}
    return sizes <= {plan.size_out} and ((bool(plan.groups) and isinstance(plan.groups[0], Run)) or plan.size_in == plan.size_out)


def _bounded(plan: Plan, group: Group) -> bool:
    """Whether a pass leaves what is in [0, 1] there."""
    if not isinstance(group, Run):
        segment = plan.segments[group.index]
        clip = getattr(plan.steps[group.index].transform, "clip", None)
        return clip in _CLIPS or (segment.bounded if isinstance(segment, CurveSpec) else isinstance(segment, CodecSpec))
    if group.colors:
        return getattr(plan.segments[group.colors[-1]], "clip", None) in _CLIPS
    fills = {getattr(plan.segments[i], "fill", 0.0) for i in group.warps}
    return fills == {0.0} and group.interpolation in ("nearest", "bilinear")

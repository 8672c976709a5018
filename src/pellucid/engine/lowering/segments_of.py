"""Compute the segments of a plan's steps from drawn values, closed where a choice above them takes another branch.

Owns: the effect of choices on a step: they multiply its gate; a warp, or a segment without a gate, becomes the identity.
Must not: know which kinds of choices exist.
Read next: ``compose.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.engine.plan import Plan
from pellucid.segments import Color, Segment, Warp, Warp3, Warp3Spec, WarpSpec
from pellucid.transforms.base import Transform, gated, gated_matrix
from pellucid.transforms.choices import Choice, Gate
from pellucid.transforms.warping import Bending
from pellucid.types import ImageSpec

__all__ = ["Segments", "opened", "widened"]

Params = Sequence[Mapping[str, Tensor]] | Mapping[int, Mapping[str, Tensor]]
"""Drawn values by step, at least of the requested steps and of the choices above them."""

_WIDE = 1e6
"""A coordinate in pixels that no picture reaches, and that float32 still represents to a fraction of a pixel."""


class Segments:
    """Each step's segment, computed once.

    Args:
        plan: the steps.
        params: drawn values.
        device: of the drawn values.
        fields: whether warps get their displacement fields; if not, they get a field of four knots without displacement.
    """

    def __init__(self, plan: Plan, params: Params, device: torch.device, *, fields: bool = True) -> None:
        self.plan, self.device, self._params, self._fields = plan, device, params, fields
        self._known: dict[int, Segment] = {}
        self._open: dict[Gate, Tensor | None] = {}

    def __call__(self, index: int) -> Segment:
        """Return the segment of a step."""
        if index not in self._known:
            self._known[index] = self._lowered(index)
        return self._known[index]

    def opened(self, index: int) -> Float[Tensor, "b"] | None:
        """Return the gate that the choices above a step give it; None if no choice can close it."""
        return opened(self.plan, self._params, index)

    def drawn(self, index: int) -> Mapping[str, Tensor]:
        """Return a step's own drawn values."""
        return self._params[index]

    def _lowered(self, index: int) -> Segment:
        transform, spec, values = self.plan.steps[index].transform, self.plan.specs[index], self._params[index]
        like = torch.zeros((), dtype=wide_dtype(self.device), device=self.device)
        if not self._fields and isinstance(transform, Bending):
            return transform.without_field(like)
        if "spacing" in values:
            values = {**values, "spacing": self._spacing(index, values["spacing"])}
        gate = self.opened(index)
        if gate is None:
            return transform.lower(values, spec, like)
        if takes_gate(transform, spec):
            values = {**values, "gate": values["gate"] * gate if "gate" in values else gate}
            return transform.lower(values, spec, like)
        return _resting(transform.lower(values, spec, like), gate)

    def _spacing(self, index: int, spacing: Float[Tensor, "b 3"]) -> Float[Tensor, "b 3"]:
        """Return the distance of voxels at a step, given that of the input: maps before the step may have changed it."""
        before = [self(i) for i in range(index) if isinstance(self.plan.segments[i], Warp3Spec)]
        if not before:
            return spacing
        linear = reduce(torch.matmul, (segment.src_from_dst[:, :3, :3] for segment in before if isinstance(segment, Warp3)))
        return torch.linalg.vector_norm(spacing[:, :, None] * linear, dim=1)


def opened(plan: Plan, params: Params, index: int) -> Float[Tensor, "b"] | None:
    """Return the gate that the choices above a step give it; None if no choice can close it."""
    found = []
    for at, turn, branch in plan.steps[index].gates:
        choice = plan.steps[at].transform
        assert isinstance(choice, Choice)
        share = choice.opened(params[at], turn, branch)
        if share is not None:
            found.append(share)
    return reduce(torch.mul, found) if found else None


def takes_gate(transform: Transform, spec: ImageSpec) -> bool:
    """Return whether a transform's own gate can close it. Not for warps: with a closed gate, a warp may still resize."""
    return "gate" in transform.gradients and not isinstance(transform.segment(spec), WarpSpec | Warp3Spec)


def _resting(segment: Segment, gate: Float[Tensor, "b"]) -> Segment:
    """Return the segment for samples whose gate is open, and the identity for the others."""
    values = {"gate": gate}
    if isinstance(segment, Warp):
        window = None if segment.window is None else widened(segment.window, gate)
        bend = None if segment.bend is None else segment.bend._replace(control=gated(values, segment.bend.control, 0.0))
        return Warp(gated_matrix(values, segment.src_from_dst), window, bend)
    if isinstance(segment, Warp3):
        control = None if segment.control is None else gated(values, segment.control, 0.0)
        return Warp3(gated_matrix(values, segment.src_from_dst), control)
    assert isinstance(segment, Color)
    offset, pivot, hue = (
        None if part is None else gated(values, part, 0.0) for part in (segment.offset, segment.pivot, segment.hue_shift)
    )
    post = None if segment.post is None else gated_matrix(values, segment.post)
    return Color(gated_matrix(values, segment.matrix), offset, pivot, hue, post, segment.plain_pivot)


def widened(window: Float[Tensor, "b_or_1 4"], gate: Float[Tensor, "b"] | None) -> Float[Tensor, "b_or_1 4"]:
    """Return the rectangle for samples whose gate is open, and for the others one so large that it bounds nothing."""
    if gate is None:
        return window
    ends = torch.eye(4, dtype=window.dtype, device=window.device)
    return gated({"gate": gate}, window, _WIDE * (ends[2] + ends[3] - ends[0] - ends[1]))

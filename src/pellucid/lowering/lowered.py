"""A plan with its values, lowered as far as somebody asks.

Owns: the choice between tensor code and tape, and not doing anything twice.
Must not: differ: a tape computes what it recorded.
Read next: ``../execute.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from pellucid.compilers import numba_works
from pellucid.constants import wide_dtype
from pellucid.kernels.warp.packing import Resample, pack
from pellucid.lowering.compose import Composed, Geometry, SegmentOf, compose, geometry, unmoved
from pellucid.lowering.replayed import Replayed
from pellucid.lowering.slopes import play_along
from pellucid.lowering.tapes import Params, RunTape, WordsTape
from pellucid.plan import Plan, Run
from pellucid.segments import Segment
from pellucid.tape import Rows, cached_recording, is_plain_eager, plain

__all__ = ["Lowered"]


class Lowered:
    """One call's values on their way to the passes; made for one call.

    Args:
        plan: what is fused with what.
        params: the drawn values, on ``device``.
        device: of the images and everything else.

    Where nothing asks for a gradient, nothing traces and the values are on the CPU, runs are composed by playing a tape.
    """

    def __init__(self, plan: Plan, params: Params, device: torch.device) -> None:
        self.plan, self.params, self.device = plan, params, device
        self._segments: dict[int, Segment] = {}
        self._geometry: dict[int, Geometry] = {}
        self._taped = (
            device.type == "cpu"
            and is_plain_eager()
            and (isinstance(params, Replayed) or plain(value for values in params for value in values.values()))
            and numba_works()
        )

    def segment(self, index: int) -> Segment:
        """A transform's segment."""
        if index not in self._segments:
            self._segments[index] = self._segments_of(self.params)(index)
        return self._segments[index]

    def geometry(self, run: Run) -> Geometry:
        """The run's maps, and the rectangles that sampling may not leave."""
        first = run.indices[0]
        if first not in self._geometry:
            found = self._play(run, "geometry", lambda segment_of, _: geometry(run, segment_of, self.device), None, torch.float64)
            self._geometry[first] = geometry(run, self.segment, self.device) if found is None else found
        return self._geometry[first]

    def composed(self, run: Run, mean: Tensor | None, scale: float, dtype: torch.dtype) -> Composed:
        """Everything the run's pass needs beside the image, of this dtype."""

        def function(segment_of: SegmentOf, mean: Tensor | None) -> Composed:
            return compose(self.plan, run, segment_of, mean, scale, self.device)

        found: Composed | None = self._play(run, ("composed", scale), function, mean, dtype)
        return function(self.segment, mean).to(dtype) if found is None else found

    def resample(self, run: Run, mean: Tensor | None, scale: float, dtype: torch.dtype) -> Resample | None:
        """The run's pass as one value, its numbers of this dtype; None where canvases lie between its warps."""

        def function(segment_of: SegmentOf, mean: Tensor | None) -> Resample:
            composed = compose(self.plan, run, segment_of, mean, scale, self.device)
            src_from_dst = composed.src_from_dst
            if src_from_dst is None:
                src_from_dst = unmoved(wide_dtype(self.device), self.device)
            return pack(
                src_from_dst if run.projective else src_from_dst[:, :2],
                size=run.size_out,
                interpolation=run.interpolation,
                padding_mode=run.padding_mode,
                fill=composed.fill,
                matrix=composed.matrix,
                offset=composed.offset,
                window=composed.window,
                footprint=None if run.separable else run.footprint,
                antialias=run.footprint is not None or not run.separable,
                prologue=composed.prologue,
                epilogue=composed.epilogue,
            )

        if run.canvases:
            return None
        still = None if mean is None else mean.detach()
        if self._playable(still):
            tape, rows = self._tape(run, ("resample", scale), function, still)
            found: Resample | None = None
            if rows is not None and mean is not None and torch.is_grad_enabled() and mean.requires_grad:
                found = play_along(tape.recording, rows, mean, dtype)
            elif rows is not None:
                found = tape.recording.play(rows, dtype)
            if found is not None:
                return found
        return function(self.segment, mean).to(dtype)

    def _segments_of(self, params: Params | Mapping[int, Mapping[str, Tensor]]) -> SegmentOf:
        like = torch.zeros((), dtype=wide_dtype(self.device), device=self.device)
        return lambda index: self.plan.transforms[index].lower(params[index], self.plan.specs[index], like)

    def _playable(self, mean: Tensor | None) -> bool:
        return self._taped and (mean is None or plain([mean]))

    def _play(self, run: Run, key: Any, function: Callable[..., Any], mean: Tensor | None, dtype: torch.dtype) -> Any:
        """Play the run's tape of a function of (segments, mean colour); None if it may not be."""
        if not self._playable(mean):
            return None
        tape, rows = self._tape(run, key, function, mean)
        return None if rows is None else tape.recording.play(rows, dtype)

    def _tape(self, run: Run, key: Any, function: Callable[..., Any], mean: Tensor | None) -> tuple[Any, Rows | None]:
        """The run's tape of a function of (segments, mean colour), recorded if need be, and its inputs; None if there is none."""
        channels = 0 if mean is None else mean.shape[1]
        params = self.params
        if isinstance(params, Replayed) and (mean is None or mean.shape[0] == params.words.shape[0]):

            def from_words() -> WordsTape:
                return WordsTape(lambda values, m: function(_once(self._segments_of(values)), m), params, channels)

            words = cached_recording(self.plan, (run.indices[0], key, "words"), from_words)
            return words, None if words is None else words.rows(params, mean)

        def make() -> RunTape:
            indices = run.warps if key == "geometry" else run.indices
            return RunTape(lambda values, m: function(_once(self._segments_of(values)), m), self.params, indices, channels)

        tape = cached_recording(self.plan, (run.indices[0], key), make)
        return tape, None if tape is None else tape.rows(self.params, mean)


def _once(segment_of: SegmentOf) -> SegmentOf:
    known: dict[int, Segment] = {}

    def segment(index: int) -> Segment:
        if index not in known:
            known[index] = segment_of(index)
        return known[index]

    return segment

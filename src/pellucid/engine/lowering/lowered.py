"""A plan together with one call's drawn values, lowered on demand.

Owns: the choice between tensor code and tape, and the cache of one call's segments and maps.
Must not: give other results with tapes than with tensor code.
Read next: ``../execution.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.constants import wide_dtype
from pellucid.core.tape import Recording, Rows, TapeError, cached_recording, is_plain_eager, plain
from pellucid.engine.lowering.compose import Geometry, compose, frame, geometry, unmoved
from pellucid.engine.lowering.replayed import Replayed, joined
from pellucid.engine.lowering.segments_of import Segments
from pellucid.engine.lowering.slopes import play_along
from pellucid.engine.lowering.tapes import Lowering, Params, RunTape, WordsTape
from pellucid.engine.plan import Plan, Plans, Run, Space, make_plan
from pellucid.kernels.volume import Block
from pellucid.kernels.warp.layout import BENDS
from pellucid.kernels.warp.packing import Opened, Resample, pack
from pellucid.segments import BlendSpec, CurveSpec, Segment, Warp, Warp3, Warp3Spec
from pellucid.transforms.base import Transform
from pellucid.transforms.warping import Bending
from pellucid.types import ImageSpec, Size3

__all__ = ["Cutout", "Lowered"]

_Function: TypeAlias = Callable[[Plan, Run, Segments, Tensor | None], Any]
"""(plan, run, its segments, mean colour) -> a named tuple of tensors."""
_OfPlan: TypeAlias = Callable[[Plan, Segments], Any]
"""(plan, its segments) -> tensors, in any nesting of tuples."""

_MOST_RECORDED = 8192
"""If passes times steps exceed this number, passes are not recorded: each tape would contain all steps."""


class Cutout(NamedTuple):
    """The pixels that a layer pastes.

    Args:
        opacity: of the pasted picture, for samples whose layer is open.
        hard: the pixels that count as covered, for labels.
    """

    opacity: Float[Tensor, "b h w"]
    hard: Bool[Tensor, "b h w"]


class Lowered:
    """One call's drawn values, lowered to segments, maps and resamples when a pass asks for them.

    Args:
        plan: of the call.
        params: the drawn values, on ``device``.
        device: of the images and everything else.
        slopes: the width in pixels of the blur for gradients to maps, a row for each sample or one for all.
        frames: the number of frames of each sample.
        taped: whether tapes may be used: no gradient, no tracing, and values may be read; None finds out.
        parts: for a list of pictures, a `Lowered` for the samples of each size, and their places in the list. If no tape computes a
            result for all of them at once, the parts' results are joined; TapeError if they do not fit together.

    Without gradients and tracing, and with values on the CPU, runs are composed by playing a tape. A displacement field, which has
    too many numbers for a tape, is inserted afterwards. ``cutouts`` holds, by step, what pasting layers paste; the code for masks
    fills it in before pictures are pasted. ``blocks`` holds, by pass, the part of a volume to compute, if not all.
    """

    def __init__(
        self,
        plan: Plan,
        params: Params,
        device: torch.device,
        slopes: Tensor | None = None,
        frames: int = 1,
        taped: bool | None = None,
        parts: Sequence[tuple[Lowered, tuple[int, ...]]] = (),
    ) -> None:
        self.plan, self.params, self.device, self.slopes, self.frames = plan, params, device, slopes, frames
        self._parts = parts
        self._sizes = _sizes(parts) if parts else None
        self.cutouts: dict[int, Cutout] = {}
        self.blocks: dict[Space, Block] | None = None
        self._segments = Segments(plan, params, device)
        self._singles: dict[int, Segment] = {}
        self._geometry: dict[tuple[tuple[int, ...], torch.dtype | None], Geometry] = {}
        self.taped = (
            taped
            if taped is not None
            else (
                device.type == "cpu"
                and plan.kind is not None
                and not plan.volumes  # computing their voxels takes much longer than lowering
                and is_plain_eager()
                and (isinstance(params, Replayed) or plain(value for values in params for value in values.values()))
                and numba_works()
            )
        )

    def of(self, rows: Int64[Tensor, "n"]) -> Lowered:
        """Return this call restricted to some of its samples."""
        params = self.params
        some: Params = params.of(rows) if isinstance(params, Replayed) else _Some(params, rows)
        slopes = self.slopes if self.slopes is None or len(self.slopes) == 1 else self.slopes[rows]
        parts = _some_parts(self._parts, rows) if self._parts else ()
        return Lowered(self.plan, some, self.device, slopes, self.frames, taped=self.taped, parts=parts)

    def plan_beside(self, place: Any, transforms: tuple[Transform, ...], spec: ImageSpec) -> Plan:
        """Return the plan of a chain of transforms inside of a step, made once for images of one kind."""
        options: dict[str, Any] = {"fuse": self.plan.fuse, "canvas": self.plan.canvas, "same_on_batch": False}
        if self.plan.kind is None:
            return make_plan(transforms, spec, **options)
        plans = cached_recording(self.plan.kind, place, lambda: Plans(transforms, **options))
        assert plans is not None
        return plans.of(spec)

    def segment(self, index: int) -> Segment:
        """Return a step's segment."""
        return self._segments(index)

    def single(self, index: int) -> Segment:
        """Return the segment of a step that is a pass of its own, from its tape if it has one."""
        if index not in self._singles:
            taped = self._plain(index) and self.taped and isinstance(self.params, Replayed) and not self._parts
            self._singles[index] = self.of_all(("segment", index), partial(_segment, index)) if taped else self._segments(index)
        return self._singles[index]

    def _plain(self, index: int) -> bool:
        """Return whether a segment is a few numbers; others hold functions, chains, or kernels whose bits a tape would change."""
        return isinstance(self.plan.segments[index], BlendSpec | CurveSpec)

    def replayed(self, index: int) -> Callable[[Replayed], Segment]:
        """Return a function from any draw for pictures of this size to the segment of `single`."""
        tape = self._tape_alone(index)
        if tape is None:
            return lambda drawn: Lowered(self.plan, drawn, self.device).single(index)
        return lambda drawn: tape.recording.play(drawn.rows)

    def pinned(self, index: int, rows: Rows, dtype: torch.dtype) -> tuple[Any, Callable[[Rows], list[Rows]]] | None:
        """Return the segment and its function of rows of words, as :meth:`Recording.pinned` does; None without a tape."""
        tape = self._tape_alone(index)
        return None if tape is None else tape.recording.pinned(rows, dtype)

    def _tape_alone(self, index: int) -> WordsTape | None:
        if not self._plain(index):
            return None
        lowering = partial(_of_plan, partial(_segment, index), self.device)
        tape, _ = self._tape((None, ("segment", index)), range(len(self.plan.steps)), lowering, None)
        return tape if isinstance(tape, WordsTape) else None

    def opened_by_choices(self, index: int) -> Float[Tensor, "b"] | None:
        """Return the gate that the choices above a step give it; None if no choice can close it."""
        return self._segments.opened(index)

    def geometry(self, run: Run, nearest: torch.dtype | None = None) -> Geometry:
        """Return the run's maps, and the rectangles that bound sampling; ``nearest`` as in :func:`geometry`."""
        nearest = nearest if run.moved else None
        at = run.indices, nearest
        if at not in self._geometry:
            function = partial(_geometry, nearest, self.device)
            self._geometry[at] = self._lower(run, ("geometry", nearest), function, None, torch.float64)
        return self._geometry[at]

    def space(self, run: Space) -> list[tuple[Warp3, Size3]]:
        """Return the maps of a pass over volumes: their product up to the field, with the field and the size after it; then, as a
        second entry, the product of the windows after the field.
        """
        segments = [segment for segment in map(self.segment, run.indices) if isinstance(segment, Warp3)]
        bent = next((n for n, segment in enumerate(segments, 1) if segment.control is not None), len(segments))
        found = []
        for first, last in ((0, bent), (bent, len(segments))):
            if first < last:
                total = reduce(torch.matmul, (segment.src_from_dst for segment in segments[first:last]))
                spec = self.plan.segments[run.indices[last - 1]]
                assert isinstance(spec, Warp3Spec)
                found.append((Warp3(total, segments[last - 1].control), spec.size))
        return found

    def frame(self, run: Run) -> Int64[Tensor, "b_or_1 4"]:
        """Return the pixels of its source that the run's first crops keep, as :func:`frame` does."""
        found: Tensor = self._lower(run, ("frame",), partial(_frame, self.device), None, torch.float64)
        return found

    def framed(self, run: Run) -> Callable[[Rows], Tensor] | None:
        """Return a function from the words of any draw for pictures of this size to the result of `frame`; None without a tape."""
        recorded = partial(_of_run, partial(_frame, self.device), run.indices, self.device)
        tape, rows = self._tape((run.indices, ("frame",)), run.warps, recorded, None)
        if not isinstance(tape, WordsTape) or rows is None:
            return None
        _, play = tape.recording.pinned(rows, torch.float64)
        return lambda rows: torch.from_numpy(play(rows)[0])

    def resample(self, run: Run, mean: Tensor | None, scale: float, dtype: torch.dtype) -> Resample:
        """Return the run's pass as one value, with numbers of this dtype."""
        nearest = dtype if run.moved and run.interpolation == "nearest" else None
        function = partial(_resample, scale, nearest, self.device)
        made: Resample = self._lower(run, ("resample", scale, nearest), function, mean, dtype, follow=True)
        return made._replace(slopes=self.slopes)

    def opened(self, run: Run, channels: int, scale: float, dtype: torch.dtype) -> Opened | None:
        """Return the run's pass before the mean is known; None without a tape, and if the pass has a prologue or an epilogue."""
        tape = self.opening(run, channels, scale)
        found: Opened | None = None if tape is None else self._played(tape, torch.float64, Recording.play)
        if found is None or found.resample.prologue or found.resample.epilogue:
            return None
        numbers = found.resample.params
        return found._replace(resample=found.resample.to(dtype)._replace(params=numbers, slopes=self.slopes))

    def opening(self, run: Run, channels: int, scale: float) -> tuple[Any, Rows | None] | None:
        """Return the tape of that, in float64, and its inputs; None if there is none."""
        if not self.taped or run.bends:
            return None
        recorded = partial(_of_run, partial(_opened, scale, channels, self.device), run.indices, self.device)
        return self._tape((run.indices, ("opened", scale, channels)), run.indices, recorded, None)

    def recorded(self, run: Run, mean: Tensor | None, scale: float, dtype: torch.dtype) -> tuple[Any, Rows | None]:
        """Return the tape of a run's pass, and its inputs for this draw; None if there is no tape."""
        nearest = dtype if run.moved and run.interpolation == "nearest" else None
        recorded = partial(_of_run, partial(_resample, scale, nearest, self.device), run.indices, self.device)
        return self._tape((run.indices, ("resample", scale, nearest)), run.indices, recorded, mean)

    def _lower(
        self, run: Run, key: Any, function: _Function, mean: Tensor | None, dtype: torch.dtype, *, follow: bool = False
    ) -> Any:
        """Return the function's result, from its tape or else computed; with ``follow``, a gradient flows to the mean."""
        followed = mean if follow and mean is not None and torch.is_grad_enabled() and mean.requires_grad else None
        still = mean if followed is None else followed.detach()
        bent = next((canvas.at for canvas in run.canvases if canvas.bends), None)
        fieldless = key[0] == "resample" and isinstance(self.plan.steps[bent or 0].transform, Bending)
        if self.taped and (bent is None or fieldless) and (still is None or plain([still])):
            indices = run.indices if key[0] == "resample" else run.warps
            tape = self._tape((run.indices, key), indices, partial(_of_run, function, run.indices, self.device), still)
            played = self._played(tape, dtype, Recording.play if followed is None else partial(play_along, mean=followed))
            if played is not None:
                return played if bent is None else _put_in(played, self._segments(bent), dtype)
        if self._parts:
            means = [None if mean is None else mean[list(where)] for _, where in self._parts]
            each = [
                part._lower(part.plan.run_of(run.indices), key, function, own, dtype, follow=follow)
                for (part, _), own in zip(self._parts, means, strict=True)
            ]
            return joined(each, [where for _, where in self._parts])
        return function(self.plan, run, self._segments, mean).to(dtype)

    def of_all(self, key: Any, function: _OfPlan) -> Any:
        """Return the result of a function of all steps, in float64, from its tape or else computed."""
        if self.taped:
            tape = self._tape((None, key), range(len(self.plan.steps)), partial(_of_plan, function, self.device), None)
            played = self._played(tape, torch.float64, Recording.play)
            if played is not None:
                return played
        if self._parts:
            return joined([part.of_all(key, function) for part, _ in self._parts], [where for _, where in self._parts])
        return function(self.plan, self._segments)

    def _played(self, tape: tuple[Any, Rows | None], dtype: torch.dtype, play: Callable[..., Any]) -> Any:
        """Play a tape with its inputs; None without a tape for this draw or this size."""
        recorded, rows = tape
        if recorded is None or rows is None or not len(rows):
            return None
        with suppress(TapeError):
            return play(recorded.recording, rows, dtype=dtype, mixed=self._sizes is not None)
        return None

    def _tape(self, key: Any, indices: Sequence[int], lowering: Lowering, mean: Tensor | None) -> tuple[Any, Rows | None]:
        """Return the tape of a lowering of some steps' values, recorded if it is new, and its inputs; None if it has no tape."""
        each = key[0] is not None or key[1][0] == "segment"  # the plan has such a tape for each pass, not just one
        if each and len(self.plan.groups) * len(self.plan.steps) > _MOST_RECORDED:
            return None, None
        channels = 0 if mean is None else mean.shape[1]
        plan, params, size = self.plan, self.params, self.plan.size_in if self._sizes is None else self._sizes
        if isinstance(params, Replayed) and (mean is None or mean.shape[0] == params.rows.shape[0]):
            words = cached_recording(plan.owner, (*key, "words"), lambda: WordsTape(lowering, plan, params, channels))
            return words, None if words is None else words.rows(params, size, mean)
        tape = cached_recording(plan.owner, key, lambda: RunTape(lowering, plan, params, indices, channels))
        return tape, None if tape is None else tape.rows(params, size, mean)


def _sizes(parts: Sequence[tuple[Lowered, tuple[int, ...]]]) -> Rows:
    """Return the height and width of every sample."""
    sizes = np.empty((sum(len(where) for _, where in parts), 2))
    for part, where in parts:
        sizes[list(where)] = part.plan.size_in
    return sizes


def _some_parts(parts: Sequence[tuple[Lowered, tuple[int, ...]]], rows: Tensor) -> list[tuple[Lowered, tuple[int, ...]]]:
    """Restrict each part of a list to the given samples; parts without any are left out."""
    found, ranks = [], {place: rank for rank, place in enumerate(rows.tolist())}
    for part, where in parts:
        kept = [k for k, place in enumerate(where) if place in ranks]
        if kept:
            own = part if len(kept) == len(where) else part.of(torch.tensor(kept, device=rows.device))
            found.append((own, tuple(ranks[where[k]] for k in kept)))
    return found


class _Some(Sequence[Mapping[str, Tensor]]):
    """The drawn values of some samples, selected for each step on first access."""

    def __init__(self, params: Params, rows: Int64[Tensor, "n"]) -> None:
        self._params, self._rows = params, rows
        self._known: dict[int, dict[str, Tensor]] = {}

    def __len__(self) -> int:
        return len(self._params)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if at not in self._known:
            self._known[at] = {name: value[self._rows] for name, value in self._params[at].items()}
        return self._known[at]


def _geometry(
    nearest: torch.dtype | None, device: torch.device, plan: Plan, run: Run, segment_of: Segments, mean: Tensor | None
) -> Geometry:
    del plan, mean
    return geometry(run, segment_of, device, nearest)


def _segment(index: int, plan: Plan, segment_of: Segments) -> Segment:
    del plan
    return segment_of(index)


def _frame(device: torch.device, plan: Plan, run: Run, segment_of: Segments, mean: Tensor | None) -> Int64[Tensor, "b_or_1 4"]:
    del mean
    return frame(run, plan.size_after(run.framing[-1]), segment_of, device)


def _resample(
    scale: float, nearest: torch.dtype | None, device: torch.device, plan: Plan, run: Run, segment_of: Segments, mean: Tensor | None
) -> Resample:
    composed = compose(plan, run, segment_of, mean, scale, device, nearest)
    src_from_dst = composed.src_from_dst
    if src_from_dst is None:
        src_from_dst = unmoved(wide_dtype(device), device)
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
        links=composed.links,
        prologue=composed.prologue,
        epilogue=composed.epilogue,
    )


def _opened(
    scale: float, channels: int, device: torch.device, plan: Plan, run: Run, segment_of: Segments, mean: Tensor | None
) -> Opened:
    """Return a pass before its mean is known.

    Its colours are affine in the mean, since contrast's pivot is the mean under the colour maps before it. So the derivative to a
    channel is the colours at a mean of one unit in it, less those at a mean of zero.
    """
    del mean
    units = torch.eye(channels, dtype=torch.float64, device=device)
    first, *others = (_resample(scale, None, device, plan, run, segment_of, unit[None]) for unit in (units[0] * 0.0, *units))
    return Opened(first, torch.stack([other.params - first.params for other in others], 2))


def _of_run(
    function: _Function,
    indices: tuple[int, ...],
    device: torch.device,
    plan: Plan,
    values: Mapping[int, Mapping[str, Tensor]],
    mean: Tensor | None,
) -> Any:
    """Apply a function to a plan's run while it is recorded; it holds nothing of the call that started the recording."""
    return function(plan, plan.run_of(indices), Segments(plan, values, device, fields=False), mean)


def _put_in(resample: Resample, segment: Segment, dtype: torch.dtype) -> Resample:
    """Insert the field into a resample that was recorded without it."""
    assert isinstance(segment, Warp)
    assert segment.bend is not None
    assert resample.links is not None
    bend, links = segment.bend, resample.links
    # In NumPy, for the reason that `symmetric_field` gives.
    control = torch.from_numpy(bend.control.numpy().astype(np.float32 if dtype == torch.float32 else np.float64))
    at = next(k for k, kind in enumerate(resample.recipe.canvases) if kind in BENDS)
    rows = max(len(links), len(bend.grid))
    own = torch.cat((links[:, at, :-4].expand(rows, -1), bend.grid.to(dtype).expand(rows, -1)), 1)
    parts = (links[:, :at].expand(rows, -1, -1), own[:, None], links[:, at + 1 :].expand(rows, -1, -1))
    return resample._replace(links=torch.cat(parts, 1), table=control)


def _of_plan(
    function: _OfPlan, device: torch.device, plan: Plan, values: Mapping[int, Mapping[str, Tensor]], mean: Tensor | None
) -> Any:
    """Apply a function to all steps of a plan while it is recorded."""
    del mean
    return function(plan, Segments(plan, values, device))

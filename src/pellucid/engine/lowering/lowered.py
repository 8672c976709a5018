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
from pellucid.core.tape import NumbersOf, Recording, Rows, TapeError, cached_recording, is_plain_eager, plain
from pellucid.engine.lowering.compose import Geometry, compose, frame, geometry, unmoved
from pellucid.engine.lowering.replayed import Replayed, joined
from pellucid.engine.lowering.segments_of import Segments
from pellucid.engine.lowering.slopes import play_along
from pellucid.engine.lowering.tapes import Params, RunTape, WordsTape
from pellucid.engine.plan import Group, Plan, Plans, Run, Space, make_plan
from pellucid.kernels.volume import Block
from pellucid.kernels.warp.layout import BENDS
from pellucid.kernels.warp.packing import Opened, Resample, pack
from pellucid.segments import BlendSpec, ConvolveSpec, CurveSpec, Segment, Warp, Warp3, Warp3Spec
from pellucid.transforms.base import Transform
from pellucid.transforms.warping import Bending
from pellucid.types import ImageSpec, Size3

__all__ = ["Cutout", "Lowered"]

_OfRun: TypeAlias = Callable[..., Any]
"""(segments, run, *options, and the mean colour if there is one) -> a tensor, or a named tuple of tensors."""
_OfPlan: TypeAlias = Callable[..., Any]
"""(segments, *options) -> tensors, in any nesting of tuples."""

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


class Taped(NamedTuple):
    """A recording, and its inputs for one draw."""

    recording: Recording
    rows: Rows

    def pinned(self, dtype: torch.dtype) -> tuple[Any, NumbersOf]:
        """Return the result's form, and its numbers as functions of such rows, as :meth:`Recording.pinned` does."""
        return self.recording.pinned(self.rows, dtype)


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
        prepared: (pass, this, pictures, scale, dtype) -> the pass's result if it is prepared for such pictures, or None.

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
        prepared: Callable[[Group, Lowered, Any, float, torch.dtype], Tensor | None] | None = None,
    ) -> None:
        self.prepared = prepared
        self.plan, self.params, self.device, self.slopes, self.frames = plan, params, device, slopes, frames
        self._parts = parts
        self._sizes = _sizes(parts) if parts else None
        self.cutouts: dict[int, Cutout] = {}
        self.blocks: dict[Space, Block] | None = None
        self._segments = Segments(plan, params, device)
        self._singles: dict[tuple[int, bool], Segment] = {}
        self._geometry: dict[tuple[tuple[int, ...], torch.dtype | None], Geometry] = {}
        self.taped = _may_be_taped(plan, params, device) if taped is None else taped

    def of(self, rows: Int64[Tensor, "n"]) -> Lowered:
        """Return this call restricted to some of its samples."""
        params = self.params
        some: Params = params.of(rows) if isinstance(params, Replayed) else _Some(params, rows)
        slopes = self.slopes if self.slopes is None or len(self.slopes) == 1 else self.slopes[rows]
        parts = _some_parts(self._parts, rows) if self._parts else ()
        return Lowered(self.plan, some, self.device, slopes, self.frames, self.taped, parts, self.prepared)

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

    def single(self, index: int, dtype: torch.dtype) -> Segment:
        """Return the segment of a step that is a pass of its own over pictures of this dtype, from its tape if it has one."""
        plain = self._plain(index, dtype)
        if (index, plain) not in self._singles:
            taped = plain and self.taped and isinstance(self.params, Replayed) and not self._parts
            self._singles[index, plain] = self.of_all(Segments.__call__, index) if taped else self._segments(index)
        return self._singles[index, plain]

    def _plain(self, index: int, dtype: torch.dtype) -> bool:
        """Return whether a segment is a few numbers; others hold functions, chains, or large kernels. Not for float64: a tape may
        change the last bit of an exponential, which pictures of float64 show.
        """
        spec = self.plan.segments[index]
        few = isinstance(spec, BlendSpec | CurveSpec) or (isinstance(spec, ConvolveSpec) and spec.how == "separable")
        return few and dtype != torch.float64

    def replayed(self, index: int, dtype: torch.dtype) -> Callable[[Replayed], Segment]:
        """Return a function from any draw for pictures of this size to the segment of `single`."""
        tape = self.recorded_single(index, dtype)
        if tape is None:
            return lambda drawn: Lowered(self.plan, drawn, self.device).single(index, dtype)
        return lambda drawn: tape.recording.play(drawn.rows)

    def recorded_single(self, index: int, dtype: torch.dtype) -> Taped | None:
        """Return the tape of the segment of `single`; None if there is none."""
        return self._tape(Segments.__call__, (index,)) if self._plain(index, dtype) else None

    def opened_by_choices(self, index: int) -> Float[Tensor, "b"] | None:
        """Return the gate that the choices above a step give it; None if no choice can close it."""
        return self._segments.opened(index)

    def geometry(self, run: Run, nearest: torch.dtype | None = None) -> Geometry:
        """Return the run's maps, and the rectangles that bound sampling; ``nearest`` as in :func:`geometry`."""
        nearest = nearest if run.moved else None
        at = run.indices, nearest
        if at not in self._geometry:
            self._geometry[at] = self._lower(geometry, run, (nearest,))
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
        found: Tensor = self._lower(frame, run)
        return found

    def framed(self, run: Run) -> Callable[[Rows], Tensor] | None:
        """Return a function from the words of any draw for pictures of this size to the result of `frame`; None without a tape."""
        tape = self._tape(frame, (), run)
        if tape is None:
            return None
        form, numbers_of = tape.pinned(torch.float64)
        numbers = numbers_of([form])
        return lambda rows: torch.from_numpy(numbers(rows)[0])

    def resample(self, run: Run, mean: Tensor | None, scale: float, dtype: torch.dtype) -> Resample:
        """Return the run's pass as one value, with numbers of this dtype."""
        made: Resample = self._lower(_resample, run, (scale, _rounded_in(run, dtype)), mean, dtype)
        return made._replace(slopes=self.slopes)

    def recorded(self, run: Run, mean: Tensor | None, scale: float, dtype: torch.dtype) -> Taped | None:
        """Return the tape of a run's pass; None if there is none."""
        return self._tape(_resample, (scale, _rounded_in(run, dtype)), run, mean)

    def opened(self, run: Run, channels: int, scale: float, dtype: torch.dtype) -> Opened | None:
        """Return the run's pass before the mean is known; None without a tape, and if the pass has a prologue or an epilogue."""
        found: Opened | None = self._played(self.recorded_opened(run, channels, scale), torch.float64)
        if found is None or found.resample.prologue or found.resample.epilogue:
            return None
        numbers = found.resample.params
        return found._replace(resample=found.resample.to(dtype)._replace(params=numbers, slopes=self.slopes))

    def recorded_opened(self, run: Run, channels: int, scale: float) -> Taped | None:
        """Return the tape of that, in float64; None if there is none."""
        return self._tape(_opened, (scale, channels), run) if self.taped and not run.bends else None

    def of_all(self, function: _OfPlan, *options: Any) -> Any:
        """Return the result of a function of all steps, in float64: from its tape, joined from a list's parts, or else computed."""
        played = self._played(self._tape(function, options), torch.float64) if self.taped else None
        if played is not None:
            return played
        if self._parts:
            return joined([part.of_all(function, *options) for part, _ in self._parts], [where for _, where in self._parts])
        return function(self._segments, *options)

    def _lower(
        self,
        function: _OfRun,
        run: Run,
        options: tuple[Any, ...] = (),
        mean: Tensor | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> Any:
        """Return the result of a function of a run: from its tape, joined from a list's parts, or else computed."""
        played = self._from_tape(function, run, options, mean, dtype) if self.taped else None
        if played is not None:
            return played
        if self._parts:
            means = [None if mean is None else mean[list(where)] for _, where in self._parts]
            each = [
                part._lower(function, part.plan.run_of(run.indices), options, own, dtype)
                for (part, _), own in zip(self._parts, means, strict=True)
            ]
            return joined(each, [where for _, where in self._parts])
        return function(self._segments, run, *options, *(() if mean is None else (mean,))).to(dtype)

    def _from_tape(self, function: _OfRun, run: Run, options: tuple[Any, ...], mean: Tensor | None, dtype: torch.dtype) -> Any:
        """Play the tape of a function of a run; None without a tape for this draw. A pass gets what tapes cannot hold afterwards:
        the gradient to its mean, and the numbers of its field, which are too many.
        """
        passes, bent = function is _resample, next((canvas.at for canvas in run.canvases if canvas.bends), None)
        if bent is not None and not (passes and isinstance(self.plan.steps[bent].transform, Bending)):
            return None
        followed = mean if passes and mean is not None and torch.is_grad_enabled() and mean.requires_grad else None
        still = mean if followed is None else followed.detach()
        if still is not None and not plain([still]):
            return None
        play = Recording.play if followed is None else partial(play_along, mean=followed)
        played = self._played(self._tape(function, options, run, still), dtype, play)
        return played if played is None or bent is None else _put_in(played, self._segments(bent), dtype)

    def _played(self, tape: Taped | None, dtype: torch.dtype, play: Callable[..., Any] = Recording.play) -> Any:
        """Play a tape; None without a tape for this draw or this size."""
        if tape is not None:
            with suppress(TapeError):
                return play(*tape, dtype=dtype, mixed=self._sizes is not None)
        return None

    def _tape(
        self, function: Callable[..., Any], options: tuple[Any, ...], run: Run | None = None, mean: Tensor | None = None
    ) -> Taped | None:
        """Return the tape of a function of a run, or of all steps, recorded if it is new; None if it, or this draw, has none.

        It starts from the random words if the call has them for every mean, and else from the drawn values.
        """
        plan, params, size = self.plan, self.params, self.plan.size_in if self._sizes is None else self._sizes
        each = run is not None or function is Segments.__call__  # the plan has such a tape for each pass, not just one
        if each and len(plan.groups) * len(plan.steps) > _MOST_RECORDED:
            return None
        channels, indices = 0 if mean is None else mean.shape[1], None if run is None else run.indices
        key, lowering = (indices, function, options), partial(_recorded, function, options, self.device, indices)
        tape: Any
        if isinstance(params, Replayed) and (mean is None or mean.shape[0] == params.rows.shape[0]):
            tape = cached_recording(plan.owner, (*key, "words"), lambda: WordsTape(lowering, plan, params, channels))
        else:
            read = range(len(plan.steps)) if run is None else run.indices if function in _OF_COLORS else run.warps
            tape = cached_recording(plan.owner, key, lambda: RunTape(lowering, plan, params, read, channels))
        rows = None if tape is None else tape.rows(params, size, mean)
        return None if tape is None or rows is None or not len(rows) else Taped(tape.recording, rows)


def _may_be_taped(plan: Plan, params: Params, device: torch.device) -> bool:
    """Return whether tapes may be used; not for volumes, whose voxels take much longer than lowering."""
    if device.type != "cpu" or plan.kind is None or plan.volumes or not is_plain_eager():
        return False
    return (isinstance(params, Replayed) or plain(value for values in params for value in values.values())) and numba_works()


def _rounded_in(run: Run, dtype: torch.dtype) -> torch.dtype | None:
    """Return the precision in which a pass rounds half-way points of a moved frame; None if it need not."""
    return dtype if run.moved and run.interpolation == "nearest" else None


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


def _resample(segments: Segments, run: Run, scale: float, nearest: torch.dtype | None, mean: Tensor | None = None) -> Resample:
    """Return a run's pass as one value; ``mean``, ``scale`` and ``nearest`` as in :func:`compose`."""
    composed = compose(segments, run, mean, scale, nearest)
    src_from_dst = composed.src_from_dst
    if src_from_dst is None:
        src_from_dst = unmoved(wide_dtype(segments.device), segments.device)
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


def _opened(segments: Segments, run: Run, scale: float, channels: int) -> Opened:
    """Return a pass before its mean is known.

    Its colours are affine in the mean, since contrast's pivot is the mean under the colour maps before it. So the derivative to a
    channel is the colours at a mean of one unit in it, less those at a mean of zero.
    """
    units = torch.eye(channels, dtype=torch.float64, device=segments.device)
    first, *others = (_resample(segments, run, scale, None, unit[None]) for unit in (units[0] * 0.0, *units))
    return Opened(first, torch.stack([other.params - first.params for other in others], 2))


_OF_COLORS = (_resample, _opened)
"""The functions of a run that read the values of its colours as well; the others read those of its warps."""


def _recorded(
    function: Callable[..., Any],
    options: tuple[Any, ...],
    device: torch.device,
    indices: tuple[int, ...] | None,
    plan: Plan,
    values: Params | Mapping[int, Mapping[str, Tensor]],
    mean: Tensor | None,
) -> Any:
    """Apply a function to the plan's run of these steps, or without steps to the plan, while it is recorded.

    It holds nothing of the call that started the recording.
    """
    run = () if indices is None else (plan.run_of(indices),)
    return function(Segments(plan, values, device, fields=indices is None), *run, *options, *(() if mean is None else (mean,)))


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

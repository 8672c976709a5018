"""The plan: what is fused with what, decided from shapes alone.

Owns: grouping transforms into runs, and where each draw finds its random words.
Must not: hold tensors or look at values; a plan is a pure function of transforms, image kind and options.
Read next: ``execute.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from pellucid.compilers import numba_works
from pellucid.errors import invalid
from pellucid.random.distributions import Bernoulli, Distribution
from pellucid.random.stream import slot_of
from pellucid.recent import Recent
from pellucid.segments import BlendSpec, CodecSpec, ColorSpec, ConvolveSpec, CurveSpec, SegmentSpec, WarpSpec
from pellucid.tape import Recording, is_plain_eager, settled
from pellucid.transforms.base import Transform
from pellucid.types import Fill, ImageSpec, Size

__all__ = ["CANVAS_RULES", "Canvas", "Draw", "Group", "Kind", "Plan", "Plans", "Run", "Single", "make_plan"]

CANVAS_RULES = ("each", "image")
"""What a run sees of its source: what every step's own canvas leaves of it, or all of it."""

_NAMES = {ColorSpec: "Color", CurveSpec: "Curve", ConvolveSpec: "Convolve", BlendSpec: "Blend", CodecSpec: "Codec"}


@dataclass(frozen=True)
class Draw:
    """One drawn value: of which transform, under which name, from which words of the sample's hash."""

    transform: int
    name: str
    distribution: Distribution
    word: int


@dataclass(frozen=True)
class Canvas:
    """A picture between two warps of a run, which is never painted: what it cuts off stays cut off.

    Args:
        at: the warp that reads it.
        size: (height, width).
        padding_mode, fill: what that warp sees outside of it.
        exposes: whether outside is what the warp is allowed to show, or only half a pixel that a resize touches.
        windowed: what it reads of the canvas is the rectangle of its own crop.
        hard: the canvas ends with its pixels, as that of a resize does, and does not fade out over one.
    """

    at: int
    size: Size
    padding_mode: str = "border"
    fill: Fill = 0.0
    exposes: bool = False
    windowed: bool = False
    hard: bool = False


@dataclass(frozen=True)
class Run:
    """Geometric maps and colour maps that become one resample.

    Args:
        indices: the transforms, in order; ``warps`` and ``colors`` split them.
        size_in, size_out: (height, width) before and after.
        resample_at: the last warp that interpolates: non-linear colour before it acts on the source, after it on the result.
        moved: steps before that one move whole pixels (or interpolate), so that a half-way point is so in a frame of their making.
        fill_at: the warp that exposes what lies outside of the source: its padding and fill.
        windows: what bounds the sampling: a crop's own rectangle, or what an earlier crop left.
        clamped: sampling never leaves the window (the image, where there is no crop): the meaning of crops and resizes.
        canvases: the pictures between its warps that matter; fill, window and clamping are of the warps before the first.
        footprint: bounds of the input pixels per output pixel, where antialiasing is on.
        pivot: some colour map needs the source's mean colour.
    """

    indices: tuple[int, ...]
    warps: tuple[int, ...]
    colors: tuple[int, ...]
    size_in: Size
    size_out: Size
    resample_at: int | None = None
    moved: bool = False
    fill_at: int | None = None
    windows: tuple[Canvas, ...] = ()
    padding_mode: str = "zeros"
    fill: Fill = 0.0
    interpolation: str = "bilinear"
    projective: bool = False
    along_axes: bool = False
    clamped: bool = False
    canvases: tuple[Canvas, ...] = ()
    footprint: Size | None = None
    pivot: bool = False

    @property
    def separable(self) -> bool:
        """Whether the resample is a weighted sum along each axis, normalised at the borders: antialiased or bicubic resizing."""
        return self.clamped and not self.canvases and (self.footprint is not None or self.interpolation == "bicubic")

    def __str__(self) -> str:
        parts = []
        if self.warps:
            parts.append(f"Warp[{','.join(map(str, self.warps))}]")
        if self.colors:
            parts.append(f"Color[{','.join(map(str, self.colors))}]")
        return " + ".join(parts)


@dataclass(frozen=True)
class Single:
    """A segment that runs on its own."""

    index: int
    name: str

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


Group: TypeAlias = Run | Single


class Kind:
    """What plans have in common that differ in sizes alone. Their recordings hang on it."""


@dataclass(frozen=True)
class Plan:
    """How a list of transforms runs on images of one kind. Hashable and printable; holds no tensors.

    Args:
        transforms: the transforms.
        specs: the image kind before each transform, and at the end the result's.
        segments: what each transform lowers to.
        groups: the passes, in order.
        draws: everything drawn.
        slots: which number of the hash gives each four words.
        shared: whether the draw in that slot is the same for the whole batch.
        fuse: whether runs were composed.
        canvas: what a run sees of its source, of ``CANVAS_RULES``.
        hops: the warps, parted where a later one may show what lies outside of the canvas that an earlier one had cut to size.
        kind: shared with the same plan for other sizes; None in compiled graphs, which record nothing.
    """

    transforms: tuple[Transform, ...]
    specs: tuple[ImageSpec, ...]
    segments: tuple[SegmentSpec, ...]
    groups: tuple[Group, ...]
    draws: tuple[Draw, ...]
    slots: tuple[int, ...]
    shared: tuple[bool, ...]
    fuse: bool = True
    canvas: str = "each"
    hops: tuple[tuple[int, ...], ...] = ()
    kind: Kind | None = field(default=None, compare=False, repr=False)

    @property
    def owner(self) -> object:
        """What recordings of this plan hang on."""
        return self.kind or self

    @property
    def size_in(self) -> Size:
        """(height, width) of the input."""
        return self.specs[0].size

    @property
    def size_out(self) -> Size:
        """(height, width) of the output."""
        return self.specs[-1].size

    def __str__(self) -> str:
        return " -> ".join(map(str, self.groups)) or "nothing"

    def for_size(self) -> Callable[[int, int], Plan]:
        """What plans the same again for another (height, width), in a recording for plans of this kind; it keeps no plan."""
        return partial(_again, self.transforms, self.specs[0].channels, fuse=self.fuse, canvas=self.canvas)


class Plans:
    """The plans of a list of transforms for images of any kind.

    Planning is recorded with numbers in the place of sizes: where another size does not change what is fused with what, its plan is
    the recorded one with other numbers, and shares its recordings.

    Args:
        transforms, fuse, canvas, same_on_batch: as :func:`make_plan` takes them.
    """

    def __init__(self, transforms: tuple[Transform, ...], *, fuse: bool, canvas: str, same_on_batch: bool) -> None:
        self._plan = partial(_for_size, transforms, fuse=fuse, canvas=canvas, same_on_batch=same_on_batch)
        self._recorded: Recent[int, Recording] = Recent(8)  # by channels
        self._made: Recent[ImageSpec, Plan] = Recent(64)

    def __getstate__(self) -> dict[str, object]:  # a copy makes its own
        return {"_plan": self._plan, "_recorded": Recent(8), "_made": Recent(64)}

    def of(self, spec: ImageSpec) -> Plan:
        """The plan for one kind of image."""
        if torch.compiler.is_compiling():
            return self._plan(spec.channels, *spec.size)
        return self._made.get(spec, lambda: self._make(spec))

    def _make(self, spec: ImageSpec) -> Plan:
        plan = partial(self._plan, spec.channels)
        if not (is_plain_eager() and numba_works()):
            return plan(*spec.size)
        recording = self._recorded.get(spec.channels, lambda: Recording(plan, spec.size))
        made: Plan = recording.play(np.array([spec.size], np.float64))
        return made


def _for_size(transforms: tuple[Transform, ...], channels: int, height: int, width: int, **options: Any) -> Plan:
    return make_plan(transforms, ImageSpec(channels, height, width), **options)


def _again(transforms: tuple[Transform, ...], channels: int, height: int, width: int, **options: Any) -> Plan:
    plan = _for_size(transforms, channels, height, width, **options)
    settled(height)  # what planning looks at is alike for all plans of a kind
    return plan


def make_plan(
    transforms: tuple[Transform, ...], spec: ImageSpec, *, fuse: bool = True, canvas: str = "each", same_on_batch: bool = False
) -> Plan:
    """Plan the transforms for one kind of image.

    Args:
        transforms: in order.
        spec: channels, height and width of the input.
        fuse: compose runs; off gives the step-by-step semantics.
        canvas: ``each``: what a step cuts off, no later one sees; ``image``: a run sees the whole of its source.
        same_on_batch: share every draw across the batch.
    """
    if any(count < 1 for count in (spec.channels, spec.height, spec.width)):
        raise invalid("image", expected="at least one channel, row and column", got=f"{spec.channels}x{spec.height}x{spec.width}")
    specs = [spec]
    segments: list[SegmentSpec] = []
    for transform in transforms:
        segment = transform.segment(specs[-1])
        _check_fill(transform, segment, spec.channels)
        segments.append(segment)
        specs.append(specs[-1].resized(segment.size) if isinstance(segment, WarpSpec) else specs[-1])
    draws, slots, shared = _layout(transforms, specs, same_on_batch)
    groups: list[Group] = []
    pending = _Pending(segments, specs, canvas)
    for index, segment in enumerate(segments):
        joins = isinstance(segment, WarpSpec) or (isinstance(segment, ColorSpec) and not segment.stepwise)
        if not joins:
            groups += [*pending.closed(), Single(index, _NAMES[type(segment)])]
        else:
            groups += pending.add(index) if fuse else [*pending.closed(), *pending.add(index)]
    groups += pending.closed()
    hops = _hops(groups, segments, specs, canvas)
    kind = None if torch.compiler.is_compiling() else Kind()
    return Plan(transforms, tuple(specs), tuple(segments), tuple(groups), draws, slots, shared, fuse, canvas, hops, kind)


def _hops(groups: list[Group], segments: list[SegmentSpec], specs: list[ImageSpec], canvas: str) -> tuple[tuple[int, ...], ...]:
    """The hops of a plan."""
    found: list[tuple[int, ...]] = []
    cut = False
    for group in groups:
        warps = group.warps if isinstance(group, Run) else ()
        steps = [(i, spec, specs[i].size) for i in warps if isinstance(spec := segments[i], WarpSpec)]
        parts: list[tuple[tuple[int, ...], bool, bool]] = [((i,), spec.exposes, _cuts(spec, size)) for i, spec, size in steps]
        if canvas == "image" and steps:  # one canvas for all of them
            parts = [(warps, any(exposes for _, exposes, _ in parts), any(cuts for *_, cuts in parts))]
        for indices, exposes, cuts in parts:
            if not found or (exposes and cut):
                found.append(())
            found[-1] += indices
            cut = cut or exposes or cuts
    return tuple(found)


def _check_fill(transform: Transform, segment: SegmentSpec, channels: int) -> None:
    fill = getattr(segment, "fill", 0.0)
    if isinstance(fill, tuple | list) and len(fill) != 1 and len(fill) != channels:
        raise invalid(f"{type(transform).__name__}.fill", expected=f"one number, or {channels} (one per channel)", got=fill)


def _layout(
    transforms: tuple[Transform, ...], specs: list[ImageSpec], same_on_batch: bool
) -> tuple[tuple[Draw, ...], tuple[int, ...], tuple[bool, ...]]:
    """Give every draw slots of its own by position, class and name, so that it depends on nothing else in the pipeline."""
    draws: list[Draw] = []
    slots: list[int] = []
    shared: list[bool] = []
    for index, transform in enumerate(transforms):
        for name, distribution in transform.draws(specs[index]).items():
            if _certain(distribution):
                continue
            draws.append(Draw(index, name, distribution, 4 * len(slots)))
            for block in range(-(-distribution.words // 4)):
                slots.append(slot_of(index, type(transform).__name__, name, block, taken=slots))
                shared.append(same_on_batch or getattr(transform, "same_on_batch", False))
    return tuple(draws), tuple(slots), tuple(shared)


def _certain(distribution: Distribution) -> bool:
    """A gate that is always open need not be drawn."""
    return isinstance(distribution, Bernoulli) and distribution.p == 1.0 and distribution.temperature is None


class _Pending:
    """The run that is being put together; lives for one plan.

    Args:
        segments, specs: the plan's.
        rule: the canvas rule.
    """

    def __init__(self, segments: list[SegmentSpec], specs: list[ImageSpec], rule: str) -> None:
        self._segments, self._specs, self._rule = segments, specs, rule
        self._indices: list[int] = []
        self._starts: list[int] = []  # the first warps after each canvas that matters

    def add(self, index: int) -> list[Group]:
        """Take in the next segment; returns the runs that end before it."""
        spec, ended = self._segments[index], []
        if isinstance(spec, WarpSpec):
            warps = [i for i in self._indices if isinstance(self._segments[i], WarpSpec)]
            done = warps.index(self._starts[-1]) if self._starts else 0
            how = _meeting([self._step(i) for i in warps], done, self._step(index), self._rule)
            if how == "pass":
                # Colours after the last warp meet the next one: what closes them, and their pivot, see what it sees.
                last = 1 + self._indices.index(warps[-1])
                rest, self._indices = self._indices[last:], self._indices[:last]
                ended = self.closed()
                self._indices = rest
            elif how == "canvas":
                self._starts.append(index)
        self._indices.append(index)
        return ended

    def closed(self) -> list[Group]:
        """The run, if there is one; the next segment begins another."""
        run = [_run(self._indices, self._starts, self._segments, self._specs, self._rule)] if self._indices else []
        self._indices, self._starts = [], []
        return [*run]

    def _step(self, index: int) -> _Step:
        spec = self._segments[index]
        assert isinstance(spec, WarpSpec)
        return _Step(spec, _cuts(spec, self._specs[index].size))


class _Step(NamedTuple):
    """A warp of a run, and whether it may leave something of its input out without exposing anything."""

    spec: WarpSpec
    cuts: bool

    @property
    def axial(self) -> bool:
        """Upright rectangles stay upright ones."""
        return self.spec.along_axes or not self.spec.resamples

    @property
    def integrates(self) -> bool:
        """Low-passes where it shrinks."""
        return self.spec.antialias and _shrinks(self.spec.shrink)

    @property
    def plain(self) -> bool:
        """Only moves all its pixels: a flip, a quarter turn."""
        return not (self.spec.exposes or self.spec.resamples or self.cuts)


def _shrinks(shrink: tuple[float, float]) -> bool:
    return any(step > 1.0 for step in shrink)


def _cuts(spec: WarpSpec, size: Size) -> bool:
    return spec.windowed or (not spec.exposes and not spec.resamples and spec.size != size)


def _meeting(before: list[_Step], done: int, step: _Step, rule: str) -> str:
    """How a warp goes with those before it: ``one`` map, a ``canvas`` between two maps, or a ``pass`` of its own.

    Args:
        before: the run's warps.
        done: how many of them lie before the last canvas.
        step: the next.
        rule: the canvas rule.
    """
    if not before:
        return "one"
    axial = all(s.axial for s in [*before, step])
    if axial and any(s.integrates for s in [*before, step]) and not all(s.spec.along_axes for s in [*before, step]):
        return "pass"  # a quarter turn is exact on its own, and what integrates along the axes can do so
    if rule == "image" or not (step.spec.exposes or step.spec.resamples):
        return "one"
    recent = before[done:]
    if all(s.plain for s in recent):
        return "one"
    # Clamping to a rectangle of the source says the same as clamping to what is left of it, while rectangles stay upright.
    mixed = step.spec.resamples or any(s.spec.resamples for s in recent)
    held = axial and mixed and not any(s.spec.exposes for s in recent)
    # What is left of a crop ends half a pixel beyond its own pixels' centres: those of the source only if none were made since.
    enlarged = any(s.cuts and any(t.spec.resamples for t in before[:i]) for i, s in enumerate(before))
    filled = step.spec.padding_mode in ("zeros", "constant") and not enlarged
    if done == 0 and held and (filled or not step.spec.exposes):
        return "one"
    # Where nothing was interpolated, a pass is a copy; and what integrates reads more of a canvas than one point.
    copied = not any(s.spec.resamples for s in before)
    return "pass" if copied or any(s.integrates for s in [*before, step]) else "canvas"


def _run(indices: list[int], starts: list[int], segments: list[SegmentSpec], specs: list[ImageSpec], rule: str) -> Run:
    chosen = [(i, segments[i]) for i in indices]
    warps = [(i, s) for i, s in chosen if isinstance(s, WarpSpec)]
    colors = [(i, s) for i, s in chosen if isinstance(s, ColorSpec)]
    run = {
        "indices": tuple(indices),
        "warps": tuple(i for i, _ in warps),
        "colors": tuple(i for i, _ in colors),
        "size_in": specs[indices[0]].size,
        "size_out": specs[indices[-1] + 1].size,
    }
    pivot = any(s.pivot for _, s in colors)
    if not warps:
        return Run(**run, pivot=pivot)  # type: ignore[arg-type]
    first = [(i, s) for i, s in warps if not starts or i < starts[0]]  # those that see the source itself
    resampling = [(i, s) for i, s in warps if s.resamples]
    exposing = [(i, s) for i, s in first if s.exposes]
    along_axes = all(s.along_axes for _, s in first)
    decider = exposing[-1][1] if exposing else None
    padding_mode = decider.padding_mode if decider else "border"
    axial = all(s.along_axes or not s.resamples for _, s in first)
    clamped = axial and any(s.resamples for _, s in first) and padding_mode != "reflection"
    vertical = horizontal = 1.0
    for _, s in warps:
        vertical, horizontal = vertical * s.shrink[0], horizontal * s.shrink[1]
    antialias = _shrinks((vertical, horizontal)) and any(s.antialias and _shrinks(s.shrink) for _, s in warps)
    interpolation = resampling[-1][1].interpolation if resampling else "bilinear"
    return Run(
        **run,  # type: ignore[arg-type]
        resample_at=resampling[-1][0] if resampling else warps[-1][0],
        moved=bool(resampling) and resampling[-1][0] != warps[0][0],
        fill_at=exposing[-1][0] if exposing else None,
        windows=_windows(first, specs, rule) if clamped else (),
        padding_mode=padding_mode,
        fill=decider.fill if decider else 0.0,
        interpolation=interpolation,
        projective=any(s.projective for _, s in warps),
        along_axes=along_axes and not starts,
        clamped=clamped,
        canvases=tuple(_canvas(i, segments[i], specs[i].size) for i in starts),
        footprint=(math.ceil(vertical), math.ceil(horizontal)) if antialias and interpolation != "nearest" else None,
        pivot=pivot,
    )


def _windows(warps: list[tuple[int, WarpSpec]], specs: list[ImageSpec], rule: str) -> tuple[Canvas, ...]:
    """The rectangles that bound the sampling, each as the canvas that its warp reads."""
    if rule == "image":  # only where no other resampling blurs its meaning and it sees the image itself
        windowed = [Canvas(i, specs[i].size, windowed=True) for i, s in warps if s.windowed]
        alone = sum(s.resamples for _, s in warps) == 1 and not any(s.exposes for _, s in warps)
        return tuple(windowed[:1]) if alone else ()
    found, left = [], False  # what an earlier crop has left matters to the next warp that reads beyond
    for i, s in warps:
        if s.windowed or (left and (s.resamples or s.exposes)):
            found.append(Canvas(i, specs[i].size, windowed=s.windowed))
            left = False
        left = left or (not s.windowed and _cuts(s, specs[i].size))
    return tuple(found)


def _canvas(index: int, spec: SegmentSpec, size: Size) -> Canvas:
    assert isinstance(spec, WarpSpec)
    if not spec.exposes:
        return Canvas(index, size, windowed=spec.windowed)
    return Canvas(index, size, spec.padding_mode, spec.fill, exposes=True, hard=spec.along_axes)

"""The plan: what is fused with what, decided from shapes alone.

Owns: grouping transforms into runs, and where each draw finds its random words.
Must not: hold tensors or look at values; a plan is a pure function of transforms, image kind and options.
Read next: ``execute.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from pellucid.errors import invalid
from pellucid.random.distributions import Bernoulli, Distribution
from pellucid.random.stream import slot_of
from pellucid.segments import BlendSpec, ColorSpec, ConvolveSpec, CurveSpec, SegmentSpec, WarpSpec
from pellucid.transforms.base import Transform
from pellucid.types import Fill, ImageSpec, Size

__all__ = ["Draw", "Group", "Plan", "Run", "Single", "make_plan"]

_NAMES = {ColorSpec: "Color", CurveSpec: "Curve", ConvolveSpec: "Convolve", BlendSpec: "Blend"}


@dataclass(frozen=True)
class Draw:
    """One drawn value: of which transform, under which name, from which words of the sample's hash."""

    transform: int
    name: str
    distribution: Distribution
    word: int


@dataclass(frozen=True)
class Run:
    """Geometric maps and colour maps that become one resample.

    Args:
        indices: the transforms, in order; ``warps`` and ``colors`` split them.
        size_in, size_out: (height, width) before and after.
        resample_at: the last warp that interpolates: non-linear colour before it acts on the source, after it on the result.
        fill_at: the last warp that exposes what lies outside: its padding and fill are the run's.
        window_at: the warp whose crop rectangle bounds the sampling, or None.
        clamped: sampling never leaves the window (the image, where there is no crop): the meaning of crops and resizes.
        footprint: bounds of the input pixels per output pixel, where antialiasing is on.
        pivot: some colour map needs the source's mean colour.
    """

    indices: tuple[int, ...]
    warps: tuple[int, ...]
    colors: tuple[int, ...]
    size_in: Size
    size_out: Size
    resample_at: int | None = None
    fill_at: int | None = None
    window_at: int | None = None
    padding_mode: str = "zeros"
    fill: Fill = 0.0
    interpolation: str = "bilinear"
    projective: bool = False
    along_axes: bool = False
    clamped: bool = False
    footprint: Size | None = None
    pivot: bool = False

    @property
    def separable(self) -> bool:
        """Whether the resample is a weighted sum along each axis, normalised at the borders: antialiased or bicubic resizing."""
        return self.clamped and (self.footprint is not None or self.interpolation == "bicubic")

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
    """

    transforms: tuple[Transform, ...]
    specs: tuple[ImageSpec, ...]
    segments: tuple[SegmentSpec, ...]
    groups: tuple[Group, ...]
    draws: tuple[Draw, ...]
    slots: tuple[int, ...]
    shared: tuple[bool, ...]
    fuse: bool = True

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


def make_plan(transforms: tuple[Transform, ...], spec: ImageSpec, *, fuse: bool = True, same_on_batch: bool = False) -> Plan:
    """Plan the transforms for one kind of image.

    Args:
        transforms: in order.
        spec: channels, height and width of the input.
        fuse: compose runs; off gives the step-by-step semantics.
        same_on_batch: share every draw across the batch.
    """
    if min(spec.height, spec.width, spec.channels) < 1:
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
    pending: list[int] = []
    for index, segment in enumerate(segments):
        joins = isinstance(segment, WarpSpec) or (isinstance(segment, ColorSpec) and not segment.stepwise)
        if pending and not (joins and fuse):
            groups.append(_run(pending, segments, specs))
            pending = []
        if joins:
            pending.append(index)
        else:
            groups.append(Single(index, _NAMES[type(segment)]))
    if pending:
        groups.append(_run(pending, segments, specs))
    return Plan(transforms, tuple(specs), tuple(segments), tuple(groups), draws, slots, shared, fuse)


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


def _run(indices: list[int], segments: list[SegmentSpec], specs: list[ImageSpec]) -> Run:
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
    resampling = [(i, s) for i, s in warps if s.resamples]
    exposing = [(i, s) for i, s in warps if s.exposes]
    along_axes = all(s.along_axes for _, s in warps)
    decider = exposing[-1][1] if exposing else None
    padding_mode = decider.padding_mode if decider else "border"
    clamped = along_axes and bool(resampling) and padding_mode != "reflection"
    windowed = [i for i, s in warps if s.windowed]
    # A crop rectangle bounds the sampling only where no other resampling blurs its meaning and it sees the image itself.
    window_at = windowed[0] if clamped and len(resampling) == 1 and windowed and not exposing else None
    vertical = horizontal = 1.0
    for _, s in warps:
        vertical, horizontal = vertical * s.shrink[0], horizontal * s.shrink[1]
    antialias = max(vertical, horizontal) > 1.0 and any(s.antialias and max(s.shrink) > 1.0 for _, s in warps)
    interpolation = resampling[-1][1].interpolation if resampling else "bilinear"
    return Run(
        **run,  # type: ignore[arg-type]
        resample_at=resampling[-1][0] if resampling else warps[-1][0],
        fill_at=exposing[-1][0] if exposing else None,
        window_at=window_at,
        padding_mode=padding_mode,
        fill=decider.fill if decider else 0.0,
        interpolation=interpolation,
        projective=any(s.projective for _, s in warps),
        along_axes=along_axes,
        clamped=clamped,
        footprint=(math.ceil(vertical), math.ceil(horizontal)) if antialias and interpolation != "nearest" else None,
        pivot=pivot,
    )

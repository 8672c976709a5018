"""The plan as a value: its passes and draws.

Owns: `Plan` and its parts.
Must not: hold tensors, or decide anything.
Read next: ``make.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import NamedTuple, TypeAlias, cast

from pellucid.random.distributions import Distribution
from pellucid.segments import BlendSpec, SegmentSpec, Warp3Spec, WarpSpec
from pellucid.transforms.base import Transform
from pellucid.transforms.choices import Step
from pellucid.types import ImageSpec, Size, Size3

__all__ = ["CANVAS_RULES", "Canvas", "Draw", "Group", "Kind", "Part", "Plan", "Run", "Single", "Space"]

CANVAS_RULES = ("each", "image")
"""Which part of its source a run sees: only what the canvas of each earlier step has kept, or the whole image."""


@dataclass(frozen=True)
class Draw:
    """One drawn value: its step, its name, its distribution, and the first of its random words."""

    transform: int
    name: str
    distribution: Distribution
    word: int


@dataclass(frozen=True)
class Canvas:
    """A picture between two warps of a run. It is never rendered, but what lies outside of it is cut off.

    Args:
        at: the warp that reads it, or the first of several such warps that exclude one another.
        size: (height, width).
        padding_mode: the padding that the warp shows outside of the canvas.
        fills: that warp and its alternatives, whose own fills are shown there.
        exposes: whether the warp may show the outside; otherwise a resize only touches half a pixel of it.
        windowed: the warp reads the rectangle of its own crop instead of the whole canvas.
        hard: the canvas ends with its pixels, as for a resize, instead of fading out over a pixel.

    A canvas with padding mode ``bend`` or ``kink`` cuts nothing off: it stands for the displacements of a warp, after its matrix.
    """

    at: int
    size: Size
    padding_mode: str = "border"
    fills: tuple[int, ...] = ()
    exposes: bool = False
    windowed: bool = False
    hard: bool = False

    @property
    def bends(self) -> bool:
        """Whether this stands for displacements, and cuts nothing off."""
        return self.padding_mode in ("bend", "kink")


@dataclass(frozen=True)
class Run:
    """Geometric maps and colour maps that become one resample.

    Args:
        indices: the steps, in the order in which they run; ``warps`` and ``colors`` are the two kinds of them.
        size_in, size_out: (height, width) before and after.
        resample_at: the last warp that interpolates: non-linear colours before it act on the source, those after it on the result.
        moved: warps come before that one, so that half-way points of nearest interpolation are those of a moved frame.
        fills: the warp that exposes the outside of the source, with the padding mode and its own fill; several if they are
            alternatives of a choice.
        windows: the rectangles that bound the sampling: a crop's own, or what an earlier crop kept.
        clamped: sampling never leaves the window (without a crop, the image), as crops and resizes require.
        canvases: the pictures between its warps that cut something off, and its field; fill, window and clamping belong to the
            warps before the first such picture.
        footprint: bounds of the input pixels per output pixel if antialiasing is on.
        pivot: some colour map needs the source's mean colour.
        framing: the first warps, if crops among them keep an upright rectangle of the source: the mean is taken over it.
        settled: only crops, resizes and flips without fill come before all colours: the mean is taken over their result.
    """

    indices: tuple[int, ...]
    warps: tuple[int, ...]
    colors: tuple[int, ...]
    size_in: Size
    size_out: Size
    resample_at: int | None = None
    moved: bool = False
    fills: tuple[int, ...] = ()
    windows: tuple[Canvas, ...] = ()
    padding_mode: str = "zeros"
    interpolation: str = "bilinear"
    projective: bool = False
    along_axes: bool = False
    clamped: bool = False
    canvases: tuple[Canvas, ...] = ()
    footprint: Size | None = None
    pivot: bool = False
    framing: tuple[int, ...] = ()
    settled: bool = False

    @property
    def bends(self) -> bool:
        """Whether one of its warps has a field."""
        return any(canvas.bends for canvas in self.canvases)

    @property
    def separable(self) -> bool:
        """Whether the resample is a weighted sum along each axis, normalised at the borders: crops and resizes that interpolate."""
        interpolates = self.interpolation == "bicubic" or (
            self.interpolation == "bilinear" and self.resample_at is not None and self.along_axes
        )
        return self.clamped and not self.canvases and (self.footprint is not None or interpolates)

    @property
    def halves(self) -> tuple[Run, Run]:
        """A settled run as two: the geometry before its mean is known, and the colours after that."""
        moves = replace(self, indices=self.warps, colors=(), pivot=False, settled=False)
        return moves, Run(self.colors, (), self.colors, self.size_out, self.size_out, pivot=True)

    def __str__(self) -> str:
        parts = []
        if self.warps:
            parts.append(f"Warp[{','.join(map(str, self.warps))}]")
        if self.colors:
            parts.append(f"Color[{','.join(map(str, self.colors))}]")
        return " + ".join(parts)


@dataclass(frozen=True)
class Space:
    """Maps of volumes that become one resample.

    Args:
        indices: the steps, in the order in which they run; after a step with a field there are only windows.
        size_in, size_out: (depth, height, width) before and after.
        outside: the step whose padding and fill are shown outside of the source; None if no step shows the outside.
        resamples: whether some step interpolates instead of moving whole voxels.
        interpolation: of those steps.
        bends: whether one has a field.
    """

    indices: tuple[int, ...]
    size_in: Size3
    size_out: Size3
    outside: int | None = None
    resamples: bool = False
    interpolation: str = "nearest"
    bends: bool = False

    def __str__(self) -> str:
        return f"Warp3[{','.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class Single:
    """A segment that runs on its own."""

    index: int
    name: str

    @property
    def indices(self) -> tuple[int, ...]:
        """Its one step."""
        return (self.index,)

    def __str__(self) -> str:
        return f"{self.name}[{self.index}]"


Group: TypeAlias = Run | Space | Single


class Part(NamedTuple):
    """Consecutive passes of a plan for bytes, between two points at which pictures are bytes.

    Args:
        groups: the passes.
        rounds: whether they belong to choices that round: each pass then ends in bytes, and at most one of its steps is open.
    """

    groups: tuple[Group, ...]
    rounds: bool

    @property
    def indices(self) -> tuple[int, ...]:
        """The steps in their written order."""
        return tuple(sorted(i for group in self.groups for i in group.indices))


class Kind:
    """An object that all plans share which differ in sizes alone; it owns their recordings."""


@dataclass(frozen=True)
class Plan:
    """How a list of transforms runs on images of one kind. Hashable and printable; holds no tensors.

    Args:
        transforms: the transforms.
        steps: the transforms as a flat list, choices before their branches.
        specs: the image kind before each step, and at the end that of the result.
        segments: what each step lowers to; None for choices.
        groups: the passes, in order.
        draws: all draws.
        slots: the slot of the hash for every four words. Plans that differ in slots alone run the same, and are equal.
        shared: whether the draw in that slot is the same for the whole batch.
        fuse: whether runs were composed.
        canvas: the canvas rule, one of ``CANVAS_RULES``.
        hops: the warps in groups. A new group begins where a later warp may show the outside of the canvas to which an earlier one
            has cut the picture. Each moving layer is a group of its own.
        looking: the draws that read boxes, masks or the spacing of voxels.
        smooth: the draws that change through a clip.
        per_frame: the steps that are drawn anew for each frame.
        moving_layers: the steps that show several pictures, or several places of one.
        parts: for bytes, if a choice rounds: the passes in place of ``groups``.
        spaces: for volumes, the passes of labels, which fuse more maps because they skip intensity steps.
        kind: shared with the same plan for other sizes; None if nothing is recorded: in traced graphs, and for drawn sizes.
    """

    transforms: tuple[Transform, ...]
    steps: tuple[Step, ...]
    specs: tuple[ImageSpec, ...]
    segments: tuple[SegmentSpec | None, ...]
    groups: tuple[Group, ...]
    draws: tuple[Draw, ...]
    slots: tuple[int, ...] = field(compare=False)
    shared: tuple[bool, ...]
    fuse: bool = True
    canvas: str = "each"
    hops: tuple[tuple[int, ...], ...] = ()
    looking: tuple[Draw, ...] = ()
    smooth: tuple[Draw, ...] = ()
    per_frame: tuple[int, ...] = ()
    moving_layers: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    spaces: tuple[Group, ...] = ()
    kind: Kind | None = field(default=None, compare=False, repr=False)

    @property
    def owner(self) -> object:
        """The object that owns the recordings of this plan."""
        return self.kind or self

    @property
    def size_in(self) -> Size:
        """(height, width) of the input; of volumes (depth, height, width)."""
        return cast(Size, self.specs[0].extent)

    @property
    def size_out(self) -> Size:
        """(height, width) of the output; of volumes (depth, height, width)."""
        return cast(Size, self.specs[-1].extent)

    @property
    def volumes(self) -> bool:
        """Whether these are volumes."""
        return self.specs[0].depth > 0

    @property
    def pasting(self) -> tuple[int, ...]:
        """The steps that paste objects."""
        return tuple(i for i in self.moving_layers if getattr(self.segments[i], "pastes", False))

    @property
    def whole(self) -> bool:
        """Whether integer rows stay integers: pictures are only cut, padded, flipped and turned by whole pixels."""
        moves = any(isinstance(segment, WarpSpec | Warp3Spec) and segment.resamples for segment in self.segments)
        return not (moves or self.moving_layers or self.hiding)

    @property
    def ends_normalised(self) -> bool:
        """Whether the last change of units is a normalisation."""
        units = [transform.units for transform in self.transforms if transform.units is not None]
        return units[-1:] == ["normalised"]

    @property
    def hiding(self) -> tuple[int, ...]:
        """The steps whose rectangles change masks, or hide boxes and points."""
        blends = ((i, segment) for i, segment in enumerate(self.segments) if isinstance(segment, BlendSpec))
        return tuple(i for i, segment in blends if segment.hides or segment.mask_fill is not None)

    @property
    def centers(self) -> tuple[int, ...]:
        """The steps whose window drops boxes with a centre outside of it."""
        return tuple(i for i, segment in enumerate(self.segments) if isinstance(segment, WarpSpec) and segment.centers)

    @property
    def bends(self) -> tuple[int, ...]:
        """The steps with a field, which have no matrix."""
        return tuple(i for i, segment in enumerate(self.segments) if isinstance(segment, WarpSpec | Warp3Spec) and segment.bends)

    def _repr_html_(self) -> str:
        """Show the passes in notebooks."""
        return f"<code>{escape(str(self))}</code>"

    def __str__(self) -> str:
        return " -> ".join(map(str, self.groups)) or "nothing"

    def run_of(self, indices: tuple[int, ...]) -> Run:
        """Return the run, or half of a settled run, that has these steps."""
        groups = (*self.groups, *(group for part in self.parts for group in part.groups))
        runs = [group for group in groups if isinstance(group, Run)]
        settled = (part for run in runs if run.settled for part in run.halves)
        return next(run for run in (*runs, *settled) if run.indices == indices)

    def size_after(self, index: int) -> Size:
        """Return (height, width) after a step."""
        segment = self.segments[index]
        return segment.size if isinstance(segment, WarpSpec) else self.specs[index].size

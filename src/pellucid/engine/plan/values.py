"""The plan as a value: passes, and what is drawn for them.

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
"""What a run sees of its source: what every step's own canvas leaves of it, or all of it."""


@dataclass(frozen=True)
class Draw:
    """One drawn value: of which step, under which name, from which words of the sample's hash."""

    transform: int
    name: str
    distribution: Distribution
    word: int


@dataclass(frozen=True)
class Canvas:
    """A picture between two warps of a run, which is never painted: what it cuts off stays cut off.

    Args:
        at: the warp that reads it, or the first of those in branches that exclude one another.
        size: (height, width).
        padding_mode: what that warp sees outside of it.
        fills: it and its alternatives, whose own fills show there.
        exposes: whether outside is what the warp is allowed to show, or only half a pixel that a resize touches.
        windowed: what it reads of the canvas is the rectangle of its own crop.
        hard: the canvas ends with its pixels, as that of a resize does, and does not fade out over one.

    One whose padding mode is ``bend`` cuts nothing off: there, behind the matrix of the warp, its displacements move points.
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
        """Whether points are displaced here, and nothing is cut off."""
        return self.padding_mode in ("bend", "kink")


@dataclass(frozen=True)
class Run:
    """Geometric maps and colour maps that become one resample.

    Args:
        indices: the steps, in the order they run in; ``warps`` and ``colors`` split them.
        size_in, size_out: (height, width) before and after.
        resample_at: the last warp that interpolates: non-linear colour before it acts on the source, after it on the result.
        moved: steps before that one move whole pixels (or interpolate), so that a half-way point is so in a frame of their making.
        fills: the warp that exposes what lies outside of the source, with the padding mode and its own fill; several where branches
            of a choice exclude one another.
        windows: what bounds the sampling: a crop's own rectangle, or what an earlier crop left.
        clamped: sampling never leaves the window (the image, where there is no crop): the meaning of crops and resizes.
        canvases: the pictures between its warps that matter, and its field; fill, window and clamping are of the warps before
            the first picture.
        footprint: bounds of the input pixels per output pixel, where antialiasing is on.
        pivot: some colour map needs the source's mean colour.
        framing: the first warps, where crops among them leave an upright rectangle of the source: the mean is taken of that.
        settled: crops, resizes and flips alone come before all colours, and show no fill: the mean is taken of what they make.
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
        """Whether there is a field among its warps."""
        return any(canvas.bends for canvas in self.canvases)

    @property
    def separable(self) -> bool:
        """Whether the resample is a weighted sum along each axis, normalised at the borders: crops and resizes that interpolate."""
        interpolates = self.interpolation == "bicubic" or (
            self.interpolation == "bilinear" and self.resample_at is not None and self.along_axes
        )
        return self.clamped and not self.canvases and (self.footprint is not None or interpolates)

    @property
    def apart(self) -> tuple[Run, Run]:
        """What a settled run makes before its mean is known, and its colours after that."""
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
        indices: the steps, in the order they run in; behind one with a field there are windows alone.
        size_in, size_out: (depth, height, width) before and after.
        outside: the step whose padding and fill show what lies outside of the source; None where none shows it.
        resamples: whether some step interpolates, and is no move of whole voxels.
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
    """Passes between two places where pictures of bytes are bytes.

    Args:
        groups: the passes.
        rounds: whether they are of choices that round: then each ends in bytes, and changes a sample by one step at most.
    """

    groups: tuple[Group, ...]
    rounds: bool

    @property
    def indices(self) -> tuple[int, ...]:
        """The steps, in the order they are written in."""
        return tuple(sorted(i for group in self.groups for i in group.indices))


class Kind:
    """What plans have in common that differ in sizes alone. Their recordings hang on it."""


@dataclass(frozen=True)
class Plan:
    """How a list of transforms runs on images of one kind. Hashable and printable; holds no tensors.

    Args:
        transforms: the transforms.
        steps: them as a row, choices before their branches.
        specs: the image kind before each step, and at the end the result's.
        segments: what each step lowers to; None for choices.
        groups: the passes, in order.
        draws: everything drawn.
        slots: which number of the hash gives each four words. Plans that differ in them alone run the same, and are equal.
        shared: whether the draw in that slot is the same for the whole batch.
        fuse: whether runs were composed.
        canvas: what a run sees of its source, of ``CANVAS_RULES``.
        hops: the warps, parted where a later one may show what lies outside of the canvas that an earlier one had cut to size, and
            where layers lie between them, which stand there alone.
        looking: the draws that read boxes or masks.
        smooth: the draws that move through a clip.
        per_frame: the steps that are drawn anew for each frame.
        moving_layers: the steps that show several pictures, or several places of one.
        parts: of pictures of bytes, where a choice rounds them: the passes that take the place of ``groups``.
        spaces: of volumes, the passes that labels go through, whose maps no intensities keep apart.
        kind: shared with the same plan for other sizes; None where nothing is recorded: in graphs, and for one draw's size.
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
        """What recordings of this plan hang on."""
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
        """Whether rows of whole numbers stay such: pictures are cut, padded and turned by whole pixels, and nothing else moves."""
        moves = any(isinstance(segment, WarpSpec | Warp3Spec) and segment.resamples for segment in self.segments)
        return not (moves or self.moving_layers or self.hiding)

    @property
    def ends_normalised(self) -> bool:
        """Whether the last change of units is a normalisation."""
        units = [transform.units for transform in self.transforms if transform.units is not None]
        return units[-1:] == ["normalised"]

    @property
    def hiding(self) -> tuple[int, ...]:
        """The steps whose rectangles masks, boxes or points know of."""
        blends = ((i, segment) for i, segment in enumerate(self.segments) if isinstance(segment, BlendSpec))
        return tuple(i for i, segment in blends if segment.hides or segment.mask_fill is not None)

    @property
    def centers(self) -> tuple[int, ...]:
        """The steps whose window keeps the boxes whose centre it shows."""
        return tuple(i for i, segment in enumerate(self.segments) if isinstance(segment, WarpSpec) and segment.centers)

    @property
    def bends(self) -> tuple[int, ...]:
        """The steps with a field, which have no matrix."""
        return tuple(i for i, segment in enumerate(self.segments) if isinstance(segment, WarpSpec | Warp3Spec) and segment.bends)

    def _repr_html_(self) -> str:
        """For notebooks: what shares a pass."""
        return f"<code>{escape(str(self))}</code>"

    def __str__(self) -> str:
        return " -> ".join(map(str, self.groups)) or "nothing"

    def run_of(self, indices: tuple[int, ...]) -> Run:
        """The run of these steps, or the part of one."""
        groups = (*self.groups, *(group for part in self.parts for group in part.groups))
        runs = [group for group in groups if isinstance(group, Run)]
        settled = (part for run in runs if run.settled for part in run.apart)
        return next(run for run in (*runs, *settled) if run.indices == indices)

    def size_after(self, index: int) -> Size:
        """(height, width) after a step."""
        segment = self.segments[index]
        return segment.size if isinstance(segment, WarpSpec) else self.specs[index].size

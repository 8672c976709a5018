"""Assemble runs: decide which steps one resample can compute.

Owns: whether two warps can be one map, need a canvas between them or a new pass; windows, and the properties of a run as a whole.
Must not: know transforms: it sees segments, and which steps exclude one another.
Read next: ``../lowering/compose.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import takewhile
from typing import NamedTuple

from pellucid.engine.plan.tree import Tree
from pellucid.engine.plan.values import Canvas, Group, Run
from pellucid.segments import ColorSpec, CurveSpec, WarpSpec
from pellucid.types import Size

__all__ = ["Pending", "cuts"]


class Pending:
    """The run that is being assembled; used while one plan is made.

    Properties of all steps so far are accumulated, so that adding a step takes the same time however many came before. Only the
    steps of one choice, some of which exclude one another, are compared one by one.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._rounding = any(tree.rounded)
        self._steps: dict[int, _Step] = {}
        self._sums: dict[int, bool] = {}
        self._begin()

    def _begin(self) -> None:
        self._indices: list[int] = []
        self._place: dict[int, int] = {}
        self._starts: list[list[int]] = []  # for each canvas the first warp after it, or several alternatives
        self._start_of: dict[int, list[int]] = {}
        self._pivots: list[int] = []
        self._cutting: list[int] = []
        self._curved = False
        self._resized: set[int | None] = set()
        self._bytes: dict[tuple[int | None, bool], list[int]] = {}
        self._path = _Path()  # of all warps
        self._among: int | None = None  # the choice that the last step belongs to
        self._before = _Path()  # of the warps before that choice
        self._warps: list[int] = []  # the warps in that choice
        self._telling: list[int] = []  # those of them that are not neutral
        self._paths: dict[int, _Path] = {}  # for each warp in that choice, the path of all warps that can be open with it
        self._colors: list[int] = []  # the colours in that choice

    def takes(self, index: int, *, fuse: bool) -> bool:
        """Return whether a segment can be part of a run.

        A curve can only join a run that has begun, because a curve alone may be a lookup table of bytes. A curve that is one of
        several alternatives cannot join, because few samples need it; nor can a step that is rounded to bytes.
        """
        segment = self._tree.segments[index]
        if isinstance(segment, CurveSpec):
            joins = segment.alone and fuse and bool(self._indices) and not self._rounded(index)
            return joins and not self._tree.has_alternatives(index)
        return isinstance(segment, WarpSpec) or (isinstance(segment, ColorSpec) and not segment.stepwise)

    def add(self, index: int) -> list[Group]:
        """Add the next segment, and return the runs that end before it."""
        ended: list[Group] = []
        if self._reframed(index) or self._bent(index) or self._rounded(index):
            ended = self.closed()
        self._enter(index)
        if isinstance(self._tree.segments[index], WarpSpec):
            how = self._joining(index)
            if how == "pass":
                # Colours after the last warp move to the next warp's run: their clipping and their mean belong to its source.
                last = next(i for i in reversed(self._indices) if isinstance(self._tree.segments[i], WarpSpec))
                rest = self._indices[1 + self._place[last] :]
                ended = self.closed(len(self._indices) - len(rest))
                for i in rest:
                    self._take(i)
                self._enter(index)
            elif how == "canvas":
                self._starts.append([])
                self._start(index)
        self._take(index)
        return ended

    def _start(self, index: int) -> None:
        """Note that the step reads the last canvas, as an alternative to the other steps that do."""
        self._starts[-1].append(index)
        self._start_of[index] = self._starts[-1]

    def _enter(self, index: int) -> None:
        """If a step belongs to another choice than the last one, start its lists and note the path before it."""
        if (choice := self._tree.among[index]) != self._among:
            self._among, self._before = choice, replace(self._path)
            self._warps, self._telling, self._paths, self._colors = [], [], {}, []

    def _take(self, index: int) -> None:
        tree, segment = self._tree, self._tree.segments[index]
        self._enter(index)
        self._place[index] = len(self._indices)
        self._indices.append(index)
        if self._rounding:
            self._bytes.setdefault((tree.resizing[index], tree.rounded[index]), []).append(index)
        self._curved |= isinstance(segment, CurveSpec)
        if getattr(segment, "pivot", False):
            self._pivots.append(index)
        if not isinstance(segment, WarpSpec):
            self._colors += [index] if self._among is not None and isinstance(segment, ColorSpec) else []
            return
        if (step := self._step(index)).cuts:
            self._cutting.append(index)
        self._resized.add(tree.resizing[index])
        start = self._start_of.get(index)
        if start and start[0] == index:
            self._path.cut()
        self._path.add(step, begins=start is not None)
        if self._among is not None:
            own = self._open_with(index)
            changed = [] if step.neutral else [self._paths[i] for i in self._warps if not tree.exclusive(i, index)]
            for path in (own, *changed):
                path.add(step, begins=start is not None)
            self._paths[index] = own
            self._warps.append(index)
            self._telling += [] if step.neutral else [index]

    def _rounded(self, index: int) -> bool:
        """Return whether pictures are rounded to bytes before a step: it, or a step that can be open with it, rounds."""
        tree = self._tree
        for (choice, rounded), before in self._bytes.items():
            if choice is not None and choice == tree.resizing[index]:
                continue
            if rounded != tree.rounded[index] or (rounded and not all(tree.exclusive(i, index) for i in before)):
                return True
        return False

    def _bent(self, index: int) -> bool:
        """Return whether the run has a curve and the step needs its result: the step is a warp, or needs the mean."""
        segment = self._tree.segments[index]
        return self._curved and (isinstance(segment, WarpSpec) or getattr(segment, "pivot", False))

    def _reframed(self, index: int) -> bool:
        """Return whether a crop lies between two colour maps that need a mean: a pass has the mean of one frame only."""
        tree, pivots = self._tree, self._pivots
        if not pivots or tree.rule == "image" or not getattr(tree.segments[index], "pivot", False):
            return False
        return any(i > pivots[0] and not tree.exclusive(i, index) for i in self._cutting)

    def closed(self, end: int | None = None) -> list[Group]:
        """End the run and return it, with its steps up to a place (default: all); the next segment begins another run."""
        run = [_run(self._indices[:end], self._starts, self._tree)] if self._indices else []
        self._begin()
        return [*run]

    def _step(self, index: int) -> _Step:
        if index not in self._steps:
            spec = self._tree.warp(index)
            self._steps[index] = _Step(spec, cuts(spec, self._tree.specs[index].size))
        return self._steps[index]

    def _open_with(self, index: int) -> _Path:
        """Return the path of the warps that can be open together with a step."""
        if self._among is None:
            return self._path
        path = replace(self._before)
        path.empty = path.empty and all(self._tree.exclusive(i, index) for i in self._warps)
        for i in self._telling:
            start = self._start_of.get(i)
            if start and start[0] == i and not all(self._tree.exclusive(j, index) for j in start):
                path.cut()
            if not self._tree.exclusive(i, index):
                path.add(self._step(i), begins=start is not None)
        return path

    def _joining(self, index: int) -> str:
        """Return how a warp joins the run so far, whichever of the run's steps are open: ``one``, ``canvas`` or ``pass``."""
        tree, step, every = self._tree, self._step(index), self._path
        bent = every.bends + step.spec.bends
        if not every.empty and (bent > 1 or (bent and (every.integrates or step.integrates))):
            return "pass"  # a pass has one field at most, and cannot integrate over areas that a field bends
        path = self._open_with(index)
        how = _meeting(path, step, tree.rule)
        choice = tree.resizing[index]
        if choice is not None and (how == "canvas" or choice not in self._resized):
            # There can be no canvas between pictures of different sizes; a pass of crops begins with the whole picture.
            return "pass" if path.moves or self._turned(choice) else how
        if how == "pass" or not any(tree.exclusive(i, index) for i in self._warps):
            return how
        reader = self._last_reader(index)
        if how == "canvas" and reader is not None and _alike(tree, reader, index):
            self._start(index)
            how = "one"
        elif reader is not None and not step.plain:
            return "pass"
        return how if self._keeps_result(index) else "pass"

    def _last_reader(self, index: int) -> int | None:
        """Return the first reader of the last canvas, if all its readers and all warps after it are alternatives of a step."""
        if not self._starts or not all(self._tree.exclusive(i, index) for i in self._starts[-1]):
            return None
        first = self._starts[-1][0]
        after = takewhile(lambda i: i != first, reversed(self._warps))
        return first if all(self._tree.exclusive(i, index) for i in after) else None

    def _turned(self, choice: int) -> bool:
        """Return whether a quarter turn precedes a choice with a branch that sums along the axes: it then needs another pass."""
        if choice not in self._sums:
            inside = (i for i, at in enumerate(self._tree.resizing) if at == choice)
            self._sums[choice] = any(self._step(i).sums for i in inside if isinstance(self._tree.segments[i], WarpSpec))
        return not self._path.upright and self._sums[choice]

    def _keeps_result(self, index: int) -> bool:
        """Return whether a warp has the same result in one pass with its alternatives as in a pass without them."""
        tree = self._tree
        others = [i for i in self._telling if tree.exclusive(i, index)]
        steps = [self._step(i) for i in [*others, index]]
        if any(s.sums for s in steps) and not all(s.spec.along_axes for s in steps):
            return False
        mine = self._open_with(index)
        mine.add(self._step(index), begins=index in self._start_of)
        if (own := mine.character) is not None and any(
            self._paths[i].character not in (None, own) for i in self._warps if tree.exclusive(i, index)
        ):
            return False
        # If another branch has a colour after its warp, that colour must not move before this warp, which interpolates.
        if not tree.warp(index).resamples:
            return True
        colored = [i for i in self._colors if tree.exclusive(i, index)]
        return not any(tree.warp(w).resamples and self._later(c, w) for c in colored for w in others)

    def _later(self, color: int, warp: int) -> bool:
        return not self._tree.exclusive(color, warp) and self._place[color] > self._place[warp]


class _Step(NamedTuple):
    """A warp of a run, and whether it may cut off a part of its input without exposing anything."""

    spec: WarpSpec
    cuts: bool

    @property
    def axial(self) -> bool:
        """Whether upright rectangles stay upright."""
        return self.spec.along_axes or not self.spec.resamples

    @property
    def integrates(self) -> bool:
        """Whether it shrinks with a low-pass, and so averages over areas."""
        return self.spec.antialias and _shrinks(self.spec.shrink)

    @property
    def sums(self) -> bool:
        """Whether it low-passes, or is a crop or resize: it interpolates along the axes and exposes nothing."""
        upright = self.spec.resamples and self.spec.along_axes and self.spec.interpolation in ("bilinear", "bicubic")
        return self.integrates or (upright and not self.spec.exposes)

    @property
    def plain(self) -> bool:
        """Whether it only moves pixels and keeps all of them: a flip, a quarter turn."""
        return not (self.spec.exposes or self.spec.resamples or self.cuts)

    @property
    def neutral(self) -> bool:
        """Whether adding it changes no property of a run that is not empty."""
        return self.plain and self.spec.along_axes and not (self.integrates or self.spec.bends)


class _Sampling(NamedTuple):
    """How the warps that read the source sample it.

    Args:
        padding_mode: of the last warp that exposes.
        axial: upright rectangles stay upright.
        resamples: some warp interpolates.
    """

    padding_mode: str = "border"
    axial: bool = True
    resamples: bool = False

    def then(self, spec: WarpSpec) -> _Sampling:
        """Return the sampling with one more warp."""
        padding_mode = spec.padding_mode if spec.exposes else self.padding_mode
        return _Sampling(padding_mode, self.axial and (spec.along_axes or not spec.resamples), self.resamples or spec.resamples)

    @property
    def clamped(self) -> bool:
        """Whether sampling is clamped to the source."""
        return self.axial and self.resamples and self.padding_mode not in ("reflection", "reflect_101")


def _shrinks(shrink: tuple[float, float]) -> bool:
    return any(step > 1.0 for step in shrink)


def cuts(spec: WarpSpec, size: Size) -> bool:
    """Return whether a warp may cut off a part of its input without exposing anything."""
    return spec.windowed or (not spec.exposes and not spec.resamples and spec.size != size)


def _alike(tree: Tree, one: int, other: int) -> bool:
    """Return whether two warps read canvases that are equal, except for the fill."""
    first, second = (replace(_canvas([i], tree), at=0, fills=()) for i in (one, other))
    return first == second


@dataclass(slots=True)
class _Path:
    """The accumulated properties of a sequence of warps that can be open together.

    Args:
        empty: there are no warps.
        axial: upright rectangles stay upright under all of them.
        upright: each works along the axes.
        moves: some warp is not `plain`.
        sums, integrates, bends, resamples, exposes: some warp does.
        enlarged: a warp cuts after one that interpolates.
        done: some warps lie before the last canvas.
        recent: whether, after the last canvas, some warp is not `plain`, resamples, exposes.
        first: the sampling of the warps before the first canvas.
        begun: there is a canvas.
        interpolation: of the last warp that resamples.
    """

    empty: bool = True
    axial: bool = True
    upright: bool = True
    moves: bool = False
    sums: bool = False
    integrates: bool = False
    bends: bool = False
    resamples: bool = False
    exposes: bool = False
    enlarged: bool = False
    done: bool = False
    recent: tuple[bool, bool, bool] = (False, False, False)
    first: _Sampling = field(default_factory=_Sampling)
    begun: bool = False
    interpolation: str | None = None

    def cut(self) -> None:
        """Note that the next warp reads a canvas."""
        self.done, self.recent = not self.empty, (False, False, False)

    def add(self, step: _Step, *, begins: bool = False) -> None:
        """Add the next warp; ``begins`` if it reads a canvas."""
        spec, (moves, resamples, exposes) = step.spec, self.recent
        self.begun |= begins
        if not self.begun:
            self.first = self.first.then(spec)
        self.enlarged |= step.cuts and self.resamples
        self.recent = moves or not step.plain, resamples or spec.resamples, exposes or spec.exposes
        self.empty = False
        self.axial &= step.axial
        self.upright &= spec.along_axes
        self.moves |= not step.plain
        self.sums |= step.sums
        self.integrates |= step.integrates
        self.bends |= spec.bends
        self.resamples |= spec.resamples
        self.exposes |= spec.exposes
        self.interpolation = spec.interpolation if spec.resamples else self.interpolation

    @property
    def character(self) -> tuple[str, bool, str | None, bool] | None:
        """The properties that decide how a pass of these warps samples; None if any sampling is right for them."""
        if not (self.resamples or self.exposes):
            return None
        return self.first.padding_mode, self.first.clamped, self.interpolation, self.integrates


def _meeting(before: _Path, step: _Step, rule: str) -> str:
    """Return how a warp joins the warps before it: as ``one`` map, with a ``canvas`` in between, or in a ``pass`` of its own.

    Args:
        before: the run's warps.
        step: the next.
        rule: the canvas rule.
    """
    if before.empty:
        return "one"
    axial = before.axial and step.axial
    if axial and (before.sums or step.sums) and not (before.upright and step.spec.along_axes):
        return "pass"  # a quarter turn alone is exact, and the other warp can then be computed as sums along the axes
    if rule == "image" or not (step.spec.exposes or step.spec.resamples):
        return "one"
    moves, resamples, exposes = before.recent
    if not moves:
        return "one"
    # As long as rectangles stay upright, clamping to the crop equals clamping to the crop's rectangle in the source.
    held = axial and (step.spec.resamples or resamples) and not exposes
    # A crop ends half a pixel beyond the centres of its own pixels, which are the source's only if none were interpolated before.
    filled = step.spec.padding_mode in ("zeros", "constant") and not before.enlarged
    if not before.done and held and (filled or not step.spec.exposes):
        return "one"
    # If nothing was interpolated, another pass loses nothing. And a step that integrates reads an area of a canvas, not a point.
    copied = not before.resamples
    folded = step.spec.exposes and step.spec.padding_mode == "reflect_101"  # canvases inside a pass do not support this mode
    return "pass" if copied or folded or before.integrates or step.integrates else "canvas"


def _first(warps: list[int], starts: list[int]) -> list[int]:
    """Return the warps of a run that read the source itself: those before the first canvas."""
    return warps[: warps.index(starts[0])] if starts else warps


def _run(indices: list[int], starts: list[list[int]], tree: Tree) -> Run:
    warps = [i for i in indices if isinstance(tree.segments[i], WarpSpec)]
    colors = [i for i in indices if not isinstance(tree.segments[i], WarpSpec)]
    size_in = tree.specs[indices[0]].size
    run = {
        "indices": tuple(indices),
        "warps": tuple(warps),
        "colors": tuple(colors),
        "size_in": size_in,
        "size_out": tree.warp(warps[-1]).size if warps else size_in,
    }
    pivots = [i for i in colors if getattr(tree.segments[i], "pivot", False)]
    if not warps:
        return Run(**run, pivot=bool(pivots))  # type: ignore[arg-type]
    first = _first(warps, [start[0] for start in starts])
    sampling = reduce(_Sampling.then, map(tree.warp, first), _Sampling())
    clamped = sampling.clamped
    resampling = [i for i in warps if tree.warp(i).resamples]
    exposing = [i for i in first if tree.warp(i).exposes]
    vertical, horizontal = _shrink(warps, tree)
    shrinking = (s for s in map(tree.warp, warps) if s.antialias and _shrinks(s.shrink))
    antialias = _shrinks((vertical, horizontal)) and any(True for _ in shrinking)
    interpolation = tree.warp(resampling[-1]).interpolation if resampling else "bilinear"
    canvases = _canvases(warps, starts, tree)
    settled = bool(pivots) and clamped and not (exposing or canvases) and tree.rule != "image" and _early(warps, colors[0], tree)
    return Run(
        **run,  # type: ignore[arg-type]
        resample_at=resampling[-1] if resampling else warps[-1],
        moved=bool(resampling) and resampling[-1] != warps[0],
        fills=tuple(
            i for at, i in enumerate(exposing) if all(tree.exclusive(i, exposing[k]) for k in range(at + 1, len(exposing)))
        ),
        windows=_windows(first, tree) if clamped else (),
        padding_mode=sampling.padding_mode,
        interpolation=interpolation,
        projective=any(tree.warp(i).projective for i in warps),
        along_axes=all(tree.warp(i).along_axes for i in first) and not starts,
        clamped=clamped,
        canvases=canvases,
        footprint=(math.ceil(vertical), math.ceil(horizontal)) if antialias and interpolation != "nearest" else None,
        pivot=bool(pivots),
        framing=_framing([i for i in first if i < pivots[0]], warps, tree)
        if pivots and tree.rule != "image" and not settled
        else (),
        settled=settled,
    )


def _early(warps: list[int], color: int, tree: Tree) -> bool:
    """Return whether all warps that interpolate or cut come before a colour."""
    return all(i < color or not (tree.warp(i).resamples or cuts(tree.warp(i), tree.specs[i].size)) for i in warps)


def _framing(early: list[int], warps: list[int], tree: Tree) -> tuple[int, ...]:
    """Return the warps up to the last crop before the first pivot, as long as they keep an upright rectangle of the source."""
    found = 0
    cut = False
    beside = {i: some for some in tree.side_by_side(warps) for i in some}
    seen: set[int] = set()
    parted: set[int] = set()  # choices of which one alternative has been visited and another has not, each by its first step
    for end, i in enumerate(early, 1):
        spec, some = tree.warp(i), beside[i]
        if spec.exposes or not (spec.along_axes or not spec.resamples):
            break
        seen.add(i)
        parted.discard(some[0])
        if any(tree.exclusive(j, k) for j in some if j in seen for k in some if k not in seen):
            parted.add(some[0])
        cut |= cuts(spec, tree.specs[i].size)
        if cut and not parted:
            found = end
    return tuple(early[:found])


def _shrink(warps: list[int], tree: Tree) -> tuple[float, float]:
    """Return bounds (vertical, horizontal) of the source's pixels per pixel of the result, whichever steps are open together."""
    most: list[tuple[float, float]] = []
    before = [(1.0, 1.0)]
    for some in tree.side_by_side(warps):
        reached: list[tuple[int, float, float]] = []
        for i in some:
            open_with = before + [(v, h) for j, v, h in reached if not tree.exclusive(i, j)]
            vertical, horizontal = tree.warp(i).shrink
            bounds = vertical * max([v for v, _ in open_with]), horizontal * max([h for _, h in open_with])
            most = [_greatest([*most, bounds])]
            reached += [(i, *bounds)] if _shrinks(bounds) else []
        before = [_greatest(before + [(v, h) for _, v, h in reached])]
    return most[0]


def _greatest(shrinks: list[tuple[float, float]]) -> tuple[float, float]:
    return max([v for v, _ in shrinks]), max([h for _, h in shrinks])


def _windows(warps: list[int], tree: Tree) -> tuple[Canvas, ...]:
    """Return the rectangles that bound the sampling, each as the canvas that its warp reads."""
    specs = [(i, tree.warp(i)) for i in warps]
    if tree.rule == "image":  # only if no other warp resamples, so that the window is a rectangle of the image itself
        windowed = [Canvas(i, tree.specs[i].size, windowed=True) for i, s in specs if s.windowed]
        alone = sum(s.resamples for _, s in specs) == 1 and not any(s.exposes for _, s in specs)
        return tuple(windowed[:1]) if alone else ()
    found: list[Canvas] = []
    left: list[int] = []  # crops whose result the next warp that reads beyond it must be clamped to
    for i, s in specs:
        if s.windowed or s.resamples or s.exposes:
            others = [j for j in left if tree.exclusive(i, j)]
            if s.windowed or len(others) < len(left):
                found.append(Canvas(i, tree.specs[i].size, windowed=s.windowed))
                left = others
        if not s.windowed and cuts(s, tree.specs[i].size):
            left.append(i)
    return tuple(found)


def _canvases(warps: list[int], starts: list[list[int]], tree: Tree) -> tuple[Canvas, ...]:
    """Return the canvases in the order of the warps: the picture before a warp, then the warp's displacements."""
    found: list[Canvas] = []
    first = {start[0]: start for start in starts}
    for index in warps:
        found += [_canvas(first[index], tree)] if index in first else []
        if tree.warp(index).bends:
            found.append(Canvas(index, tree.warp(index).size, "kink" if tree.warp(index).linear else "bend"))
    return tuple(found)


def _canvas(start: list[int], tree: Tree) -> Canvas:
    index = start[0]
    spec, size = tree.warp(index), tree.specs[index].size
    if not spec.exposes:
        return Canvas(index, size, windowed=spec.windowed)
    return Canvas(index, size, spec.padding_mode, tuple(start), exposes=True, hard=spec.along_axes)

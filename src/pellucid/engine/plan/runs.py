"""Putting runs together: what goes with what in one resample.

Owns: how warps meet, canvases, windows, and what a run is like as a whole.
Must not: know of transforms; it sees segments, and which steps exclude one another.
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
    """The run that is being put together; lives for one plan.

    What is asked of all steps so far is kept as they come, so that a step costs no more behind many others; only among the steps of
    one choice, where some are apart, they are looked at one by one.
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
        self._starts: list[list[int]] = []  # the first warps after each canvas that matters: one, or alternatives
        self._start_of: dict[int, list[int]] = {}
        self._pivots: list[int] = []
        self._cutting: list[int] = []
        self._curved = False
        self._resized: set[int | None] = set()
        self._bytes: dict[tuple[int | None, bool], list[int]] = {}
        self._path = _Path()  # of all warps
        self._among: int | None = None
        self._before = _Path()  # of those before the choice that the last step is among
        self._warps: list[int] = []  # those among it
        self._telling: list[int] = []  # of these the ones that more is asked of than whether they are there
        self._paths: dict[int, _Path] = {}  # of these each with what can be open beside it
        self._colors: list[int] = []

    def takes(self, index: int, *, fuse: bool) -> bool:
        """Whether a segment can be part of a run: a curve behind something else, as alone it may look bytes up.

        Nor is one of several alternatives, which few samples see, and one that is rounded.
        """
        segment = self._tree.segments[index]
        if isinstance(segment, CurveSpec):
            joins = segment.alone and fuse and bool(self._indices) and not self._rounded(index)
            return joins and not self._tree.has_alternatives(index)
        return isinstance(segment, WarpSpec) or (isinstance(segment, ColorSpec) and not segment.stepwise)

    def add(self, index: int) -> list[Group]:
        """Take in the next segment; returns the runs that end before it."""
        ended: list[Group] = []
        if self._reframed(index) or self._bent(index) or self._rounded(index):
            ended = self.closed()
        self._enter(index)
        if isinstance(self._tree.segments[index], WarpSpec):
            how = self._meeting(index)
            if how == "pass":
                # Colours after the last warp meet the next one: what closes them, and their pivot, see what it sees.
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
        """The step is an alternative of the last canvas's readers."""
        self._starts[-1].append(index)
        self._start_of[index] = self._starts[-1]

    def _enter(self, index: int) -> None:
        """Know what comes before the choice that a step is among."""
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
            changed = [] if step.neutral else [self._paths[i] for i in self._warps if not tree.apart(i, index)]
            for path in (own, *changed):
                path.add(step, begins=start is not None)
            self._paths[index] = own
            self._warps.append(index)
            self._telling += [] if step.neutral else [index]

    def _rounded(self, index: int) -> bool:
        """Whether bytes lie before a step: it is rounded or what is before it, and a sample may see both."""
        tree = self._tree
        for (choice, rounded), before in self._bytes.items():
            if choice is not None and choice == tree.resizing[index]:
                continue
            if rounded != tree.rounded[index] or (rounded and not all(tree.apart(i, index) for i in before)):
                return True
        return False

    def _bent(self, index: int) -> bool:
        """Whether a curve lies before what must see its result: a warp, or a mean."""
        segment = self._tree.segments[index]
        return self._curved and (isinstance(segment, WarpSpec) or getattr(segment, "pivot", False))

    def _reframed(self, index: int) -> bool:
        """Whether a crop lies between two colour maps that need a mean: a pass knows the mean of one frame."""
        tree, pivots = self._tree, self._pivots
        if not pivots or tree.rule == "image" or not getattr(tree.segments[index], "pivot", False):
            return False
        return any(i > pivots[0] and not tree.apart(i, index) for i in self._cutting)

    def closed(self, end: int | None = None) -> list[Group]:
        """The run, if there is one, of the steps before a place in it; the next segment begins another."""
        run = [_run(self._indices[:end], self._starts, self._tree)] if self._indices else []
        self._begin()
        return [*run]

    def _step(self, index: int) -> _Step:
        if index not in self._steps:
            spec = self._tree.warp(index)
            self._steps[index] = _Step(spec, cuts(spec, self._tree.specs[index].size))
        return self._steps[index]

    def _open_with(self, index: int) -> _Path:
        """The warps that can be open together with a step."""
        if self._among is None:
            return self._path
        path = replace(self._before)
        path.empty = path.empty and all(self._tree.apart(i, index) for i in self._warps)
        for i in self._telling:
            start = self._start_of.get(i)
            if start and start[0] == i and not all(self._tree.apart(j, index) for j in start):
                path.cut()
            if not self._tree.apart(i, index):
                path.add(self._step(i), begins=start is not None)
        return path

    def _meeting(self, index: int) -> str:
        """How a step meets the run so far, where some of its steps may be closed; alternatives are never open together with it."""
        tree, step, every = self._tree, self._step(index), self._path
        bent = every.bends + step.spec.bends
        if not every.empty and (bent > 1 or (bent and (every.integrates or step.integrates))):
            return "pass"  # a field moves single points, once
        path = self._open_with(index)
        how = _meeting(path, step, tree.rule)
        choice = tree.resizing[index]
        if choice is not None and (how == "canvas" or choice not in self._resized):
            # What sits between pictures of different sizes is no canvas; a pass of crops begins with the whole picture.
            return "pass" if path.moves or self._turned(choice) else how
        if how == "pass" or not any(tree.apart(i, index) for i in self._warps):
            return how
        late = self._late(index)
        if how == "canvas" and late is not None and _alike(tree, late, index):
            self._start(index)
            how = "one"
        elif late is not None and not step.plain:
            return "pass"
        return how if self._shares(index) else "pass"

    def _late(self, index: int) -> int | None:
        """The first reader of the last canvas, if that stands behind all that can be open with a step and alternatives read it."""
        if not self._starts or not all(self._tree.apart(i, index) for i in self._starts[-1]):
            return None
        first = self._starts[-1][0]
        after = takewhile(lambda i: i != first, reversed(self._warps))
        return first if all(self._tree.apart(i, index) for i in after) else None

    def _turned(self, choice: int) -> bool:
        """Whether a quarter turn lies before a choice of which some branch sums along the axes: then all are another pass."""
        if choice not in self._sums:
            inside = (i for i, at in enumerate(self._tree.resizing) if at == choice)
            self._sums[choice] = any(self._step(i).sums for i in inside if isinstance(self._tree.segments[i], WarpSpec))
        return not self._path.upright and self._sums[choice]

    def _shares(self, index: int) -> bool:
        """Whether a warp, alone with what can be open beside it, would mean the same as in the pass of its alternatives."""
        tree = self._tree
        others = [i for i in self._telling if tree.apart(i, index)]
        steps = [self._step(i) for i in [*others, index]]
        if any(s.sums for s in steps) and not all(s.spec.along_axes for s in steps):
            return False
        mine = self._open_with(index)
        mine.add(self._step(index), begins=index in self._start_of)
        if (own := mine.character) is not None and any(
            self._paths[i].character not in (None, own) for i in self._warps if tree.apart(i, index)
        ):
            return False
        # A colour of another branch that stands after the warp of that branch must not come before this one, which interpolates.
        if not tree.warp(index).resamples:
            return True
        colored = [i for i in self._colors if tree.apart(i, index)]
        return not any(tree.warp(w).resamples and self._later(c, w) for c in colored for w in others)

    def _later(self, color: int, warp: int) -> bool:
        return not self._tree.apart(color, warp) and self._place[color] > self._place[warp]


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
    def sums(self) -> bool:
        """Low-passes, or interpolates along the axes without showing what lies outside: a crop or resize."""
        upright = self.spec.resamples and self.spec.along_axes and self.spec.interpolation in ("bilinear", "bicubic")
        return self.integrates or (upright and not self.spec.exposes)

    @property
    def plain(self) -> bool:
        """Only moves all its pixels: a flip, a quarter turn."""
        return not (self.spec.exposes or self.spec.resamples or self.cuts)

    @property
    def neutral(self) -> bool:
        """A run that is not empty is no other one with it."""
        return self.plain and self.spec.along_axes and not (self.integrates or self.spec.bends)


class _Sampling(NamedTuple):
    """How warps that see the source sample it.

    Args:
        padding_mode: what the last that exposes shows beyond it.
        axial: upright rectangles stay upright ones.
        resamples: some does.
    """

    padding_mode: str = "border"
    axial: bool = True
    resamples: bool = False

    def then(self, spec: WarpSpec) -> _Sampling:
        """With one more."""
        padding_mode = spec.padding_mode if spec.exposes else self.padding_mode
        return _Sampling(padding_mode, self.axial and (spec.along_axes or not spec.resamples), self.resamples or spec.resamples)

    @property
    def clamped(self) -> bool:
        """Whether they are clamped to it."""
        return self.axial and self.resamples and self.padding_mode not in ("reflection", "reflect_101")


def _shrinks(shrink: tuple[float, float]) -> bool:
    return any(step > 1.0 for step in shrink)


def cuts(spec: WarpSpec, size: Size) -> bool:
    """Whether a warp may leave something of its input out without exposing anything."""
    return spec.windowed or (not spec.exposes and not spec.resamples and spec.size != size)


def _alike(tree: Tree, one: int, other: int) -> bool:
    """Whether the canvas that one warp reads is the one that another reads, but for its fill."""
    first, second = (replace(_canvas([i], tree), at=0, fills=()) for i in (one, other))
    return first == second


@dataclass(slots=True)
class _Path:
    """What a row of warps that can be open together is like, however many they are.

    Args:
        empty: there are none.
        axial: upright rectangles stay upright ones.
        upright: each goes along the axes.
        moves: some does more than to move all its pixels.
        sums, integrates, bends, resamples, exposes: some does.
        enlarged: one cuts behind one that interpolates.
        done: some lie before the last canvas.
        recent: those behind that: whether some do more than move all their pixels, resample, expose.
        first: those before the first canvas: what they show beyond the source, whether they are axial and some resample.
        begun: there is a canvas.
        interpolation: of the last that resamples.
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
        """What comes now reads a canvas."""
        self.done, self.recent = not self.empty, (False, False, False)

    def add(self, step: _Step, *, begins: bool = False) -> None:
        """The next one; the first behind a canvas begins there."""
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
        """What decides how a pass of them samples; None where any will do."""
        if not (self.resamples or self.exposes):
            return None
        return self.first.padding_mode, self.first.clamped, self.interpolation, self.integrates


def _meeting(before: _Path, step: _Step, rule: str) -> str:
    """How a warp goes with those before it: ``one`` map, a ``canvas`` between two maps, or a ``pass`` of its own.

    Args:
        before: the run's warps.
        step: the next.
        rule: the canvas rule.
    """
    if before.empty:
        return "one"
    axial = before.axial and step.axial
    if axial and (before.sums or step.sums) and not (before.upright and step.spec.along_axes):
        return "pass"  # a quarter turn is exact on its own, and what sums along the axes can do so
    if rule == "image" or not (step.spec.exposes or step.spec.resamples):
        return "one"
    moves, resamples, exposes = before.recent
    if not moves:
        return "one"
    # Clamping to a rectangle of the source says the same as clamping to what is left of it, while rectangles stay upright.
    held = axial and (step.spec.resamples or resamples) and not exposes
    # What is left of a crop ends half a pixel beyond its own pixels' centres: those of the source only if none were made since.
    filled = step.spec.padding_mode in ("zeros", "constant") and not before.enlarged
    if not before.done and held and (filled or not step.spec.exposes):
        return "one"
    # Where nothing was interpolated, a pass is a copy; and what integrates reads more of a canvas than one point.
    copied = not before.resamples
    folded = step.spec.exposes and step.spec.padding_mode == "reflect_101"  # which canvases inside a pass do not know
    return "pass" if copied or folded or before.integrates or step.integrates else "canvas"


def _first(warps: list[int], starts: list[int]) -> list[int]:
    """The warps of a run that read the source itself: those before the first canvas."""
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
        fills=tuple(i for at, i in enumerate(exposing) if all(tree.apart(i, exposing[k]) for k in range(at + 1, len(exposing)))),
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
    """Whether warps that do more than move all pixels come before a colour."""
    return all(i < color or not (tree.warp(i).resamples or cuts(tree.warp(i), tree.specs[i].size)) for i in warps)


def _framing(early: list[int], warps: list[int], tree: Tree) -> tuple[int, ...]:
    """The first of the warps before the first pivot, up to the last cut, while they leave an upright rectangle of the source."""
    found = 0
    cut = False
    beside = {i: some for some in tree.side_by_side(warps) for i in some}
    seen: set[int] = set()
    parted: set[int] = set()  # the choices of which one alternative is seen and another is not, each by its first step
    for end, i in enumerate(early, 1):
        spec, some = tree.warp(i), beside[i]
        if spec.exposes or not (spec.along_axes or not spec.resamples):
            break
        seen.add(i)
        parted.discard(some[0])
        if any(tree.apart(j, k) for j in some if j in seen for k in some if k not in seen):
            parted.add(some[0])
        cut |= cuts(spec, tree.specs[i].size)
        if cut and not parted:
            found = end
    return tuple(early[:found])


def _shrink(warps: list[int], tree: Tree) -> tuple[float, float]:
    """Bounds (vertical, horizontal) of the source's pixels per pixel of the result, for whatever is open together."""
    most: list[tuple[float, float]] = []
    before = [(1.0, 1.0)]
    for some in tree.side_by_side(warps):
        reached: list[tuple[int, float, float]] = []
        for i in some:
            open_with = before + [(v, h) for j, v, h in reached if not tree.apart(i, j)]
            vertical, horizontal = tree.warp(i).shrink
            bounds = vertical * max([v for v, _ in open_with]), horizontal * max([h for _, h in open_with])
            most = [_greatest([*most, bounds])]
            reached += [(i, *bounds)] if _shrinks(bounds) else []
        before = [_greatest(before + [(v, h) for _, v, h in reached])]
    return most[0]


def _greatest(shrinks: list[tuple[float, float]]) -> tuple[float, float]:
    return max([v for v, _ in shrinks]), max([h for _, h in shrinks])


def _windows(warps: list[int], tree: Tree) -> tuple[Canvas, ...]:
    """The rectangles that bound the sampling, each as the canvas that its warp reads."""
    specs = [(i, tree.warp(i)) for i in warps]
    if tree.rule == "image":  # only where no other resampling blurs its meaning and it sees the image itself
        windowed = [Canvas(i, tree.specs[i].size, windowed=True) for i, s in specs if s.windowed]
        alone = sum(s.resamples for _, s in specs) == 1 and not any(s.exposes for _, s in specs)
        return tuple(windowed[:1]) if alone else ()
    found: list[Canvas] = []
    left: list[int] = []  # what an earlier crop has left matters to the next warp that reads beyond
    for i, s in specs:
        if s.windowed or s.resamples or s.exposes:
            others = [j for j in left if tree.apart(i, j)]
            if s.windowed or len(others) < len(left):
                found.append(Canvas(i, tree.specs[i].size, windowed=s.windowed))
                left = others
        if not s.windowed and cuts(s, tree.specs[i].size):
            left.append(i)
    return tuple(found)


def _canvases(warps: list[int], starts: list[list[int]], tree: Tree) -> tuple[Canvas, ...]:
    """In the order of the warps: what lies before one, and its displacements."""
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

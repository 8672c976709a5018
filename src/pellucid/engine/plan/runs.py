"""Assemble runs: decide which steps one resample can compute.

Owns: whether a step joins the run before it, whatever is open; windows, and the properties of a run as a whole.
Must not: know transforms: it sees segments, and which steps exclude one another.
Read next: ``paths.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import takewhile

from pellucid.engine.plan.paths import Path, Sampling, Step, cuts, meeting, shrinks
from pellucid.engine.plan.tree import Tree
from pellucid.engine.plan.values import Canvas, Group, Run
from pellucid.segments import ColorSpec, CurveSpec, WarpSpec
from pellucid.types import Size

__all__ = ["Pending"]


class Pending:
    """The run that is being assembled; used while one plan is made.

    Properties of all steps so far are accumulated, so that adding a step takes the same time however many came before. Only the
    steps of one choice, some of which exclude one another, are compared one by one.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._rounding = any(tree.rounded)
        self._steps: dict[int, Step] = {}
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
        self._path = Path()  # of all warps
        self._choice = _Choice(None, Path())

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
        """If a step belongs to another choice than the last one, note the path before it."""
        if (choice := self._tree.among[index]) != self._choice.at:
            self._choice = _Choice(choice, replace(self._path))

    def _take(self, index: int) -> None:
        """Make a step the run's last."""
        tree, segment = self._tree, self._tree.segments[index]
        self._enter(index)
        self._place[index] = len(self._indices)
        self._indices.append(index)
        if self._rounding:
            self._bytes.setdefault((tree.resizing[index], tree.rounded[index]), []).append(index)
        if isinstance(segment, WarpSpec):
            self._take_warp(index)
            return
        self._curved |= isinstance(segment, CurveSpec)
        if getattr(segment, "pivot", False):
            self._pivots.append(index)
        if self._choice.at is not None and isinstance(segment, ColorSpec):
            self._choice.colors.append(index)

    def _take_warp(self, index: int) -> None:
        """Add a warp to the path of all warps, and in a choice to the paths of those that can be open with it."""
        step, begins, choice = self._step(index), index in self._start_of, self._choice
        if step.cuts:
            self._cutting.append(index)
        self._resized.add(self._tree.resizing[index])
        if begins and self._start_of[index][0] == index:
            self._path.cut()
        self._path.add(step, begins=begins)
        if choice.at is None:
            return
        own = self._open_with(index)
        others = [] if step.neutral else [choice.paths[i] for i in choice.warps if not self._tree.exclusive(i, index)]
        for path in (own, *others):
            path.add(step, begins=begins)
        choice.paths[index] = own
        choice.warps.append(index)
        if not step.neutral:
            choice.telling.append(index)

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

    def _step(self, index: int) -> Step:
        if index not in self._steps:
            spec = self._tree.warp(index)
            self._steps[index] = Step(spec, cuts(spec, self._tree.specs[index].size))
        return self._steps[index]

    def _open_with(self, index: int) -> Path:
        """Return the path of the warps that can be open together with a step."""
        choice, exclusive = self._choice, self._tree.exclusive
        if choice.at is None:
            return self._path
        path = replace(choice.before)
        path.empty = path.empty and all(exclusive(i, index) for i in choice.warps)
        for i in choice.telling:
            start = self._start_of.get(i)
            if start and start[0] == i and not all(exclusive(j, index) for j in start):
                path.cut()
            if not exclusive(i, index):
                path.add(self._step(i), begins=start is not None)
        return path

    def _joining(self, index: int) -> str:
        """Return how a warp joins the run so far, whichever of the run's steps are open: ``one``, ``canvas`` or ``pass``."""
        tree, step, every = self._tree, self._step(index), self._path
        bent = every.bends + step.spec.bends
        if not every.empty and (bent > 1 or (bent and (every.integrates or step.integrates))):
            return "pass"  # a pass has one field at most, and cannot integrate over areas that a field bends
        path = self._open_with(index)
        how = meeting(path, step, tree.rule)
        choice = tree.resizing[index]
        if choice is not None and (how == "canvas" or choice not in self._resized):
            # There can be no canvas between pictures of different sizes; a pass of crops begins with the whole picture.
            return "pass" if path.moves or self._turned(choice) else how
        if how == "pass" or not any(tree.exclusive(i, index) for i in self._choice.warps):
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
        after = takewhile(lambda i: i != first, reversed(self._choice.warps))
        return first if all(self._tree.exclusive(i, index) for i in after) else None

    def _turned(self, choice: int) -> bool:
        """Return whether a quarter turn precedes a choice with a branch that sums along the axes: it then needs another pass."""
        if choice not in self._sums:
            inside = (i for i, at in enumerate(self._tree.resizing) if at == choice)
            self._sums[choice] = any(self._step(i).sums for i in inside if isinstance(self._tree.segments[i], WarpSpec))
        return not self._path.upright and self._sums[choice]

    def _keeps_result(self, index: int) -> bool:
        """Return whether a warp has the same result in one pass with its alternatives as in a pass without them."""
        tree, choice = self._tree, self._choice
        others = [i for i in choice.telling if tree.exclusive(i, index)]
        steps = [self._step(i) for i in [*others, index]]
        if any(s.sums for s in steps) and not all(s.spec.along_axes for s in steps):
            return False
        mine = self._open_with(index)
        mine.add(self._step(index), begins=index in self._start_of)
        own = mine.character
        theirs = (choice.paths[i].character for i in choice.warps if tree.exclusive(i, index))
        if own is not None and any(other not in (None, own) for other in theirs):
            return False
        # If another branch has a colour after its warp, that colour must not move before this warp, which interpolates.
        if not tree.warp(index).resamples:
            return True
        colored = [i for i in choice.colors if tree.exclusive(i, index)]
        return not any(tree.warp(w).resamples and self._later(c, w) for c in colored for w in others)

    def _later(self, color: int, warp: int) -> bool:
        return not self._tree.exclusive(color, warp) and self._place[color] > self._place[warp]


@dataclass(slots=True)
class _Choice:
    """The steps of a run that belong to the same choice as its last step; some of them exclude one another.

    Args:
        at: the choice; None if the last step belongs to none. The lists then stay empty.
        before: the path of the warps before the choice.
        warps, colors: its steps so far.
        telling: those of the warps that are not neutral.
        paths: for each of the warps, the path of all warps that can be open with it.
    """

    at: int | None
    before: Path
    warps: list[int] = field(default_factory=list)
    colors: list[int] = field(default_factory=list)
    telling: list[int] = field(default_factory=list)
    paths: dict[int, Path] = field(default_factory=dict)


def _alike(tree: Tree, one: int, other: int) -> bool:
    """Return whether two warps read canvases that are equal, except for the fill."""
    first, second = (replace(_canvas([i], tree), at=0, fills=()) for i in (one, other))
    return first == second


def _run(indices: list[int], starts: list[list[int]], tree: Tree) -> Run:
    """Return the run of these steps; ``starts`` are the warps that read its canvases, each with its alternatives."""
    warps = [i for i in indices if isinstance(tree.segments[i], WarpSpec)]
    colors = [i for i in indices if not isinstance(tree.segments[i], WarpSpec)]
    pivots = [i for i in colors if getattr(tree.segments[i], "pivot", False)]
    size_in = tree.specs[indices[0]].size
    if not warps:
        return Run(tuple(indices), (), tuple(colors), size_in, size_in, pivot=bool(pivots))
    first = warps[: warps.index(starts[0][0])] if starts else warps  # those that read the source itself
    sampling = reduce(Sampling.then, map(tree.warp, first), Sampling())
    resampling = [i for i in warps if tree.warp(i).resamples]
    interpolation = tree.warp(resampling[-1]).interpolation if resampling else "bilinear"
    footprint, fills, canvases = _footprint(warps, tree), _fills(first, tree), _canvases(warps, starts, tree)
    of_source = bool(pivots) and tree.rule != "image"  # the mean is that of a part of the source, or of the resized picture
    settled = of_source and sampling.clamped and not (fills or canvases) and _early(warps, colors[0], tree)
    return Run(
        tuple(indices),
        tuple(warps),
        tuple(colors),
        size_in,
        tree.warp(warps[-1]).size,
        resample_at=resampling[-1] if resampling else warps[-1],
        moved=bool(resampling) and resampling[-1] != warps[0],
        fills=fills,
        windows=_windows(first, tree) if sampling.clamped else (),
        padding_mode=sampling.padding_mode,
        interpolation=interpolation,
        projective=any(tree.warp(i).projective for i in warps),
        along_axes=all(tree.warp(i).along_axes for i in first) and not starts,
        clamped=sampling.clamped,
        canvases=canvases,
        footprint=None if interpolation == "nearest" else footprint,
        pivot=bool(pivots),
        framing=_framing([i for i in first if i < pivots[0]], warps, tree) if of_source and not settled else (),
        settled=settled,
    )


def _fills(first: list[int], tree: Tree) -> tuple[int, ...]:
    """Return the last of the source's warps that exposes, or its alternatives."""
    exposing = [i for i in first if tree.warp(i).exposes]
    return tuple(i for n, i in enumerate(exposing, 1) if all(tree.exclusive(i, j) for j in exposing[n:]))


def _footprint(warps: list[int], tree: Tree) -> Size | None:
    """Return bounds of the source's pixels per pixel of the result; None if no warp shrinks with a low-pass."""
    vertical, horizontal = _shrink(warps, tree)
    filters = any(s.antialias and shrinks(s.shrink) for s in map(tree.warp, warps))
    return (math.ceil(vertical), math.ceil(horizontal)) if filters and shrinks((vertical, horizontal)) else None


def _early(warps: list[int], color: int, tree: Tree) -> bool:
    """Return whether all warps that interpolate or cut come before a colour."""
    return all(i < color or not (tree.warp(i).resamples or cuts(tree.warp(i), tree.specs[i].size)) for i in warps)


def _framing(early: list[int], warps: list[int], tree: Tree) -> tuple[int, ...]:
    """Return the warps up to the last crop before the first pivot, as long as they keep an upright rectangle of the source.

    They hold all alternatives of a choice, or none.
    """
    found, cut = 0, False
    beside = {i: some for some in tree.side_by_side(warps) for i in some}
    seen: set[int] = set()
    begun: set[int] = set()  # choices of which one alternative is in and another is not, each by its first step
    for end, i in enumerate(early, 1):
        spec, some = tree.warp(i), beside[i]
        if spec.exposes or not (spec.along_axes or not spec.resamples):
            break
        seen.add(i)
        begun.discard(some[0])
        if any(tree.exclusive(j, k) for j in some if j in seen for k in some if k not in seen):
            begun.add(some[0])
        cut |= cuts(spec, tree.specs[i].size)
        if cut and not begun:
            found = end
    return tuple(early[:found])


def _shrink(warps: list[int], tree: Tree) -> tuple[float, float]:
    """Return bounds (vertical, horizontal) of the source's pixels per pixel of the result, whichever steps are open together."""
    bounds: list[tuple[float, float]] = []  # after each warp
    before = (1.0, 1.0)  # after all steps before a choice
    for some in tree.side_by_side(warps):
        reached: dict[int, tuple[float, float]] = {}  # after each of the choice's warps, if it is more than a pixel
        for i in some:
            open_with = [before, *(bound for j, bound in reached.items() if not tree.exclusive(i, j))]
            bounds.append(_times(tree.warp(i).shrink, _greatest(open_with)))
            if shrinks(bounds[-1]):
                reached[i] = bounds[-1]
        before = _greatest([before, *reached.values()])
    return _greatest(bounds)


def _times(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] * other[0], one[1] * other[1]


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

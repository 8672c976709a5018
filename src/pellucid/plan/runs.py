"""Putting runs together: what goes with what in one resample.

Owns: how warps meet, canvases, windows, and what a run is like as a whole.
Must not: know of transforms; it sees segments, and which steps exclude one another.
Read next: ``../lowering/compose.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pellucid.plan.values import Canvas, Group, Run
from pellucid.segments import ColorSpec, CurveSpec, SegmentSpec, WarpSpec
from pellucid.types import ImageSpec, Size

__all__ = ["Pending", "Tree", "cuts"]


class Tree(NamedTuple):
    """What is known of the steps of a plan.

    Args:
        segments, specs: the plan's.
        apart: whether two steps are never open together.
        resizing: of each step the outermost choice around it in which sizes change, or None.
        rule: the canvas rule.
        rounded: of each step whether it ends in bytes.
    """

    segments: Sequence[SegmentSpec | None]
    specs: Sequence[ImageSpec]
    apart: Callable[[int, int], bool]
    resizing: Sequence[int | None]
    rule: str
    rounded: Sequence[bool] = ()

    def warp(self, index: int) -> WarpSpec:
        """The segment of a step that is a warp."""
        spec = self.segments[index]
        assert isinstance(spec, WarpSpec)
        return spec


class Pending:
    """The run that is being put together; lives for one plan."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._indices: list[int] = []
        self._starts: list[list[int]] = []  # the first warps after each canvas that matters: one, or alternatives

    def takes(self, index: int, *, fuse: bool) -> bool:
        """Whether a segment can be part of a run: a curve behind something else, as alone it may look bytes up.

        Nor is one of several alternatives, which few samples see, and one that is rounded.
        """
        segment, apart = self._tree.segments[index], self._tree.apart
        if isinstance(segment, CurveSpec):
            joins = segment.alone and fuse and bool(self._indices) and not self._rounded(index)
            return joins and not any(apart(i, index) for i in range(len(self._tree.segments)))
        return isinstance(segment, WarpSpec) or (isinstance(segment, ColorSpec) and not segment.stepwise)

    def add(self, index: int) -> list[Group]:
        """Take in the next segment; returns the runs that end before it."""
        ended: list[Group] = []
        if self._reframed(index) or self._bent(index) or self._rounded(index):
            ended = self.closed()
        elif isinstance(self._tree.segments[index], WarpSpec):
            warps = self._warps()
            how = self._meeting(index, warps)
            if how == "pass":
                # Colours after the last warp meet the next one: what closes them, and their pivot, see what it sees.
                last = 1 + self._indices.index(warps[-1])
                rest, self._indices = self._indices[last:], self._indices[:last]
                ended = self.closed()
                self._indices = rest
            elif how == "canvas":
                self._starts.append([index])
        self._indices.append(index)
        return ended

    def _rounded(self, index: int) -> bool:
        """Whether bytes lie before a step: it is rounded or what is before it, and a sample may see both."""
        rounded, resizing = self._tree.rounded, self._tree.resizing
        before = [i for i in self._indices if resizing[index] is None or resizing[i] != resizing[index]] if any(rounded) else []
        return any(rounded[i] != rounded[index] or (rounded[index] and not self._tree.apart(i, index)) for i in before)

    def _bent(self, index: int) -> bool:
        """Whether a curve lies before what must see its result: a warp, or a mean."""
        segment = self._tree.segments[index]
        sees = isinstance(segment, WarpSpec) or getattr(segment, "pivot", False)
        return sees and any(isinstance(self._tree.segments[i], CurveSpec) for i in self._indices)

    def _reframed(self, index: int) -> bool:
        """Whether a crop lies between two colour maps that need a mean: a pass knows the mean of one frame."""
        tree, pivots = self._tree, [i for i in self._indices if getattr(self._tree.segments[i], "pivot", False)]
        if not pivots or tree.rule == "image" or not getattr(tree.segments[index], "pivot", False):
            return False
        return any(cuts(tree.warp(i), tree.specs[i].size) for i in self._warps() if i > pivots[0] and not tree.apart(i, index))

    def closed(self) -> list[Group]:
        """The run, if there is one; the next segment begins another."""
        run = [_run(self._indices, self._starts, self._tree)] if self._indices else []
        self._indices, self._starts = [], []
        return [*run]

    def _warps(self) -> list[int]:
        return [i for i in self._indices if isinstance(self._tree.segments[i], WarpSpec)]

    def _step(self, index: int) -> _Step:
        spec = self._tree.warp(index)
        return _Step(spec, cuts(spec, self._tree.specs[index].size))

    def _meeting(self, index: int, warps: list[int]) -> str:
        """How a step meets the run so far, where some of its steps may be closed; alternatives are never open together with it."""
        tree, step = self._tree, self._step(index)
        steps = [*map(self._step, warps), step]
        bent = [s for s in steps if s.spec.bends]
        if warps and (len(bent) > 1 or (bent and any(s.integrates for s in steps))):
            return "pass"  # a field moves single points, once
        before = [i for i in warps if not tree.apart(i, index)]
        own = [start for start in self._starts if not all(tree.apart(i, index) for i in start)]
        done = sum(warps.index(i) < warps.index(own[-1][0]) for i in before) if own else 0
        how = _meeting([self._step(i) for i in before], done, step, tree.rule)
        choice = tree.resizing[index]
        if choice is not None and (how == "canvas" or all(tree.resizing[i] != choice for i in warps)):
            # What sits between pictures of different sizes is no canvas; a pass of crops begins with the whole picture.
            return "pass" if any(not self._step(i).plain for i in before) or self._turned(choice, warps) else how
        if len(before) == len(warps) or how == "pass":
            return how
        late = [start for start in self._starts if start not in own and _after(warps, start[0], before)]
        if how == "canvas" and late and _alike(tree, late[-1][0], index):
            late[-1].append(index)
            how = "one"
        elif late and not step.plain:
            return "pass"
        return how if self._shares(index, warps) else "pass"

    def _turned(self, choice: int, warps: list[int]) -> bool:
        """Whether a quarter turn lies before a choice of which some branch sums along the axes: then all are another pass."""
        tree = self._tree
        inside = [i for i, at in enumerate(tree.resizing) if at == choice and isinstance(tree.segments[i], WarpSpec)]
        return any(not tree.warp(i).along_axes for i in warps) and any(self._step(i).sums for i in inside)

    def _shares(self, index: int, warps: list[int]) -> bool:
        """Whether a warp, alone with what can be open beside it, would mean the same as in the pass of its alternatives."""
        tree = self._tree
        others = [i for i in warps if tree.apart(i, index)]
        steps = [self._step(i) for i in [*others, index]]
        if any(s.sums for s in steps) and not all(s.spec.along_axes for s in steps):
            return False
        mine = self._character(index, [*warps, index])
        if mine is not None and any(self._character(i, [*warps, index]) not in (None, mine) for i in others):
            return False
        # A colour of another branch that stands after the warp of that branch must not come before this one, which interpolates.
        colored = [i for i in self._indices if isinstance(tree.segments[i], ColorSpec) and tree.apart(i, index)]
        return not (
            tree.warp(index).resamples and any(tree.warp(w).resamples and self._later(c, w) for c in colored for w in others)
        )

    def _later(self, color: int, warp: int) -> bool:
        return not self._tree.apart(color, warp) and self._indices.index(color) > self._indices.index(warp)

    def _character(self, index: int, warps: list[int]) -> Any:
        """What decides how a pass samples, of all warps that can be open with this one; None where any will do."""
        tree = self._tree
        path = [i for i in warps if not tree.apart(i, index)]
        starts = [i for start in self._starts for i in start if i in path]
        specs = [tree.warp(i) for i in path]
        if not any(s.resamples or s.exposes for s in specs):
            return None
        interpolation = [s.interpolation for s in specs if s.resamples][-1:]
        antialias = any(s.antialias and _shrinks(s.shrink) for s in specs)
        return *_sampling([tree.warp(i) for i in _first(path, starts)]), interpolation, antialias


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


def _shrinks(shrink: tuple[float, float]) -> bool:
    return any(step > 1.0 for step in shrink)


def cuts(spec: WarpSpec, size: Size) -> bool:
    """Whether a warp may leave something of its input out without exposing anything."""
    return spec.windowed or (not spec.exposes and not spec.resamples and spec.size != size)


def _after(warps: list[int], start: int, before: list[int]) -> bool:
    """Whether a canvas stands behind all these."""
    return all(warps.index(i) < warps.index(start) for i in before)


def _alike(tree: Tree, one: int, other: int) -> bool:
    """Whether the canvas that one warp reads is the one that another reads, but for its fill."""
    first, second = (replace(_canvas([i], tree), at=0, fills=()) for i in (one, other))
    return first == second


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
    if axial and any(s.sums for s in [*before, step]) and not all(s.spec.along_axes for s in [*before, step]):
        return "pass"  # a quarter turn is exact on its own, and what sums along the axes can do so
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
    folded = step.spec.exposes and step.spec.padding_mode == "reflect_101"  # which canvases inside a pass do not know
    return "pass" if copied or folded or any(s.integrates for s in [*before, step]) else "canvas"


def _first(warps: list[int], starts: list[int]) -> list[int]:
    """The warps of a run that read the source itself: those before the first canvas."""
    return warps[: warps.index(starts[0])] if starts else warps


def _sampling(specs: list[WarpSpec]) -> tuple[str, bool]:
    """What warps that see the source show beyond it, and whether they are clamped to it."""
    exposing = [s for s in specs if s.exposes]
    padding_mode = exposing[-1].padding_mode if exposing else "border"
    axial = all(s.along_axes or not s.resamples for s in specs)
    return padding_mode, axial and any(s.resamples for s in specs) and padding_mode not in ("reflection", "reflect_101")


def _run(indices: list[int], starts: list[list[int]], tree: Tree) -> Run:
    warps = [i for i in indices if isinstance(tree.segments[i], WarpSpec)]
    colors = [i for i in indices if i not in warps]
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
    padding_mode, clamped = _sampling([tree.warp(i) for i in first])
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
        fills=tuple(i for at, i in enumerate(exposing) if all(tree.apart(i, j) for j in exposing[at + 1 :])),
        windows=_windows(first, tree) if clamped else (),
        padding_mode=padding_mode,
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
    found: tuple[int, ...] = ()
    for end, i in enumerate(early, 1):
        spec = tree.warp(i)
        if spec.exposes or not (spec.along_axes or not spec.resamples):
            break
        joined = not any(tree.apart(j, k) for j in early[:end] for k in warps if k not in early[:end])
        if joined and any(cuts(tree.warp(j), tree.specs[j].size) for j in early[:end]):
            found = tuple(early[:end])
    return found


def _shrink(warps: list[int], tree: Tree) -> tuple[float, float]:
    """Bounds (vertical, horizontal) of the source's pixels per pixel of the result, for whatever is open together."""
    reached: list[tuple[int, float, float]] = []
    for i in warps:
        vertical, horizontal = tree.warp(i).shrink
        open_with = [(v, h) for j, v, h in reached if not tree.apart(i, j)]
        reached.append((i, vertical * max([1.0, *[v for v, _ in open_with]]), horizontal * max([1.0, *[h for _, h in open_with]])))
    return max([v for _, v, _ in reached]), max([h for _, _, h in reached])


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
        mine = [j for j in left if not tree.apart(i, j)]
        if s.windowed or (mine and (s.resamples or s.exposes)):
            found.append(Canvas(i, tree.specs[i].size, windowed=s.windowed))
            left = [j for j in left if j not in mine]
        if not s.windowed and cuts(s, tree.specs[i].size):
            left.append(i)
    return tuple(found)


def _canvases(warps: list[int], starts: list[list[int]], tree: Tree) -> tuple[Canvas, ...]:
    """In the order of the warps: what lies before one, and its displacements."""
    found: list[Canvas] = []
    for index in warps:
        found += [_canvas(start, tree) for start in starts if start[0] == index]
        if tree.warp(index).bends:
            found.append(Canvas(index, tree.warp(index).size, "kink" if tree.warp(index).linear else "bend"))
    return tuple(found)


def _canvas(start: list[int], tree: Tree) -> Canvas:
    index = start[0]
    spec, size = tree.warp(index), tree.specs[index].size
    if not spec.exposes:
        return Canvas(index, size, windowed=spec.windowed)
    return Canvas(index, size, spec.padding_mode, tuple(start), exposes=True, hard=spec.along_axes)

"""Sum up warps that can be open together, and tell how the next one joins them.

Owns: `Step`, `Sampling` and `Path`, the properties of one warp and of several; and the rules by which two become one map.
Must not: know of choices: whoever makes a path says which warps are in it.
Read next: ``runs.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pellucid.segments import WarpSpec
from pellucid.types import Size

__all__ = ["Path", "Sampling", "Step", "cuts", "meeting", "shrinks"]


class Step(NamedTuple):
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
        return self.spec.antialias and shrinks(self.spec.shrink)

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


class _Recent(NamedTuple):
    """What the warps after the last canvas do: some warp is not `plain`, resamples, exposes."""

    moves: bool = False
    resamples: bool = False
    exposes: bool = False

    def then(self, step: Step) -> _Recent:
        """Return this with one more warp."""
        spec = step.spec
        return _Recent(self.moves or not step.plain, self.resamples or spec.resamples, self.exposes or spec.exposes)


class Sampling(NamedTuple):
    """How the warps that read the source sample it.

    Args:
        padding_mode: of the last warp that exposes.
        axial: upright rectangles stay upright.
        resamples: some warp interpolates.
    """

    padding_mode: str = "border"
    axial: bool = True
    resamples: bool = False

    def then(self, spec: WarpSpec) -> Sampling:
        """Return the sampling with one more warp."""
        padding_mode = spec.padding_mode if spec.exposes else self.padding_mode
        return Sampling(padding_mode, self.axial and (spec.along_axes or not spec.resamples), self.resamples or spec.resamples)

    @property
    def clamped(self) -> bool:
        """Whether sampling is clamped to the source."""
        return self.axial and self.resamples and self.padding_mode not in ("reflection", "reflect_101")


def shrinks(shrink: tuple[float, float]) -> bool:
    """Return whether a pixel of the result covers more than one of the source, along either axis."""
    return any(step > 1.0 for step in shrink)


def cuts(spec: WarpSpec, size: Size) -> bool:
    """Return whether a warp may cut off a part of its input without exposing anything."""
    return spec.windowed or (not spec.exposes and not spec.resamples and spec.size != size)


@dataclass(slots=True)
class Path:
    """The accumulated properties of a sequence of warps that can be open together.

    Args:
        empty: there are no warps.
        axial: upright rectangles stay upright under all of them.
        upright: each works along the axes.
        moves: some warp is not `plain`.
        sums, integrates, bends, resamples, exposes: some warp does.
        enlarged: a warp cuts after one that interpolates.
        done: some warps lie before the last canvas.
        recent: what those after it do.
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
    recent: _Recent = field(default_factory=_Recent)
    first: Sampling = field(default_factory=Sampling)
    begun: bool = False
    interpolation: str | None = None

    def cut(self) -> None:
        """Note that the next warp reads a canvas."""
        self.done, self.recent = not self.empty, _Recent()

    def add(self, step: Step, *, begins: bool = False) -> None:
        """Add the next warp; ``begins`` if it reads a canvas."""
        spec = step.spec
        self.begun |= begins
        if not self.begun:
            self.first = self.first.then(spec)
        self.enlarged |= step.cuts and self.resamples
        self.recent = self.recent.then(step)
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


def meeting(before: Path, step: Step, rule: str) -> str:
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
    if not before.recent.moves:
        return "one"
    # As long as rectangles stay upright, clamping to the crop equals clamping to the crop's rectangle in the source.
    held = axial and (step.spec.resamples or before.recent.resamples) and not before.recent.exposes
    # A crop ends half a pixel beyond the centres of its own pixels, which are the source's only if none were interpolated before.
    filled = step.spec.padding_mode in ("zeros", "constant") and not before.enlarged
    if not before.done and held and (filled or not step.spec.exposes):
        return "one"
    # If nothing was interpolated, another pass loses nothing. And a step that integrates reads an area of a canvas, not a point.
    copied = not before.resamples
    folded = step.spec.exposes and step.spec.padding_mode == "reflect_101"  # canvases inside a pass do not support this mode
    return "pass" if copied or folded or before.integrates or step.integrates else "canvas"

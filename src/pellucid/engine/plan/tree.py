"""Facts about the steps of a plan that decide how they are grouped into runs.

Owns: `Tree`: segments, sizes, and which steps are never open together.
Must not: know of transforms.
Read next: ``runs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

from pellucid.segments import SegmentSpec, WarpSpec
from pellucid.types import ImageSpec

__all__ = ["Tree"]


class Tree(NamedTuple):
    """Facts about the steps of a plan.

    Args:
        segments, specs: of the plan.
        exclusive: whether two steps are never open together.
        among: for each step the outermost choice around it that takes one branch only, or None. Only steps with the same choice
            can be exclusive, and such steps are neighbours in the order.
        resizing: for each step the outermost choice around it in which sizes change, or None.
        rule: the canvas rule.
        rounded: for each step whether its result is rounded to bytes.
    """

    segments: Sequence[SegmentSpec | None]
    specs: Sequence[ImageSpec]
    exclusive: Callable[[int, int], bool]
    among: Sequence[int | None]
    resizing: Sequence[int | None]
    rule: str
    rounded: Sequence[bool] = ()

    def warp(self, index: int) -> WarpSpec:
        """Return the segment of a step that is a warp."""
        spec = self.segments[index]
        assert isinstance(spec, WarpSpec)
        return spec

    def has_alternatives(self, index: int) -> bool:
        """Return whether some step is never open together with this one."""
        choice = self.among[index]
        inside = () if choice is None else takewhile(lambda i: self.among[i] == choice, range(choice + 1, len(self.among)))
        return any(self.exclusive(i, index) for i in inside)

    def side_by_side(self, indices: Sequence[int]) -> list[list[int]]:
        """Group steps in their order: steps of one choice, which may exclude one another, are one list."""
        found: list[list[int]] = []
        for index in indices:  # no groupby: Dynamo traces planning, and does not support groupby's key
            choice = self.among[index]
            if found and choice is not None and choice == self.among[found[-1][-1]]:
                found[-1].append(index)
            else:
                found.append([index])
        return found

"""What is known of the steps of a plan before they are put into runs.

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
    """What is known of the steps of a plan.

    Args:
        segments, specs: the plan's.
        apart: whether two steps are never open together.
        among: of each step the outermost choice around it whose branches exclude one another, or None: only steps among the same
            are apart, and the order keeps these together.
        resizing: of each step the outermost choice around it in which sizes change, or None.
        rule: the canvas rule.
        rounded: of each step whether it ends in bytes.
    """

    segments: Sequence[SegmentSpec | None]
    specs: Sequence[ImageSpec]
    apart: Callable[[int, int], bool]
    among: Sequence[int | None]
    resizing: Sequence[int | None]
    rule: str
    rounded: Sequence[bool] = ()

    def warp(self, index: int) -> WarpSpec:
        """The segment of a step that is a warp."""
        spec = self.segments[index]
        assert isinstance(spec, WarpSpec)
        return spec

    def has_alternatives(self, index: int) -> bool:
        """Whether some step is never open together with this one."""
        choice = self.among[index]
        inside = () if choice is None else takewhile(lambda i: self.among[i] == choice, range(choice + 1, len(self.among)))
        return any(self.apart(i, index) for i in inside)

    def side_by_side(self, indices: Sequence[int]) -> list[list[int]]:
        """Steps in their order, those that may be apart in one list."""
        found: list[list[int]] = []
        for index in indices:  # no groupby: Dynamo plans where a size is new, and knows no key of it
            choice = self.among[index]
            if found and choice is not None and choice == self.among[found[-1][-1]]:
                found[-1].append(index)
            else:
                found.append([index])
        return found

"""The order in which the steps of a tree run.

Owns: interleaving branches that exclude one another, so that similar steps of all branches share a pass.
Must not: know sizes.
Read next: ``runs.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TypeAlias

from pellucid.segments import ColorSpec, SegmentSpec, Warp3Spec, WarpSpec
from pellucid.transforms.base import Transform
from pellucid.transforms.choices import Choice

__all__ = ["order_of"]

_COLOR, _WARP, _BARRIER = range(3)

Slot: TypeAlias = tuple[int, list[int]]
"""A kind, and the steps of that kind at one place in the order; warps at one place are alternatives."""


def order_of(transforms: Sequence[Transform], segments: Sequence[SegmentSpec | None]) -> list[int]:
    """Return the steps in the order in which they run, without the choices themselves.

    Args:
        transforms: the tree.
        segments: of each step, in the tree's written order.

    A list without choices keeps its order. Branches that exclude one another are divided into slots of colours, of a single warp,
    or of barriers; the n-th slots of the same kind in all branches run together.
    """
    steps = count()

    def row(sequence: Sequence[Transform]) -> list[Slot]:
        slots: list[Slot] = []
        for transform in sequence:
            at = next(steps)
            if isinstance(transform, Choice):
                for _ in range(transform.turns):
                    branches = [row(branch) for branch in transform.branches]
                    slots += (
                        _beside(branches)
                        if transform.excludes((0, 0), (0, 1))
                        else [slot for branch in branches for slot in branch]
                    )
            else:
                slots.append((_kind(segments[at]), [at]))
        return slots

    return [step for _, slot in row(transforms) for step in slot]


def _kind(segment: SegmentSpec | None) -> int:
    if isinstance(segment, WarpSpec | Warp3Spec):
        return _WARP
    return _COLOR if isinstance(segment, ColorSpec) and not segment.stepwise else _BARRIER


def _beside(branches: Sequence[list[Slot]]) -> list[Slot]:
    """Merge branches: places are for colours, a warp and barriers in turn; each slot of a branch takes the next fitting place."""
    places: dict[int, list[int]] = {}
    for branch in branches:
        place, last = -1, None
        for kind, steps in branch:
            if kind != last or kind == _WARP:
                place += 1 + (kind - place - 1) % 3
            last = kind
            places.setdefault(place, []).extend(steps)
    return [(place % 3, places[place]) for place in sorted(places)]

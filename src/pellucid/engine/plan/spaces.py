"""Group the maps of volumes into passes: decide which maps one resample can compute.

Owns: `with_warp3`.
Must not: know transforms: it sees segments, and which steps exclude one another.
Read next: ``../space.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pellucid.engine.plan.tree import Tree
from pellucid.engine.plan.values import Group, Space
from pellucid.segments import Warp3Spec
from pellucid.types import Size3

__all__ = ["with_warp3"]


def with_warp3(groups: Sequence[Group], index: int, tree: Tree, *, fuse: bool) -> list[Group]:
    """Add a map of volumes to the passes; it joins the last pass if one resample gives the same result as two.

    It does not join if the last pass has a field and the map is not a window; if the map shows the outside of a canvas that an
    earlier map has cut (with the canvas rule ``image`` none has); or if the two differ in interpolation or in padding.
    """
    spec = _spec(tree, index)
    alone = Space(
        (index,),
        cast(Size3, tree.specs[index].extent),
        spec.size,
        outside=index if spec.exposes else None,
        resamples=spec.resamples,
        interpolation=spec.interpolation if spec.resamples else "nearest",
        bends=spec.bends,
    )
    last = groups[-1] if groups else None
    if not (fuse and isinstance(last, Space)) or not _meets(last, alone, tree):
        return [*groups, alone]
    both = replace(
        alone,
        indices=(*last.indices, index),
        size_in=last.size_in,
        outside=last.outside if alone.outside is None else alone.outside,
        resamples=last.resamples or alone.resamples,
        interpolation=alone.interpolation if alone.resamples else last.interpolation,
        bends=last.bends or alone.bends,
    )
    return [*groups[:-1], both]


def _is_window(tree: Tree, index: int) -> bool:
    spec, before = _spec(tree, index), cast(Size3, tree.specs[index].extent)
    kept = all(after <= length for after, length in zip(spec.size, before, strict=True))
    return kept and spec.size != before and not (spec.resamples or spec.exposes)


def _meets(run: Space, step: Space, tree: Tree) -> bool:
    if run.bends:
        return _is_window(tree, step.indices[0])
    if run.resamples and step.resamples and run.interpolation != step.interpolation:
        return False
    if step.outside is None:  # interpolation without a field reads up to half a voxel beyond the last voxel
        return not step.resamples or step.bends or (run.outside is None and not any(_cuts(tree, i) for i in run.indices))
    if run.outside is not None and _shown(tree, run.outside) != _shown(tree, step.outside):
        return False
    return tree.rule == "image" or not any(_cuts(tree, i) and not tree.exclusive(i, step.outside) for i in run.indices)


def _cuts(tree: Tree, index: int) -> bool:
    """Return whether a step may cut off a part of its volume: it interpolates, or makes an axis shorter."""
    spec = _spec(tree, index)
    return spec.resamples or any(after < before for after, before in zip(spec.size, tree.specs[index].extent, strict=True))


def _shown(tree: Tree, index: int) -> tuple[object, ...]:
    spec = _spec(tree, index)
    return spec.padding_mode, spec.fill, spec.mask_fill


def _spec(tree: Tree, index: int) -> Warp3Spec:
    spec = tree.segments[index]
    assert isinstance(spec, Warp3Spec)
    return spec

"""Several views of one batch: independent draws under one key, some of whose values are shared.

Owns: `View`, the seed of each view, and which steps a name selects.
Must not: apply or know of models.
Read next: ``module.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxtyping import Int64
from torch import Tensor

from pellucid.engine.drawing import draw_params
from pellucid.engine.plan import Plan
from pellucid.errors import invalid
from pellucid.pipeline.records import Record
from pellucid.random.stream import fold_in
from pellucid.transforms.base import Transform, ordered
from pellucid.transforms.choices import places_of, steps_of

__all__ = ["View", "draw_several", "is_named", "steps_named"]


class View(NamedTuple):
    """One of several views: the augmented batch, and its record.

    Args:
        result: as a call returns it.
        record: of its draw.
    """

    result: Any
    record: Record


def draw_several(
    n: int,
    shared: Sequence[int],
    lead: int,
    plan: Plan,
    seed: Tensor,
    step: Tensor,
    index: Int64[Tensor, "b"],
    raw: Mapping[Any, Any],
) -> list[Record]:
    """Return the records of n views. The first is the draw of an ordinary call; the shared steps have its values in all views."""
    records: list[Record] = []
    for view in range(n):
        own = seed ^ fold_in(0, "view", view) if view else seed
        params = tuple(draw_params(plan, own, step, index, raw))
        if view:
            first = records[0].params
            params = tuple(first[at] if at in shared else values for at, values in enumerate(params))
        records.append(Record(plan, params, index.shape[0], lead))
    return records


def steps_named(transforms: tuple[Transform, ...], names: object, *, option: str = "same", also: str = "") -> tuple[int, ...]:
    """Return the steps that an option names by place, class or a part of the class's name; a choice includes its inner steps."""
    steps = steps_of(transforms)
    found: set[int] = set()
    for name in ordered("same", names, "a sequence of names, classes or places of transforms", 'For example same=("crop",).'):
        if isinstance(name, int) and not isinstance(name, bool) and -len(transforms) <= name < len(transforms):
            here = set(places_of(transforms, name % len(transforms)))
        else:
            here = {at for at, step in enumerate(steps) if _means(name, step.transform)}
            for at in sorted(here):  # a choice comes before its inner steps
                here |= {i for i, step in enumerate(steps) if any(gate.choice == at for gate in step.gates)}
        if not here:
            known = sorted({type(step.transform).__name__ for step in steps})
            expected = f"{also}transforms of this pipeline ({', '.join(known)}) or their places"
            raise invalid(option, expected=expected, got=repr(name))
        found |= here
    return tuple(sorted(found))


def is_named(transforms: tuple[Transform, ...], name: str) -> bool:
    """Return whether a name selects any of the transforms."""
    return any(_means(name, step.transform) for step in steps_of(transforms))


def _means(name: object, transform: Transform) -> bool:
    if isinstance(name, str):
        return name.lower() in type(transform).__name__.lower() and bool(name)
    return isinstance(name, type) and isinstance(transform, name)

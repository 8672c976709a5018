"""Freezing: replace a transform's learned numbers by their current values.

Owns: finding the field of a transform that holds a learned number.
Must not: change a transform: it builds a new one.
Read next: ``../module.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import count
from typing import Any

from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.distributions import Distribution
from pellucid.random.learnable import Learnable, nested
from pellucid.transforms.base import ANY_IMAGE, Transform
from pellucid.transforms.choices import Choice

__all__ = ["frozen", "frozen_tree"]


def frozen_tree(transforms: Sequence[Transform], now: Mapping[int, Mapping[str, Mapping[str, Any]]]) -> tuple[Transform, ...]:
    """Return all transforms of a tree with plain numbers; ``now`` has the numbers by step of the flattened tree."""
    steps = count()

    def row(sequence: Sequence[Transform]) -> tuple[Transform, ...]:
        plain = []
        for transform in sequence:
            one = frozen(transform, now.get(next(steps), {}))
            if isinstance(one, Choice):
                turns = [[row(branch) for branch in one.branches] for _ in range(one.turns)]
                one = one.among(turns[0]) if turns else one  # all turns share the numbers of the first
            plain.append(one)
        return tuple(plain)

    return row(transforms)


class _Mark:
    """Marks a learned number, so that it is recognised in the distributions that its transform makes of it."""

    def __call__(self, images: Tensor) -> Tensor:
        raise NotImplementedError


def frozen(transform: Transform, now: Mapping[str, Mapping[str, Any]]) -> Transform:
    """Return the transform with plain numbers.

    Args:
        transform: any, learned or not.
        now: by drawn value, the current numbers of its distribution.

    Errors:
        InvalidArgument if a module predicts a number per sample: there is no single number to keep.
    """
    marks: list[_Mark] = []
    marked = _rebuilt(transform, lambda number: _marked(transform, number, marks))
    if not marks:
        return transform
    values: dict[_Mark, Any] = {}
    for name, distribution in marked.draws(ANY_IMAGE).items():
        for field, number in distribution.numbers().items():
            if isinstance(number, Learnable) and isinstance(number.by, _Mark):
                values[number.by] = now[name][field]
    supply: Iterator[_Mark] = iter(marks)
    return _rebuilt(transform, lambda number: _settled(number, values.get(next(supply))))


def _marked(owner: Transform, number: Any, marks: list[_Mark]) -> Learnable:
    predicted = number.predicted if isinstance(number, Learnable) else not isinstance(number, Tensor)
    if predicted:
        fix = "A predicted policy cannot be frozen to numbers; save its state_dict."
        expected = "numbers that are the same for every image"
        raise invalid(type(owner).__name__, expected=expected, got="a module that predicts one per sample", fix=fix)
    mark = _Mark()
    marks.append(mark)
    if isinstance(number, Learnable) and number.value is not None:
        return Learnable(number.value, number.low, number.high, mark)
    return Learnable(by=mark)


def _settled(number: Any, value: Any) -> Any:
    """Return the current value; for a number that no draw uses, the starting value."""
    if value is None:
        return number.value if isinstance(number, Learnable) and number.value is not None else 0.0
    return nested("now", value)


def _rebuilt(value: Any, change: Any, *, inside: bool = False) -> Any:
    """Rebuild fields, pairs and distributions with ``change`` applied to every learned number; inner transforms stay unchanged."""
    if isinstance(value, Learnable | Tensor):
        return change(value)
    if isinstance(value, Transform) and inside:
        return value
    if isinstance(value, Transform | Distribution):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}  # type: ignore[arg-type]
        changed = {name: _rebuilt(part, change, inside=True) for name, part in parts.items()}
        return replace(value, **{n: part for n, part in changed.items() if part is not parts[n]})  # type: ignore[type-var]
    if isinstance(value, tuple | list):
        rebuilt = tuple(_rebuilt(part, change, inside=True) for part in value)
        return rebuilt if any(new is not old for new, old in zip(rebuilt, value, strict=True)) else value
    return change(value) if callable(value) and not isinstance(value, type) else value

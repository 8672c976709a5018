"""A recorded function with a structured result, and where recordings are kept.

Owns: where each tensor of the result stands in a tape's outputs, and the lifetime of recordings.
Must not: decide who records what.
Read next: ``../lowering/tapes.py``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from pellucid.tape.recorder import TapeError, record

__all__ = ["Recording", "kept", "plain"]

_NUMBERS = (torch.float64, torch.int64, torch.bool)
_Made = TypeVar("_Made")


class _Place(NamedTuple):
    """Where a tensor of the result stands in a row: columns start to stop, as this shape and dtype (None: that of the row)."""

    start: int
    stop: int
    shape: tuple[int, ...]
    dtype: torch.dtype | None


class Recording:
    """A function of tensors, recorded: any nesting of tuples and dicts of tensors comes out.

    Args:
        function, shapes, exact: as :func:`pellucid.tape.record` takes them, but for the structure of the result.
    """

    def __init__(self, function: Callable[..., Any], shapes: Sequence[tuple[int, ...]], *, exact: bool = False) -> None:
        self._places: list[_Place] = []
        self._singles = 0
        self._build: Callable[[list[Tensor]], Any] = list
        self._tape = record(lambda *inputs: self._flat(function(*inputs)), shapes, exact=exact)

    def _flat(self, result: Any) -> list[Tensor]:
        leaves: list[Tensor] = []
        number = _builder(result, leaves)
        # Single numbers first: they come out as one call's views.
        order = sorted(range(len(leaves)), key=lambda i: leaves[i].dim() > 1)
        self._singles = sum(leaf.dim() < 2 for leaf in leaves)
        at = 0
        for leaf in (leaves[i] for i in order):
            dtype = None if leaf.dtype.is_floating_point else leaf.dtype
            self._places.append(_Place(at, at + leaf.numel(), tuple(leaf.shape[1:]), dtype))
            at += leaf.numel()
        self._build = number([order.index(i) for i in range(len(leaves))])
        return [leaves[i] for i in order]

    def play(self, rows: Tensor, dtype: torch.dtype = torch.float64) -> Any:
        """The function's result for rows of inputs, in float64 or, rounded at the end, in ``dtype``: views of one tensor."""
        out = self._tape.play(rows)
        if out.dtype != dtype:
            out = out.to(dtype)
        views = list(out[:, : self._singles].unbind(1)) if self._singles else []
        for place in self._places[self._singles :]:
            part = out[:, place.start : place.stop]
            views.append(part if len(place.shape) == 1 else part.unflatten(1, place.shape))
        for i, place in enumerate(self._places):
            if place.dtype is not None:
                views[i] = views[i].to(place.dtype)
        return self._build(views)


def _builder(value: Any, leaves: list[Tensor]) -> Callable[[list[int]], Callable[[list[Tensor]], Any]]:
    """Take a nested value apart into leaves; returns what, told where each leaf will be found, returns what rebuilds the value."""
    if isinstance(value, Tensor):
        leaves.append(value)
        at = len(leaves) - 1
        return lambda found: itemgetter(found[at])
    if isinstance(value, dict):
        names, parts = list(value), _builder(tuple(value.values()), leaves)

        def named(found: list[int]) -> Callable[[list[Tensor]], Any]:
            build = parts(found)
            return lambda views: dict(zip(names, build(views), strict=True))

        return named
    if isinstance(value, tuple):
        children = [_builder(part, leaves) for part in value]
        make: Callable[[list[Any]], Any] = type(value)._make if hasattr(value, "_make") else tuple

        def nested(found: list[int]) -> Callable[[list[Tensor]], Any]:
            builds = [child(found) for child in children]
            return lambda views: make([build(views) for build in builds])

        return nested
    return lambda _: lambda __: value


def plain(values: Iterable[Tensor]) -> bool:
    """Whether nothing about these tensors asks for the tensor code: no gradient, no other device, no unusual kind."""
    grad = torch.is_grad_enabled()
    for value in values:
        if type(value) is not Tensor or not value.is_cpu or value.dtype not in _NUMBERS or (grad and value.requires_grad):
            return False
    return True


_recordings: dict[int, dict[Any, Any]] = {}  # by identity of the owner


def kept(owner: Any, key: Any, make: Callable[[], _Made]) -> _Made | None:
    """What ``make`` recorded when it was first asked for under this key, as long as the owner lives; None if it cannot be taped."""
    at = id(owner)
    if at not in _recordings:
        _recordings[at] = {}
        weakref.finalize(owner, _recordings.pop, at, None)
    made = _recordings[at]
    if key not in made:
        try:
            made[key] = make()
        except TapeError:
            made[key] = None
    found: _Made | None = made[key]
    return found

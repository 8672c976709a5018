"""A recorded function with a structured result, and where recordings are kept.

Owns: where each tensor of the result stands in a tape's outputs, and the lifetime of recordings.
Must not: decide who records what.
Read next: ``../lowering/tapes.py``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
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
        self._template: Any = None
        self._singles = 0
        self._tape = record(lambda *inputs: self._flat(function(*inputs)), shapes, exact=exact)

    def _flat(self, result: Any) -> list[Tensor]:
        leaves: list[Tensor] = []
        _map(leaves.append, Tensor, result)
        # Single numbers first: they come out as one call's views.
        order = sorted(range(len(leaves)), key=lambda i: leaves[i].dim() > 1)
        self._singles = sum(leaf.dim() < 2 for leaf in leaves)
        places: dict[int, _Place] = {}
        at = 0
        for i in order:
            leaf = leaves[i]
            dtype = None if leaf.dtype.is_floating_point else leaf.dtype
            places[i] = _Place(at, at + leaf.numel(), tuple(leaf.shape[1:]), dtype)
            at += leaf.numel()
        numbers = iter(range(len(leaves)))
        self._template = _map(lambda _: places[next(numbers)], Tensor, result)
        return [leaves[i] for i in order]

    def play(self, rows: Tensor, dtype: torch.dtype = torch.float64) -> Any:
        """The function's result for rows of inputs, in float64 or, rounded at the end, in ``dtype``: views of one tensor."""
        out = self._tape.play(rows)
        if out.dtype != dtype:
            out = out.to(dtype)
        singles = out[:, : self._singles].unbind(1) if self._singles else ()

        def view(place: _Place) -> Tensor:
            if place.shape:
                part = out[:, place.start : place.stop]
                part = part if len(place.shape) == 1 else part.unflatten(1, place.shape)
            else:
                part = singles[place.start]
            return part if place.dtype is None else part.to(place.dtype)

        return _map(view, _Place, self._template)


def _map(function: Callable[[Any], Any], kind: type, value: Any) -> Any:
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple):
        parts = [_map(function, kind, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, Mapping):
        return {name: _map(function, kind, part) for name, part in value.items()}
    return value


def plain(values: Sequence[Tensor]) -> bool:
    """Whether nothing about these tensors asks for the tensor code: no gradient, no other device, no unusual kind."""
    grad = torch.is_grad_enabled()
    return all(
        type(value) is Tensor and value.is_cpu and value.dtype in _NUMBERS and not (grad and value.requires_grad)
        for value in values
    )


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

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

import numpy as np
import torch
from torch import Tensor

from pellucid.tape.recorder import Rows, TapeError, record

__all__ = ["Recording", "cached_recording", "plain"]

_NUMBERS = (torch.float64, torch.int64, torch.bool)
_Made = TypeVar("_Made")


class _Leaf(NamedTuple):
    """A tensor of the result: its shape in one sample, and its dtype where it is not that of the row."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None


class Recording:
    """A function of tensors, recorded: any nesting of tuples and dicts of tensors comes out.

    Args:
        function, shapes, exact: as :func:`pellucid.tape.record` takes them, but for the structure of the result.
    """

    def __init__(self, function: Callable[..., Any], shapes: Sequence[tuple[int, ...]], *, exact: bool = False) -> None:
        self._leaves: list[_Leaf] = []
        self._build: Callable[[list[Tensor]], Any] = list
        self._tape = record(lambda *inputs: self._flat(function(*inputs)), shapes, exact=exact)

    def _flat(self, result: Any) -> list[Tensor]:
        leaves: list[Tensor] = []
        self._build = _builder(result, leaves)
        self._leaves = [_Leaf(tuple(leaf.shape[1:]), None if leaf.is_floating_point() else leaf.dtype) for leaf in leaves]
        return leaves

    def play(self, rows: Rows, dtype: torch.dtype = torch.float64) -> Any:
        """The function's result for rows (b, n) of float64 inputs, in float64 or, rounded at the end, in ``dtype``; contiguous."""
        parts = self._tape.play(rows)
        narrow = dtype == torch.float32
        found = []
        for leaf, part in zip(self._leaves, parts, strict=True):
            numbers = part.astype(np.float32) if narrow and leaf.dtype is None else part
            value = torch.from_numpy(numbers if len(leaf.shape) == 1 else numbers.reshape(len(part), *leaf.shape))
            found.append(value if leaf.dtype is None or leaf.dtype == value.dtype else value.to(leaf.dtype))
        return self._build(found)


def _builder(value: Any, leaves: list[Tensor]) -> Callable[[list[Tensor]], Any]:
    """Take a nested value apart into leaves; returns what rebuilds the value from others."""
    if isinstance(value, Tensor):
        leaves.append(value)
        return itemgetter(len(leaves) - 1)
    if isinstance(value, dict):
        names, parts = list(value), _builder(tuple(value.values()), leaves)
        return lambda found: dict(zip(names, parts(found), strict=True))
    if isinstance(value, tuple):
        builds = [_builder(part, leaves) for part in value]
        make: Callable[[list[Any]], Any] = type(value)._make if hasattr(value, "_make") else tuple
        return lambda found: make([build(found) for build in builds])
    return lambda _: value


def plain(values: Iterable[Tensor]) -> bool:
    """Whether nothing about these tensors asks for the tensor code: no gradient, no other device, no unusual kind."""
    grad = torch.is_grad_enabled()
    for value in values:
        if type(value) is not Tensor or not value.is_cpu or value.dtype not in _NUMBERS or (grad and value.requires_grad):
            return False
    return True


_recordings: dict[int, dict[Any, Any]] = {}  # by identity of the owner


def cached_recording(owner: Any, key: Any, make: Callable[[], _Made]) -> _Made | None:
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

"""Recordings of a run's lowering, kept for as long as their plan.

Owns: which drawn values are a tape's inputs, which tensors its outputs, and when a tape may stand in for the code.
Must not: hold what differs between calls.
Read next: ``lowered.py``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pellucid.plan import Plan
from pellucid.tape import Tape, TapeError, record

__all__ = ["RunTape", "plain", "tape_of"]

_NUMBERS = (torch.float64, torch.int64, torch.bool)

Params = Sequence[Mapping[str, Tensor]]


class Leaf(NamedTuple):
    """Where a tensor of the result stands in a row of the tape's outputs: columns start to stop, as this shape."""

    start: int
    stop: int
    shape: tuple[int, ...]


class RunTape:
    """A function of the drawn values of some transforms (and perhaps the mean colour), recorded.

    Args:
        function: (values by transform, mean colour or None) -> tensors, in any nesting of tuples.
        params: what is drawn, for names and shapes.
        indices: the transforms whose values matter.
        channels: of the mean colour; 0 where there is none.
    """

    def __init__(self, function: Callable[..., Any], params: Params, indices: Sequence[int], channels: int) -> None:
        self._inputs = [(i, name, tuple(value.shape[1:])) for i in indices for name, value in params[i].items()]
        self._counts = [(i, len(params[i])) for i in indices]
        self._channels = channels
        shapes = [shape for _, _, shape in self._inputs] + ([(channels,)] if channels else [])
        self._tape: Tape = record(lambda *inputs: self._flat(function, inputs), shapes)

    def _flat(self, function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> list[Tensor]:
        values: dict[int, dict[str, Tensor]] = {i: {} for i, _ in self._counts}
        for (i, name, _), value in zip(self._inputs, inputs, strict=False):
            values[i][name] = value
        leaves: list[Tensor] = []
        at = 0

        def leaf(tensor: Tensor) -> Leaf:
            nonlocal at
            leaves.append(tensor)
            start, at = at, at + tensor.numel()
            return Leaf(start, at, tuple(tensor.shape[1:]))

        self._template = _map(leaf, Tensor, function(values, inputs[-1] if self._channels else None))
        return leaves

    def play(self, params: Params, mean: Tensor | None, dtype: torch.dtype) -> Any:
        """The function's result for these values, as views of one tensor; None where other values are drawn than were recorded."""
        if any(len(params[i]) != count for i, count in self._counts):
            return None
        columns: list[Tensor] = []
        for i, name, shape in self._inputs:
            value = params[i].get(name)
            if value is None or value.shape[1:] != shape:
                return None
            value = value if value.dtype == torch.float64 else value.to(torch.float64)
            if shape:
                columns += value.flatten(1).unbind(1)
            else:
                columns.append(value)
        if self._channels:
            assert mean is not None
            columns += mean.unbind(1)
        rows = torch.stack(columns, 1) if columns else torch.empty((1, 0), dtype=torch.float64)
        out = self._tape.play(rows).to(dtype)
        return _map(lambda leaf: _view(out, leaf), Leaf, self._template)


def _view(out: Tensor, leaf: Leaf) -> Tensor:
    if not leaf.shape:
        return out[:, leaf.start]
    part = out[:, leaf.start : leaf.stop]
    return part if len(leaf.shape) == 1 else part.unflatten(1, leaf.shape)


def _map(function: Callable[[Any], Any], kind: type, value: Any) -> Any:
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple):
        parts = [_map(function, kind, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def plain(values: Sequence[Tensor]) -> bool:
    """Whether nothing about these tensors asks for the tensor code: no gradient, no other device, no unusual kind."""
    grad = torch.is_grad_enabled()
    return all(
        type(value) is Tensor and value.is_cpu and value.dtype in _NUMBERS and not (grad and value.requires_grad)
        for value in values
    )


_tapes: dict[int, dict[Any, RunTape | None]] = {}  # by identity of the plan


def tape_of(plan: Plan, key: Any, make: Callable[[], RunTape]) -> RunTape | None:
    """The plan's tape of this name, recorded on first use; None where the code cannot be taped."""
    at = id(plan)
    if at not in _tapes:
        _tapes[at] = {}
        weakref.finalize(plan, _tapes.pop, at, None)
    tapes = _tapes[at]
    if key not in tapes:
        try:
            tapes[key] = make()
        except TapeError:
            tapes[key] = None
    return tapes[key]

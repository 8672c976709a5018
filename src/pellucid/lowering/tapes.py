"""Recordings of a run's lowering.

Owns: which drawn values are a recording's inputs, and turning a call's values into its rows.
Must not: hold what differs between calls.
Read next: ``lowered.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pellucid.tape import Recording

__all__ = ["Params", "RunTape"]

Params = Sequence[Mapping[str, Tensor]]


class RunTape:
    """A function of the drawn values of some transforms (and perhaps the mean colour), recorded.

    Args:
        function: (values by transform, mean colour or None) -> tensors, in any nesting of tuples.
        params: what is drawn, for names and shapes.
        indices: the transforms whose values matter.
        channels: of the mean colour; 0 where there is none.
    """

    def __init__(self, function: Callable[..., Any], params: Params, indices: Sequence[int], channels: int) -> None:
        inputs = [(i, name, tuple(value.shape[1:])) for i in indices for name, value in params[i].items()]
        self._inputs, self._channels = inputs, channels
        self._counts = [(i, len(params[i])) for i in indices]

        def taped(*tensors: Tensor) -> Any:
            values: dict[int, dict[str, Tensor]] = {i: {} for i in indices}
            for (i, name, _), value in zip(inputs, tensors, strict=False):
                values[i][name] = value
            return function(values, tensors[-1] if channels else None)

        self._recording = Recording(taped, [shape for _, _, shape in inputs] + ([(channels,)] if channels else []))

    def play(self, params: Params, mean: Tensor | None, dtype: torch.dtype) -> Any:
        """The function's result for these values; None where other values are drawn than were recorded."""
        if any(len(params[i]) != count for i, count in self._counts):
            return None
        columns: list[Tensor] = []
        for i, name, shape in self._inputs:
            value = params[i].get(name)
            if value is None or value.dim() != 1 + len(shape):
                return None
            if value.dtype != torch.float64:
                value = value.to(torch.float64)
            if not shape:
                columns.append(value)
            elif value.shape[1:] == shape:
                columns += value.flatten(1).unbind(1)
            else:
                return None
        if self._channels:
            assert mean is not None
            columns += mean.unbind(1)
        rows = torch.stack(columns, 1) if columns else torch.empty((1, 0), dtype=torch.float64)
        return self._recording.play(rows, dtype)

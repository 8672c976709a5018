"""Recordings of a run's lowering.

Owns: which drawn values are a recording's inputs, and turning a call's values into its rows.
Must not: hold what differs between calls.
Read next: ``lowered.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from pellucid.lowering.replayed import Replayed
from pellucid.tape import Recording, Rows

__all__ = ["Params", "RunTape", "WordsTape"]

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
        self._width = sum(math.prod(shape) for _, _, shape in inputs) + channels

        def taped(*tensors: Tensor) -> Any:
            values: dict[int, dict[str, Tensor]] = {i: {} for i in indices}
            for (i, name, _), value in zip(inputs, tensors, strict=False):
                values[i][name] = value
            return function(values, tensors[-1] if channels else None)

        self.recording = Recording(taped, [shape for _, _, shape in inputs] + ([(channels,)] if channels else []))

    def rows(self, params: Params, mean: Tensor | None) -> Rows | None:
        """The recording's inputs for these values; None where other values are drawn than were recorded."""
        if any(len(params[i]) != count for i, count in self._counts):
            return None
        parts: list[np.ndarray[Any, Any]] = []
        for i, name, shape in self._inputs:
            value = params[i].get(name)
            if value is None or value.shape[1:] != shape:
                return None
            parts.append(value.detach().numpy())
        if self._channels:
            assert mean is not None
            parts.append(mean.detach().numpy())
        # Many small copies into one array cost less than one torch.stack.
        rows = np.empty((len(parts[0]) if parts else 1, self._width))
        at = 0
        for part in parts:
            if part.ndim == 1:
                rows[:, at] = part
                at += 1
            else:
                numbers = math.prod(part.shape[1:])
                rows[:, at : at + numbers] = part.reshape(len(part), numbers)
                at += numbers
        return rows


class WordsTape:
    """The same, from the random words themselves.

    Args:
        function: (values by transform, mean colour or None) -> tensors, in any nesting of tuples.
        params: a draw, for how words become values.
        channels: of the mean colour; 0 where there is none.
    """

    def __init__(self, function: Callable[..., Any], params: Replayed, channels: int) -> None:
        unpack = params.unpack  # not the draw itself, which ends with its call

        def taped(words: Tensor, mean: Tensor | None = None) -> Any:
            return function(unpack(words), mean)

        self.recording = Recording(taped, [(params.words.shape[1],)] + ([(channels,)] if channels else []))

    def rows(self, params: Replayed, mean: Tensor | None) -> Rows:
        """The recording's inputs for this draw."""
        words = params.words
        if mean is None:
            return words
        rows = np.empty((len(words), words.shape[1] + mean.shape[1]))
        rows[:, : words.shape[1]], rows[:, words.shape[1] :] = words, mean.detach().numpy()
        return rows

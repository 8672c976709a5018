"""Recordings of a run's lowering.

Owns: which drawn values are a recording's inputs, and turning a call's values into rows of inputs.
Must not: hold values that differ between calls.
Read next: ``lowered.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from pellucid.core.tape import Recording, Rows
from pellucid.engine.lowering.replayed import Replayed
from pellucid.engine.plan import Plan, for_size
from pellucid.types import Size

__all__ = ["Lowering", "Params", "RunTape", "WordsTape"]

Params = Sequence[Mapping[str, Tensor]]


Lowering: TypeAlias = Callable[[Plan, Mapping[int, Mapping[str, Tensor]] | Params, Tensor | None], Any]
"""(plan, drawn values by transform, mean colour or None) -> tensors and sizes, in any nesting of tuples."""


class RunTape:
    """A lowering of the drawn values of some transforms (and perhaps the mean colour), recorded for images of any size.

    Args:
        function: the lowering.
        plan: one of the plans that it is for.
        params: a draw, for names and shapes.
        indices: the steps whose values are inputs; those of the choices above them are added.
        channels: of the mean colour; 0 without one.
    """

    def __init__(self, function: Lowering, plan: Plan, params: Params, indices: Sequence[int], channels: int) -> None:
        above = {gate.choice for i in indices for gate in plan.steps[i].gates}
        indices = sorted({*indices, *above})
        inputs = [(i, name, tuple(value.shape[1:])) for i in indices for name, value in params[i].items()]
        self._inputs = inputs
        self._counts = [(i, len(params[i])) for i in indices]
        self._width = sum(math.prod(shape) for _, _, shape in inputs) + 2 + channels
        planned = for_size(plan)

        def taped(*given: Any) -> Any:
            values: dict[int, dict[str, Tensor]] = {i: {} for i in indices}
            for (i, name, _), value in zip(inputs, given, strict=False):
                values[i][name] = value
            mean, sizes = (given[-1], given[-3:-1]) if channels else (None, given[-2:])
            return function(planned(*sizes), values, mean)

        shapes = [shape for _, _, shape in inputs]
        self.recording = Recording(taped, [*shapes, *plan.size_in, *([(channels,)] if channels else [])])

    def rows(self, params: Params, size: Size | Rows, mean: Tensor | None) -> Rows | None:
        """Return the recording's inputs for these values; None if other values are drawn than were recorded.

        Args:
            params: the values.
            size: (height, width) of all samples, or a row of them for each.
            mean: the mean colour of each.
        """
        if any(len(params[i]) != count for i, count in self._counts):
            return None
        parts: list[np.ndarray[Any, Any]] = []
        for i, name, shape in self._inputs:
            value = params[i].get(name)
            if value is None or value.shape[1:] != shape:
                return None
            parts.append(value.detach().numpy())
        # Many small copies into one array cost less than one torch.stack.
        count = len(parts[0]) if parts else 1 if mean is None else len(mean)
        rows = np.empty((len(size) if isinstance(size, np.ndarray) else count, self._width))
        at = 0
        for part in parts:
            if part.ndim == 1:
                rows[:, at] = part
                at += 1
            else:
                numbers = math.prod(part.shape[1:])
                rows[:, at : at + numbers] = part.reshape(len(part), numbers)
                at += numbers
        rows[:, at : at + 2] = size
        if mean is not None:
            rows[:, at + 2 :] = mean.detach().numpy()
        return rows


class WordsTape:
    """A tape of the lowering that starts from the random words instead of the drawn values.

    Args:
        function: the lowering.
        plan: one of the plans that it is for.
        params: a draw, which knows how words become values.
        channels: of the mean colour; 0 without one.
    """

    def __init__(self, function: Lowering, plan: Plan, params: Replayed, channels: int) -> None:
        unpack, planned = params.unpack, for_size(plan)  # not the draw itself, which must be freed after its call

        def taped(words: Tensor, height: int, width: int, mean: Tensor | None = None) -> Any:
            now = planned(height, width)
            return function(now, unpack(now, words), mean)

        self.recording = Recording(taped, [(params.words,), *plan.size_in, *([(channels,)] if channels else [])])

    def rows(self, params: Replayed, size: Size | Rows, mean: Tensor | None) -> Rows:
        """Return the recording's inputs for this draw."""
        del size  # the draw's rows contain it already
        return params.rows if mean is None else np.concatenate((params.rows, mean.detach().numpy()), 1)

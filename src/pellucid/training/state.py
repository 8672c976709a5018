"""What a run must remember to go on exactly where it stopped.

Owns: `TrainState`, a plain bundle.
Must not: write files.
Read next: ``checkpoint.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import nn

__all__ = ["Stateful", "TrainState"]


class Stateful(Protocol):
    """An optimiser, a schedule, a scaler, a running average: whatever remembers."""

    def state_dict(self) -> dict[str, Any]:
        """What it remembers."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Remember it again."""


@dataclass(frozen=True)
class TrainState:
    """Everything that changes from step to step.

    Args:
        modules: by name; their weights and buffers go to ``weights.safetensors`` as ``<name>.<key>``.
        others: optimisers, schedules, gradient scalers, baselines; they go to ``state.pt``.

    Example:
        >>> import torch
        >>> from pellucid.training import TrainState
        >>> model = torch.nn.Linear(2, 1)
        >>> state = TrainState({"model": model}, {"optimizer": torch.optim.SGD(model.parameters(), 0.1)})
        >>> list(state.modules), list(state.others)
        (['model'], ['optimizer'])
    """

    modules: Mapping[str, nn.Module]
    others: Mapping[str, Stateful] = field(default_factory=dict)

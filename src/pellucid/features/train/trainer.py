"""What a run steps: the interface of the three trainers.

Owns: `Trainer`, and the share of each rank in pairs of views.
Must not: know what is trained.
Read next: ``descriptor.py``, ``detector.py``, ``joint.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.data.pairs import HomographicPairs, ViewPairs
from pellucid.training import TrainState, World

__all__ = ["Trainer", "rank_share", "view_pairs"]


class Trainer(ABC):
    """Everything a run changes, and the step that changes it."""

    title: ClassVar[str]
    """What the progress bar is called."""
    panels: ClassVar[Mapping[str, Sequence[str]]]
    """Panels of the plotted curves: title -> columns of the log."""
    folder: ClassVar[str] = ""
    """Where in the run's folder log and checkpoints are."""
    file: ClassVar[str] = ""
    """What the run makes."""

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Any, photographs: Sequence[Tensor], world: World, device: torch.device) -> Callable[[], Trainer]:
        """Read the data; return a function that makes a trainer. It is called twice where the rate of steps must be measured."""

    @property
    def notes(self) -> dict[str, Any]:
        """What a checkpoint must agree with, beside the settings."""
        return {}

    @property
    @abstractmethod
    def state(self) -> TrainState:
        """What a checkpoint holds."""

    @abstractmethod
    def step(self, index: int, total: int) -> Mapping[str, float | Tensor]:
        """Do step ``index`` of ``total`` and say what to log."""

    @abstractmethod
    def save(self, home: Path, notes: Mapping[str, Any]) -> None:
        """Write the weights."""


def view_pairs(
    photographs: Sequence[Tensor], world: World, *, batch: int, size: int, strength: float, seed: int
) -> HomographicPairs:
    """Pairs of views, at least one for each rank."""
    if world.size > batch:
        raise invalid("batch", expected=f"a pair for each of {world.size} ranks", got=batch)
    return HomographicPairs(photographs, size=size, strength=strength, seed=seed)


def rank_share(pairs: HomographicPairs, step: int, batch: int, world: World) -> tuple[ViewPairs, float]:
    """This rank's pairs of a step, and the weight that makes the mean over ranks the mean over pairs."""
    mine = torch.arange(batch).tensor_split(world.size)[world.rank]
    return pairs(step, len(mine), start=int(mine[0])), len(mine) * world.size / batch

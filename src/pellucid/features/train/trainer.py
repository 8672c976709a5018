"""The interface of the three trainers.

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
    """The state of a run, and its step."""

    title: ClassVar[str]
    """The title of the progress bar."""
    panels: ClassVar[Mapping[str, Sequence[str]]]
    """Panels of the plotted curves: title -> columns of the log."""
    folder: ClassVar[str] = ""
    """The subfolder for log and checkpoints in the run's folder."""
    file: ClassVar[str] = ""
    """The file of trained weights; empty for several."""

    @classmethod
    @abstractmethod
    def prepare(cls, settings: Any, photographs: Sequence[Tensor], world: World, device: torch.device) -> Callable[[], Trainer]:
        """Read the data; return a function that makes a trainer. It is called twice if the time of a step must be measured."""

    @property
    def notes(self) -> dict[str, Any]:
        """Facts, beside the settings, that must be equal in a checkpoint to resume from."""
        return {}

    @property
    @abstractmethod
    def state(self) -> TrainState:
        """The content of a checkpoint."""

    @abstractmethod
    def step(self, index: int, total: int) -> Mapping[str, float | Tensor]:
        """Do step ``index`` of ``total`` and return the numbers to log."""

    @abstractmethod
    def save(self, home: Path, notes: Mapping[str, Any]) -> None:
        """Write the weights."""


def view_pairs(
    photographs: Sequence[Tensor], world: World, *, batch: int, size: int, strength: float, seed: int
) -> HomographicPairs:
    """Return the pairs of views; raise unless a batch has one for each rank."""
    if world.size > batch:
        raise invalid("batch", expected=f"a pair for each of {world.size} ranks", got=batch)
    return HomographicPairs(photographs, size=size, strength=strength, seed=seed)


def rank_share(pairs: HomographicPairs, step: int, batch: int, world: World) -> tuple[ViewPairs, float]:
    """Return this rank's pairs of a step, and the weight by which the mean over ranks becomes the mean over pairs."""
    mine = torch.arange(batch).tensor_split(world.size)[world.rank]
    return pairs(step, len(mine), start=int(mine[0])), len(mine) * world.size / batch

"""The training step of a keypoint network on pairs of views.

Owns: the optimiser and its schedule.
Must not: hold the recipe, which is in ``../detector_step.py``.
Read next: ``settings.py``, ``joint.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from pellucid.features.data.pairs import HomographicPairs
from pellucid.features.detector_step import detector_losses
from pellucid.features.keypoint_net import KeypointNet
from pellucid.features.train.settings import DetectorSettings
from pellucid.features.train.trainer import Trainer, rank_share, view_pairs
from pellucid.features.weights import DETECTOR_FILE, save_detector
from pellucid.training import TrainState, World, descend, set_rate

__all__ = ["DetectorTrainer"]


class DetectorTrainer(Trainer):
    """The state of a detector's training, and its step.

    Args:
        settings: the settings of the run.
        pairs: makes the views of a step.
        world: the ranks; each has its share of the pairs.
        device: the network's device.
    """

    title = "Detector"
    panels: ClassVar = {"loss": ("loss", "imitation", "consistency"), "overlap": ("overlap",), "rate": ("rate",)}
    file = DETECTOR_FILE

    @classmethod
    def prepare(
        cls, settings: DetectorSettings, photographs: Sequence[Tensor], world: World, device: torch.device
    ) -> Callable[[], DetectorTrainer]:
        """Draw pairs of views from the photographs."""
        size, strength, seed = settings.size, settings.strength, settings.seed
        pairs = view_pairs(photographs, world, batch=settings.batch, size=size, strength=strength, seed=seed)
        return lambda: cls(settings, pairs, world, device)

    def __init__(self, settings: DetectorSettings, pairs: HomographicPairs, world: World, device: torch.device) -> None:
        self.settings, self.pairs, self.world, self.device = settings, pairs, world, device
        self.network = KeypointNet(orientation=settings.orientation, scale=settings.scale, seed=settings.seed).to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.rate)

    @property
    def notes(self) -> dict[str, Any]:
        """The number of photographs."""
        return {"views": len(self.pairs.photographs)}

    @property
    def state(self) -> TrainState:
        """The content of a checkpoint."""
        return TrainState({"detector": self.network}, {"optimizer": self.optimizer})

    def step(self, index: int, total: int) -> Mapping[str, float | Tensor]:
        """Do step ``index`` of ``total``."""
        rate = self.settings.rate * (1.0 - index / total)
        set_rate(self.optimizer, rate)
        views, weight = rank_share(self.pairs, index, self.settings.batch, self.world)
        losses = detector_losses(
            self.network,
            views.first.to(self.device),
            views.second.to(self.device),
            views.second_from_first.to(self.device, torch.float32),
            step=index,
            imitation_weight=self.settings.imitation_weight,
            consistency_weight=self.settings.consistency_weight,
        )
        descend(weight * losses.total, self.optimizer, world=self.world)
        return {
            "loss": losses.total.detach(),
            "imitation": losses.imitation.detach(),
            "consistency": losses.consistency.detach(),
            "frames": losses.frames.detach(),
            "overlap": views.overlap.mean(),
            "rate": rate,
        }

    def save(self, home: Path, notes: Mapping[str, Any]) -> None:
        """Write the network."""
        save_detector(self.network, home / DETECTOR_FILE, settings=notes)

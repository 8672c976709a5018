"""Training a keypoint network on pairs of views: the step.

Owns: the optimiser and its schedule.
Must not: hold the recipe, which is ``../detector_step.py``'s.
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
    """Everything a run of the detector changes, and the step that changes it.

    Args:
        settings: of the run.
        pairs: makes the views of a step.
        world: the ranks; each sees its share of the pairs.
        device: where the network is.
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
        """How many photographs there are."""
        return {"views": len(self.pairs.photographs)}

    @property
    def state(self) -> TrainState:
        """What a checkpoint holds."""
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

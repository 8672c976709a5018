"""Training a keypoint network on pairs of views: the step, and the run around it.

Owns: the optimiser, its schedule, and the share of each rank.
Must not: hold the recipe, which is ``../detector_step.py``'s.
Read next: ``settings.py``, ``joint.py``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.data.pairs import HomographicPairs, ViewPairs
from pellucid.features.detector_step import detector_losses
from pellucid.features.keypoint_net import KeypointNet
from pellucid.features.train.descriptor import picture_notes, read_photographs
from pellucid.features.train.run import run_steps
from pellucid.features.train.settings import DetectorSettings
from pellucid.features.weights import DETECTOR_FILE, save_detector
from pellucid.training import TrainState, World, average_gradients, join_world
from pellucid.training.device import pick_device

__all__ = ["DetectorTrainer", "rank_share", "train_detector"]


class DetectorTrainer:
    """Everything a run of the detector changes, and the step that changes it.

    Args:
        settings: of the run.
        pairs: makes the views of a step.
        world: the ranks; each sees its share of the pairs.
        device: where the network is.
    """

    def __init__(self, settings: DetectorSettings, pairs: HomographicPairs, world: World, device: torch.device) -> None:
        self.settings, self.pairs, self.world, self.device = settings, pairs, world, device
        self.network = KeypointNet(orientation=settings.orientation, scale=settings.scale, seed=settings.seed).to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.rate)

    @property
    def state(self) -> TrainState:
        """What a checkpoint holds."""
        return TrainState({"detector": self.network}, {"optimizer": self.optimizer})

    def step(self, index: int, total: int) -> Mapping[str, float | Tensor]:
        """Do step ``index`` of ``total``."""
        rate = self.settings.rate * (1.0 - index / total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
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
        self.optimizer.zero_grad(set_to_none=True)
        (weight * losses.total).backward()
        average_gradients(self.network.parameters(), self.world)
        self.optimizer.step()
        return {
            "loss": losses.total.detach(),
            "imitation": losses.imitation.detach(),
            "consistency": losses.consistency.detach(),
            "frames": losses.frames.detach(),
            "overlap": views.overlap.mean(),
            "rate": rate,
        }


def rank_share(pairs: HomographicPairs, step: int, batch: int, world: World) -> tuple[ViewPairs, float]:
    """This rank's pairs of a step, and the weight that makes the mean over ranks the mean over pairs."""
    mine = torch.arange(batch).tensor_split(world.size)[world.rank]
    return pairs(step, len(mine), start=int(mine[0])), len(mine) * world.size / batch


def train_detector(
    settings: DetectorSettings,
    directory: str | os.PathLike[str],
    *,
    resume: bool = True,
    quiet: bool = False,
    started: float | None = None,
) -> Path:
    """Train a keypoint network, or go on with a run that was interrupted.

    Args:
        settings: of the run.
        directory: gets ``detector.safetensors``, ``log.csv``, ``curves.png``, ``checkpoints/``.
        resume: go on from the newest checkpoint; False makes an existing one an error.
        quiet: no progress bar.
        started: ``time.perf_counter()`` when the budget of ``settings.minutes`` began; now, by default.

    Returns:
        The file of the trained detector.

    Errors:
        ``InvalidArgument`` for settings that do not fit, and a folder that holds another run.
    """
    home = Path(directory)
    world = join_world()
    device = pick_device(settings.device)
    if world.size > settings.batch:
        raise invalid("batch", expected=f"a pair for each of {world.size} ranks", got=settings.batch)
    photographs = read_photographs(settings.photographs, settings.exclude)
    pairs = HomographicPairs(photographs, size=settings.size, strength=settings.strength, seed=settings.seed)
    trainer, notes = run_steps(
        lambda: DetectorTrainer(settings, pairs, world, device),
        settings,
        home,
        notes={**dataclasses.asdict(settings), "views": len(photographs), **picture_notes(photographs)},
        title="Detector",
        panels={"loss": ("loss", "imitation", "consistency"), "overlap": ("overlap",), "rate": ("rate",)},
        world=world,
        device=device,
        resume=resume,
        quiet=quiet,
        started=started,
    )
    assert isinstance(trainer, DetectorTrainer)
    if world.rank == 0:
        save_detector(trainer.network, home / DETECTOR_FILE, settings=notes)
    return home / DETECTOR_FILE

"""Training a HardNet on pairs of patches: the step, and the run around it.

Owns: what one step does, on one process or many.
Must not: know how patches are drawn (``../data/patch_pairs.py``) or when to save (``pellucid.training``).
Read next: ``settings.py``.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import torch
from torch import Tensor, nn

from pellucid.features.collapse import CollapseGuard
from pellucid.features.data.patch_pairs import PatchPairs, PatchPool, patch_jitter
from pellucid.features.data.photographs import ImageFolder, bundled_photographs
from pellucid.features.hardnet import HardNet
from pellucid.features.train.precision import autocast, compiled, resolve_precision, synchronised
from pellucid.features.train.run import run_steps
from pellucid.features.train.settings import DescriptorSettings
from pellucid.features.weights import DESCRIPTOR_FILE, save_descriptor
from pellucid.losses import hardest_triplet_loss, second_order_similarity_loss
from pellucid.nn.policy import StatisticsGrad
from pellucid.training import TrainState, World, all_gather_rows, average_gradients, join_world
from pellucid.training.device import pick_device

__all__ = ["DescriptorTrainer", "picture_notes", "read_photographs", "train_descriptor"]

_LONGEST: Final = 800
"""Larger photographs are shrunk to this many pixels: enough keypoints, and all pictures of one kind of sharpness."""


class DescriptorTrainer:
    """Everything a run of the descriptor changes, and the step that changes it.

    Args:
        settings: of the run.
        pairs: makes batch s.
        world: the ranks. Each sees its share of a batch; negatives are sought among the rows of all ranks, and batch statistics
            are those of all rows, so that the number of ranks changes nothing but rounding (and, with dropout, its draw).
        device: where the network is.
        precision: ``float32`` or ``bfloat16``.
    """

    def __init__(self, settings: DescriptorSettings, pairs: PatchPairs, world: World, device: torch.device, precision: str) -> None:
        self.settings, self.pairs, self.world, self.device, self.precision = settings, pairs, world, device, precision
        network = HardNet(
            width=settings.width, dropout=settings.dropout, statistics=cast(StatisticsGrad, settings.statistics), seed=settings.seed
        )
        # Weights in the layout the convolutions want: a quarter less time on a CPU.
        network = network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = synchronised(network, world)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.rate, weight_decay=settings.weight_decay)
        self.average = copy.deepcopy(self.network).requires_grad_(False) if settings.average else None
        self.call = compiled(self.network, settings.compile)
        self.guard = CollapseGuard(margin=settings.margin)

    @property
    def state(self) -> TrainState:
        """What a checkpoint holds."""
        modules: dict[str, nn.Module] = {"network": self.network}
        if self.average is not None:
            modules["average"] = self.average
        return TrainState(modules, {"optimizer": self.optimizer, "guard": self.guard})

    @property
    def result(self) -> HardNet:
        """The network to use: the average of the last steps if there is one."""
        return self.network if self.average is None else self.average

    def step(self, index: int, total: int) -> Mapping[str, float | Tensor]:
        """Do step ``index`` of ``total``."""
        rate = self.settings.rate * (1.0 - index / total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batch = self.pairs(index, rank=self.world.rank, ranks=self.world.size)
        patches = torch.cat((batch.anchors, batch.positives)).to(self.device)  # 2b 1 h w
        self.network.train()
        with autocast(self.precision, self.device):
            anchors, positives = self.call(patches).chunk(2)
        anchors, positives = (all_gather_rows(rows.contiguous(), self.world) for rows in (anchors, positives))
        ids = all_gather_rows(batch.ids.to(self.device), self.world)
        # The same loss on every rank: the gathering sums their gradients, the averaging divides by their number.
        loss = triplet = hardest_triplet_loss(anchors, positives, ids=ids, margin=self.settings.margin)
        if self.settings.second_order:
            loss = loss + self.settings.second_order * second_order_similarity_loss(anchors, positives, ids=ids)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        average_gradients(self.network.parameters(), self.world)
        self.optimizer.step()
        self._follow(index)
        if (index + 1) % self.settings.log_every == 0:
            self.guard.update(triplet.detach(), anchors, step=index + 1)
        return {"loss": loss.detach(), **_distances(anchors.detach(), positives.detach()), "rate": rate}

    def _follow(self, index: int) -> None:
        """Move the average towards the newest weights; at first it is the plain mean of all steps."""
        if self.average is None:
            return
        share = max(1.0 - self.settings.average, 1.0 / (index + 1))
        with torch.no_grad():
            for mine, newest in zip(self.average.state_dict().values(), self.network.state_dict().values(), strict=True):
                mine.copy_(torch.lerp(mine, newest, share) if mine.is_floating_point() else newest)


def train_descriptor(
    settings: DescriptorSettings,
    directory: str | os.PathLike[str],
    *,
    resume: bool = True,
    quiet: bool = False,
    started: float | None = None,
) -> Path:
    """Train a descriptor, or go on with a run that was interrupted.

    Args:
        settings: of the run.
        directory: gets ``descriptor.safetensors``, ``log.csv``, ``curves.png``, ``checkpoints/``.
        resume: go on from the newest checkpoint; False makes an existing one an error.
        quiet: no progress bar.
        started: ``time.perf_counter()`` when the budget of ``settings.minutes`` began; now, by default.

    Returns:
        The file of the trained descriptor.

    Errors:
        ``InvalidArgument`` for settings that do not fit, and a folder that holds another run; ``CollapseError`` where the
        descriptors no longer differ.
    """
    home = Path(directory)
    world = join_world()
    device = pick_device(settings.device)
    precision = resolve_precision(settings.precision, device)
    photographs = read_photographs(settings.photographs, settings.exclude)
    pool = PatchPool.from_photographs(photographs, keypoints=settings.keypoints, factor=settings.factor)
    jitter = patch_jitter(geometric=settings.geometric, photometric=settings.photometric)
    pairs = PatchPairs(pool, jitter, batch=settings.batch, seed=settings.seed, both=settings.both_views, variants=settings.variants)
    trainer, notes = run_steps(
        lambda: DescriptorTrainer(settings, pairs, world, device, precision),
        settings,
        home,
        notes={**dataclasses.asdict(settings), "precision": precision, "patches": len(pool), **picture_notes(photographs)},
        title="Descriptor",
        panels={"loss": ("loss",), "distances": ("positive", "negative", "others"), "rate": ("rate",)},
        world=world,
        device=device,
        resume=resume,
        quiet=quiet,
        started=started,
    )
    assert isinstance(trainer, DescriptorTrainer)
    if world.rank == 0:
        save_descriptor(trainer.result, home / DESCRIPTOR_FILE, settings=notes)
    return home / DESCRIPTOR_FILE


def read_photographs(folder: str, exclude: Sequence[str]) -> Sequence[Tensor]:
    """The pictures of a folder, read when they are asked for, or the bundled photographs; without those excluded."""
    if not folder:
        return list(bundled_photographs(exclude=exclude, longest=_LONGEST).values())
    return ImageFolder(folder, longest=_LONGEST, exclude=exclude)


def picture_notes(photographs: Sequence[Tensor]) -> dict[str, str]:
    """What a checkpoint remembers of a folder's pictures, so that others under the same names are not taken for them."""
    return {"pictures": photographs.digest} if isinstance(photographs, ImageFolder) else {}


def _distances(anchors: Tensor, positives: Tensor) -> dict[str, Tensor]:
    """The mean distance of pairs, of hardest wrong pairs, and of all wrong pairs."""
    table = torch.cdist(anchors, positives)
    others = table.masked_fill(torch.eye(len(table), dtype=torch.bool, device=table.device), torch.nan)
    return {
        "positive": table.diagonal().mean(),
        "negative": torch.where(others.isnan(), torch.inf, others).amin(1).mean(),
        "others": others.nanmean(),
    }

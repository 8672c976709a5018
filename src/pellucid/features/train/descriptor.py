"""The training step of a HardNet on pairs of patches.

Owns: one step, on one process or many.
Must not: know how patches are drawn (``../data/patch_pairs.py``) or when to save (``pellucid.training``).
Read next: ``settings.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from pellucid.features.collapse import CollapseGuard
from pellucid.features.data.patch_pairs import PatchPairs, PatchPool, patch_jitter
from pellucid.features.hardnet import HardNet
from pellucid.features.train.precision import autocast, compiled, resolve_precision, synchronised
from pellucid.features.train.settings import DescriptorSettings
from pellucid.features.train.trainer import Trainer
from pellucid.features.weights import DESCRIPTOR_FILE, save_descriptor
from pellucid.losses import hardest_triplet_loss, second_order_similarity_loss
from pellucid.training import TrainState, World, all_gather_rows, descend, set_rate

__all__ = ["DescriptorTrainer"]


class DescriptorTrainer(Trainer):
    """The state of a descriptor's training, and its step.

    Args:
        settings: the settings of the run.
        pairs: makes the batch of a step.
        world: the ranks. Each has its share of a batch; negatives come from the rows of all ranks, and batch statistics are those
            of all rows, so that the number of ranks changes only rounding (and the draw of dropout).
        device: the network's device.
        precision: ``float32`` or ``bfloat16``.
    """

    title = "Descriptor"
    panels: ClassVar = {"loss": ("loss",), "distances": ("positive", "negative", "others"), "rate": ("rate",)}
    file = DESCRIPTOR_FILE

    @classmethod
    def prepare(
        cls, settings: DescriptorSettings, photographs: Sequence[Tensor], world: World, device: torch.device
    ) -> Callable[[], DescriptorTrainer]:
        """Extract the patches from the photographs."""
        precision = resolve_precision(settings.precision, device)
        pool = PatchPool.from_photographs(photographs, keypoints=settings.keypoints, factor=settings.factor)
        jitter = patch_jitter(geometric=settings.geometric, photometric=settings.photometric)
        views = {"both": settings.both_views, "variants": settings.variants}
        pairs = PatchPairs(pool, jitter, batch=settings.batch, seed=settings.seed, **views)
        return lambda: cls(settings, pairs, world, device, precision)

    def __init__(self, settings: DescriptorSettings, pairs: PatchPairs, world: World, device: torch.device, precision: str) -> None:
        self.settings, self.pairs, self.world, self.device, self.precision = settings, pairs, world, device, precision
        network = HardNet(width=settings.width, dropout=settings.dropout, statistics=settings.statistics, seed=settings.seed)
        # Channels-last weights make convolutions a quarter faster on a CPU.
        network = network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = synchronised(network, world)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.rate, weight_decay=settings.weight_decay)
        self.average = copy.deepcopy(self.network).requires_grad_(False) if settings.average else None
        self.call = compiled(self.network, settings.compile)
        self.guard = CollapseGuard(margin=settings.margin)

    @property
    def notes(self) -> dict[str, Any]:
        """The number format, and the number of patches."""
        return {"precision": self.precision, "patches": len(self.pairs.pool)}

    @property
    def state(self) -> TrainState:
        """The content of a checkpoint."""
        modules: dict[str, nn.Module] = {"network": self.network}
        if self.average is not None:
            modules["average"] = self.average
        return TrainState(modules, {"optimizer": self.optimizer, "guard": self.guard})

    def save(self, home: Path, notes: Mapping[str, Any]) -> None:
        """Write the network, or the average of its weights if there is one."""
        save_descriptor(self.network if self.average is None else self.average, home / DESCRIPTOR_FILE, settings=notes)

    def step(self, index: int, total: int) -> Mapping[str, float | Tensor]:
        """Do step ``index`` of ``total``."""
        rate = self.settings.rate * (1.0 - index / total)
        set_rate(self.optimizer, rate)
        batch = self.pairs(index, rank=self.world.rank, ranks=self.world.size)
        patches = torch.cat((batch.anchors, batch.positives)).to(self.device)  # 2b 1 h w
        self.network.train()
        with autocast(self.precision, self.device):
            anchors, positives = self.call(patches).chunk(2)
        anchors, positives = (all_gather_rows(rows.contiguous(), self.world) for rows in (anchors, positives))
        ids = all_gather_rows(batch.ids.to(self.device), self.world)
        # Every rank has the same loss: gathering sums the ranks' gradients, and averaging divides by their number.
        loss = triplet = hardest_triplet_loss(anchors, positives, ids=ids, margin=self.settings.margin)
        if self.settings.second_order:
            loss = loss + self.settings.second_order * second_order_similarity_loss(anchors, positives, ids=ids)
        descend(loss, self.optimizer, world=self.world)
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


def _distances(anchors: Tensor, positives: Tensor) -> dict[str, Tensor]:
    """Return the mean distance of pairs, of hardest wrong pairs, and of all wrong pairs."""
    table = torch.cdist(anchors, positives)
    others = table.masked_fill(torch.eye(len(table), dtype=torch.bool, device=table.device), torch.nan)
    return {
        "positive": table.diagonal().mean(),
        "negative": torch.where(others.isnan(), torch.inf, others).amin(1).mean(),
        "others": others.nanmean(),
    }

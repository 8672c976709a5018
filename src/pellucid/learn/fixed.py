"""Training with an augmentation that does not learn: the arm that every learned one is compared with.

Owns: the recipe.
Must not: train the augmentation.
Read next: ``run.py``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.learn.classifier import cosine, network_for
from pellucid.learn.data import Batches, Task
from pellucid.learn.settings import Learning, Settings
from pellucid.random import Key
from pellucid.training import TrainState, World, average_gradients

__all__ = ["fixed"]


def fixed(task: Task, augment: nn.Module | None, settings: Settings, world: World) -> Learning:
    """Train the network on images augmented by a pipeline or policy as it is, or on plain ones."""
    net = network_for(task, seed=settings.seed).train()
    optimizer = torch.optim.AdamW(net.parameters(), settings.rate, weight_decay=settings.weight_decay)
    batches = Batches(task.x.shape[0], settings.batch, settings.seed, world)

    def step(index: int) -> dict[str, float | Tensor]:
        rows = batches(index)
        images = task.x[rows]
        if augment is not None:
            with torch.no_grad():
                images = augment(images, key=Key(settings.seed, index))
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * cosine(index, settings.steps)
        loss = F.cross_entropy(net(images), task.y[rows])
        optimizer.zero_grad()
        loss.backward()
        average_gradients(net.parameters(), world)
        optimizer.step()
        return {"loss": loss.detach()}

    return Learning(step, TrainState({"net": net}, {"optimizer": optimizer}), nn.Identity() if augment is None else augment, net)

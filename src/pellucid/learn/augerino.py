"""Augerino: the ranges are trained on the training loss, against a reward for spreading.

Owns: the objective, and the recipe that trains a network with it.
Must not: need a validation set.
Read next: ``bilevel.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.learn.classifier import cosine, network_for
from pellucid.learn.data import Batches, Task
from pellucid.learn.ranges import numbers_of
from pellucid.learn.settings import Learning, Settings
from pellucid.learn.statistics import HeldStatistics
from pellucid.pipeline import Pipeline
from pellucid.random import Key
from pellucid.training import TrainState, World, average_gradients

__all__ = ["augerino", "augerino_objective"]


def augerino_objective(
    augment: Pipeline, loss_fn: Callable[[Tensor], Tensor], images: Tensor, *, entropy: float, key: Key | None = None
) -> tuple[Tensor, Tensor]:
    """The expected loss minus ``entropy`` times the entropy of everything learned in the pipeline.

    Entropy rather than the sum of widths makes the price scale-free: a range settles where widening it by one per cent costs as
    much loss as one per cent of ``entropy``, whatever its unit, and a gate where the loss of opening it equals the slope of its
    entropy. If the loss grows with the square of the parameter, every range costs half of ``entropy`` nats in the end.

    Args:
        augment: a pipeline with learnable numbers.
        loss_fn: the augmented images to (B,) losses, each of its own sample where gates or choices are learned.
        images: to augment.
        entropy: nats of loss per nat of entropy.
        key: decides the draw.

    Returns:
        The objective, and the mean loss in it.

    Gradient:
        everything ``loss_fn`` depends on, and every learned number: unbiased (see `Pipeline.expected`).

    Source:
        Benton, Finzi, Izmailov, Wilson: "Learning invariances in neural networks", NeurIPS 2020, with the entropy in place of
        the width.
    """
    loss = augment.expected(loss_fn, images, key=key)
    spread = sum(augment.entropy().values(), start=torch.zeros((), dtype=torch.float64))
    return loss - entropy * spread.to(loss), loss.detach()


def augerino(task: Task, augment: Pipeline, settings: Settings, world: World) -> Learning:
    """Train the network and the ranges together, from the training images alone."""
    net = network_for(task, seed=settings.seed).train()
    optimizer = torch.optim.AdamW(net.parameters(), settings.rate, weight_decay=settings.weight_decay)
    ranges = torch.optim.Adam(augment.parameters(), settings.range_rate)
    batches = Batches(task.x.shape[0], settings.batch, settings.seed, world)
    judged = HeldStatistics(net)
    parameters = [*net.parameters(), *augment.parameters()]

    def step(index: int) -> dict[str, float | Tensor]:
        rows = batches(index)
        labels = task.y[rows]
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * cosine(index, settings.steps)
        objective, loss = augerino_objective(
            augment,
            lambda augmented: F.cross_entropy(judged(augmented), labels, reduction="none"),
            task.x[rows],
            entropy=settings.entropy,
            key=Key(settings.seed, index),
        )
        optimizer.zero_grad()
        ranges.zero_grad()
        objective.backward()
        average_gradients(parameters, world)
        optimizer.step()
        ranges.step()
        return {"loss": loss, **numbers_of(augment)}

    return Learning(step, TrainState({"net": net, "augment": augment}, {"optimizer": optimizer, "ranges": ranges}), augment, net)

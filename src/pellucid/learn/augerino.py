"""Augerino: train ranges on the training loss, with a reward for wide ranges.

Owns: the objective, the recipe that trains a network with it and its settings, and `HeldStatistics`.
Must not: need a validation set.
Read next: ``bilevel.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from pellucid.learn.classifier import Student
from pellucid.learn.data import Task
from pellucid.learn.ranges import numbers_of
from pellucid.learn.settings import Learning, Settings
from pellucid.pipeline import Pipeline
from pellucid.random import Key
from pellucid.training import TrainState, World, descend
from pellucid.training.settings import Amount

__all__ = ["AugerinoSettings", "HeldStatistics", "augerino", "augerino_objective"]


def augerino_objective(
    augment: Pipeline, loss_fn: Callable[[Tensor], Tensor], images: Tensor, *, entropy: float, key: Key | None = None
) -> tuple[Tensor, Tensor]:
    """Return the expected loss minus ``entropy`` times the entropy of all learned distributions in the pipeline.

    Because the reward is entropy, and not a sum of widths, units do not matter: a range settles where widening it by one per cent
    costs as much loss as one per cent of ``entropy``, and a gate where the loss of opening it equals the slope of its entropy. If
    the loss grows with the square of the parameter, every range finally costs half of ``entropy`` nats.

    Args:
        augment: a pipeline with learnable numbers.
        loss_fn: maps augmented images to (B,) losses; if gates or choices are learned, each must depend on its own sample only.
        images: the images to augment.
        entropy: nats of loss per nat of entropy.
        key: decides the draw.

    Returns:
        The objective, and the mean loss, detached.

    Gradient:
        everything ``loss_fn`` depends on, and every learned number: unbiased (see `Pipeline.expected`).

    Errors:
        As `Pipeline.expected`.

    Source:
        Benton, Finzi, Izmailov, Wilson: "Learning invariances in neural networks", NeurIPS 2020, with the entropy in place of
        the width.

    Example:
        >>> from pellucid.learn import augerino_objective
        >>> augment = pellucid.Pipeline([pellucid.RandomBrightness(pellucid.Learnable(0.2))], seed=0)
        >>> objective, loss = augerino_objective(augment, lambda out: out.mean((1, 2, 3)), torch.rand(2, 3, 4, 4), entropy=0.02)
        >>> objective.backward()
        >>> all(bool(number.grad != 0) for number in augment.parameters())
        True
    """
    loss = augment.expected(loss_fn, images, key=key)
    predicted = images if augment.learned.predicts else None
    spread = sum((one.mean() for one in augment.entropy(predicted).values()), start=torch.zeros((), dtype=torch.float64))
    return loss - entropy * spread.to(loss), loss.detach()


@dataclass(frozen=True)
class AugerinoSettings(Settings):
    """The settings of ``learn("augerino")``.

    Args:
        entropy: reward for entropy, in nats of training loss per nat.

    Example:
        >>> from pellucid.learn import AugerinoSettings
        >>> AugerinoSettings(steps=100, entropy=0.05).entropy
        0.05
    """

    entropy: Amount = 0.02


def augerino(task: Task, augment: Pipeline, settings: AugerinoSettings, world: World) -> Learning:
    """Train the network and the ranges together, from the training images alone."""
    student = Student(task, settings, world)
    ranges = torch.optim.Adam(augment.parameters(), settings.range_rate)
    judged = HeldStatistics(student.net)

    def step(index: int) -> dict[str, float | Tensor]:
        images, labels, key = student.batch(index)

        def losses(augmented: Tensor) -> Tensor:
            return F.cross_entropy(judged(augmented), labels, reduction="none")

        objective, loss = augerino_objective(augment, losses, images, entropy=settings.entropy, key=key)
        descend(objective, student.optimizer, ranges, world=world)
        return {"loss": loss, **numbers_of(augment)}

    state = TrainState({"net": student.net, "augment": augment}, {"optimizer": student.optimizer, "ranges": ranges})
    return Learning(step, state, augment, student.net)


class HeldStatistics:
    """Calls a network so that calls without gradient reuse the batch statistics of the last call with gradient.

    Estimators evaluate the loss of a batch a second time with flipped gates. Fresh batch statistics would then let every sample's
    loss depend on every other sample's gate. With held statistics, each loss depends on its own draw only, both evaluations are
    normalised alike, and the running statistics see one batch per step.

    Args:
        net: the network, with or without batch normalisation; hooks are added to its layers.

    Gradient:
        a call with gradient: the network's own. An expected loss, to gates: the gradient with constant statistics.
    """

    def __init__(self, net: nn.Module) -> None:
        self._net = net
        self._held: dict[str, Tensor] = {}
        for name, module in net.named_modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.register_forward_pre_hook(partial(self._hold, name))

    def __call__(self, images: Tensor) -> Any:
        """Return the network's output."""
        if torch.is_grad_enabled() or not self._net.training:
            return self._net(images)
        self._net.eval()
        try:
            return functional_call(self._net, self._held, (images,))
        finally:
            self._net.train()

    def _hold(self, name: str, module: nn.Module, inputs: tuple[Tensor]) -> None:
        if module.training and torch.is_grad_enabled():
            over = [0, *range(2, inputs[0].dim())]
            var, mean = torch.var_mean(inputs[0].detach(), over, correction=0)
            self._held |= {f"{name}.running_mean": mean, f"{name}.running_var": var}

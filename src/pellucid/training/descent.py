"""One step of gradient descent, on one process or many.

Owns: the order clear, differentiate, average over ranks, move.
Must not: know what is descended.
Read next: ``distributed.py``.
"""

from __future__ import annotations

from torch import Tensor
from torch.optim import Optimizer

from pellucid.training.distributed import World, average_gradients

__all__ = ["descend", "set_rate"]


def descend(loss: Tensor, *optimizers: Optimizer, world: World) -> None:
    """Take one step with each optimiser along the gradient of ``loss``, averaged over ranks."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    average_gradients((weight for one in optimizers for group in one.param_groups for weight in group["params"]), world)
    for optimizer in optimizers:
        optimizer.step()


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = rate

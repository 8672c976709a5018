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
    """Take one step with each optimiser along the gradient of ``loss``, averaged over ranks.

    Args:
        loss: a scalar.
        optimizers: each takes a step; their gradients are emptied before.
        world: which rank this is, of how many.

    Example:
        >>> import torch
        >>> from pellucid.training import World, descend
        >>> x = torch.ones(1, requires_grad=True)
        >>> descend(x.square().sum(), torch.optim.SGD([x], 0.25), world=World())
        >>> x.item()
        0.5
    """
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    average_gradients((weight for one in optimizers for group in one.param_groups for weight in group["params"]), world)
    for optimizer in optimizers:
        optimizer.step()


def set_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of every group.

    Args:
        optimizer: whose.
        rate: the new learning rate, at least 0.

    Example:
        >>> import torch
        >>> from pellucid.training import set_rate
        >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.25)
        >>> set_rate(optimizer, 0.1)
        >>> optimizer.param_groups[0]["lr"]
        0.1
    """
    for group in optimizer.param_groups:
        group["lr"] = rate

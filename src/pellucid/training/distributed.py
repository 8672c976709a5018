"""Ranks: joining torchrun's group, collectives that gradients pass through, one step of descent, and the choice of a device.

Owns: `World`, joining, averaging gradients, a step, gathering rows from all ranks, and reading a device's name.
Must not: assume a GPU, or that there is more than one process.
Read next: ``loop.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

from pellucid.errors import invalid
from pellucid.random.stream import launched, launched_number

__all__ = [
    "World", "all_gather_rows", "average_gradients", "barrier", "descend", "join_world", "leave_world", "pick_device", "set_rate",
]  # fmt: skip


@dataclass(frozen=True)
class World:
    """The rank of this process, and the number of processes.

    Args:
        rank: this process's number, from 0.
        size: the number of processes.

    Example:
        >>> from pellucid.training import World
        >>> World()
        World(rank=0, size=1)
    """

    rank: int = 0
    size: int = 1


def join_world() -> World:
    """Return this process's rank and the group's size, having joined the group that torchrun's environment describes.

    Without torchrun, the process is alone. The backend is NCCL on GPUs, else gloo.

    Errors:
        InvalidArgument if RANK or WORLD_SIZE is set to an invalid value.

    Example:
        >>> from pellucid.training import join_world
        >>> join_world()
        World(rank=0, size=1)
    """
    if launched()[1] < 2:
        return World()
    if not dist.is_initialized():
        gpu = torch.cuda.is_available()
        if gpu:
            torch.cuda.set_device(launched_number("LOCAL_RANK", 0))
        dist.init_process_group("nccl" if gpu else "gloo")
    return World(dist.get_rank(), dist.get_world_size())


def leave_world() -> int:
    """Leave the group, if there is one, and return this process's rank in it."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0
    rank = dist.get_rank()
    dist.destroy_process_group()
    return rank


def barrier(world: World) -> None:
    """Wait for all ranks."""
    if world.size > 1:
        dist.barrier()


def average_gradients(parameters: Iterable[Tensor], world: World) -> None:
    """Replace every gradient by its mean over ranks; a missing one counts as zero, so that all ranks reduce the same tensors.

    Args:
        parameters: the same on every rank, in the same order.
        world: this process's rank, and the number of ranks.

    Example:
        >>> import torch
        >>> from pellucid.training import World, average_gradients
        >>> average_gradients(torch.nn.Linear(2, 1).parameters(), World())  # a single process has nothing to average
    """
    if world.size == 1:
        return
    for parameter in parameters:
        if parameter.requires_grad:
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            dist.all_reduce(grad)
            parameter.grad = grad / world.size


def all_gather_rows(rows: Tensor, world: World) -> Tensor:
    """Stack the rows of all ranks, in rank order; the numbers of rows may differ.

    Args:
        rows: this rank's rows (n, ...); dtype and trailing shape are equal on all ranks.
        world: this process's rank, and the number of ranks.

    Returns:
        All rows (N, ...), with N the sum of all n.

    Gradient:
        rows: exact: the sum over ranks of the gradients that reached this rank's rows. Every rank must take part in backward.

    Example:
        >>> import torch
        >>> from pellucid.training import World, all_gather_rows
        >>> all_gather_rows(torch.zeros(4, 2), World()).shape
        torch.Size([4, 2])
    """
    if world.size == 1:
        return rows
    mine = torch.tensor([rows.shape[0]], device=rows.device)
    counts = [torch.zeros_like(mine) for _ in range(world.size)]
    dist.all_gather(counts, mine)
    gathered: Tensor = _GatherRows.apply(rows, [int(count) for count in counts], world.rank)
    return gathered


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int], rank: int) -> Tensor:
        ctx.counts, ctx.rank = counts, rank
        padded = rows.new_zeros((max(counts), *rows.shape[1:]))
        padded[: rows.shape[0]] = rows
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        total = grads[0].contiguous().clone()
        dist.all_reduce(total)
        start = sum(ctx.counts[: ctx.rank])
        return total[start : start + ctx.counts[ctx.rank]], None, None


def descend(loss: Tensor, *optimizers: Optimizer, world: World) -> None:
    """Take one step with each optimiser along the gradient of ``loss``, averaged over ranks.

    Args:
        loss: a scalar.
        optimizers: each takes a step; their gradients are cleared before.
        world: this process's rank, and the number of ranks.

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
        optimizer: the optimiser to change.
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


def pick_device(name: str) -> torch.device:
    """Return the device to train on; ``auto`` takes a GPU if there is one.

    Errors:
        ``InvalidArgument`` for a device that does not exist.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise invalid("device", expected="auto, cpu or cuda", got=repr(name)) from error
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and (device.index or 0) >= gpus):
        raise invalid("device", expected=f"auto, cpu, or cuda where there is a GPU ({gpus} here)", got=repr(name))
    return device

"""The stream that a module draws from when it gets no key: its seed, and the next step.

Owns: hashed seeds and slots, the numbers that tell processes apart, and taking a step: `claim`.
Must not: turn a key into words, or change torch's global generator, whose seed it only reads.
Read next: ``key.py``.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Collection
from hashlib import blake2b
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils.checkpoint import CheckpointPolicy
from torch.utils.data import get_worker_info

from pellucid.errors import invalid

__all__ = [
    "claim", "claim_now", "claim_numbers", "fold_in", "launched", "launched_number", "own_seed", "rank", "rank_now", "slot_of",
]  # fmt: skip

_lock = threading.RLock()
_GROUPS = torch.distributed.is_available()
_made = itertools.count()  # counts the streams without a seed in this process


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()  # another thread may have held it at the moment of the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def fold_in(seed: int, *names: int | str) -> int:
    """Return the seed of a substream, in [0, 2^63). It is hashed, because sums of seeds and numbers collide: 0 + 1 = 1 + 0."""
    return int.from_bytes(blake2b(repr((seed, *names)).encode(), digest_size=8).digest(), "little") >> 1


def own_seed() -> int:
    """Return a seed for a stream that was given none: a hash of torch's seed and of the number of such streams made before."""
    return fold_in(torch.initial_seed(), "stream", next(_made))


def slot_of(*names: int | str, taken: Collection[int] = ()) -> int:
    """Return the slot of a draw, which picks its four words of the hash. It depends on the draw's name, not on other draws."""
    attempt = 0
    while (slot := _slot(*names, attempt)) in taken:
        attempt += 1
    return slot


def _slot(*names: int | str) -> int:
    return fold_in(0, *names) % (1 << 32)


# The same as `torch.compiler.assume_constant_result`, which would import the compiler and take a second.
_slot._dynamo_marked_constant = True  # type: ignore[attr-defined]


def rank() -> int:
    """Return the rank of this process; in a worker of a data loader, the rank of the process that it loads for."""
    if torch.compiler.is_compiling() and not (_GROUPS and torch.distributed.is_initialized()):
        return 0
    return rank_now()


def rank_now() -> int:
    """Return the same as `rank`, outside of compiled graphs."""
    if _GROUPS and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    # A spawned worker has no process group, but inherits the launcher's environment.
    return 0 if get_worker_info() is None else launched()[0]


def launched() -> tuple[int, int]:
    """Return (rank, number of ranks) as a launcher such as torchrun sets them in the environment; (0, 1) without one."""
    size = launched_number("WORLD_SIZE", 1, low=1)
    at = launched_number("RANK", 0)
    if at >= size and os.environ.get("WORLD_SIZE"):
        raise invalid("RANK in the environment", expected=f"a whole number below WORLD_SIZE, which is {size}", got=at)
    return at, size


def launched_number(name: str, default: int, *, low: int = 0) -> int:
    """Read a whole number from the environment; the default if it is not set, or empty."""
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= low):
        fix = f"Start by torchrun, which sets it, or unset {name}."
        raise invalid(f"{name} in the environment", expected=f"a whole number, at least {low}", got=repr(text), fix=fix)
    return int(text)


def _place(shared: bool) -> int:
    """Return a number that makes this process' stream differ from those of others; 0 if sample indices differ already.

    Sample indices differ between ranks, but draws that a batch shares do not use them. A worker's seed differs between workers and,
    unless they persist, between epochs.
    """
    worker = get_worker_info()
    at = rank() if shared or worker is not None else 0
    if worker is not None:
        return fold_in(worker.seed, "worker", at)
    return fold_in(0, "rank", at) if at else 0


def claim(seed: Int64[Tensor, ""], step: Int64[Tensor, ""], *, shared: bool) -> tuple[Int64[Tensor, ""], Int64[Tensor, ""]]:
    """Take a step of a stream: return a pair (seed, step) to draw with that no other call gets. ``step`` advances in place.

    Args:
        seed, step: the state of the stream, on any device.
        shared: whether the batch shares a draw: then the seed has to differ between ranks, because the index does not help.

    Errors:
        RuntimeError during a backward pass: gradient checkpointing recomputes, and would get another draw. Also inside of
        ``torch.func``'s derivatives, which forbid changes in place.
    """
    if torch.compiler.is_compiling():
        taken = torch.ops.pellucid.claim.default(seed, step, shared)
        step.copy_(taken[2])
        return taken[0], taken[1]
    return claim_now(seed, step, shared=shared)


def claim_now(seed: Int64[Tensor, ""], step: Int64[Tensor, ""], *, shared: bool) -> tuple[Int64[Tensor, ""], Int64[Tensor, ""]]:
    """Do the same as `claim`, outside of compiled graphs."""
    if torch._C._current_graph_task_id() != -1:
        _refuse_in_backward()
    with _lock:
        now = step.clone()
        try:
            step.add_(1)
        except RuntimeError as error:
            if not torch._C._are_functorch_transforms_active():
                raise
            raise RuntimeError(
                "This pipeline was called inside of torch.func.grad, jvp or a relative, where its stream cannot advance. Draw "
                "outside (record = pipeline.draw(batch), then pipeline.apply(batch, record) inside) or pass key=."
            ) from error
    place = _place(shared) if shared or get_worker_info() is not None else 0
    return (seed ^ place if place else seed), now


def claim_numbers(seed: Int64[Tensor, ""], step: Int64[Tensor, ""], *, shared: bool) -> tuple[int, int]:
    """Return the claim as two numbers, in plain eager mode: two copies of tensors would take longer than a small picture."""
    if torch._C._current_graph_task_id() != -1:
        _refuse_in_backward()
    with _lock:
        now = int(step)
        if step.is_cpu:
            step.numpy()[()] = now + 1
        else:
            step.add_(1)
    place = _place(shared) if shared or get_worker_info() is not None else 0
    return int(seed) ^ place, now


def _refuse_in_backward() -> None:
    raise RuntimeError(
        "This pipeline was called again during backward, as gradient checkpointing does, and would draw different "
        "parameters than in forward: gradients would be silently wrong. Draw outside the checkpoint "
        "(record = pipeline.draw(batch); checkpoint(pipeline.apply, batch, record)) or pass key=."
    )


# Compiled graphs claim a step by an operator. If a checkpoint or the partitioner recomputed it in backward, it would read a counter
# that has advanced since. So its result is marked to be saved; and if the whole graph runs again in backward, the operator raises.
torch.library.define("pellucid::claim", "(Tensor seed, Tensor step, bool shared) -> Tensor")


def _claimed(seed: Tensor, step: Tensor, shared: bool) -> Tensor:
    """Return (3,): the seed and the step to draw with, and the next step."""
    if torch._C._current_graph_task_id() != -1:
        _refuse_in_backward()
    return torch.stack((seed ^ _place(shared), step, step + 1))


@torch.library.register_fake("pellucid::claim")
def _fake(seed: Tensor, step: Tensor, shared: bool) -> Tensor:
    del seed, shared
    return step.new_empty(3)


def _traced(keys: Any, seed: Tensor, step: Tensor, shared: bool) -> Tensor:
    """Claim under autograd. In a traced graph, mark all claims so far as to be saved: a checkpoint has set its policy by now."""
    operator = torch.ops.pellucid.claim.default
    with torch._C._AutoDispatchBelowAutograd():
        taken: Tensor = operator.redispatch(keys & torch._C._after_autograd_keyset, seed, step, shared)
    tracing = get_proxy_mode()
    nodes = () if tracing is None else tracing.tracer.graph.nodes
    if torch._functorch.config.activation_memory_budget == 0 and any(node.name.startswith("tangents") for node in nodes):
        raise RuntimeError(
            "This pipeline draws in a graph that saves nothing (activation_memory_budget = 0), not even the draw, and would draw "
            "again in backward. Any budget above 0 saves it, such as 0.01. Or draw outside (record = pipeline.draw(batch), then "
            "pipeline.apply(batch, record) inside), or pass key=."
        )
    for node in nodes:
        if node.target is operator:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return taken


_library = torch.library.Library("pellucid", "FRAGMENT")
_library.impl("claim", _claimed, "CompositeExplicitAutograd")
_library.impl("claim", _traced, "Autograd", with_keyset=True)

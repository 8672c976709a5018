"""The computation of a step: number format, compilation, and batch statistics across ranks.

Owns: the meaning of "auto" on this machine.
Must not: know what is trained.
Read next: ``descriptor.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

from pellucid.errors import invalid
from pellucid.nn import convert_batchnorm
from pellucid.training import World

__all__ = ["autocast", "compiled", "resolve_precision", "synchronised"]

M = TypeVar("M", bound=nn.Module)


def resolve_precision(name: str, device: torch.device) -> str:
    """Return ``float32`` or ``bfloat16``; ``auto`` takes bfloat16 if the hardware multiplies in it.

    Errors:
        ``InvalidArgument`` for another name.
    """
    if name == "auto":
        if device.type == "cuda":
            fast = torch.cuda.is_bf16_supported()
        else:
            fast = bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
        return "bfloat16" if fast else "float32"
    if name not in ("float32", "bfloat16"):
        raise invalid("precision", expected="auto, float32 or bfloat16", got=repr(name))
    return name


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context for forward passes; weights, losses and the optimiser stay in float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bfloat16" else nullcontext()


def compiled(network: nn.Module, wanted: bool) -> Callable[..., Any]:
    """Return the network, compiled if wanted; it shares the weights of ``network``."""
    return torch.compile(network, dynamic=False) if wanted else network


def synchronised(network: M, world: World) -> M:
    """Take batch statistics over all ranks; state dicts fit both networks. With one rank nothing changes."""
    if world.size == 1:
        return network
    # torch's conversion finds the batch norms; Pellucid's needs no GPU and differentiates through the reduction.
    whole = convert_batchnorm(nn.SyncBatchNorm.convert_sync_batchnorm(network), statistics_grad="full")
    assert isinstance(whole, type(network))
    return whole

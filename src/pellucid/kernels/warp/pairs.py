"""Stack coordinates x and y, as warps take displacements.

Owns: `paired`.
Must not: compute.
Read next: ``__init__.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.tape import is_plain_eager
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_split

__all__ = ["paired"]

_NUMBERS = 1 << 15  # the fewest worth handing to another thread


def paired(x: Float[Tensor, "b h w"], y: Float[Tensor, "b h w"]) -> Float[Tensor, "b 2 h w"]:
    """``torch.stack((x, y), 1)``, on the CPU by the kernels' own threads.

    Torch's threads would spin for milliseconds afterwards, on the cores that the warp is about to want.
    """
    if not (x.is_cpu and y.is_cpu and is_plain_eager()):
        return torch.stack((x, y), 1)
    if needs_grad(x, y):
        out: Tensor = _Pair.apply(x, y)
        return out
    return _copied(x.detach(), y.detach())


class _Pair(torch.autograd.Function):
    """Copies forward, and views backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        del ctx
        return _copied(x, y)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        del ctx
        return grads[0].unbind(1)


def _copied(x: Tensor, y: Tensor) -> Tensor:
    out = in_large_pages(x.new_empty((x.shape[0], 2, *x.shape[1:])))
    across, down, both = x.numpy(), y.numpy(), out.numpy()

    def task(start: int, stop: int) -> None:
        np.copyto(both[start:stop, 0], across[start:stop])
        np.copyto(both[start:stop, 1], down[start:stop])

    run_split(task, len(both), _NUMBERS // max(across[:1].size, 1) + 1)
    return out

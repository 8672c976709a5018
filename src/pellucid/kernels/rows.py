"""Take some samples out of a batch and put them back, one by one: torch's indexing takes several times as long.

Owns: `put` and `taken`.
Must not: be asked for gradients.
Read next: ``threads.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from pellucid.kernels.threads import memory

__all__ = ["put", "taken"]


def taken(batch: Shaped[Tensor, "b *rest"], rows: Int64[Tensor, "n"]) -> Shaped[Tensor, "n *rest"]:
    """The samples of a CPU batch at these rows; the batch itself if they are all of it."""
    if len(rows) == len(batch):
        return batch
    return torch.from_numpy(memory(batch)[rows.numpy()])


def put(batch: Shaped[Tensor, "b *rest"], rows: Int64[Tensor, "n"], part: Shaped[Tensor, "n *rest"]) -> None:
    """Write samples to their places in a batch that is the caller's own."""
    into, of = memory(batch), memory(part)
    for k, row in enumerate(rows.tolist()):
        into[row] = of[k]

"""Put samples back into a batch, one by one: torch's indexing takes several times as long.

Owns: `put`.
Must not: be asked for gradients.
Read next: ``threads.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Shaped
from torch import Tensor

from pellucid.kernels.threads import memory

__all__ = ["put"]


def put(batch: Shaped[Tensor, "b *rest"], rows: Sequence[int], part: Shaped[Tensor, "n *rest"]) -> None:
    """Write samples to their places in a batch that is the caller's own."""
    into, of = memory(batch), memory(part)
    for k, row in enumerate(rows):
        into[row] = of[k]

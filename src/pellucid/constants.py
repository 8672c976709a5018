"""Small constant tensors, made so that nothing is copied from the host while a CUDA graph is being captured.

Owns: `constant`.
Must not: cache (a cache would outlive devices and graphs).
Read next: ``geometry/matrices.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["constant"]


def constant(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A 1-D tensor of the given numbers."""
    if device.type == "cpu" or torch.compiler.is_compiling():
        return torch.tensor(values, dtype=dtype, device=device)
    return torch.stack([torch.full((), value, dtype=dtype, device=device) for value in values])

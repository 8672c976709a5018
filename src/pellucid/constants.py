"""Small constant tensors, made so that nothing is copied from the host while a CUDA graph is being captured.

Owns: `constant`, and the dtype of small tensors.
Must not: cache (a cache would outlive devices and graphs).
Read next: ``geometry/matrices.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["constant", "wide_dtype"]


def constant(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A 1-D tensor of the given numbers."""
    if device.type == "cpu" or torch.compiler.is_compiling():
        return torch.tensor(values, dtype=dtype, device=device)
    return torch.stack([torch.full((), value, dtype=dtype, device=device) for value in values])


def wide_dtype(device: torch.device) -> torch.dtype:
    """float64 for parameters and matrices, so that composing them costs no precision; float32 where a device has no other."""
    return torch.float32 if device.type == "mps" else torch.float64

"""Whether anything may ask for a derivative: what only a gradient needs is not computed otherwise.

Owns: `needs_grad`.
Must not: look at values.
Read next: ``curve/surrogate.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

__all__ = ["needs_grad"]


def needs_grad(*tensors: Tensor | None) -> bool:
    """Whether a derivative to one of these may be asked for, in any of torch's ways; a fact of the call, not of its values."""
    if not torch.compiler.is_compiling() and (torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0):
        return True
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)

"""Tell whether a call may be differentiated, so that kernels skip the work that only a gradient needs.

Owns: `needs_grad`, `learns`, `forward_mode`, `forward_alone`, `first_moves_alone`.
Must not: look at values.
Read next: ``curve/surrogate.py``.
"""

import torch
from torch import Tensor
from torch.autograd import forward_ad

from pellucid.kernels.several import Pictures

__all__ = ["first_moves_alone", "forward_alone", "forward_mode", "learns", "needs_grad"]


def needs_grad(*tensors: Tensor | Pictures | None) -> bool:
    """Whether torch may ask for a derivative to one of these tensors, in any mode; it depends on the call, not on values."""
    if forward_mode() or (not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()):
        return True
    if torch.is_grad_enabled():
        for tensor in tensors:  # a loop, as a generator would take twice the time
            if tensor is not None and tensor.requires_grad:
                return True
    return False


def forward_mode() -> bool:
    """Whether torch computes forward-mode tangents (``torch.func.jvp``, ``torch.autograd.forward_ad``)."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def forward_alone(*tensors: Tensor | None) -> bool:
    """Whether one level of forward mode is the only derivative taken, without reverse mode around or inside it. A vmap may lie
    around it, but not inside: torch's vmap rule for custom functions takes no absent tensors.
    """
    *outer, inner = [level.key() for level in torch._C._functorch.get_interpreter_stack() or ()] or [_LEVEL.Jvp]
    once = inner == _LEVEL.Jvp and all(level == _LEVEL.Vmap for level in outer)
    return forward_mode() and once and not (torch.is_grad_enabled() and any(t is not None and learns(t) for t in tensors))


def first_moves_alone(first: Tensor, *others: Tensor | None) -> bool:
    """Whether `forward_alone` holds and no tensor but the first carries a tangent."""
    return forward_alone(first, *others) and not any(tensor is not None and _moves(tensor) for tensor in others)


def _moves(tensor: Tensor) -> bool:
    """Whether the tensor, or one that functorch wrapped in it, carries a tangent."""
    while forward_ad.unpack_dual(tensor).tangent is None:
        if not torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return False
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return True


_LEVEL = torch._C._functorch.TransformType


def learns(tensor: Tensor) -> bool:
    """Whether the tensor, or one that functorch wrapped in it, requires a gradient."""
    while not tensor.requires_grad and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.requires_grad

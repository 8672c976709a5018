"""Run a call in float64 throughout, even if it casts to a lower precision inside.

Owns: replacing such casts, so that a formula written for float32 can be checked to float64's precision.
Must not: be used for anything but checking the formula; ``checks/hazards.py`` reports the rounding that is removed here.
Read next: ``context.py`` (who decides when).
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pellucid.audit.tree import rebuild

__all__ = ["Lifted"]

_NARROW = {torch.float16, torch.bfloat16, torch.float32}
_CASTS = {"half", "bfloat16", "float"}
_FROM_NUMBERS = {"tensor", "as_tensor", "asarray", "scalar_tensor", "full", "new_tensor"}
_ALIASES = {"set_", "data_ptr", "untyped_storage", "storage", "__get__", "__set__", "_make_subclass", "requires_grad_"}


class Lifted(TorchFunctionMode):
    """Replaces every cast to a lower precision by one to float64, and computes every operation in float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(getattr(func, "__name__", func))
        if name in _ALIASES:
            return func(*args, **kwargs)
        if name in _CASTS:
            return torch.Tensor.double(args[0])
        widened = rebuild((list(args), dict(kwargs)), lambda _, t: _wide(t))
        positional = [torch.float64 if isinstance(a, torch.dtype) and a in _NARROW else a for a in widened[0]]
        named = {k: torch.float64 if isinstance(v, torch.dtype) and v in _NARROW else v for k, v in widened[1].items()}
        with ExitStack() as stack:
            if torch.is_autocast_enabled("cpu"):
                stack.enter_context(torch.autocast("cpu", enabled=False))
            if name in _FROM_NUMBERS:  # Python's floats are float64
                stack.callback(torch.set_default_dtype, torch.get_default_dtype())
                torch.set_default_dtype(torch.float64)
            out = func(*positional, **named)
        return rebuild(out, lambda _, t: _wide(t)) if isinstance(out, Tensor | tuple | list) else out


def _wide(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.dtype in _NARROW else tensor

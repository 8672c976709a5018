"""Small constant tensors, made so that nothing is copied from the host while a CUDA graph is being captured.

Owns: `constant` and `scalar`, the memory of what was made on a device, the dtype of small tensors, and what calls
run under: a default device, `pinned` and `standing`, and no autocast, `full_precision`.
Must not: hand out what somebody may write to, or forget what a captured graph reads.
Read next: ``../geometry/matrices.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from pellucid.core.caches import Recent

__all__ = ["compute_dtype", "constant", "full_precision", "pinned", "scalar", "standing", "wide_dtype"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

# A plan's numbers are the same in every call, and a launch per number is most of a small batch's time on a GPU.
_made: Recent[Any, Tensor] = Recent(4096)
_captured: dict[int, Tensor] = {}
"""What CUDA graphs read, by their own kernels and without our knowledge, for as long as they live."""


def constant(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A 1-D tensor of these numbers. Never write to it: it is shared."""
    if device.type == "cpu" or torch.compiler.is_compiling():
        return torch.tensor(values, dtype=dtype, device=device)
    if not _plain(device):
        return _filled(values, dtype, device)
    capturing = _capturing(device)
    key = (repr(values), dtype, device)  # as text, which tells 0.0 from -0.0
    if capturing and key not in _made:
        return _filled(values, dtype, device)
    tensor = _made.get(key, lambda: _ordinary(values, dtype, device))
    if capturing:
        _captured[id(tensor)] = tensor
    return tensor


def scalar(value: float | Tensor, like: Tensor) -> Tensor:
    """A number, or a tensor that stands for one, with the dtype and on the device of another tensor."""
    if isinstance(value, Tensor):
        return value.to(like.device, like.dtype)
    if like.is_cpu or torch.compiler.is_compiling():
        return torch.as_tensor(value, dtype=like.dtype, device=like.device)
    return torch.full((), value, dtype=like.dtype, device=like.device)


def wide_dtype(device: torch.device) -> torch.dtype:
    """float64 for parameters and matrices, so that composing them costs no precision; float32 where a device has no other."""
    return torch.float64 if _has_float64(device) else torch.float32


def _has_float64(device: torch.device) -> bool:
    """Apple's GPUs never have it, Intel's smaller ones do not."""
    return bool(torch.xpu.get_device_properties(device).has_fp64) if device.type == "xpu" else device.type != "mps"


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Coordinates and colours are computed in float32, in float64 for float64 images."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Without autocast; the meta device, which computes nothing, has none to switch off."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def standing(device: torch.device | str) -> AbstractContextManager[object]:
    """Within, what names no device is made on this one, where torch's default may be another."""
    return nullcontext() if torch.compiler.is_compiling() or not torch._C._len_torch_function_stack() else torch.device(device)


def pinned(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, whatever torch's default device is: what names no device is made on the CPU, as it is without a default."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not torch._C._len_torch_function_stack():  # no default, at the price of a look
            return function(*args, **kwargs)
        with standing("cpu"):
            return function(*args, **kwargs)

    return call


def _ordinary(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # whose tensors no gradient may save
        return torch.tensor(values, dtype=dtype, device=device)


def _filled(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """The numbers as arguments of kernels: nothing is copied, and CUDA graphs can capture it."""
    return torch.stack([torch.full((), value, dtype=dtype, device=device) for value in values])


def _plain(device: torch.device) -> bool:
    """Whether tensors made now are ordinary ones that a cache may keep: no tracing, no vmap."""
    return not (
        torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
        or (device.type == "cuda" and device.index is None)
    )


def _capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is recording."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()

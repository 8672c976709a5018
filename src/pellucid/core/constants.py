"""Small constant tensors, made so that nothing is copied from the host while a CUDA graph is being captured.

Owns: `constant` and `scalar`, their cache for each device, the dtype of small tensors, and the contexts that calls
run in: a default device (`pinned`, `standing`) and no autocast (`full_precision`).
Must not: free a tensor that a captured graph reads.
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

# A plan has the same numbers in every call, and one kernel launch for each would be most of a small batch's time on a GPU.
_made: Recent[Any, Tensor] = Recent(4096)
_captured: dict[int, Tensor] = {}
"""Constants that captured CUDA graphs read. We do not learn when a graph is deleted, so these are kept for good."""


def constant(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a 1-D tensor of these numbers. Never write to it: it is shared."""
    if device.type == "cpu" or torch.compiler.is_compiling():
        return torch.tensor(values, dtype=dtype, device=device)
    if not _plain(device):
        return _filled(values, dtype, device)
    capturing = _capturing(device)
    key = (repr(values), dtype, device)  # as text, because 0.0 == -0.0
    if capturing and key not in _made:
        return _filled(values, dtype, device)
    tensor = _made.get(key, lambda: _ordinary(values, dtype, device))
    if capturing:
        _captured[id(tensor)] = tensor
    return tensor


def scalar(value: float | Tensor, like: Tensor) -> Tensor:
    """Return a number, or a tensor that holds one, in the dtype and on the device of another tensor."""
    if isinstance(value, Tensor):
        return value.to(like.device, like.dtype)
    if like.is_cpu or torch.compiler.is_compiling():
        return torch.as_tensor(value, dtype=like.dtype, device=like.device)
    return torch.full((), value, dtype=like.dtype, device=like.device)


def wide_dtype(device: torch.device) -> torch.dtype:
    """Return float64, in which composing matrices and parameters costs no precision; float32 if the device lacks float64."""
    return torch.float64 if _has_float64(device) else torch.float32


def _has_float64(device: torch.device) -> bool:
    """Apple's GPUs and the smaller ones of Intel have no float64."""
    return bool(torch.xpu.get_device_properties(device).has_fp64) if device.type == "xpu" else device.type != "mps"


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which coordinates and colours are computed: float64 for float64 images, float32 for all others."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context without autocast. The meta device computes nothing and has no autocast to switch off."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def standing(device: torch.device | str) -> AbstractContextManager[object]:
    """Return a context in which tensors without a named device are made on this one, whatever torch's default device is."""
    return nullcontext() if torch.compiler.is_compiling() or not torch._C._len_torch_function_stack() else torch.device(device)


def pinned(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a function so that torch's default device does not matter: tensors without a named device are made on the CPU."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not torch._C._len_torch_function_stack():  # no default device is set; this check is cheap
            return function(*args, **kwargs)
        with standing("cpu"):
            return function(*args, **kwargs)

    return call


def _ordinary(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # autograd cannot save tensors made in inference mode
        return torch.tensor(values, dtype=dtype, device=device)


def _filled(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Pass the numbers as kernel arguments: nothing is copied from the host, and CUDA graphs can capture it."""
    return torch.stack([torch.full((), value, dtype=dtype, device=device) for value in values])


def _plain(device: torch.device) -> bool:
    """Return whether tensors made now are ordinary ones that a cache may keep: no tracing, no vmap."""
    return not (
        torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
        or (device.type == "cuda" and device.index is None)
    )


def _capturing(device: torch.device) -> bool:
    """Return whether a CUDA graph is being captured."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()

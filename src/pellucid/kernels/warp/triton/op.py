"""The registered operators: what torch sees of the warp on CUDA.

Owns: their schemas, fake kernels, batching rules and device kernels; CPU tensors are taken only under Triton's interpreter.
Must not: know about gradients (``autograd.py``) or import Triton before an operator runs.
Read next: ``launch.py``.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

__all__ = ["warp_backward", "warp_forward", "warp_labels"]

_COMMON = "Tensor image, Tensor mapping, Tensor? window, Tensor params, SymInt[] size, int[] options, float cubic"
torch.library.define("pellucid::triton_warp", f"({_COMMON}, ScalarType dtype) -> Tensor")
torch.library.define(
    "pellucid::triton_warp_backward", f"(Tensor grad, {_COMMON}, bool[] needs) -> (Tensor, Tensor, Tensor, Tensor)"
)
torch.library.define(
    "pellucid::triton_labels", "(Tensor image, Tensor mapping, Tensor? window, Tensor fill, SymInt[] size, int mode) -> Tensor"
)

warp_forward = torch.ops.pellucid.triton_warp
"""(image, mapping, window, params, size, (taps, mode, flags, out_channels), cubic, dtype) -> the output, of that dtype.

image: uint8 (read as fractions of 255), float16, bfloat16, float32 or float64, any strides. mapping: (b or 1, 6 or 9), window:
(b or 1, 4), params: (b or 1, n), all of the dtype in which everything is computed (float32 or float64). ``kernels/warp/layout.py``
says what the options and parameters mean.
"""
warp_backward = torch.ops.pellucid.triton_warp_backward
"""The forward's arguments without dtype after the output's gradient (any strides); ``needs`` is (image, map and window, params).

Returns the gradients of image, mapping, window and params; the first in the image's dtype, the last three in float64 and one row
per sample, whatever the arguments had. What is not needed has no elements.
"""
warp_labels = torch.ops.pellucid.triton_labels
"""(image, mapping, window, fill, size, mode) -> the nearest pixels; image and fill (b or 1, c) are of one integer dtype."""

# CPU tensors reach the kernels through Triton's interpreter alone, which Triton turns on by the same variable.
_KEYS = ("CUDA", "CPU") if os.environ.get("TRITON_INTERPRET") == "1" else ("CUDA",)
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@torch.library.register_fake("pellucid::triton_warp")
def _(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    size: list[int],
    options: list[int],
    cubic: float,
    dtype: torch.dtype,
) -> Tensor:
    del mapping, window, params, cubic
    return image.new_empty((image.shape[0], options[3], size[0], size[1]), dtype=dtype)


@torch.library.register_fake("pellucid::triton_warp_backward")
def _(
    grad: Tensor,
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    size: list[int],
    options: list[int],
    cubic: float,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    del grad, size, options, cubic
    batch = image.shape[0]
    rows = [
        (batch, mapping.shape[1]) if needs[1] else (0,),
        (batch, 4) if needs[1] and window is not None else (0,),
        (batch, params.shape[1]) if needs[2] else (0,),
    ]
    to_map, to_window, to_params = (params.new_empty(shape, dtype=torch.float64) for shape in rows)
    return image.new_empty(image.shape if needs[0] else (0,)), to_map, to_window, to_params


@torch.library.register_fake("pellucid::triton_labels")
def _(image: Tensor, mapping: Tensor, window: Tensor | None, fill: Tensor, size: list[int], mode: int) -> Tensor:
    del mapping, window, fill, mode
    return image.new_empty((*image.shape[:2], size[0], size[1]))


def _warp(*arguments: Any) -> Tensor:
    from pellucid.kernels.warp.triton.launch import forward_warp

    image, *_, size, options, _, dtype = arguments
    out: Tensor = image.new_empty((image.shape[0], options[3], size[0], size[1]), dtype=dtype)
    if out.numel():
        forward_warp(out, arguments[:-1])
    return out


def _warp_backward(grad: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from pellucid.kernels.warp.triton.launch import backward_warp

    image, mapping, window, params, *_, needs = arguments
    if grad.numel() and image.numel():
        return backward_warp(grad, arguments[:-1], needs)
    batch = image.shape[0]
    zeros = [
        (batch, mapping.shape[1]) if needs[1] else (0,),
        (batch, 4) if needs[1] and window is not None else (0,),
        (batch, params.shape[1]) if needs[2] else (0,),
    ]
    to_map, to_window, to_params = (params.new_zeros(shape, dtype=torch.float64) for shape in zeros)
    return image.new_zeros(image.shape if needs[0] else (0,)), to_map, to_window, to_params


def _labels(image: Tensor, mapping: Tensor, window: Tensor | None, fill: Tensor, size: list[int], mode: int) -> Tensor:
    from pellucid.kernels.warp.triton.launch import copy

    bits = _BITS[image.element_size()]
    out = torch.empty((*image.shape[:2], size[0], size[1]), dtype=bits, device=image.device)
    if out.numel():
        copy(out, image.view(bits), mapping, window, fill.view(bits), mode)
    return out.view(image.dtype)


for _key in _KEYS:
    torch.library.impl("pellucid::triton_warp", _key, _warp)
    torch.library.impl("pellucid::triton_warp_backward", _key, _warp_backward)
    torch.library.impl("pellucid::triton_labels", _key, _labels)


def _fold(tensors: list[Tensor | None], dims: list[int | None], lanes: int, batch: int) -> list[Tensor | None]:
    """Merge the mapped axis into the batch axis; what has no mapped axis and one row for all stays as it is."""
    folded: list[Tensor | None] = []
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor is None or (dim is None and tensor.shape[0] == 1 and batch > 1):
            folded.append(tensor)
            continue
        lane = tensor[None].expand(lanes, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        lane = lane.expand(lanes, batch, *lane.shape[2:])
        folded.append(lane.reshape(lanes * batch, *lane.shape[2:]))
    return folded


def _batch(image: Tensor, dim: int | None) -> int:
    return image.shape[0] if dim is None else image.movedim(dim, 0).shape[1]


@torch.library.register_vmap("pellucid::triton_warp")
def _(info: Any, dims: Any, image: Tensor, mapping: Tensor, window: Tensor | None, params: Tensor, *rest: Any) -> Any:
    lanes, batch = info.batch_size, _batch(image, dims[0])
    folded = _fold([image, mapping, window, params], list(dims[:4]), lanes, batch)
    return warp_forward(*folded, *rest).unflatten(0, (lanes, batch)), 0


@torch.library.register_vmap("pellucid::triton_warp_backward")
def _(info: Any, dims: Any, grad: Tensor, image: Tensor, mapping: Tensor, window: Tensor | None, params: Tensor, *rest: Any) -> Any:
    lanes, batch = info.batch_size, _batch(image, dims[1])
    folded = _fold([grad, image, mapping, window, params], list(dims[:5]), lanes, batch)
    results = warp_backward(*folded, *rest)
    split = tuple(r.unflatten(0, (lanes, batch)) if r.numel() else r.new_empty((lanes, 0)) for r in results)
    return split, (0, 0, 0, 0)


@torch.library.register_vmap("pellucid::triton_labels")
def _(info: Any, dims: Any, image: Tensor, mapping: Tensor, window: Tensor | None, fill: Tensor, *rest: Any) -> Any:
    lanes, batch = info.batch_size, _batch(image, dims[0])
    folded = _fold([image, mapping, window, fill], list(dims[:4]), lanes, batch)
    return warp_labels(*folded, *rest).unflatten(0, (lanes, batch)), 0

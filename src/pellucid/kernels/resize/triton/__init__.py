"""The antialiased resize for CUDA devices: the warp's kernels, which then read all that an output pixel spans.

Owns: its operators: `forward` (also as `direct`: there is nothing to gain past torch's dispatcher) and `backward`.
Must not: fall back, know about gradients, or import Triton before an operator runs.
Read next: ``../../warp/triton/axes.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, batched
from pellucid.kernels.warp.operators import Gradients, empty_gradients

__all__ = ["backward", "direct", "forward"]

_COMMON = "Tensor image, Tensor mapping, Tensor window, Tensor params, SymInt[] size, int[] options, float cubic, ScalarType dtype"
_NAMES = "pellucid::triton_resize", "pellucid::triton_resize_backward"
torch.library.define(_NAMES[0], f"({_COMMON}) -> Tensor")
torch.library.define(_NAMES[1], f"(Tensor grad, {_COMMON}, bool[] needs) -> (Tensor, Tensor, Tensor, Tensor)")

forward = torch.ops.pellucid.triton_resize.default
"""As ``../cpu/op.py``'s, but that the image may be of any floating dtype."""

backward = torch.ops.pellucid.triton_resize_backward.default
direct = forward


def _empty(*given: Any) -> Tensor:
    image, size, options, dtype = given[0], given[4], given[5], given[7]
    out: Tensor = image.new_empty((image.shape[0], options[3], size[0], size[1]), dtype=dtype)
    return out


def _empty_gradients(grad: Tensor, image: Tensor, mapping: Tensor, window: Tensor, params: Tensor, *rest: Any) -> Gradients:
    del grad
    return empty_gradients(image, mapping, window, params, None, None, None, [*rest[-1], False, False, False])[:4]


def _call(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """What the warp's launchers take: no field and no canvases."""
    *tensors, size, options, cubic = given
    return *tensors, None, size, options, cubic, None, True


def _resize(*given: Any) -> Tensor:
    from pellucid.kernels.warp.triton.launch import forward_warp

    out = _empty(*given)
    if out.numel():
        forward_warp(out, _call(given[:-1]))
    return out


def _resize_backward(grad: Tensor, *given: Any) -> Gradients:
    from pellucid.kernels.warp.triton.launch import backward_warp

    needs = given[-1]
    if grad.numel() and given[0].numel():
        return backward_warp(grad, _call(given[:-2]), [needs[0], needs[1] or needs[2], needs[3], False])[:4]
    found = _empty_gradients(grad, *given)
    for gradient in found:
        gradient.zero_()
    return found


torch.library.register_fake(_NAMES[0], _empty)
torch.library.register_fake(_NAMES[1], _empty_gradients)
for _key in TRITON_KEYS:
    torch.library.impl(_NAMES[0], _key, _resize)
    torch.library.impl(_NAMES[1], _key, _resize_backward)
batched(_NAMES[0], forward, 4, 0)
batched(_NAMES[1], backward, 5, 1)

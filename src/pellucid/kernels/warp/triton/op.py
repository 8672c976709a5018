"""The operators of ``../operators.py`` on CUDA.

Owns: their device kernels; CPU tensors are taken only under Triton's interpreter.
Must not: know about gradients (``../../explicit.py``) or import Triton before an operator runs.
Read next: ``launch.py``.
"""

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS
from pellucid.kernels.warp.operators import Gradients, define, empty_result, no_gradients

__all__ = ["backward", "forward", "labels"]

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _warp(*arguments: Any) -> Tensor:
    from pellucid.kernels.warp.triton.launch import forward_warp

    out = empty_result(arguments[0], *arguments[7:])
    if out.numel():
        forward_warp(out, arguments[:-1])
    return out


def _warp_backward(grad: Tensor, *arguments: Any) -> Gradients:
    from pellucid.kernels.warp.triton.launch import backward_warp

    needs = arguments[-1]
    if grad.numel() and arguments[0].numel():
        moves = needs[1] or needs[2] or needs[5] or needs[6]
        return backward_warp(grad, arguments[:-2], [needs[0], moves, *needs[3:5], needs[6]])
    return no_gradients(arguments[:7], needs)


def _labels(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    fill: Tensor,
    field: Tensor | None,
    links: Tensor | None,
    size: list[int],
    options: list[int],
) -> Tensor:
    from pellucid.kernels.warp.triton.launch import copy

    assert links is None
    bits = _BITS[image.element_size()]
    out = torch.empty((*image.shape[:2], size[0], size[1]), dtype=bits, device=image.device)
    if out.numel():
        copy(out, image.view(bits), mapping, window, fill.view(bits), field, options[0])
    return out.view(image.dtype)


forward, backward, labels = define("triton", _warp, _warp_backward, _labels, TRITON_KEYS)

"""The separable filter for CUDA devices: a pass for each axis, no padded copy; the adjoint gathers.

Owns: the operator `separable`, with its gradients, on contiguous memory of one dtype.
Must not: know about autograd, or import Triton before an operator runs.
Read next: ``launch.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, empty_gradients, register

__all__ = ["separable_backward", "separable_forward"]


def _separable(image: Tensor, vertical: Tensor, horizontal: Tensor) -> Tensor:
    from pellucid.kernels.convolve.triton.launch import along

    if not image.numel():
        return torch.empty_like(image, memory_format=torch.contiguous_format)
    return along(along(image.contiguous(), horizontal.contiguous(), across=True), vertical.contiguous(), across=False)


def _back(grad: Tensor, image: Tensor, vertical: Tensor, horizontal: Tensor, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.convolve.triton.launch import along, back_along, sums_along

    gradients = empty_gradients((image, vertical, horizontal), needs)
    if not image.numel():
        return [f.zero_() for f in gradients]
    image, grad, vertical, horizontal = (tensor.contiguous() for tensor in (image, grad, vertical, horizontal))
    if needs[1]:
        gradients[1] = sums_along(grad, along(image, horizontal, across=True), vertical.shape[1], across=False)
    if needs[0] or needs[2]:
        grad = back_along(grad, vertical, across=False)
    if needs[2]:
        gradients[2] = sums_along(grad, image, horizontal.shape[1], across=True)
    if needs[0]:
        gradients[0] = back_along(grad, horizontal, across=True)
    return gradients


separable_forward, separable_backward = register(
    "triton_separable", "Tensor image, Tensor vertical, Tensor horizontal", _separable, _back, TRITON_KEYS
)

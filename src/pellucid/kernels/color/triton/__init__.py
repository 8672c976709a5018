"""The chain of clipped colour steps for CUDA devices: one pass forward and one back, two where the contrast's mean is needed.

Owns: the operator `jitter_steps` with its gradients, on contiguous memory of one dtype.
Must not: know about autograd, or import Triton before an operator runs.
Read next: ``launch.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, empty_gradients, register

__all__ = ["jitter_backward", "jitter_forward"]


def _steps(image: Tensor, order: Tensor, factors: Tensor, present: int) -> Tensor:
    from pellucid.kernels.color.triton.launch import steps

    out = torch.empty_like(image, memory_format=torch.contiguous_format)
    if out.numel():
        steps(out, image, order, factors, present)
    return out


def _back(grad: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.color.triton.launch import gradients

    to_inputs = empty_gradients((image, order, factors), needs)
    if image.numel() == 0:
        return [f.zero_() for f in to_inputs]
    to_image = to_inputs[0] if needs[0] else torch.empty_like(image, memory_format=torch.contiguous_format)
    sums = gradients(grad, image, order, factors, present, to_image)
    return [to_inputs[0], to_inputs[1], sums if needs[2] else to_inputs[2]]


jitter_forward, jitter_backward = register(
    "triton_jitter_steps", "Tensor image, Tensor order, Tensor factors, int present", _steps, _back, TRITON_KEYS
)

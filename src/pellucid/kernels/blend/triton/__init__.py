"""Noise for CUDA devices: hashed, mapped to normal numbers and added in registers; no field in memory, in neither direction.

Owns: the operators `noise`, with its gradients, and `gaussian_field`, on contiguous memory of one dtype.
Must not: know about autograd, or import Triton before an operator runs.
Read next: ``launch.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, empty_gradients, register

__all__ = ["gaussian_field", "noise", "noise_backward", "noise_forward"]


def noise(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int) -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.noise`; image, mean and sigma of one dtype, float32 or float64."""
    from pellucid.kernels.blend.triton.launch import add_noise

    out = torch.empty_like(image, memory_format=torch.contiguous_format)
    if out.numel():
        add_noise(out, *(tensor.contiguous() for tensor in (image, words, mean, sigma)), clip=clip != 0)
    return out


def _back(grad: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.blend.triton.launch import noise_gradients

    gradients = empty_gradients((image, words, mean, sigma), needs)
    if image.numel() == 0:
        return [f.zero_() for f in gradients]
    wanted = needs[2] or needs[3]
    if needs[0] and not clip and not wanted:
        gradients[0].copy_(grad)
        return gradients
    tensors = (tensor.contiguous() for tensor in (grad, image, words, mean, sigma))
    sums = noise_gradients(*tensors, clip=clip != 0, to_image=gradients[0] if needs[0] else None, sums=wanted)
    for place in (2, 3):
        if needs[place]:
            gradients[place] = sums[:, place - 2].contiguous()
    return gradients


noise_forward, noise_backward = register(
    "triton_noise", "Tensor image, Tensor words, Tensor mean, Tensor sigma, int clip", noise, _back, TRITON_KEYS
)

torch.library.define("pellucid::triton_gaussian_field", "(Tensor words, SymInt[] shape, ScalarType dtype) -> Tensor")


def gaussian_field(words: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.gaussian_field`; float32 or float64."""
    out: Tensor = torch.ops.pellucid.triton_gaussian_field.default(words, list(shape), dtype)
    return out


@torch.library.register_fake("pellucid::triton_gaussian_field")
def _(words: Tensor, shape: list[int], dtype: torch.dtype) -> Tensor:
    return words.new_empty((words.shape[0], *shape), dtype=dtype)


def _field(words: Tensor, shape: list[int], dtype: torch.dtype) -> Tensor:
    from pellucid.kernels.blend.triton.launch import fill_field

    out = words.new_empty((words.shape[0], *shape), dtype=dtype)
    if out.numel():
        fill_field(out, words.contiguous())
    return out


for _key in TRITON_KEYS:
    torch.library.impl("pellucid::triton_gaussian_field", _key)(_field)


@torch.library.register_vmap("pellucid::triton_gaussian_field")
def _(info: Any, dims: Any, words: Tensor, shape: list[int], dtype: torch.dtype) -> Any:
    out = torch.ops.pellucid.triton_gaussian_field.default(words.movedim(dims[0], 0).flatten(0, 1), shape, dtype)
    return out.unflatten(0, (info.batch_size, -1)), 0

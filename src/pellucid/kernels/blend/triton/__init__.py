"""Noise for CUDA devices: hashed, mapped to normal numbers and added in registers; neither direction stores a field.

Owns: the operators `NOISE`, with its gradients, and `FIELD`, on contiguous memory of one dtype.
Must not: know about autograd, or import Triton before an operator runs.
Read next: ``kernels.py``.
"""

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels.explicit import TRITON_KEYS, register

__all__ = ["FIELD", "NOISE"]


def _fill(out: Tensor, *given: Any) -> None:
    from pellucid.kernels.blend.triton.kernels import add_noise

    *tensors, clip = given
    add_noise(out, *(tensor.contiguous() for tensor in tensors), clip=clip != 0)


def _back(found: list[Tensor], *given: Any) -> None:
    from pellucid.kernels.blend.triton.kernels import noise_gradients

    *tensors, clip, needs = given
    wanted = needs[2] or needs[3]
    if needs[0] and not clip and not wanted:
        found[0].copy_(tensors[0])
        return
    to_image = found[0] if needs[0] else None
    sums = noise_gradients(*(tensor.contiguous() for tensor in tensors), clip=clip != 0, to_image=to_image, sums=wanted)
    for place in (2, 3):
        if needs[place]:
            found[place] = sums[:, place - 2].contiguous()


NOISE = register("triton_noise", "Tensor image, Tensor words, Tensor mean, Tensor sigma, int clip", _fill, _back, TRITON_KEYS)
"""See :func:`pellucid.kernels.blend.reference.noise`; image, mean and sigma of one dtype, float32 or float64."""


def _field(out: Tensor, words: Tensor, shape: list[int], dtype: torch.dtype) -> None:
    from pellucid.kernels.blend.triton.kernels import fill_field

    del shape, dtype
    fill_field(out, words.contiguous())


FIELD = register(
    "triton_gaussian_field",
    "Tensor words, SymInt[] shape, ScalarType dtype",
    _field,
    keys=TRITON_KEYS,
    empty=lambda words, shape, dtype: words.new_empty((words.shape[0], *shape), dtype=dtype),
)
"""See :func:`pellucid.kernels.blend.reference.gaussian_field`; float32 or float64."""

"""Noise compiled for the CPU: hashed, mapped to normal numbers and added strip by strip; no field in memory, in neither direction.

Owns: the operators `noise`, with its gradients, and `gaussian_field`, on contiguous memory of one dtype; `poisson_counts`.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.core.tape import is_plain_eager
from pellucid.kernels.explicit import empty_gradients, register
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_split
from pellucid.random.normals import series

__all__ = ["gaussian_field", "noise", "noise_backward", "noise_forward", "poisson_counts"]

_BLOCKS = 256  # of four numbers each: a strip, whose intermediate rows stay in the closest cache
_STRIPS = 16  # the fewest worth handing to another thread


def noise(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int) -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.noise`; image, mean and sigma of one dtype, float32 or float64."""
    from pellucid.kernels.blend.cpu.sweep import forward

    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        arguments, into = _arrays(image, words, mean, sigma), out.flatten(1).numpy()

        def task(start: int, stop: int) -> None:
            forward(*arguments, clip != 0, _BLOCKS, into, *_scratch(into.dtype), start, stop)

        run_split(task, image.shape[0] * _strips(into.shape[1]), _STRIPS)
    return out


def _back(grad: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, clip: int, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.blend.cpu.sweep import backward

    gradients = empty_gradients((image, words, mean, sigma), needs)
    if image.numel() == 0:
        return [f.zero_() for f in gradients]
    if needs[0] and not clip and not (needs[2] or needs[3]):
        gradients[0].copy_(grad)
        return gradients
    arguments, upstream = _arrays(image, words, mean, sigma), grad.contiguous().flatten(1).numpy()
    into = gradients[0].flatten(1).numpy() if needs[0] else np.empty((0, 0), upstream.dtype)
    strips = _strips(upstream.shape[1])
    sums = np.empty((image.shape[0], strips, 2))
    rows = sums.reshape(-1, 2)

    def task(start: int, stop: int) -> None:
        backward(upstream, *arguments, clip != 0, _BLOCKS, into, rows, *_scratch(upstream.dtype), start, stop)

    run_split(task, rows.shape[0], _STRIPS)
    totals = torch.from_numpy(sums.sum(1))
    for place in (2, 3):
        if needs[place]:
            gradients[place] = totals[:, place - 2].contiguous()
    return gradients


def _arrays(image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor) -> tuple[Any, ...]:
    numbers = (tensor.contiguous().numpy() for tensor in (words, mean, sigma))
    return image.contiguous().flatten(1).numpy(), *numbers, *_series(image.dtype)


def _series(dtype: torch.dtype) -> tuple[Any, ...]:
    work = np.float64 if dtype == torch.float64 else np.float32
    return tuple(np.array(coefficients, work) for coefficients in series(dtype))


def _strips(count: int) -> int:
    return -(-count // (4 * _BLOCKS))


def _scratch(work: Any) -> tuple[Any, Any]:
    return np.empty(4 * _BLOCKS, np.int32), np.empty(14 * _BLOCKS, work)


noise_forward, noise_backward = register(
    "cpu_noise", "Tensor image, Tensor words, Tensor mean, Tensor sigma, int clip", noise, _back
)

torch.library.define("pellucid::cpu_gaussian_field", "(Tensor words, SymInt[] shape, ScalarType dtype) -> Tensor")


def gaussian_field(words: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.gaussian_field`; float32 or float64."""
    if is_plain_eager():  # without torch's dispatcher, which costs as much as a small field
        return _field(words, shape, dtype)
    out: Tensor = torch.ops.pellucid.cpu_gaussian_field.default(words, list(shape), dtype)
    return out


@torch.library.register_fake("pellucid::cpu_gaussian_field")
def _(words: Tensor, shape: list[int], dtype: torch.dtype) -> Tensor:
    return words.new_empty((words.shape[0], *shape), dtype=dtype)


def poisson_counts(rate: Tensor, level: Tensor, terms: int) -> Tensor:
    """How many of Poisson's terms, fewer than ``terms``, add up to less than a level; float32 or float64, without gradients."""
    from pellucid.kernels.blend.cpu.sweep import counts

    out = in_large_pages(torch.empty_like(rate, memory_format=torch.contiguous_format))
    arrays = [part.contiguous().view(-1).numpy() for part in (rate, torch.exp(-rate), level.expand_as(rate), out)]
    run_split(lambda start, stop: counts(*arrays[:3], terms, arrays[3], start, stop), out.numel(), 4 * _BLOCKS * _STRIPS)
    return out


def _field(words: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    from pellucid.kernels.blend.cpu.sweep import field

    out = in_large_pages(torch.empty((words.shape[0], *shape), dtype=dtype, device=words.device))
    if out.numel():
        into, keys, coefficients = out.flatten(1).numpy(), words.contiguous().numpy(), _series(dtype)

        def task(start: int, stop: int) -> None:
            field(keys, *coefficients, _BLOCKS, into, *_scratch(into.dtype), start, stop)

        run_split(task, out.shape[0] * _strips(into.shape[1]), _STRIPS)
    return out


torch.library.impl("pellucid::cpu_gaussian_field", "CPU")(_field)


@torch.library.register_vmap("pellucid::cpu_gaussian_field")
def _(info: Any, dims: Any, words: Tensor, shape: list[int], dtype: torch.dtype) -> Any:
    folded = words.movedim(dims[0], 0)
    out = torch.ops.pellucid.cpu_gaussian_field.default(folded.flatten(0, 1), shape, dtype)
    return out.unflatten(0, (info.batch_size, -1)), 0

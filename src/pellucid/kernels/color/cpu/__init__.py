"""Colours compiled for the CPU: the chain of clipped steps, every sample in its own order, and the shift in HSV.

Owns: the operators `jitter_steps` and `shift_hsv` with their gradients, on contiguous memory of one dtype.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.color.luma import LUMA_TORCHVISION
from pellucid.kernels.explicit import empty_gradients, register
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_split, scratch

__all__ = ["hsv_backward", "hsv_forward", "jitter_backward", "jitter_forward", "jitter_steps", "shift_hsv"]

_STRIP = 512  # pixels that go through all steps together: with their intermediate values they fill a close cache
_PIXELS = 1 << 16  # the fewest worth handing to another thread


def jitter_steps(image: Tensor, order: Tensor, factors: Tensor, present: int) -> Tensor:
    """See :func:`pellucid.kernels.color.reference.jitter_steps`.

    Args:
        image: float32 or float64.
        order: (b or 1, 4) int64, each a permutation of 0 to 3.
        factors: (b or 1, 4), of the image's dtype: brightness, contrast, saturation, hue.
        present: which of them take part, as bits.
    """
    from pellucid.kernels.color.cpu.sweep import forward

    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        arguments, into = _arrays(image, order, factors), out.flatten(2).numpy()
        work = into.dtype.type

        def task(start: int, stop: int) -> None:
            forward(*arguments, present, into, *_scratch(image.shape[1], work), _STRIP, start, stop)

        run_split(task, image.shape[0], _PIXELS // into.shape[2] + 1)
    return out


def _back(grad: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.color.cpu.sweep import backward

    gradients = empty_gradients((image, order, factors), needs)
    if image.numel() == 0:
        return [f.zero_() for f in gradients]
    # Backward through the steps goes pixel by pixel through the image's gradient, whether it is wanted or not.
    to_image = gradients[0] if needs[0] else torch.empty_like(image, memory_format=torch.contiguous_format)
    sums = gradients[2] if needs[2] else torch.empty((image.shape[0], 4), dtype=torch.float64, device=image.device)
    arguments, into = _arrays(image, order, factors), to_image.flatten(2).numpy()
    upstream, totals, work = grad.contiguous().flatten(2).numpy(), sums.numpy(), into.dtype.type

    def task(start: int, stop: int) -> None:
        shares = np.empty(image.shape[1], work)
        backward(upstream, *arguments, present, into, totals, *_scratch(image.shape[1], work), shares, _STRIP, start, stop)

    run_split(task, image.shape[0], _PIXELS // into.shape[2] + 1)
    return gradients


def _arrays(image: Tensor, order: Tensor, factors: Tensor) -> tuple[Any, ...]:
    channels = image.shape[1]
    pixels = image.contiguous().flatten(2).numpy()
    weights = LUMA_TORCHVISION if channels == 3 else (1.0 / channels,) * channels
    return pixels, order.contiguous().numpy(), factors.contiguous().numpy(), np.array(weights, pixels.dtype)


def _scratch(channels: int, work: Any) -> tuple[Any, Any]:
    return np.empty((10 * channels + 2) * _STRIP, work), np.empty(4, np.int64)


jitter_forward, jitter_backward = register(
    "cpu_jitter_steps", "Tensor image, Tensor order, Tensor factors, int present", jitter_steps, _back
)


def shift_hsv(image: Tensor, numbers: Tensor) -> Tensor:
    """See :func:`pellucid.kernels.color.shift.shift_hsv`.

    Args:
        image: float32 or float64.
        numbers: (b or 1, 3 or 4), of the image's dtype: added to hue, saturation and value; and the gate, where there is one.
    """
    from pellucid.kernels.color.cpu.hsv import hsv as sweep

    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        pixels, rows, into = image.contiguous().flatten(2).numpy(), numbers.contiguous().numpy(), out.flatten(2).numpy()
        strips = image.shape[0] * -(-into.shape[2] // _STRIP)
        run_split(lambda start, stop: sweep(pixels, rows, _STRIP, into, start, stop), strips, _PIXELS // _STRIP)
    return out


def _hsv_back(grad: Tensor, image: Tensor, numbers: Tensor, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.color.cpu.hsv import hsv_backward as sweep

    gradients = empty_gradients((image, numbers), needs)
    if image.numel() == 0:
        return [f.zero_() for f in gradients]
    to_image = gradients[0] if needs[0] else torch.empty_like(image, memory_format=torch.contiguous_format)
    upstream, pixels, into = (part.contiguous().flatten(2).numpy() for part in (grad, image, to_image))
    rows = numbers.contiguous().numpy()
    sums = np.empty((image.shape[0] * -(-into.shape[2] // _STRIP), 4))

    def task(start: int, stop: int) -> None:
        room = scratch("hsv", 4 * _STRIP, into.dtype.type).reshape(4, _STRIP)
        sweep(upstream, pixels, rows, _STRIP, into, sums, room, start, stop)

    run_split(task, len(sums), _PIXELS // _STRIP)
    if needs[1]:
        gradients[1].copy_(torch.from_numpy(sums).view(image.shape[0], -1, 4).sum(1)[:, : numbers.shape[1]])
    return gradients


hsv_forward, hsv_backward = register("cpu_shift_hsv", "Tensor image, Tensor numbers", shift_hsv, _hsv_back)

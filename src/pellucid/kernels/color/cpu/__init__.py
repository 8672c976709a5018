"""The chain of clipped colour steps compiled for the CPU: every sample in its own order, in one or two passes.

Owns: the operator `jitter_steps` with its gradients, on contiguous memory of one dtype.
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
from pellucid.kernels.threads import run_split

__all__ = ["jitter_backward", "jitter_forward", "jitter_steps"]

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
    sums = gradients[2] if needs[2] else torch.empty((image.shape[0], 4), dtype=torch.float64)
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

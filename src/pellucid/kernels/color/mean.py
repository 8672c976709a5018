"""The mean colour of a batch.

Owns: `mean_color`, in the precision of drawn values.
Must not: keep anything.
Read next: ``sums.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.constants import wide_dtype
from pellucid.kernels.dispatch import numba_works
from pellucid.kernels.threads import elements, run_split
from pellucid.tape import undisturbed

__all__ = ["mean_color"]

_BYTES = 1 << 17  # the fewest worth handing to another thread
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_ADDED = {torch.uint8: np.uint32, **dict.fromkeys(_FLOATS, np.float64)}
"""What a column of pixels is added up in."""


def mean_color(image: Shaped[Tensor, "b c h w"]) -> Float[Tensor, "b c"]:
    """Each sample's mean colour, in [0, 1] units where the image is 8-bit; differentiable where it is not.

    On the CPU sums are compiled and run on the kernels' own threads. A parallel sum by torch would leave its OpenMP threads
    spinning for milliseconds on the cores that the pass is about to want.
    """
    if image.is_cpu and image.numel() and undisturbed() and numba_works():
        turns = _turns(image)
        if turns is not None:
            found: Tensor = _Mean.apply(image, turns) if torch.is_grad_enabled() and image.requires_grad else _mean(image, turns)
            return found
    wide = wide_dtype(image.device)
    if image.dtype != torch.uint8:
        return image.mean((-2, -1), dtype=torch.promote_types(image.dtype, torch.float32)).to(wide)
    return image.mean((-2, -1), dtype=torch.float32).to(wide) * (1.0 / 255.0)


class _Mean(torch.autograd.Function):
    """The compiled mean; its gradient is the same number for all pixels of a channel, and takes no memory."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, turns: tuple[int, int, int]) -> Tensor:
        ctx.shape, ctx.dtype = image.shape, image.dtype
        return _mean(image.detach(), turns)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        share = grads[0] / (ctx.shape[2] * ctx.shape[3])
        return share.to(ctx.dtype)[:, :, None, None].expand(ctx.shape), None


def _turns(image: Tensor) -> tuple[int, int, int] | None:
    """(pictures, channels that take turns in each, elements between pictures); None unless a row is a run of elements."""
    if image.dtype not in _ADDED:
        return None
    batch, channels = image.shape[:2]
    stride_b, stride_c, _, stride_x = image.stride()
    if stride_x == channels and stride_c == 1:
        return batch, channels, stride_b
    if stride_x == 1 and (stride_b == channels * stride_c or batch == 1):
        return batch * channels, 1, stride_c
    return None


def _mean(image: Tensor, turns: tuple[int, int, int]) -> Tensor:
    """Of exact sums of bytes; floats are added up in float64."""
    from pellucid.kernels.color.sums import channel_means

    batch, channels, height, width = image.shape
    pictures, alternating, step = turns
    row, stride_y = width * alternating, image.stride(2)
    flat = elements(image)
    unit = 255.0 if image.dtype == torch.uint8 else 1.0
    found = np.empty((pictures, alternating))

    def task(start: int, stop: int) -> None:
        partial = np.empty(row, _ADDED[image.dtype])
        channel_means(flat, height, row, alternating, step, stride_y, partial, unit, found, start, stop)

    run_split(task, pictures, _BYTES // (height * row * image.element_size()) + 1)
    return torch.from_numpy(found.reshape(batch, channels))

"""The mean colour of a batch.

Owns: `mean_color`, in the precision of drawn values, and `with_mean`.
Must not: keep anything, or write to what others may hold.
Read next: ``sums.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.compilers import numba_works
from pellucid.constants import wide_dtype
from pellucid.kernels.threads import elements, run_split
from pellucid.tape import is_plain_eager

__all__ = ["mean_color", "with_mean"]

_BYTES = 1 << 17  # the fewest worth handing to another thread
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_ADDED = {torch.uint8: np.uint32, **dict.fromkeys(_FLOATS, np.float64)}
"""What a column of pixels is added up in."""


def mean_color(image: Shaped[Tensor, "b c h w"]) -> Float[Tensor, "b c"]:
    """Each sample's mean colour, in [0, 1] units where the image is 8-bit; differentiable where it is not.

    On the CPU sums are compiled and run on the kernels' own threads. A parallel sum by torch would leave its OpenMP threads
    spinning for milliseconds on the cores that the pass is about to want.
    """
    return with_mean(image)[1]


def with_mean(image: Shaped[Tensor, "b c h w"]) -> tuple[Shaped[Tensor, "b c h w"], Float[Tensor, "b c"]]:
    """The image, to be read by one compiled pass and nothing else, and :func:`mean_color`.

    Backward, the pass writes the image's gradient to new memory, and the mean's part of it is added there in place, on the kernels'
    own threads. Autograd would add the two by a parallel sum of torch's, which costs what :func:`mean_color` says.
    """
    if image.is_cpu and image.numel() and is_plain_eager() and numba_works():
        runs = _runs(image)
        if runs is None and image.dtype in _ADDED:
            return image, with_mean(image.contiguous())[1]  # the same sums, whatever lies between the pixels
        if runs is not None:
            if torch.is_grad_enabled() and image.requires_grad:
                same, mean = _WithMean.apply(image, runs)
                return same, mean
            return image, _mean(image, runs)
    wide = wide_dtype(image.device)
    if image.dtype != torch.uint8:
        summed = wide if image.is_cpu else torch.promote_types(image.dtype, torch.float32)  # there as the compiled sums are
        return image, image.mean((-2, -1), dtype=summed).to(wide)
    return image, image.mean((-2, -1), dtype=wide if image.is_cpu else torch.float32).to(wide) * (1.0 / 255.0)


class _WithMean(torch.autograd.Function):
    """The image and its compiled mean, whose gradient is the same number for all pixels of a channel."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, runs: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
        ctx.shape, ctx.dtype = image.shape, image.dtype
        ctx.set_materialize_grads(False)
        return image.view_as(image), _mean(image.detach(), runs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        to_image, to_mean = grads
        if to_mean is None:
            return to_image, None
        share = (to_mean / (ctx.shape[2] * ctx.shape[3])).to(ctx.dtype)
        if to_image is None:
            return share[:, :, None, None].expand(ctx.shape), None
        if torch.is_grad_enabled() or not (is_plain_eager() and _in_memory(to_image) and to_image.is_contiguous()):
            return to_image + share[:, :, None, None], None
        return _added(to_image, share), None


def _in_memory(tensor: Tensor) -> bool:
    """Whether a tensor is what it seems; ``torch.autograd.grad(..., is_grads_batched=True)`` sends stand-ins for many."""
    return torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.CPU)


def _added(image: Tensor, share: Tensor) -> Tensor:
    """Add a number to every pixel of each channel of a gradient that nobody else holds."""
    from pellucid.kernels.color.sums import add_shares

    pixels = image.shape[2] * image.shape[3]
    planes, shares = image.view(-1, pixels).numpy(), share.reshape(-1).numpy()

    def task(start: int, stop: int) -> None:
        add_shares(planes, shares, start, stop)

    run_split(task, len(planes), _BYTES // (pixels * image.element_size()) + 1)
    return image


def _runs(image: Tensor) -> tuple[int, int, int] | None:
    """(pictures, channels that alternate in each, elements between pictures); None unless a row is a run of elements."""
    if image.dtype not in _ADDED:
        return None
    batch, channels = image.shape[:2]
    stride_b, stride_c, _, stride_x = image.stride()
    if stride_x == channels and stride_c == 1:
        return batch, channels, stride_b
    if stride_x == 1 and (stride_b == channels * stride_c or batch == 1):
        return batch * channels, 1, stride_c
    return None


def _mean(image: Tensor, runs: tuple[int, int, int]) -> Tensor:
    """Of exact sums of bytes; floats are added up in float64."""
    from pellucid.kernels.color.sums import channel_means

    batch, channels, height, width = image.shape
    pictures, alternating, step = runs
    row, stride_y = width * alternating, image.stride(2)
    flat = elements(image)
    unit = 255.0 if image.dtype == torch.uint8 else 1.0
    means = np.empty((pictures, alternating))

    def task(start: int, stop: int) -> None:
        partial = np.empty(row, _ADDED[image.dtype])
        channel_means(flat, height, row, alternating, step, stride_y, partial, unit, means, start, stop)

    run_split(task, pictures, _BYTES // (height * row * image.element_size()) + 1)
    return torch.from_numpy(means.reshape(batch, channels))

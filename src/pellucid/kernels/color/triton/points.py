"""Printed stages over whole images: one pass forward, and one back that also sums what each number gets.

Owns: how a sample is cut into programs, by its size alone, so that sums keep their order.
Must not: know a stage, add across programs, or be imported where Triton is not.
Read next: ``../../stages/printed/blocks.py``.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pellucid.kernels.launching import NUMBERS, cut, on, options, stride
from pellucid.kernels.stages.printed import blocks
from pellucid.kernels.warp.triton.blocks import load_channels, store_channels, zeros

__all__ = ["backward", "forward"]

_PIXELS = 128


@triton.jit(do_not_specialize=NUMBERS)
def there(  # type: ignore[no-untyped-def]
    image, numbers, out, count, blocks, param_step, STAGE: tl.constexpr, C: tl.constexpr, N: tl.constexpr, P: tl.constexpr,
    F: tl.constexpr,
):  # fmt: skip
    """Program (sample, block)."""
    program = tl.program_id(0)
    block, b = (program % blocks).to(tl.int64), (program // blocks).to(tl.int64)
    at = block * P + tl.arange(0, P)
    given = ()
    for k in tl.static_range(N):
        given = given + (tl.load(numbers + b * param_step + k),)
    x = load_channels(image + b * C * count + at, count + b * 0, at < count, 0, C, 1, C, F)
    store_channels(out + b * C * count + at, count + b * 0, at < count, 0, STAGE(*given, x), C, 1)


@triton.jit(do_not_specialize=NUMBERS)
def back(  # type: ignore[no-untyped-def]
    grad, image, numbers, to_image, sums, count, chunks, param_step, STAGE: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
    STEPS: tl.constexpr, P: tl.constexpr, F: tl.constexpr,
):  # fmt: skip
    """Program (sample, chunk of STEPS blocks). sums: (sample, chunk, N)."""
    program = tl.program_id(0)
    chunk, b = (program % chunks).to(tl.int64), (program // chunks).to(tl.int64)
    given = ()
    for k in tl.static_range(N):
        given = given + (tl.load(numbers + b * param_step + k),)
    totals = zeros(N, P, F)
    for step in range(STEPS):
        at = (chunk * STEPS + step) * P + tl.arange(0, P)
        seen = at < count
        x = load_channels(image + b * C * count + at, count + b * 0, seen, 0, C, 1, C, F)
        g = load_channels(grad + b * C * count + at, count + b * 0, seen, 0, C, 1, C, F)
        along, into = STAGE(*given, x, g)
        store_channels(to_image + b * C * count + at, count + b * 0, seen, 0, into, C, 1)
        added = ()
        for k in tl.static_range(N):
            added = added + (totals[k] + tl.where(seen, along[k], 0.0).to(F),)
        totals = added
    for k in tl.static_range(N):
        tl.store(sums + (b * chunks + chunk) * N + k, tl.sum(totals[k], 0))


def forward(name: str, channels: int, image: Tensor, numbers: Tensor, out: Tensor) -> None:
    """Write what a stage makes of a contiguous image, pixels of so many ``channels``; numbers: (b or 1, n)."""
    count = image[0].numel() // channels
    programs, _, _ = cut(count, _PIXELS)
    with on(image):
        there[(image.shape[0] * programs,)](
            image, numbers, out, count, programs, stride(numbers), STAGE=getattr(blocks, name), C=channels, N=numbers.shape[1],
            **options(image.dtype, _PIXELS),
        )  # fmt: skip


def backward(name: str, channels: int, grad: Tensor, image: Tensor, numbers: Tensor, to_image: Tensor) -> Tensor:
    """(b, n) in float64: the gradients of the numbers; writes the image's."""
    count = image[0].numel() // channels
    _, steps, chunks = cut(count, _PIXELS)
    sums = image.new_empty((image.shape[0], chunks, numbers.shape[1]))
    with on(image):
        back[(image.shape[0] * chunks,)](
            grad, image, numbers, to_image, sums, count, chunks, stride(numbers), STAGE=getattr(blocks, f"{name}_backward"),
            C=channels, N=numbers.shape[1], STEPS=steps, **options(image.dtype, _PIXELS),
        )  # fmt: skip
    return sums.sum(1, dtype=torch.float64)

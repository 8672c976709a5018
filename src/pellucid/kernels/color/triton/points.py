"""Printed stages over whole images: one pass forward, and one backward that also sums the gradients of the numbers.

Owns: how a sample is cut into programs, by its size alone, so that sums keep their order.
Must not: know a stage, add across programs, or be imported where Triton is not.
Read next: ``../../stages/printed/blocks.py``.
"""

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
def ahead(image, numbers, out, count, blocks, param_step, STAGE: tl.constexpr, S: tl.constexpr):  # type: ignore[no-untyped-def]
    """Program (sample, block): the stage's results."""
    program = tl.program_id(0)
    block, b = (program % blocks).to(tl.int64), (program // blocks).to(tl.int64)
    at = block * S.P + tl.arange(0, S.P)
    given = ()
    for k in tl.static_range(S.N):
        given = given + (tl.load(numbers + b * param_step + k),)
    x = load_channels(image + b * S.C * count + at, count + b * 0, at < count, 0, S.C, 1, S.C, S.F)
    store_channels(out + b * S.C * count + at, count + b * 0, at < count, 0, STAGE(*given, x), S.C, 1)


@triton.jit(do_not_specialize=NUMBERS)
def back(  # type: ignore[no-untyped-def]
    grad, image, numbers, to_image, sums, count, chunks, param_step, STAGE: tl.constexpr, S: tl.constexpr
):
    """Program (sample, chunk of STEPS blocks): the gradients. sums: (sample, chunk, N), of the numbers."""
    program = tl.program_id(0)
    chunk, b = (program % chunks).to(tl.int64), (program // chunks).to(tl.int64)
    given = ()
    for k in tl.static_range(S.N):
        given = given + (tl.load(numbers + b * param_step + k),)
    totals = zeros(S.N, S.P, S.F)
    for step in range(S.STEPS):
        at = (chunk * S.STEPS + step) * S.P + tl.arange(0, S.P)
        seen = at < count
        x = load_channels(image + b * S.C * count + at, count + b * 0, seen, 0, S.C, 1, S.C, S.F)
        g = load_channels(grad + b * S.C * count + at, count + b * 0, seen, 0, S.C, 1, S.C, S.F)
        along, into = STAGE(*given, x, g)
        store_channels(to_image + b * S.C * count + at, count + b * 0, seen, 0, into, S.C, 1)
        added = ()
        for k in tl.static_range(S.N):
            added = added + (totals[k] + tl.where(seen, along[k], 0.0).to(S.F),)
        totals = added
    for k in tl.static_range(S.N):
        tl.store(sums + (b * chunks + chunk) * S.N + k, tl.sum(totals[k], 0))


def forward(name: str, channels: int, image: Tensor, numbers: Tensor, out: Tensor) -> None:
    """Apply a stage to a contiguous image with so many ``channels`` per pixel; numbers: (b or 1, n)."""
    count = image[0].numel() // channels
    programs, _, _ = cut(count, _PIXELS)
    with on(image):
        constants = options(image.dtype, _PIXELS, C=channels, N=numbers.shape[1])
        given = image, numbers, out, count, programs, stride(numbers), getattr(blocks, name)
        ahead[(image.shape[0] * programs,)](*given, **constants)


def backward(name: str, channels: int, grad: Tensor, image: Tensor, numbers: Tensor, to_image: Tensor) -> Tensor:
    """(b, n) in float64: the gradients of the numbers; writes the image's."""
    count = image[0].numel() // channels
    _, steps, chunks = cut(count, _PIXELS)
    sums = image.new_empty((image.shape[0], chunks, numbers.shape[1]))
    with on(image):
        constants = options(image.dtype, _PIXELS, C=channels, N=numbers.shape[1], STEPS=steps)
        given = grad, image, numbers, to_image, sums, count, chunks, stride(numbers), getattr(blocks, f"{name}_backward")
        back[(image.shape[0] * chunks,)](*given, **constants)
    return sums.sum(1, dtype=torch.float64)

"""Launching the chain's kernels, without a look at values.

Owns: how a sample is cut into programs, by its size alone, so that sums keep their order; the passes that a pivot needs.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``kernels.py``.
"""

from functools import partial

import torch
from torch import Tensor

from pellucid.color.luma import LUMA_TORCHVISION
from pellucid.kernels.color.triton.kernels import backward, forward, luma_sums
from pellucid.kernels.launching import cut, on, options, stride

__all__ = ["gradients", "steps"]

_PIXELS, _CONTRAST = 128, 1


class _Call:
    """What all kernels of one call share."""

    def __init__(self, image: Tensor, order: Tensor, factors: Tensor, present: int) -> None:
        self.image, self.order, self.factors = image.contiguous(), order.contiguous(), factors.contiguous()
        self.batch, channels, height, width = image.shape
        self.count = height * width
        self.blocks, self.steps, self.chunks = cut(self.count, _PIXELS)
        self.rows = stride(order), stride(factors)
        self.pivotal = bool(present >> _CONTRAST & 1)
        weights = LUMA_TORCHVISION if channels == 3 else (1.0 / channels,) * channels
        self.options = partial(options, image.dtype, _PIXELS, WEIGHTS=weights, PRESENT=present, C=channels)

    def mean(self, sums: Tensor) -> Tensor:
        """Chunks' sums over a sample's pixels, in the dtype of the computation."""
        return (sums.sum(1, dtype=torch.float64) / self.count).to(self.image.dtype)

    def pivots(self) -> Tensor:
        """(b,): the mean luma of what the contrast is given."""
        if not self.pivotal:
            return self.image.new_zeros((self.batch,))
        sums = self.image.new_empty((self.batch, self.chunks))
        given = self.image, self.order, self.factors, sums, self.count, self.chunks, *self.rows
        luma_sums[(self.batch * self.chunks,)](*given, **self.options(STEPS=self.steps))
        return self.mean(sums)


def steps(out: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int) -> None:
    """Write the image after all steps into the contiguous ``out``."""
    call = _Call(image, order, factors, present)
    with on(out):
        given = call.image, call.order, call.factors, call.pivots(), out, call.count, call.blocks, *call.rows
        forward[(call.batch * call.blocks,)](*given, **call.options())


def gradients(grad: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int, to_image: Tensor) -> Tensor:
    """(b, 4) in float64: the gradients of the factors; writes the image's into the contiguous ``to_image``."""
    call = _Call(image, order, factors, present)
    grad = grad.contiguous()
    with on(image):
        pivots = call.pivots()
        spreads = pivots
        tensors = (grad, call.image, call.order, call.factors, pivots)
        rest = (call.count, call.chunks, *call.rows)
        grid = (call.batch * call.chunks,)
        if call.pivotal:
            sums = image.new_empty((call.batch, call.chunks))
            backward[grid](*tensors, spreads, to_image, sums, *rest, **call.options(TO_PIVOT=True, STEPS=call.steps))
            spreads = call.mean(sums)
        sums = image.new_empty((call.batch, call.chunks, 4))
        backward[grid](*tensors, spreads, to_image, sums, *rest, **call.options(TO_PIVOT=False, STEPS=call.steps))
    return sums.sum(1, dtype=torch.float64)

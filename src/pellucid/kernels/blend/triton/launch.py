"""Launching the noise kernels, without a look at values.

Owns: how a sample is cut into programs, by its size alone, so that sums keep their order.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``kernels.py``.
"""

from typing import Any

import torch
from torch import Tensor

from pellucid.kernels.blend.triton.kernels import backward, forward
from pellucid.kernels.launching import cut, on, options, stride
from pellucid.random.normals import series

__all__ = ["add_noise", "fill_field", "noise_gradients"]

_COUNTERS = 128  # of a block: a counter per thread, so four pixels in a row


def _options(dtype: torch.dtype, **constants: Any) -> dict[str, Any]:
    return options(dtype, _COUNTERS, **dict(zip(("ARTANH", "SINE", "COSINE"), series(dtype), strict=True)), **constants)


def _run(out: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, **constants: bool) -> None:
    count, steps = out[0].numel(), (stride(words), stride(mean), stride(sigma))
    blocks, _, _ = cut(count, 4 * _COUNTERS)
    with on(out):
        given = image, words, mean, sigma, out, count, blocks, *steps
        forward[(out.shape[0] * blocks,)](*given, **_options(out.dtype, **constants))


def add_noise(out: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool) -> None:
    """Write image + mean + sigma * normals into the contiguous ``out``; everything is contiguous and of one dtype."""
    _run(out, image, words, mean, sigma, ADDED=True, CLIP=clip)


def fill_field(out: Tensor, words: Tensor) -> None:
    """Write the normal numbers themselves."""
    _run(out, out, words, out, out, ADDED=False, CLIP=False)


def noise_gradients(
    grad: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool, to_image: Tensor | None, sums: bool
) -> Tensor:
    """(b, 2): the gradients of mean and sigma in float64 (if ``sums``); writes the image's where there is room for it."""
    batch, count = image.shape[0], image[0].numel()
    blocks, steps, chunks = cut(count, 4 * _COUNTERS)
    parts = image.new_empty((batch, chunks, 2) if sums else (0,))
    into, numbers = grad if to_image is None else to_image, (count, blocks, chunks, stride(words), stride(mean), stride(sigma))
    constants = _options(image.dtype, TO_IMAGE=to_image is not None, TO_SUMS=sums, CLIP=clip, STEPS=steps)
    with on(image):
        backward[(batch * chunks,)](grad, image, words, mean, sigma, into, parts, *numbers, **constants)
    return parts.sum(1, dtype=torch.float64) if sums else parts

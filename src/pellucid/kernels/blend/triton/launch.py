"""Launching the noise kernels, without a look at values.

Owns: how a sample is cut into programs, by its size alone, so that sums keep their order.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``kernels.py``.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pellucid.kernels.blend.triton.kernels import backward, forward
from pellucid.kernels.warp.triton.blocks import LANES
from pellucid.random.normals import series

__all__ = ["add_noise", "fill_field", "noise_gradients"]

_COUNTERS, _STEPS = 128, 8  # a counter per thread, so four pixels in a row; blocks that one program of sums adds up
_OPTIONS = {"num_warps": max(_COUNTERS // LANES, 1), "enable_fp_fusion": False}  # bits must be those of the tensor code


def _options(dtype: torch.dtype) -> dict[str, Any]:
    artanh, sine, cosine = series(dtype)
    work = tl.float64 if dtype == torch.float64 else tl.float32
    return {"ARTANH": artanh, "SINE": sine, "COSINE": cosine, "P": _COUNTERS, "F": work, **_OPTIONS}


def _on(tensor: Tensor) -> Any:
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def _step(rows: Tensor) -> int:
    """Numbers from one sample's row to the next; 0 where all share one."""
    return 0 if rows.shape[0] == 1 else rows[0].numel()


def add_noise(out: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool) -> None:
    """Write image + mean + sigma * normals into the contiguous ``out``; everything is contiguous and of one dtype."""
    count = out[0].numel()
    blocks = triton.cdiv(count, 4 * _COUNTERS)
    with _on(out):
        forward[(out.shape[0] * blocks,)](
            image, words, mean, sigma, out, count, blocks, _step(words), _step(mean), _step(sigma),
            ADDED=True, CLIP=clip, **_options(out.dtype),
        )  # fmt: skip


def fill_field(out: Tensor, words: Tensor) -> None:
    """Write the normal numbers themselves."""
    count = out[0].numel()
    blocks = triton.cdiv(count, 4 * _COUNTERS)
    with _on(out):
        forward[(out.shape[0] * blocks,)](
            out, words, out, out, out, count, blocks, _step(words), 0, 0, ADDED=False, CLIP=False, **_options(out.dtype)
        )


def noise_gradients(
    grad: Tensor, image: Tensor, words: Tensor, mean: Tensor, sigma: Tensor, *, clip: bool, to_image: Tensor | None, sums: bool
) -> Tensor:
    """(b, 2): the gradients of mean and sigma in float64 (if ``sums``); writes the image's where there is room for it."""
    batch, count = image.shape[0], image[0].numel()
    blocks = triton.cdiv(count, 4 * _COUNTERS)
    steps = min(_STEPS, blocks)
    chunks = triton.cdiv(blocks, steps)
    parts = image.new_empty((batch, chunks, 2) if sums else (0,))
    with _on(image):
        backward[(batch * chunks,)](
            grad, image, words, mean, sigma, grad if to_image is None else to_image, parts, count, blocks, chunks,
            _step(words), _step(mean), _step(sigma), TO_IMAGE=to_image is not None, TO_SUMS=sums, CLIP=clip, STEPS=steps,
            **_options(image.dtype),
        )  # fmt: skip
    return parts.sum(1, dtype=torch.float64) if sums else parts

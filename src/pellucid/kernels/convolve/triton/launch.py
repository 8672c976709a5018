"""Launching the filters' kernels, without a look at values.

Owns: how planes are cut into programs, by their size alone, so that sums keep their order.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``kernels.py``.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from pellucid.kernels.convolve.triton.kernels import adjoint, filtered, tap_sums

__all__ = ["along", "back_along", "sums_along"]

_WIDTH, _PIXELS, _STEPS = 32, 256, 8
_OPTIONS = {"BW": _WIDTH, "P": _PIXELS, "num_warps": 4, "enable_fp_fusion": False}  # sums are those of the reference


def _tiles(image: Tensor) -> tuple[int, int, int, int]:
    height, width = image.shape[2:]
    across = triton.cdiv(width, _WIDTH)
    return height, width, across, across * triton.cdiv(height, _PIXELS // _WIDTH)


def _on(tensor: Tensor) -> Any:
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def _step(kernel: Tensor) -> int:
    return 0 if kernel.shape[0] == 1 else kernel.shape[1]


def along(image: Tensor, kernel: Tensor, *, across: bool, out: Tensor | None = None) -> Tensor:
    """Filter a contiguous image along one axis, into ``out`` where there is one."""
    *shape, tiles = _tiles(image)
    out = torch.empty_like(image) if out is None else out
    with _on(image):
        filtered[(image.shape[0] * image.shape[1] * tiles,)](
            image, kernel, out, *shape, tiles, image.shape[1], _step(kernel), TAPS=kernel.shape[1], ACROSS=across, **_OPTIONS
        )
    return out


def back_along(grad: Tensor, kernel: Tensor, *, across: bool, out: Tensor | None = None) -> Tensor:
    """The adjoint of :func:`along`."""
    *shape, tiles = _tiles(grad)
    out = torch.empty_like(grad) if out is None else out
    taps, length = kernel.shape[1], grad.shape[3 if across else 2]
    turns = triton.cdiv(taps // 2 + length - 1, max(2 * (length - 1), 1))
    with _on(grad):
        adjoint[(grad.shape[0] * grad.shape[1] * tiles,)](
            grad, kernel, out, *shape, tiles, grad.shape[1], _step(kernel), TAPS=taps, ACROSS=across, TURNS=turns, **_OPTIONS
        )
    return out


def sums_along(grad: Tensor, image: Tensor, taps: int, *, across: bool) -> Tensor:
    """(b, taps) in float64: the gradient of the kernel with which the image was filtered."""
    *shape, tiles = _tiles(image)
    batch, channels = image.shape[:2]
    steps = min(_STEPS, tiles)
    chunks = triton.cdiv(tiles, steps)
    sums = image.new_empty((batch, channels * chunks, taps))
    with _on(image):
        tap_sums[(sums.numel(),)](grad, image, sums, *shape, tiles, chunks, TAPS=taps, ACROSS=across, STEPS=steps, **_OPTIONS)
    return sums.sum(1, dtype=torch.float64)

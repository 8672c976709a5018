"""Launching the filters' kernels, without a look at values.

Owns: how planes are cut into programs, by their size alone, so that sums keep their order.
Must not: synchronise with the device, or be imported where Triton is not.
Read next: ``kernels.py``.
"""

import torch
import triton
from torch import Tensor

from pellucid.kernels.convolve.triton.kernels import adjoint, filtered, tap_sums
from pellucid.kernels.launching import cut, on, stride

__all__ = ["along", "back_along", "sums_along"]

_WIDTH, _PIXELS = 32, 256
_OPTIONS = {"BW": _WIDTH, "P": _PIXELS, "num_warps": 4, "enable_fp_fusion": False}  # sums are those of the reference


def _tiles(image: Tensor) -> tuple[int, int, int, int]:
    height, width = image.shape[2:]
    across = triton.cdiv(width, _WIDTH)
    return height, width, across, across * triton.cdiv(height, _PIXELS // _WIDTH)


def along(image: Tensor, kernel: Tensor, *, across: bool, out: Tensor | None = None) -> Tensor:
    """Filter a contiguous image along one axis, into ``out`` where there is one."""
    *shape, tiles = _tiles(image)
    out = torch.empty_like(image) if out is None else out
    with on(image):
        filtered[(image.shape[0] * image.shape[1] * tiles,)](
            image, kernel, out, *shape, tiles, image.shape[1], stride(kernel), TAPS=kernel.shape[1], ACROSS=across, **_OPTIONS
        )
    return out


def back_along(grad: Tensor, kernel: Tensor, *, across: bool, out: Tensor | None = None) -> Tensor:
    """The adjoint of :func:`along`."""
    *shape, tiles = _tiles(grad)
    out = torch.empty_like(grad) if out is None else out
    taps, length = kernel.shape[1], grad.shape[3 if across else 2]
    turns = triton.cdiv(taps // 2 + length - 1, max(2 * (length - 1), 1))
    with on(grad):
        adjoint[(grad.shape[0] * grad.shape[1] * tiles,)](
            grad, kernel, out, *shape, tiles, grad.shape[1], stride(kernel), TAPS=taps, ACROSS=across, TURNS=turns, **_OPTIONS
        )
    return out


def sums_along(grad: Tensor, image: Tensor, taps: int, *, across: bool) -> Tensor:
    """(b, taps) in float64: the gradient of the kernel with which the image was filtered."""
    *shape, tiles = _tiles(image)
    batch, channels = image.shape[:2]
    _, steps, chunks = cut(tiles, 1)
    sums = image.new_empty((batch, channels * chunks, taps))
    with on(image):
        tap_sums[(sums.numel(),)](grad, image, sums, *shape, tiles, chunks, TAPS=taps, ACROSS=across, STEPS=steps, **_OPTIONS)
    return sums.sum(1, dtype=torch.float64)

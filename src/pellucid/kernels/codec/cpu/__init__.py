"""The codec compiled for the CPU, with its declared slopes.

Owns: the operator `codec`, with its gradient.
Must not: import Numba before the operator runs.
Read next: ``sweep.py``, ``slopes.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.codec.tables import CHROMINANCE, LUMINANCE, SLOPES, SUBSAMPLINGS, quantisation
from pellucid.kernels.explicit import empty_gradients, register
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_split

__all__ = ["codec", "codec_backward", "codec_forward"]


def codec(image: Tensor, quality: Tensor, subsampling: str, slope: str) -> Tensor:
    """Encode and decode.

    Args:
        image: (b, c, h, w) of bytes, float32 or float64, one channel or three.
        quality: (b or 1).
        slope: for the gradient.
    """
    from pellucid.kernels.codec.cpu import sweep

    del slope
    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        pixels, tables, into = image.contiguous().numpy(), _steps(quality), out.numpy()
        rows, columns = (-(-n // 16) * 16 for n in image.shape[-2:])

        def task(start: int, stop: int) -> None:
            work = np.empty((5, rows, columns), np.int32), np.empty(128, np.int32), np.empty(columns + 2, np.int32)
            sweep.round_trip(pixels, tables, *SUBSAMPLINGS[subsampling], into, *work, start, stop)

        run_split(task, image.shape[0], 1)
    return out


def _back(grad: Tensor, image: Tensor, quality: Tensor, subsampling: str, slope: str, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.codec.cpu import slopes

    gradients = empty_gradients((image, quality), needs)
    gradients[1].zero_()
    if gradients[0].numel():
        pixels, upstream, into = image.contiguous().numpy(), grad.contiguous().numpy(), gradients[0].numpy()
        tables, kind = _steps(quality), SLOPES.index(slope)
        rows, columns = (-(-n // 16) * 16 + 16 for n in image.shape[-2:])

        def task(start: int, stop: int) -> None:
            work = (np.empty(shape, pixels.dtype) for shape in ((slopes.PLANES, rows, columns), (2, 128), columns + 2))
            slopes.slopes(kind, upstream, pixels, tables, *SUBSAMPLINGS[subsampling], into, *work, start, stop)

        run_split(task, image.shape[0], 1)
    return gradients


def _steps(quality: Tensor) -> Any:
    """(b or 1, 2, 128): the quantisation of luma and of colour differences, each row twice, for two blocks side by side."""
    tables = torch.stack([quantisation(quality, table).flatten(1, 4) for table in (LUMINANCE, CHROMINANCE)], 1).to(torch.int32)
    return tables.unsqueeze(-2).expand(*tables.shape[:-1], 2, 8).flatten(2).numpy()


codec_forward, codec_backward = register("cpu_codec", "Tensor image, Tensor quality, str subsampling, str slope", codec, _back)

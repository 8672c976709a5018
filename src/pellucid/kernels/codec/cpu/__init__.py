"""The codec compiled for the CPU, with its declared slopes.

Owns: the operator `CODEC`, with its gradient.
Must not: import Numba before the operator runs.
Read next: ``sweep.py``, ``slopes.py``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.codec.tables import CHROMINANCE, LUMINANCE, SLOPES, SUBSAMPLINGS, quantisation
from pellucid.kernels.explicit import register
from pellucid.kernels.threads import run_loop

__all__ = ["CODEC"]


def _fill(out: Tensor, image: Tensor, quality: Tensor, subsampling: str, slope: str) -> None:
    from pellucid.kernels.codec.cpu.sweep import round_trip

    del slope
    rows, columns = (-(-n // 16) * 16 for n in image.shape[-2:])

    def room() -> tuple[Any, ...]:
        return np.empty((5, rows, columns), np.int32), np.empty(128, np.int32), np.empty(columns + 2, np.int32)

    given = image.contiguous().numpy(), _steps(quality), *SUBSAMPLINGS[subsampling], out.numpy()
    run_loop(round_trip, image.shape[0], 1, *given, room=room)


def _back(
    found: list[Tensor], grad: Tensor, image: Tensor, quality: Tensor, subsampling: str, slope: str, needs: list[bool]
) -> None:
    from pellucid.kernels.codec.cpu.slopes import PLANES, slopes

    del needs
    found[1].zero_()
    pixels, upstream, into = image.contiguous().numpy(), grad.contiguous().numpy(), found[0].numpy()
    rows, columns = (-(-n // 16) * 16 + 16 for n in image.shape[-2:])

    def room() -> tuple[Any, ...]:
        return tuple(np.empty(shape, pixels.dtype) for shape in ((PLANES, rows, columns), (2, 128), columns + 2))

    given = SLOPES.index(slope), upstream, pixels, _steps(quality), *SUBSAMPLINGS[subsampling], into
    if into.size:
        run_loop(slopes, image.shape[0], 1, *given, room=room)


def _steps(quality: Tensor) -> Any:
    """(b or 1, 2, 128): the quantisation of luma and of colour differences, each row twice, for two blocks side by side."""
    tables = torch.stack([quantisation(quality, table).flatten(1, 4) for table in (LUMINANCE, CHROMINANCE)], 1).to(torch.int32)
    return tables.unsqueeze(-2).expand(*tables.shape[:-1], 2, 8).flatten(2).numpy()


CODEC = register("cpu_codec", "Tensor image, Tensor quality, str subsampling, str slope", _fill, _back)
"""Encode and decode.

* image: (b, c, h, w) of bytes, float32 or float64, one channel or three.
* quality: (b or 1).
* slope: for the gradient.
"""

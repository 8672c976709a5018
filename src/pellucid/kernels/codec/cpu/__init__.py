"""The codec compiled for the CPU.

Owns: the operator `CODEC`.
Must not: import Numba before the operator runs, or have a gradient, which is declared in ``../surrogate.py``.
Read next: ``sweep.py``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.codec.tables import CHROMINANCE, LUMINANCE, SUBSAMPLINGS, quantisation
from pellucid.kernels.explicit import register
from pellucid.kernels.threads import run_loop

__all__ = ["CODEC"]


def _fill(out: Tensor, image: Tensor, quality: Tensor, subsampling: str) -> None:
    from pellucid.kernels.codec.cpu.sweep import round_trip

    rows, columns = (-(-n // 16) * 16 for n in image.shape[-2:])

    def room() -> tuple[Any, ...]:
        return np.empty((5, rows, columns), np.int32), np.empty(128, np.int32), np.empty(columns + 2, np.int32)

    given = image.contiguous().numpy(), _steps(quality), *SUBSAMPLINGS[subsampling], out.numpy()
    run_loop(round_trip, image.shape[0], 1, *given, room=room)


def _steps(quality: Tensor) -> Any:
    """(b or 1, 2, 128): the quantisation of luma and of colour differences, each row twice, for two blocks side by side."""
    tables = torch.stack([quantisation(quality, table).flatten(1, 4) for table in (LUMINANCE, CHROMINANCE)], 1).to(torch.int32)
    return tables.unsqueeze(-2).expand(*tables.shape[:-1], 2, 8).flatten(2).numpy()


CODEC = register("cpu_codec", "Tensor image, Tensor quality, str subsampling", _fill)
"""Encode and decode.

* image: (b, c, h, w) of bytes, float32 or float64, one channel or three.
* quality: (b or 1).
"""

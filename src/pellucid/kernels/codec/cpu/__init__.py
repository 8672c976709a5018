"""The codec compiled for the CPU, on bytes.

Owns: the operator `cpu_jpeg`.
Must not: have gradients, or import Numba before the operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.threads import run_split

__all__ = ["round_trip"]

torch.library.define("pellucid::cpu_jpeg", "(Tensor levels, Tensor steps, int down, int across) -> Tensor")


def round_trip(levels: Tensor, steps: Tensor, down: int, across: int) -> Tensor:
    """Encode and decode bytes.

    Args:
        levels: (b, c, h, w) of bytes, one channel or three.
        steps: (b or 1, 2, 64) of int32: the quantisation of luma and of colour differences.
        down, across: pixels per colour difference.
    """
    out: Tensor = torch.ops.pellucid.cpu_jpeg.default(levels, steps, down, across)
    return out


@torch.library.register_fake("pellucid::cpu_jpeg")
def _(levels: Tensor, steps: Tensor, down: int, across: int) -> Tensor:
    del steps, down, across
    return levels.new_empty(levels.shape)


@torch.library.impl("pellucid::cpu_jpeg", "CPU")
def _compute(levels: Tensor, steps: Tensor, down: int, across: int) -> Tensor:
    from pellucid.kernels.codec.cpu import sweep

    out = torch.empty(levels.shape, dtype=torch.uint8)
    if out.numel():
        image, tables, into = levels.contiguous().numpy(), steps.contiguous().numpy(), out.numpy()
        rows, columns = (-(-n // 16) * 16 for n in levels.shape[-2:])

        def task(start: int, stop: int) -> None:
            work = np.empty((5, rows, columns), np.int32), np.empty(128 + columns, np.int32)
            sweep.round_trip(image, tables, down, across, into, *work, start, stop)

        run_split(task, levels.shape[0], 1)
    return out


@torch.library.register_vmap("pellucid::cpu_jpeg")
def _folded(info: Any, dims: Any, levels: Tensor, steps: Tensor, down: int, across: int) -> Any:
    count = info.batch_size
    images = levels.unsqueeze(0).expand(count, *levels.shape) if dims[0] is None else levels.movedim(dims[0], 0)
    tables = steps.unsqueeze(0).expand(count, *steps.shape) if dims[1] is None else steps.movedim(dims[1], 0)
    tables = tables.expand(count, images.shape[1], *tables.shape[2:])
    out = torch.ops.pellucid.cpu_jpeg.default(images.flatten(0, 1), tables.flatten(0, 1), down, across)
    return out.unflatten(0, (count, -1)), 0

"""Histograms and tables of bytes, compiled.

Owns: `histograms` and `look_up`, split over threads.
Must not: know what a table is for, or import Numba before it is called.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.threads import run_split

__all__ = ["histograms", "look_up"]

_BYTES = 1 << 17  # the fewest worth handing to another thread


def histograms(image: UInt8[Tensor, "b c h w"]) -> Int64[Tensor, "b c 256"]:
    """How often each level occurs in each channel."""
    from pellucid.kernels.curve.cpu.sweep import count

    out = torch.empty((*image.shape[:2], 256), dtype=torch.int64)
    planes, into = _planes(image), out.flatten(0, 1).numpy()
    run_split(lambda start, stop: count(planes, into, start, stop), len(planes), _BYTES // planes[0].size + 1)
    return out


def look_up(image: UInt8[Tensor, "b c h w"], tables: Shaped[Tensor, "b c 256"]) -> Shaped[Tensor, "b c h w"]:
    """What a channel's table holds for each level."""
    from pellucid.kernels.curve.cpu.sweep import look_up as sweep

    out = torch.empty(image.shape, dtype=tables.dtype)
    planes, numbers, into = _planes(image), tables.contiguous().flatten(0, 1).numpy(), _planes(out)
    run_split(lambda start, stop: sweep(planes, numbers, into, start, stop), len(planes), _BYTES // planes[0].size + 1)
    return out


def _planes(tensor: Tensor) -> Any:
    return tensor.contiguous().view(tensor.shape[0] * tensor.shape[1], -1).numpy()

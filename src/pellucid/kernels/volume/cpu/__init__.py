"""Volumes compiled for the CPU: neither a grid nor a field of the output's size; slices split over threads.

Owns: the operators `VOLUME`.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import register
from pellucid.kernels.threads import run_loop
from pellucid.kernels.volume.knots import knots

__all__ = ["VOLUME"]

_VOXELS = 1 << 13  # the fewest worth handing to another thread
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _call(image: Tensor, src_from_dst: Tensor, control: Tensor | None, size: list[int], border: bool, nearest: bool) -> Any:
    """What the compiled functions share, as NumPy arrays and numbers."""
    from pellucid.kernels.volume.cpu.sweep import Call

    grid = src_from_dst.new_zeros((1, 3, 0, 0, 0)) if control is None else control
    tables = [knots(length, max(4, numbers), src_from_dst) for length, numbers in zip(size, grid.shape[2:], strict=True)]
    first = tables[2][0].numpy()
    return Call(
        image.contiguous().view(*image.shape[:2], -1).numpy(),
        tuple(image.shape[2:]),
        src_from_dst.contiguous().view(-1, 12).numpy(),
        grid.contiguous().view(grid.shape[0], -1).numpy(),
        tuple(grid.shape[2:]),
        tuple(first.numpy() for first, _ in tables),
        tuple(weights.contiguous().numpy() for _, weights in tables),
        np.searchsorted(first, np.arange(max(4, grid.shape[4]) - 2)),
        tables[2][1].t().contiguous().numpy(),
        tuple(size),
        border,
        nearest,
    )


def _fill(out: Tensor, image: Tensor, *given: Any) -> None:
    from pellucid.kernels.volume.cpu.sweep import pick, sample

    depth, height, width = out.shape[2:]
    nearest = given[-1]
    if nearest:  # which moves bits, whatever they mean
        image, out = image.view(_BITS[image.itemsize]), out.view(_BITS[out.itemsize])
    into = out.view(*out.shape[:2], -1).numpy()
    run_loop(pick if nearest else sample, len(into) * depth, _VOXELS // (height * width) + 1, _call(image, *given), into)


def _back(found: list[Tensor], grad: Tensor, *given: Any) -> None:
    from pellucid.kernels.volume.cpu.sweep import unsample

    batch = len(grad)
    rows = grad.contiguous().view(*grad.shape[:2], -1).numpy()
    shares, into = tuple(part.numel() > 0 for part in found), [part.zero_() for part in found]
    to_image = into[0].flatten(2).numpy() if shares[0] else rows[:, :, :0]
    others = (
        part.view(batch, -1).numpy() if some else np.empty((batch, 0)) for part, some in zip(into[1:], shares[1:], strict=True)
    )
    run_loop(unsample, batch, 1, _call(*given[:-1]), rows, shares, to_image, *others)


VOLUME = register(
    "cpu_volume",
    "Tensor image, Tensor src_from_dst, Tensor? control, SymInt[] size, bool border, bool nearest",
    _fill,
    _back,
    empty=lambda image, *given: image.new_empty((*image.shape[:2], *given[2])),
)
"""See :func:`pellucid.kernels.volume.reference.volume`; all of one dtype, float32 or float64."""

"""Volumes compiled for the CPU: neither a grid nor a field of the output's size; slices split over threads.

Owns: the operators `VOLUME` and `MAJORITY`.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.kernels.explicit import register
from pellucid.kernels.threads import run_loop
from pellucid.kernels.volume.knots import knots, opened, starts

__all__ = ["MAJORITY", "VOLUME"]

_VOXELS = 1 << 13  # the fewest worth handing to another thread
_FAR = 1 << 40  # voxels: a sample that moves farther is not copied
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _call(
    image: Tensor,
    src_from_dst: Tensor,
    field: Tensor | None,
    start: Tensor | None,
    size: list[int],
    lattice: list[int],
    border: bool,
    *,
    block: list[int],
) -> Any:
    """What the compiled functions share, as NumPy arrays and numbers."""
    from pellucid.kernels.volume.cpu.sweep import Call

    maps = src_from_dst.double().contiguous()
    grid = maps.new_zeros((1, 3, 0, 0, 0)) if field is None else field.double().contiguous()
    counts = [max(4, numbers) for numbers in grid.shape[2:]]
    first_voxel, corner, whole = opened(block, image)
    tables = [knots(*each) for each in zip(size, counts, starts(start, first_voxel, maps), lattice, strict=True)]
    first, weights = tables[2]
    basis = maps.new_zeros(len(first), counts[2], size[2] + 8)
    taps = first[..., None] + torch.arange(4, device=maps.device)
    basis[:, :, : size[2]].scatter_(1, taps.mT, weights.mT)
    ends = torch.arange(counts[2], device=maps.device).repeat(len(first), 1)
    spans = torch.stack((torch.searchsorted(first, ends - 3), torch.searchsorted(first, ends, right=True)), 1)
    shift, unit = maps[:, :, 3], torch.eye(3, dtype=torch.float64, device=maps.device)
    copies = (maps[:, :, :3].abs() == unit).flatten(1).all(1) & ((shift == shift.round()) & (shift.abs() < _FAR)).all(1)
    copies = copies & ~grid.flatten(1).any(1)
    voxels = (F.pad(image, (0, 1)) if image.shape[4] == 1 else image).contiguous()  # pairs are read at once
    return Call(
        voxels.view(*image.shape[:2], -1).numpy(),
        tuple(voxels.shape[2:]),
        maps.view(-1, 12).numpy(),
        grid.view(grid.shape[0], -1).numpy(),
        tuple(grid.shape[2:]),
        tuple(first.numpy() for first, _ in tables),
        tuple(weights.contiguous().numpy() for _, weights in tables),
        basis.numpy(),
        spans.numpy(),
        copies.numpy(),
        tuple(size),
        np.arange(float(size[2])) + first_voxel[2],
        first_voxel,
        whole,
        corner,
        tuple(image.shape[2:]),
        border,
        np.empty(0, np.int32 if voxels[0, 0].numel() < 1 << 31 else np.int64),
    )


def _fill(out: Tensor, image: Tensor, *given: Any) -> None:
    from pellucid.kernels.volume.cpu.sweep import sample

    depth, height, width = out.shape[2:]
    *places, nearest, block = given
    if nearest:  # moves bits, whatever they mean
        image, out = image.view(_BITS[image.itemsize]), out.view(_BITS[out.itemsize])
    into = out.view(*out.shape[:2], -1).numpy()
    call = _call(image, *places, block=block)
    run_loop(sample, len(into) * depth, _VOXELS // (height * width) + 1, call, None if nearest else True, into)


def _count(out: Tensor, labels: Tensor, *given: Any) -> None:
    from pellucid.kernels.volume.cpu.sweep import elect

    src_from_dst, field, start, size, lattice, border, points, block = given
    finer = [length * many for length, many in zip(size, points, strict=True)]
    depth, height, width = out.shape[2:]
    finer_block = [first * many for first, many in zip(block, points, strict=False)] + block[3:]
    call, into = (
        _call(labels, src_from_dst, field, start, finer, lattice, border, block=finer_block),
        out.view(*out.shape[:2], -1).numpy(),
    )
    run_loop(elect, len(into) * depth, _VOXELS // (height * width * math.prod(points)) + 1, call, tuple(points), into)


def _back(found: list[Tensor], grad: Tensor, *given: Any) -> None:
    from pellucid.kernels.volume.cpu.sweep import unsample

    *places, nearest, block, _ = given
    batch, call, rows = len(grad), _call(*places, block=block), grad.contiguous().view(*grad.shape[:2], -1).numpy()
    parts = [part.zero_() for part in found[:3]]
    needs = tuple(part.numel() > 0 for part in parts)
    whole = needs[0] and call.held[2] == 1
    to_image = F.pad(parts[0], (0, 1)) if whole else parts[0]
    into = to_image.flatten(2).numpy() if needs[0] else rows[:, :, :0]
    others = (
        part.view(batch, -1).numpy() if some else np.empty((batch, 0)) for part, some in zip(parts[1:], needs[1:], strict=True)
    )
    run_loop(unsample, batch, 1, call, rows, nearest, needs, into, *others)
    if whole:
        parts[0].copy_(to_image[..., :1])


VOLUME = register(
    "cpu_volume",
    "Tensor image, Tensor src_from_dst, Tensor? field, Tensor? start, SymInt[] size, SymInt[] lattice, bool border, bool nearest, "
    "SymInt[] block",
    _fill,
    _back,
    empty=lambda image, *given: image.new_empty((*image.shape[:2], *given[3])),
)
"""See :func:`pellucid.kernels.volume.reference.volume`; an image of float32 or float64, or of any dtype with ``nearest``."""

MAJORITY = register(
    "cpu_majority",
    "Tensor labels, Tensor maps, Tensor? field, Tensor start, SymInt[] size, SymInt[] lattice, bool border, SymInt[] points, "
    "SymInt[] block",
    _count,
    empty=lambda labels, *given: labels.new_empty((*labels.shape[:2], *given[3])),
)
"""See :func:`pellucid.kernels.volume.reference.majority`."""

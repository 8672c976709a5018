"""Windings compiled for the CPU: edge by edge, each through the pixels that it crosses.

Owns: the operators `WINDING`.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import register
from pellucid.kernels.threads import run_loop, scratch

__all__ = ["WINDING"]

_PIXELS = 1 << 16  # the fewest worth handing to another thread


def _corners(points: Tensor) -> Any:
    return points.detach().to(torch.float64).contiguous().numpy()


def _fill(out: Tensor, points: Tensor, size: list[int]) -> None:
    from pellucid.kernels.polygons.cpu.sweep import wind

    height, width = size
    room = lambda: (scratch("winding", height * (width + 1), np.float64).reshape(height, width + 1),)  # noqa: E731
    run_loop(wind, len(points), _PIXELS // (height * width) + 1, _corners(points), out.numpy(), room=room)


def _back(found: list[Tensor], grad: Tensor, points: Tensor, size: list[int], needs: list[bool]) -> None:
    del needs
    from pellucid.kernels.polygons.cpu.sweep import to_corners

    corners = _corners(points)
    sums = np.empty_like(corners)
    run_loop(to_corners, len(points), _PIXELS // (size[0] * size[1]) + 1, corners, grad.contiguous().numpy(), sums)
    found[0].copy_(torch.from_numpy(sums))


WINDING = register(
    "cpu_winding",
    "Tensor points, SymInt[] size",
    _fill,
    _back,
    empty=lambda points, size: points.new_empty((points.shape[0], *size)),
)
"""See :func:`pellucid.kernels.polygons.reference.winding`."""

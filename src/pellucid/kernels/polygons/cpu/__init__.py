"""Coverage compiled for the CPU: edge by edge, each through the pixels that it crosses.

Owns: the operators `COVERAGE`.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import register
from pellucid.kernels.threads import run_loop, scratch

__all__ = ["COVERAGE"]

_PIXELS = 1 << 16  # the fewest worth handing to another thread


def _corners(points: Tensor) -> Any:
    return points.detach().to(torch.float64).contiguous().numpy()


def _room(size: list[int]) -> tuple[Any]:
    """Scratch for a plane of one picture, with one more column."""
    return (scratch("coverage", size[0] * (size[1] + 1), np.float64).reshape(size[0], size[1] + 1),)


def _fill(out: Tensor, points: Tensor, size: list[int]) -> None:
    from pellucid.kernels.polygons.cpu.sweep import cover

    run_loop(cover, len(points), _grain(size), _corners(points), out.numpy(), room=lambda: _room(size))


def _back(found: list[Tensor], grad: Tensor, points: Tensor, size: list[int], needs: list[bool]) -> None:
    from pellucid.kernels.polygons.cpu.sweep import to_corners

    del needs
    corners = _corners(points)
    sums = np.empty_like(corners)
    run_loop(to_corners, len(points), _grain(size), corners, grad.contiguous().numpy(), sums, room=lambda: _room(size))
    found[0].copy_(torch.from_numpy(sums))


def _grain(size: list[int]) -> int:
    return _PIXELS // (size[0] * size[1]) + 1


COVERAGE = register(
    "cpu_coverage",
    "Tensor points, SymInt[] size",
    _fill,
    _back,
    empty=lambda points, size: points.new_empty((points.shape[0], *size)),
)
"""See :func:`pellucid.kernels.polygons.reference.coverage`."""

"""Volumes compiled for the CPU: neither a grid nor a field of the output's size; slices split over threads.

Owns: the operators, their schemas, fake kernels, batching rules and CPU kernels.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import batched
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_split
from pellucid.kernels.volume.knots import knots

__all__ = ["backward", "direct", "forward"]

_COMMON = "Tensor image, Tensor src_from_dst, Tensor? control, SymInt[] size, bool border, bool nearest"
torch.library.define("pellucid::cpu_volume", f"({_COMMON}) -> Tensor")
torch.library.define("pellucid::cpu_volume_backward", f"(Tensor grad, {_COMMON}, bool[] needs) -> (Tensor, Tensor, Tensor)")

forward = torch.ops.pellucid.cpu_volume.default
"""(image, src_from_dst, control, size, border, nearest) -> the volume, as the reference; all of one dtype, float32 or float64."""
backward = torch.ops.pellucid.cpu_volume_backward.default
"""The same arguments after the result's gradient; ``needs`` has one for each tensor. See `Primitive`."""

_VOXELS = 1 << 13  # the fewest worth handing to another thread


@torch.library.register_fake("pellucid::cpu_volume")
def _(image: Tensor, src_from_dst: Tensor, control: Tensor | None, size: list[int], border: bool, nearest: bool) -> Tensor:
    del src_from_dst, control, border, nearest
    return image.new_empty((*image.shape[:2], *size))


@torch.library.register_fake("pellucid::cpu_volume_backward")
def _(
    grad: Tensor,
    image: Tensor,
    src_from_dst: Tensor,
    control: Tensor | None,
    size: list[int],
    border: bool,
    nearest: bool,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    del grad, src_from_dst, size, border, nearest
    return _gradients(image, control, needs)


def _gradients(image: Tensor, control: Tensor | None, needs: list[bool]) -> tuple[Tensor, Tensor, Tensor]:
    batch = image.shape[0]
    inner = (0,) if control is None or not needs[2] else (batch, *control.shape[1:])
    return (
        image.new_zeros(image.shape if needs[0] else (0,)),
        image.new_zeros((batch, 3, 4) if needs[1] else (0,), dtype=torch.float64),
        image.new_zeros(inner, dtype=torch.float64),
    )


def _arguments(
    image: Tensor, src_from_dst: Tensor, control: Tensor | None, size: list[int], border: bool, nearest: bool
) -> tuple[Any, ...]:
    """What the compiled functions share, as NumPy arrays and numbers."""
    grid = image.new_zeros((1, 3, 0, 0, 0)) if control is None else control
    tables = [knots(length, max(4, numbers), image) for length, numbers in zip(size, grid.shape[2:], strict=True)]
    return (
        image.contiguous().view(*image.shape[:2], -1).numpy(),
        np.array(image.shape[2:], np.int64),
        src_from_dst.contiguous().view(-1, 12).numpy(),
        grid.contiguous().view(grid.shape[0], -1).numpy(),
        np.array(grid.shape[2:], np.int64),
        tuple(first.numpy() for first, _ in tables),
        tuple(weights.contiguous().numpy() for _, weights in tables),
        np.array(size, np.int64),
        border,
        nearest,
    )


def direct(image: Tensor, src_from_dst: Tensor, control: Tensor | None, size: list[int], border: bool, nearest: bool) -> Tensor:
    """The operator's kernel."""
    from pellucid.kernels.volume.cpu.sweep import sample

    out = in_large_pages(torch.empty((*image.shape[:2], *size), dtype=image.dtype, device=image.device))
    if out.numel() == 0:
        return out
    call, into = _arguments(image, src_from_dst, control, size, border, nearest), out.view(*image.shape[:2], -1).numpy()

    def task(start: int, stop: int) -> None:
        sample(*call, into, start, stop)

    run_split(task, image.shape[0] * size[0], _VOXELS // (size[1] * size[2]) + 1)
    return out


torch.library.impl("pellucid::cpu_volume", "CPU")(direct)


@torch.library.impl("pellucid::cpu_volume_backward", "CPU")
def _(
    grad: Tensor,
    image: Tensor,
    src_from_dst: Tensor,
    control: Tensor | None,
    size: list[int],
    border: bool,
    nearest: bool,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    from pellucid.kernels.volume.cpu.sweep import unsample

    found = _gradients(image, control, needs)
    if grad.numel() == 0:
        return found
    call = _arguments(image, src_from_dst, control, size, border, nearest)
    rows, shares = grad.contiguous().view(*image.shape[:2], -1).numpy(), (needs[0], needs[1], found[2].numel() > 0)
    batch = image.shape[0]
    to_image = found[0].view(*image.shape[:2], -1).numpy() if needs[0] else call[0][:, :, :0]
    to_map = found[1].view(batch, 12).numpy() if needs[1] else np.empty((batch, 0))
    to_control = found[2].view(batch, -1).numpy() if shares[2] else np.empty((batch, 0))

    def task(start: int, stop: int) -> None:
        unsample(*call, rows, shares, to_image, to_map, to_control, start, stop)

    run_split(task, batch, 1)
    return found


batched("pellucid::cpu_volume", forward, 3, 0)
batched("pellucid::cpu_volume_backward", backward, 4, 1)

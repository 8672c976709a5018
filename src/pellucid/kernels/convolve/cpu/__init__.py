"""Convolution compiled for the CPU: no padded copy and nothing of the image's size in between; rows split over threads.

Owns: the operators `separable`, `dense`, `interior` and `median`, with their gradients, on contiguous memory of one dtype.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.convolve.network import median_network
from pellucid.kernels.explicit import empty_gradients, register
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_split, scratch

__all__ = [
    *("dense", "dense_backward", "dense_forward"),
    *("interior", "interior_backward", "interior_forward"),
    *("median", "median_backward", "median_forward"),
    *("separable", "separable_backward", "separable_forward"),
]

_PIXELS = 1 << 14  # of a strip, which is what a thread takes and what a float32 sum over rows becomes float64 after


def separable(image: Tensor, vertical: Tensor, horizontal: Tensor) -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.separable`; all of one dtype, float32 or float64."""
    from pellucid.kernels.convolve.cpu.sweep import separable as sweep

    image = image.contiguous()
    out = in_large_pages(torch.empty_like(image))
    if out.numel():
        _split(sweep, image, _kernels(vertical, horizontal), [out])
    return out


def _back(grad: Tensor, image: Tensor, vertical: Tensor, horizontal: Tensor, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.convolve.cpu.sweep import separable_back, separable_sums

    gradients = empty_gradients((image, vertical, horizontal), needs)
    if image.numel() == 0:
        return [f.zero_() for f in gradients]
    kernels, grad, batch = _kernels(vertical, horizontal), grad.contiguous(), image.shape[0]
    if needs[0]:
        _split(separable_back, grad, kernels, [gradients[0]])
    if needs[1] or needs[2]:
        taps = vertical.shape[1]
        sums = _split(separable_sums, grad, kernels, [image.contiguous()], sums=taps + horizontal.shape[1])
        totals = torch.from_numpy(sums.reshape(batch, -1, sums.shape[1]).sum(1))
        if needs[1]:
            gradients[1] = totals[:, :taps].contiguous()
        if needs[2]:
            gradients[2] = totals[:, taps:].contiguous()
    return gradients


def _kernels(vertical: Tensor, horizontal: Tensor) -> tuple[Any, Any]:
    return vertical.contiguous().numpy(), horizontal.contiguous().numpy()


def _split(sweep: Any, image: Tensor, kernels: tuple[Any, Any], others: list[Tensor], sums: int = 0) -> Any:
    """Run a separable pass over strips; with ``sums`` it also returns that many numbers for each strip."""
    _, channels, height, width = image.shape
    rows = max(1, min(height, _PIXELS // width))
    strips = image.shape[0] * channels * -(-height // rows)
    work = image.numpy().dtype.type
    info = np.finfo(work)
    planes = [tensor.view(-1, height, width).numpy() for tensor in (image, *others)]
    totals = np.empty((strips, sums))
    reach = kernels[1].shape[1]
    length = 3 * width + 4 * reach

    def task(start: int, stop: int) -> None:
        line = np.empty(length, work)
        if sums:
            sweep(*planes, *kernels, channels, rows, info.tiny / info.eps, totals, line, start, stop)
        else:
            sweep(planes[0], *kernels, channels, rows, info.tiny / info.eps, planes[1], line, start, stop)

    run_split(task, strips, _PIXELS // (rows * width) + 1)
    return totals


def dense(image: Tensor, kernel: Tensor) -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.dense`; all of one dtype, float32 or float64."""
    from pellucid.kernels.convolve.cpu.square import square

    image = image.contiguous()
    out = in_large_pages(torch.empty_like(image))
    if out.numel():
        _split_square(square, image, kernel.contiguous().numpy(), out)
    return out


def _dense_back(grad: Tensor, image: Tensor, kernel: Tensor, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.convolve.cpu.square import square_back, square_sums

    gradients = empty_gradients((image, kernel), needs)
    if image.numel() == 0:
        return [f.zero_() for f in gradients]
    kernels, grad = kernel.contiguous().numpy(), grad.contiguous()
    if needs[0]:
        _split_square(square_back, grad, kernels, gradients[0])
    if needs[1]:
        sums = _split_square(square_sums, grad, kernels, image.contiguous(), sums=True)
        gradients[1] = torch.from_numpy(sums.reshape(image.shape[0], -1, *kernel.shape[1:]).sum(1))
    return gradients


def _split_square(sweep: Any, image: Tensor, kernels: Any, other: Tensor, *, sums: bool = False) -> Any:
    """Run a pass of the square filter over strips; with ``sums`` it returns a number per tap for each strip."""
    _, channels, height, width = image.shape
    taps = kernels.shape[1]
    rows = min(height, max(_PIXELS // width, 2 * taps))  # few of a strip's rows are another's border
    strips = image.shape[0] * channels * -(-height // rows)
    planes = image.view(-1, height, width).numpy()
    others = other.view(-1, height, width).numpy()
    work = planes.dtype.type
    info = np.finfo(work)
    totals = np.empty((strips, taps * taps if sums else 0))

    def task(start: int, stop: int) -> None:
        buffer = scratch("dense", (rows + 2 * taps) * (width + 2 * taps), work)
        if sums:
            sweep(planes, others, taps, rows, totals, buffer, start, stop)
            return
        lists = np.empty(taps * taps, np.int64), np.empty(taps * taps, work), np.empty(taps + 1, np.int64)
        sweep(planes, kernels, channels, rows, info.tiny / info.eps, others, buffer, *lists, start, stop)

    run_split(task, strips, _PIXELS // (rows * width) + 1)
    return totals


def interior(image: Tensor, kernel: Tensor, clip: int) -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.interior`; all of one dtype, float32 or float64."""
    from pellucid.kernels.convolve.cpu.sweep import interior as sweep

    image = image.contiguous()
    out = in_large_pages(torch.empty_like(image))
    if out.numel():
        planes, kernels, into = _planes(image), kernel.flatten(1).contiguous().numpy(), _planes(out)

        def task(start: int, stop: int) -> None:
            sweep(planes, kernels, image.shape[1], clip != 0, into, start, stop)

        run_split(task, planes.shape[0], _PIXELS // planes[0].size + 1)
    return out


def _interior_back(grad: Tensor, image: Tensor, kernel: Tensor, clip: int, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.convolve.cpu.sweep import interior_backward as sweep

    gradients = empty_gradients((image, kernel), needs)
    if image.numel() == 0:
        return [f.zero_() for f in gradients]
    planes, kernels, upstream = _planes(image.contiguous()), kernel.flatten(1).contiguous().numpy(), _planes(grad.contiguous())
    into = _planes(gradients[0]) if needs[0] else np.empty((0, 0, 0), planes.dtype)
    sums = np.empty((planes.shape[0], 9))

    def task(start: int, stop: int) -> None:
        lines = np.empty(4 * planes.shape[2] + 15, planes.dtype)
        sweep(upstream, planes, kernels, image.shape[1], clip != 0, (needs[0], needs[1]), into, sums, lines, start, stop)

    run_split(task, planes.shape[0], _PIXELS // planes[0].size + 1)
    if needs[1]:
        gradients[1] = torch.from_numpy(sums.reshape(image.shape[0], -1, 3, 3).sum(1))
    return gradients


def median(image: Tensor, gate: Tensor, down: int, across: int) -> Tensor:
    """See :func:`pellucid.kernels.convolve.reference.median`; all of one dtype, float32 or float64."""
    from pellucid.kernels.convolve.cpu.ranks import STRIP
    from pellucid.kernels.convolve.cpu.ranks import median as sweep

    image = image.contiguous()
    out = in_large_pages(torch.empty_like(image))
    if out.numel():
        planes, into, (_, height, width) = _planes(image), _planes(out), image.shape[1:]
        gates, network = gate.contiguous().numpy(), median_network(down * across)
        rows = max(1, min(height, _PIXELS // width))
        strips = -(-height // rows)

        def task(start: int, stop: int) -> None:
            padded = np.empty((rows + down - 1, width + across - 1), planes.dtype)
            room = np.empty(down * across * STRIP, planes.dtype)
            sweep(planes, gates, image.shape[1], (down, across), network, rows, into, padded, room, start, stop)

        run_split(task, len(planes) * strips, 1)
    return out


def _median_back(grad: Tensor, image: Tensor, gate: Tensor, down: int, across: int, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.convolve.cpu.ranks import STRIP
    from pellucid.kernels.convolve.cpu.ranks import median_backward as sweep

    gradients = empty_gradients((image, gate), needs)
    if image.numel() == 0:
        return [f.zero_() for f in gradients]
    planes, upstream, (_, height, width) = _planes(image.contiguous()), _planes(grad.contiguous()), image.shape[1:]
    into = _planes(gradients[0]) if needs[0] else np.empty_like(planes)
    gates, network, sums = gate.contiguous().numpy(), median_network(down * across), np.empty(len(planes))

    def task(start: int, stop: int) -> None:
        padded = np.empty((height + down - 1, width + across - 1), planes.dtype)
        turned = np.empty((height, width + across - 1), planes.dtype)
        room = np.empty((down * across + 1) * STRIP, planes.dtype)
        sweep(upstream, planes, gates, image.shape[1], (down, across), network, into, sums, padded, turned, room, start, stop)

    run_split(task, len(planes), 1)
    if needs[1]:
        gradients[1].copy_(torch.from_numpy(sums).view(image.shape[:2]).sum(1))
    return gradients


def _planes(tensor: Tensor) -> Any:
    return tensor.view(-1, *tensor.shape[2:]).numpy()


separable_forward, separable_backward = register(
    "cpu_separable", "Tensor image, Tensor vertical, Tensor horizontal", separable, _back
)
dense_forward, dense_backward = register("cpu_dense", "Tensor image, Tensor kernel", dense, _dense_back)
interior_forward, interior_backward = register("cpu_interior", "Tensor image, Tensor kernel, int clip", interior, _interior_back)
median_forward, median_backward = register("cpu_median", "Tensor image, Tensor gate, int down, int across", median, _median_back)

"""Convolution compiled for the CPU: no padded copy and nothing of the image's size in between; rows split over threads.

Owns: the operators of ``../reference.py``'s filters, with their gradients, on contiguous memory of one dtype, float32 or float64.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from pellucid.kernels.convolve.network import median_network
from pellucid.kernels.explicit import add_up, register
from pellucid.kernels.threads import run_loop, run_split, scratch

__all__ = ["DENSE", "INTERIOR", "MEDIAN", "SEPARABLE"]

_PIXELS = 1 << 14  # of a strip, which is what a thread takes and what a float32 sum over rows becomes float64 after


def _fill(out: Tensor, image: Tensor, vertical: Tensor, horizontal: Tensor) -> None:
    from pellucid.kernels.convolve.cpu.sweep import separable

    _split(separable, image.contiguous(), _kernels(vertical, horizontal), [out])


def _back(found: list[Tensor], grad: Tensor, image: Tensor, vertical: Tensor, horizontal: Tensor, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.cpu.sweep import separable_back, separable_sums

    kernels, grad, taps = _kernels(vertical, horizontal), grad.contiguous(), vertical.shape[1]
    if needs[0]:
        _split(separable_back, grad, kernels, [found[0]])
    if needs[1] or needs[2]:
        sums = _split(separable_sums, grad, kernels, [image.contiguous()], sums=taps + horizontal.shape[1])
        add_up(sums[:, :taps], found[1])
        add_up(sums[:, taps:], found[2])


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
    given = *kernels, channels, rows, info.tiny / info.eps
    given = (*planes, *given, totals) if sums else (planes[0], *given, planes[1])
    run_loop(sweep, strips, _PIXELS // (rows * width) + 1, *given, room=lambda: (np.empty(3 * width + 4 * reach, work),))
    return totals


def _dense_fill(out: Tensor, image: Tensor, kernel: Tensor) -> None:
    from pellucid.kernels.convolve.cpu.square import square

    _split_square(square, image.contiguous(), kernel.contiguous().numpy(), out)


def _dense_back(found: list[Tensor], grad: Tensor, image: Tensor, kernel: Tensor, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.cpu.square import square_back, square_sums

    kernels, grad = kernel.contiguous().numpy(), grad.contiguous()
    if needs[0]:
        _split_square(square_back, grad, kernels, found[0])
    if needs[1]:
        add_up(_split_square(square_sums, grad, kernels, image.contiguous(), sums=True), found[1])


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


def _interior_fill(out: Tensor, image: Tensor, kernel: Tensor, clip: int) -> None:
    from pellucid.kernels.convolve.cpu.sweep import interior

    planes, kernels = _planes(image), kernel.flatten(1).contiguous().numpy()
    run_loop(interior, len(planes), _PIXELS // planes[0].size + 1, planes, kernels, image.shape[1], clip != 0, _planes(out))


def _interior_back(found: list[Tensor], grad: Tensor, image: Tensor, kernel: Tensor, clip: int, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.cpu.sweep import interior_backward

    planes, kernels, upstream = _planes(image), kernel.flatten(1).contiguous().numpy(), _planes(grad)
    into = _planes(found[0]) if needs[0] else np.empty((0, 0, 0), planes.dtype)
    sums, line = np.empty((len(planes), 9)), 4 * planes.shape[2] + 15
    given = upstream, planes, kernels, image.shape[1], clip != 0, (needs[0], needs[1]), into, sums
    grain = _PIXELS // planes[0].size + 1
    run_loop(interior_backward, len(planes), grain, *given, room=lambda: (np.empty(line, planes.dtype),))
    add_up(sums, found[1])


def _median_fill(out: Tensor, image: Tensor, gate: Tensor, down: int, across: int) -> None:
    from pellucid.kernels.convolve.cpu.ranks import STRIP, median

    planes, (height, width) = _planes(image), image.shape[2:]
    rows = max(1, min(height, _PIXELS // width))

    def room() -> tuple[Any, ...]:
        padded = np.empty((rows + down - 1, width + across - 1), planes.dtype)
        return padded, np.empty(down * across * STRIP, planes.dtype)

    given = planes, gate.contiguous().numpy(), image.shape[1], (down, across), median_network(down * across), rows, _planes(out)
    run_loop(median, len(planes) * -(-height // rows), 1, *given, room=room)


def _median_back(found: list[Tensor], grad: Tensor, image: Tensor, gate: Tensor, down: int, across: int, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.cpu.ranks import STRIP, median_backward

    del needs
    planes, sums, (height, width) = _planes(image), np.empty(image.shape[:2]).reshape(-1), image.shape[2:]

    def room() -> tuple[Any, ...]:
        padded, turned = (np.empty((rows, width + across - 1), planes.dtype) for rows in (height + down - 1, height))
        return padded, turned, np.empty((down * across + 1) * STRIP, planes.dtype)

    gates, network = gate.contiguous().numpy(), median_network(down * across)
    given = _planes(grad), planes, gates, image.shape[1], (down, across), network, _planes(found[0]), sums
    run_loop(median_backward, len(planes), 1, *given, room=room)
    add_up(sums, found[1])


def _planes(tensor: Tensor) -> Any:
    return tensor.contiguous().view(-1, *tensor.shape[2:]).numpy()


SEPARABLE = register("cpu_separable", "Tensor image, Tensor vertical, Tensor horizontal", _fill, _back)
DENSE = register("cpu_dense", "Tensor image, Tensor kernel", _dense_fill, _dense_back)
INTERIOR = register("cpu_interior", "Tensor image, Tensor kernel, int clip", _interior_fill, _interior_back)
MEDIAN = register("cpu_median", "Tensor image, Tensor gate, int down, int across", _median_fill, _median_back, through=True)

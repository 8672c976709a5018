"""Convolution compiled for the CPU: no padded copy and nothing of the image's size in between; rows split over threads.

Owns: the operators of ``../reference.py``'s filters, with their gradients, on contiguous memory of one dtype, float32 or float64.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.convolve.network import median_network
from pellucid.kernels.explicit import add_up, register
from pellucid.kernels.threads import run_loop, scratch

__all__ = ["DENSE", "INTERIOR", "MEDIAN", "SEPARABLE", "separable_in_memory"]

_PIXELS = 1 << 14  # of a strip: a thread takes one at a time, and each strip's float32 sums are added up in float64


_NEAR = 28 << 10  # bytes of the closest cache that a window's numbers may take


def _planes(tensor: Tensor) -> Any:
    array = tensor.contiguous().numpy()
    return array.reshape(-1, *array.shape[2:])  # torch's views cost three times as much


def _strips(image: Tensor, least: int = 1) -> tuple[int, int, int]:
    """Rows of a strip, how many strips there are, and the fewest of them worth handing to another thread."""
    batch, channels, height, width = image.shape
    rows = min(height, max(_PIXELS // width, least))
    return rows, batch * channels * -(-height // rows), _PIXELS // (rows * width) + 1


def _negligible(work: Any) -> Any:
    """Below this a tap is too small to change a sum."""
    return np.finfo(work).tiny / np.finfo(work).eps


def _along(image: Tensor, vertical: Tensor, horizontal: Tensor) -> tuple[tuple[int, int], tuple[Any, ...], Any]:
    """For a separable pass: (strips, grain), its arguments besides planes, and what makes a thread's scratch."""
    rows, *split = _strips(image)
    down, across = vertical.contiguous().numpy(), horizontal.contiguous().numpy()
    given = down, across, image.shape[1], rows, _negligible(down.dtype)
    return (split[0], split[1]), given, lambda: (_scratch(image.shape[3], across),)


def _scratch(width: int, across: Any) -> Any:
    """A thread's memory for one row and its ends, forwards and backwards."""
    return np.empty(3 * width + 4 * across.shape[1], across.dtype)


def separable_in_memory(image: Tensor) -> Callable[[Any, Any, Any], Any]:
    """Return the separable filter of floats as a function of the memory of pictures like this one, and both kernels' arrays."""
    from pellucid.kernels.convolve.cpu.sweep import separable

    rows, strips, grain = _strips(image)
    _, channels, height, width = image.shape

    def call(flat: Any, down: Any, across: Any) -> Any:
        planes = flat.reshape(-1, height, width)
        out = np.empty_like(planes)
        given = planes, down, across, channels, rows, _negligible(down.dtype), out
        run_loop(separable, strips, grain, *given, room=lambda: (_scratch(width, across), None))
        return out

    return call


def _lines(image: Tensor, *rows: int) -> Any:
    """Scratch for one row of fractions, or so many, if the picture has bytes; else None."""
    if image.dtype != torch.uint8:
        return None
    shape = *rows, image.shape[3]
    return scratch("lines", math.prod(shape), np.float32).reshape(shape)


def _fill(out: Tensor, image: Tensor, vertical: Tensor, horizontal: Tensor) -> None:
    from pellucid.kernels.convolve.cpu.sweep import separable

    split, given, room = _along(image, vertical, horizontal)
    rows = given[3] + vertical.shape[1]
    run_loop(separable, *split, _planes(image), *given, _planes(out), room=lambda: (*room(), _lines(image, rows)))


def _back(found: list[Tensor], grad: Tensor, image: Tensor, vertical: Tensor, horizontal: Tensor, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.cpu.sweep import separable_back, separable_sums

    (split, given, room), upstream = _along(image, vertical, horizontal), _planes(grad)
    if needs[0]:
        run_loop(separable_back, *split, upstream, *given, _planes(found[0]), room=room)
    if needs[1] or needs[2]:
        taps = vertical.shape[1]
        sums = np.empty((split[0], taps + horizontal.shape[1]))
        run_loop(separable_sums, *split, upstream, _planes(image), *given, sums, room=room)
        add_up(sums[:, :taps], found[1])
        add_up(sums[:, taps:], found[2])


def _dense_room(image: Tensor, rows: int, taps: int, work: Any) -> tuple[Any, ...]:
    """Scratch: rows with their borders; where a kernel's taps read, their weights, and where each kernel row's taps begin."""
    padded = scratch("dense", (rows + 2 * taps) * (image.shape[3] + 2 * taps), work)
    return padded, np.empty(taps * taps, np.int64), np.empty(taps * taps, work), np.empty(taps + 1, np.int64)


def _dense_fill(out: Tensor, image: Tensor, kernel: Tensor) -> None:
    from pellucid.kernels.convolve.cpu.square import square

    planes, taps = _planes(image), kernel.shape[1]
    rows, *split = _strips(image, 2 * taps)  # tall strips: fewer rows are read again as another strip's border
    square_kernels, work = kernel.contiguous().numpy(), np.float64 if kernel.dtype == torch.float64 else np.float32
    unit = work(1.0 / 255.0 if image.dtype == torch.uint8 else 1.0)
    given = planes, square_kernels, image.shape[1], rows, _negligible(work), unit, _planes(out)
    run_loop(square, *split, *given, room=lambda: (*_dense_room(image, rows, taps, work), _lines(image)))


def _dense_back(found: list[Tensor], grad: Tensor, image: Tensor, kernel: Tensor, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.cpu.square import square_back, square_sums

    upstream, taps = _planes(grad), kernel.shape[1]
    rows, count, grain = _strips(image, 2 * taps)
    room = partial(_dense_room, image, rows, taps, upstream.dtype.type)
    if needs[0]:
        given = upstream, kernel.contiguous().numpy(), image.shape[1], rows, _negligible(upstream.dtype), _planes(found[0])
        run_loop(square_back, count, grain, *given, room=room)
    if needs[1]:
        sums = np.empty((count, taps * taps))
        run_loop(square_sums, count, grain, upstream, _planes(image), taps, rows, sums, room=lambda: room()[:1])
        add_up(sums, found[1])


def _interior_fill(out: Tensor, image: Tensor, kernel: Tensor, clip: int) -> None:
    from pellucid.kernels.convolve.cpu.sweep import interior

    planes, kernels = _planes(image), kernel.flatten(1).contiguous().numpy()
    given = planes, kernels, image.shape[1], clip != 0, _planes(out)
    run_loop(interior, len(planes), _PIXELS // planes[0].size + 1, *given, room=lambda: (_lines(image, 4),))


def _interior_back(found: list[Tensor], grad: Tensor, image: Tensor, kernel: Tensor, clip: int, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.cpu.sweep import interior_backward

    planes, kernels, upstream = _planes(image), kernel.flatten(1).contiguous().numpy(), _planes(grad)
    into = _planes(found[0]) if needs[0] else np.empty((0, 0, 0), planes.dtype)
    sums, line = np.empty((len(planes), 9)), 4 * planes.shape[2] + 15
    given = upstream, planes, kernels, image.shape[1], clip != 0, (needs[0], needs[1]), into, sums
    grain = _PIXELS // planes[0].size + 1
    run_loop(interior_backward, len(planes), grain, *given, room=lambda: (np.empty(line, planes.dtype),))
    add_up(sums, found[1])


def _windows(rows: int, work: Any) -> Any:
    """Room for rows of pixels that fill a close cache."""
    return scratch("windows", rows * max(_NEAR // (rows * work.itemsize) // 64, 1) * 64, work)


def _median_fill(out: Tensor, image: Tensor, gate: Tensor, down: int, across: int) -> None:
    from pellucid.kernels.convolve.cpu.ranks import median

    planes, width, (rows, strips, _) = _planes(image), image.shape[3], _strips(image)

    def room() -> tuple[Any, ...]:
        padded = np.empty((rows + down - 1, width + across - 1), planes.dtype)
        return padded, _windows(down * across, planes.dtype)

    given = planes, gate.contiguous().numpy(), image.shape[1], (down, across), median_network(down * across), rows, _planes(out)
    run_loop(median, strips, 1, *given, room=room)


def _median_back(found: list[Tensor], grad: Tensor, image: Tensor, gate: Tensor, down: int, across: int, needs: list[bool]) -> None:
    from pellucid.kernels.convolve.cpu.ranks import median_backward

    del needs
    planes, sums, (height, width) = _planes(image), np.empty(image.shape[:2]).reshape(-1), image.shape[2:]

    def room() -> tuple[Any, ...]:
        padded, turned = (np.empty((rows, width + across - 1), planes.dtype) for rows in (height + down - 1, height))
        return padded, turned, _windows(down * across + 1, planes.dtype)

    gates, network = gate.contiguous().numpy(), median_network(down * across)
    given = _planes(grad), planes, gates, image.shape[1], (down, across), network, _planes(found[0]), sums
    run_loop(median_backward, len(planes), 1, *given, room=room)
    add_up(sums, found[1])


SEPARABLE = register("cpu_separable", "Tensor image, Tensor vertical, Tensor horizontal", _fill, _back)
DENSE = register("cpu_dense", "Tensor image, Tensor kernel", _dense_fill, _dense_back)
INTERIOR = register("cpu_interior", "Tensor image, Tensor kernel, int clip", _interior_fill, _interior_back)
MEDIAN = register("cpu_median", "Tensor image, Tensor gate, int down, int across", _median_fill, _median_back, through=True)

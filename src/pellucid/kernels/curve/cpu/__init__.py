"""Curves compiled: of numbers with their gradients, of bytes by histograms and tables.

Owns: the operators `tone`, with its gradients, and `clahe`, which has none; `histograms`, `bent` and `look_up`; split over threads.
Must not: know about autograd, or import Numba before it is called.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.curve.layout import between, padded_size
from pellucid.kernels.explicit import batched, empty_gradients, register
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_split

__all__ = ["bent", "clahe", "histograms", "look_up", "tone", "tone_backward", "tone_forward"]

_BYTES = 1 << 19  # the fewest worth handing to another thread


def tone(image: Tensor, numbers: Tensor, options: list[int], scale: float, h: float) -> Tensor:
    """Every sample under its own curve; see :func:`pellucid.kernels.curve.tone`.

    Args:
        image: float32 or float64.
        numbers: (b or 1, 3), of the image's dtype: amount, gain, gate.
        options: which curve, which slope to the image and to the amount, whether to clip.
        scale: 255 for images that came as 8 bits, 1 for others.
        h: reach of the secant.
    """
    del h
    return _swept(image, None, numbers, options, scale)


def bent(
    tables: Float[Tensor, "b c 256"],
    histograms: Int64[Tensor, "b c 256"],
    numbers: Float[Tensor, "#b 3"],
    options: list[int],
) -> Float[Tensor, "b c 256"]:
    """What a curve makes of images that tables make of bytes, whose levels count as often as they occur."""
    return _swept(tables, _planes(histograms), numbers, options, 255.0)


def _swept(image: Tensor, weights: Any, numbers: Tensor, options: list[int], scale: float) -> Tensor:
    from pellucid.kernels.curve.cpu.sweep import forward

    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    if out.numel():
        planes, into, rows = _planes(image), _planes(out), numbers.contiguous().numpy()

        def task(start: int, stop: int) -> None:
            forward(planes, weights, rows, tuple(options), scale, image.shape[1], into, start, stop)

        run_split(task, len(planes), _BYTES // planes[0].nbytes + 1)
    return out


def _back(
    grad: Tensor, image: Tensor, numbers: Tensor, options: list[int], scale: float, h: float, needs: list[bool]
) -> list[Tensor]:
    from pellucid.kernels.curve.cpu.sweep import backward

    gradients = empty_gradients((image, numbers), needs)
    if image.numel() == 0:
        return [found.zero_() for found in gradients]
    to_image = gradients[0] if needs[0] else torch.empty_like(image, memory_format=torch.contiguous_format)
    planes, into, upstream, rows = _planes(image), _planes(to_image), _planes(grad), numbers.contiguous().numpy()
    sums = np.empty((len(planes), 3))

    def task(start: int, stop: int) -> None:
        backward(upstream, planes, rows, tuple(options), scale, h, image.shape[1], into, sums, needs[1], start, stop)

    run_split(task, len(planes), _BYTES // planes[0].nbytes + 1)
    if needs[1]:
        gradients[1].copy_(torch.from_numpy(sums).view(image.shape[0], image.shape[1], 3).sum(1))
    return gradients


def histograms(image: UInt8[Tensor, "b c h w"]) -> Int64[Tensor, "b c 256"]:
    """How often each level occurs in each channel."""
    from pellucid.kernels.curve.cpu.sweep import count

    out = torch.empty((*image.shape[:2], 256), dtype=torch.int64, device=image.device)
    planes, into = _planes(image), _planes(out)
    run_split(lambda start, stop: count(planes, into, start, stop), len(planes), _BYTES // planes.shape[1] + 1)
    return out


def look_up(image: UInt8[Tensor, "b c h w"], tables: Shaped[Tensor, "b c 256"]) -> Shaped[Tensor, "b c h w"]:
    """What a channel's table holds for each level."""
    from pellucid.kernels.curve.cpu.sweep import look_up as sweep

    out = in_large_pages(torch.empty(image.shape, dtype=tables.dtype, device=image.device))
    if out.numel():
        planes, numbers, into = _planes(image), _planes(tables), _planes(out)
        run_split(lambda start, stop: sweep(planes, numbers, into, start, stop), len(planes), _BYTES // planes.shape[1] + 1)
    return out


def _planes(tensor: Tensor) -> Any:
    return tensor.contiguous().flatten(2).flatten(0, 1).numpy()


tone_forward, tone_backward = register("cpu_tone", "Tensor image, Tensor numbers, int[] options, float scale, float h", tone, _back)


def _clahe(image: Tensor, limit: Tensor, rows: int, columns: int, sloped: bool) -> tuple[Tensor, Tensor]:
    from pellucid.kernels.curve.cpu.tiles import clahe as sweep

    image, (_, channels, height, width) = image.contiguous(), image.shape
    toned, slopes = _tiled(image, limit, rows, columns, sloped)
    if image.numel():
        size, tiles = padded_size(height, width, (rows, columns)), (rows, columns)
        axes = (between(length, size[a] // tiles[a], tiles[a], image.device) for a, length in enumerate((height, width)))
        steps = tuple(tuple(part.numpy() for part in axis) for axis in axes)
        planes, into, found = (part.view(-1, height, width).numpy() for part in (image, toned, slopes))
        limits = limit.to(torch.float64).contiguous().numpy()

        def task(start: int, stop: int) -> None:
            levels, counts = np.empty((height, width), np.uint8), np.empty((columns, 256), np.int64)
            tables = (np.empty((rows, columns, 256), np.float32) for _ in range(2))
            room = (levels, counts, *tables, np.empty((2, width), np.float32))
            sweep(planes, limits, channels, size, tiles, steps, into, found, room, start, stop)

        run_split(task, len(planes), _BYTES // planes[0].nbytes + 1)
    return toned, slopes


def _tiled(image: Tensor, limit: Tensor, rows: int, columns: int, sloped: bool) -> tuple[Tensor, Tensor]:
    del limit, rows, columns
    like = torch.empty_like(image, memory_format=torch.contiguous_format)
    return in_large_pages(like), torch.empty_like(like) if sloped else like.new_empty((0, *like.shape[1:]))


torch.library.define("pellucid::cpu_clahe", "(Tensor image, Tensor limit, int rows, int columns, bool sloped) -> (Tensor, Tensor)")
torch.library.impl("pellucid::cpu_clahe", "CPU")(_clahe)
torch.library.register_fake("pellucid::cpu_clahe")(_tiled)
_CLAHE = torch.ops.pellucid.cpu_clahe.default
batched("pellucid::cpu_clahe", _CLAHE, 2, 0)


def clahe(
    image: Float[Tensor, "b c h w"], limit: Float[Tensor, "#b"], tiles: tuple[int, int], *, sloped: bool = True
) -> tuple[Tensor, Tensor]:
    """See :func:`pellucid.kernels.curve.clahe.clahe`; without slopes, what stands for them has no samples."""
    result: tuple[Tensor, Tensor] = _CLAHE(image, limit, *tiles, sloped)
    return result

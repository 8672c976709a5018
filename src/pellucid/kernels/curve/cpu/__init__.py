"""Compiled curves: of floats with their gradients, of bytes by tables.

Owns: the operators `TONE`, with its gradients, and `clahe`, which has none; `by_levels`, `look_up`; split over threads.
Must not: know about autograd, or import Numba before it is called.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from pellucid.kernels.curve.layout import between, padded_size
from pellucid.kernels.explicit import add_up, operator, register
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.pixels import empty_like, planes_of
from pellucid.kernels.threads import elements, run_loop

__all__ = ["TONE", "by_levels", "clahe", "levels_of_memory", "look_up"]

_BYTES = 1 << 19  # the fewest worth handing to another thread


def _fill(out: Tensor, image: Tensor, numbers: Tensor, options: list[int], scale: float, h: float) -> None:
    from pellucid.kernels.curve.cpu.sweep import forward

    del h
    planes, rows = _planes(image), numbers.contiguous().numpy()
    run_loop(forward, *_split(planes), planes, rows, tuple(options), scale, image.shape[1], _planes(out))


def _back(
    found: list[Tensor], grad: Tensor, image: Tensor, numbers: Tensor, options: list[int], scale: float, h: float, needs: list[bool]
) -> None:
    from pellucid.kernels.curve.cpu.sweep import backward

    planes, rows = _planes(image), numbers.contiguous().numpy()
    sums, given = np.empty((len(planes), 3)), (_planes(grad), planes, rows, tuple(options), scale, h, image.shape[1])
    run_loop(backward, *_split(planes), *given, _planes(found[0]), sums, needs[1])
    add_up(sums, found[1])


TONE = register("cpu_tone", "Tensor image, Tensor numbers, int[] options, float scale, float h", _fill, _back, through=True)
"""Every sample under its own curve; see :func:`pellucid.kernels.curve.tone`.

* image: float32 or float64.
* numbers: (b or 1, 3), of the image's dtype: amount, gain, gate.
* options: which curve, which slope to the image and to the amount, whether to clip.
* scale: 255 for images that came as 8 bits, 1 for others.
* h: reach of the secant.
"""


def by_levels(image: UInt8[Tensor, "b c h w"], numbers: Float[Tensor, "#b 3"], options: list[int], out: Tensor) -> Tensor:
    """Write bytes under their curves to ``out``, which is bytes, too, or float32."""
    if out.numel():
        (planes, cells), rows = planes_of(image), numbers.contiguous().numpy()
        _by_levels(planes, rows, tuple(options), image.shape[1] // len(cells), cells, planes_of(out)[0])
    return out


def levels_of_memory(image: UInt8[Tensor, "b c h w"], options: list[int], dtype: torch.dtype) -> Callable[[Any, Any], Any] | None:
    """`by_levels` for pictures laid out as this one: (memory, numbers) -> memory of the result. None if there are gaps."""
    (planes, cells), made = planes_of(image), torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
    shape, given = planes.shape, (tuple(options), image.shape[1] // len(cells), cells)
    if not image.numel() or elements(image).size != planes.size or not np.shares_memory(planes, elements(image)):
        return None

    def call(flat: Any, numbers: Any) -> Any:
        out = np.empty(shape, made)
        _by_levels(flat.reshape(shape), numbers, *given, out)
        return out.reshape(-1)

    return call


def _by_levels(planes: Any, *given: Any) -> None:
    from pellucid.kernels.curve.cpu.sweep import by_levels as sweep

    run_loop(sweep, *_split(planes), planes, *given)


def look_up(image: UInt8[Tensor, "b c h w"], tables: Shaped[Tensor, "b c 256"]) -> Shaped[Tensor, "b c h w"]:
    """Look every level up in its channel's table."""
    from pellucid.kernels.curve.cpu.sweep import look_up as sweep

    out = empty_like(image, image.shape[2:], tables.dtype)
    if out.numel():
        planes, cells = planes_of(image)
        run_loop(sweep, *_split(planes), planes, tables.contiguous().numpy().reshape(-1, len(cells), 256), cells, planes_of(out)[0])
    return out


def _planes(tensor: Tensor) -> Any:
    return tensor.contiguous().flatten(2).flatten(0, 1).numpy()


def _split(planes: Any) -> tuple[int, int]:
    """How many planes there are, and the fewest worth handing to another thread."""
    return len(planes), _BYTES // planes[0].nbytes + 1


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
        run_loop(sweep, *_split(planes), planes, limits, channels, size, tiles, steps, into, found)
    return toned, slopes


def _tiled(image: Tensor, limit: Tensor, rows: int, columns: int, sloped: bool) -> tuple[Tensor, Tensor]:
    del limit, rows, columns
    like = torch.empty_like(image, memory_format=torch.contiguous_format)
    return in_large_pages(like), torch.empty_like(like) if sloped else like.new_empty((0, *like.shape[1:]))


_CLAHE = operator(
    "cpu_clahe", "(Tensor image, Tensor limit, int rows, int columns, bool sloped) -> (Tensor, Tensor)", _clahe, _tiled, 2
)


def clahe(
    image: Float[Tensor, "b c h w"], limit: Float[Tensor, "#b"], tiles: tuple[int, int], *, sloped: bool = True
) -> tuple[Tensor, Tensor]:
    """See :func:`pellucid.kernels.curve.clahe.clahe`."""
    result: tuple[Tensor, Tensor] = _CLAHE(image, limit, *tiles, sloped)
    return result

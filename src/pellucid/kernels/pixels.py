"""Interleaved pictures, whose channels lie pixel after pixel as in arrays (H, W, C): recognised by strides, and copied to planes.

Owns: `cells_of`, `empty_like` and `copy_of` in a picture's layout, the copies `in_planes`, `splitter`, `in_pixels`; `planes_of`.
Must not: change a number, or be asked for gradients.
Read next: ``interleaving.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.compilers import numba_works
from pellucid.core.tape import is_plain_eager
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import elements, memory, run_loop, scratch

__all__ = [
    *("HALVES", "cells_of", "copy_of", "empty_like", "in_pixels", "in_planes", "planes_of", "splitter", "stacked_pictures"),
    "turns_of",
]

_BYTES = 1 << 20  # the fewest worth handing to another thread
HALVES = {torch.float16, torch.bfloat16}
_FEW = 1 << 15  # so many numbers torch copies as fast


def cells_of(image: Tensor) -> int:
    """How many channels are interleaved in memory: all of a picture's (up to four), or 1 where channels are planes."""
    _, channels, height, width = image.shape
    _, c, y, x = image.stride()
    return channels if c == 1 and x == channels and 1 < channels < 5 and (height == 1 or y >= width * x) else 1


def empty_like(image: Tensor, size: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Memory for pictures of this size, laid out as these are."""
    how = torch.channels_last if cells_of(image) > 1 else torch.contiguous_format
    shape = (*image.shape[:2], *size)
    return in_large_pages(torch.empty(shape, dtype=dtype, device=image.device, memory_format=how))


def copy_of(image: Tensor) -> Tensor:
    """A dense copy, laid out as the pictures are."""
    return image.clone(memory_format=torch.channels_last if cells_of(image) > 1 else torch.contiguous_format)


def planes_of(image: Tensor) -> tuple[Any, tuple[int, ...]]:
    """The pictures' memory as rows, and a tuple with an entry for each channel of a row: one in planes, all if interleaved."""
    cells = cells_of(image)
    dense = image.contiguous(memory_format=torch.channels_last if cells > 1 else torch.contiguous_format)
    return elements(dense).reshape(image.shape[0] * image.shape[1] // cells, -1), (0,) * cells


def in_planes(image: Shaped[Tensor, "b c h w"], *, kept: bool = False) -> Shaped[Tensor, "b c h w"]:
    """The same as ``image.contiguous()``; ``kept``: in a buffer of this thread, which its next such call overwrites."""
    cells = cells_of(image) if image.dim() == 4 and not image.is_contiguous() else 1
    if cells == 1 or not _by_loop(image):
        return image.contiguous()
    shape, dtype = image.shape, image.dtype
    out = _room("planes", shape, dtype) if kept else in_large_pages(torch.empty(shape, dtype=dtype, device=image.device))
    splitter(image)(elements(image), memory(out))
    return out


def splitter(image: Tensor) -> Callable[[Any, Any], None]:
    """A function that copies the memory of interleaved pictures, laid out as these, to planes."""
    from pellucid.kernels.interleaving import split

    (batch, channels, height, width), (b, _, y, _) = image.shape, image.stride()
    rows, n = (1, height * width) if y == width * channels else (height, width)
    bits, grain, cells = f"u{image.itemsize}", _BYTES // (channels * n * image.itemsize) + 1, (0,) * channels

    def splitting(flat: Any, planes: Any) -> None:
        into = planes.view(bits).reshape(batch, channels, rows, n)
        run_loop(split, batch * rows, grain, flat.view(bits), (b, y), rows, cells, into)

    return splitting


def in_pixels(planes: Shaped[Tensor, "*b c h w"]) -> Shaped[Tensor, "*b h w c"]:
    """The same as ``planes.movedim(-3, -1).contiguous()``."""
    moved = planes.movedim(-3, -1)
    if moved.is_contiguous() or not planes.is_contiguous() or not 1 < planes.shape[-3] < 5 or not _by_loop(planes):
        return moved.contiguous()
    return _joined(planes, in_large_pages(torch.empty(moved.shape, dtype=planes.dtype, device=planes.device)))


def stacked_pictures(pictures: Sequence[Shaped[Tensor, "c h w"]]) -> Shaped[Tensor, "b c h w"]:
    """Stack pictures of one size to a batch, in their layout."""
    last = pictures[0].dim() == 3 and all(cells_of(one[None]) > 1 for one in pictures)
    return torch.stack([one.permute(1, 2, 0) for one in pictures]).movedim(-1, 1) if last else torch.stack([*pictures])


def turns_of(image: Any, channels: int, dtype: torch.dtype) -> tuple[int, ...] | None:
    """A tuple with an entry for each channel of a result that is interleaved as its pictures are; None for a result in planes."""
    cells = cells_of(image) if isinstance(image, Tensor) else 1
    return (0,) * cells if cells == channels > 1 and not {image.dtype, dtype} & HALVES else None


def _joined(planes: Tensor, out: Tensor) -> Tensor:
    """Interleave contiguous planes into ``out``, and return it."""
    from pellucid.kernels.interleaving import join

    if out.numel():
        channels = planes.shape[-3]
        source = memory(planes).reshape(planes.shape[:-3].numel(), channels, -1)
        flat, bits = memory(out).reshape(len(source), -1), f"u{planes.itemsize}"
        run_loop(join, len(source), _BYTES // flat[0].nbytes + 1, source.view(bits), (0,) * channels, flat.view(bits))
    return out


def _room(name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A buffer that this thread keeps and uses again."""
    return torch.from_numpy(scratch(name, math.prod(shape) * dtype.itemsize, np.uint8)).view(dtype).view(*shape)


def _by_loop(tensor: Tensor) -> bool:
    plain = tensor.is_cpu and is_plain_eager() and type(tensor) is Tensor and not tensor.requires_grad
    return plain and tensor.numel() > _FEW and tensor.dtype is not torch.bool and not tensor.is_complex() and numba_works()

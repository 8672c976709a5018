"""Pictures as compiled passes read them: one run of memory, and a table of where in it every sample lies.

Owns: `Sources`, which describes a batch or pictures of several sizes to kernels, and the memory of their gradients.
Must not: copy a picture, or import what computes.
Read next: ``threads.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.several import Pictures
from pellucid.kernels.threads import elements, memory

__all__ = ["PICTURE", "Sources", "gradient_of", "own_memory", "sources_of"]

PICTURE = 9
"""Integers in a row of the table: offset of the picture and step to the next sample, offset and step of its gradient, strides of
channels, rows and columns, height and width. There is a row for each sample, or one for all.
"""


class Sources(NamedTuple):
    """Pictures in memory.

    Args:
        flat: from the first element that is read to the last; kernels skip what lies between pictures.
        table: (samples or 1, PICTURE) int64; gradients follow one another, part after part.
        height, width: the largest.
    """

    flat: np.ndarray[Any, Any]
    table: np.ndarray[Any, Any]
    height: int
    width: int


def sources_of(image: Tensor | Pictures, *, apart: bool = False) -> Sources:
    """Describe a batch or pictures to kernels; ``apart``: every sample's gradient has memory of its own, and begins it."""
    if isinstance(image, Tensor):
        _, channels, height, width = image.shape
        b, c, y, x = image.stride()
        own = 0 if apart else channels * height * width
        return Sources(elements(image), np.array(((0, b, 0, own, c, y, x, height, width),), np.int64), height, width)
    size, low = image.dtype.itemsize, min(part.data_ptr() for part in image.parts)
    table, taken, end = np.zeros((image.shape[0], PICTURE), np.int64), 0, 0
    for part, where in zip(image.parts, image.places, strict=True):
        (count, channels, height, width), (b, *steps) = part.shape, part.stride()
        begin, at, rows = (part.data_ptr() - low) // size, np.arange(count), list(where)
        assert begin * size == part.data_ptr() - low  # elements lie at multiples of their size
        table[rows, 0], table[rows, 2] = begin + b * at, 0 if apart else taken + channels * height * width * at
        table[rows, 4:] = *steps, height, width
        taken += part.numel()
        end = max(end, begin + 1 + sum((n - 1) * step for n, step in zip(part.shape, part.stride(), strict=True)))
    lowest = next(part for part in image.parts if part.data_ptr() == low)
    one = memory(torch.as_strided(lowest.detach(), (1,), (1,)))
    height, width = table[:, -2:].max(0).tolist()
    return Sources(np.lib.stride_tricks.as_strided(one, (end,), (size,)), table, height, width)


def gradient_of(image: Tensor | Pictures) -> Tensor:
    """Memory for the gradient: like a batch, or flat, the parts' one after the other."""
    if isinstance(image, Tensor):
        return image.new_empty(image.shape)
    return image.parts[0].new_empty((sum(part.numel() for part in image.parts),))


def own_memory(image: Tensor | Pictures) -> list[slice]:
    """The slice of `gradient_of`'s memory that holds each sample's gradient."""
    table = np.broadcast_to(sources_of(image).table, (image.shape[0], PICTURE))
    begin, count = table[:, 2] + np.arange(len(table)) * table[:, 3], table[:, -2:].prod(1) * image.shape[1]
    return [slice(first, last) for first, last in zip(begin.tolist(), (begin + count).tolist(), strict=True)]

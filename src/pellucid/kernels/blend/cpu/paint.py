"""Rectangles over pictures, compiled: only what they cover is read and written.

Owns: the operator `cover` with its gradients, and `cover_in_place`.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``holes.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import empty_gradients, register
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import run_split

__all__ = ["cover", "cover_backward", "cover_forward", "cover_in_place"]

_BYTES = 1 << 19  # the fewest worth handing to another thread


def cover(image: Tensor, down: Tensor, across: Tensor, values: Tensor) -> Tensor:
    """See :func:`pellucid.kernels.blend.reference.cover`; all of one dtype, float32 or float64."""
    out = in_large_pages(torch.empty_like(image, memory_format=torch.contiguous_format))
    out.copy_(image)
    cover_in_place(out, down, across, values)
    return out


def cover_in_place(image: Tensor, down: Tensor, across: Tensor, values: Tensor) -> None:
    """The same over a contiguous image that is the caller's own."""
    from pellucid.kernels.blend.cpu.holes import paint

    if not image.numel():
        return
    planes, arguments = _planes(image), _arrays(image, down, across, values)

    def task(start: int, stop: int) -> None:
        paint(*arguments, planes, start, stop)

    run_split(task, len(planes), _BYTES // planes[0].nbytes + 1)


def _back(grad: Tensor, image: Tensor, down: Tensor, across: Tensor, values: Tensor, needs: list[bool]) -> list[Tensor]:
    from pellucid.kernels.blend.cpu.holes import back

    tensors = image, down, across, values
    gradients = empty_gradients(tensors, needs)
    if image.numel() == 0:
        return [found.zero_() for found in gradients]
    to_image = gradients[0] if needs[0] else torch.empty_like(image, memory_format=torch.contiguous_format)
    to_image.copy_(grad)
    into, asked = _planes(to_image), (needs[1] or needs[2], needs[3])
    sums = tuple(
        np.zeros((len(into) if ask else 0, *shape))
        for ask, shape in zip((asked[0], asked[0], asked[1]), (down.shape[1:], across.shape[1:], values.shape[2:]), strict=True)
    )
    planes, upstream, arguments = _planes(image.contiguous()), _planes(grad.contiguous()), _arrays(image, down, across, values)

    def task(start: int, stop: int) -> None:
        back(upstream, planes, *arguments, into, *sums, asked, start, stop)

    run_split(task, len(into), _BYTES // into[0].nbytes + 1)
    for place, total in enumerate(sums, 1):
        if needs[place]:
            own = torch.from_numpy(total).unflatten(0, image.shape[:2])
            gradients[place].copy_(own if place == 3 else own.sum(1))
    return gradients


def _planes(tensor: Tensor) -> Any:
    return tensor.view(tensor.shape[0] * tensor.shape[1], -1).numpy()


def _arrays(image: Tensor, down: Tensor, across: Tensor, values: Tensor) -> tuple[Any, ...]:
    rows = (tensor.contiguous().numpy() for tensor in (down, across, values))
    return *rows, int(values.shape[2] > 1), image.shape[1], image.shape[3]


cover_forward, cover_backward = register("cpu_cover", "Tensor image, Tensor down, Tensor across, Tensor values", cover, _back)

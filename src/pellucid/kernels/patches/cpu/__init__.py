"""Patches compiled for the CPU: sampled straight from the pyramid, no grid in memory, patches split over threads.

Owns: the operators `PATCHES`.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import register
from pellucid.kernels.patches.layout import levels_of
from pellucid.kernels.threads import run_loop

__all__ = ["PATCHES"]

_SAMPLES = 1 << 13  # the fewest samples worth handing to another thread


class _Call:
    """What the compiled functions share, as NumPy arrays, and the scratch memory of a thread."""

    def __init__(self, image: Tensor, frames: Tensor, span: Tensor, size: list[int], levels: int, *, reads: bool = True) -> None:
        from pellucid.kernels.patches.cpu.sweep import Call, pyramids

        batch, channels, height, width = image.shape
        planes, count, samples = batch * channels, frames.shape[1], size[0] * size[1]
        self.shape, work = (batch * count, channels, samples), image.numpy().dtype
        stack = levels_of(height, width, levels)
        # Levels below the image share one array, so their starts are counted from the end of the image.
        table = np.array([(*level[:4], max(level.start - height * width, 0)) for level in stack], np.int64)
        self.grain, self.rest = _SAMPLES // samples + 1, sum(level.height * level.width for level in stack[1:])
        images, coarse = image.contiguous().view(planes, -1).numpy(), np.empty((planes if reads else 0, self.rest), work)
        self.line = lambda: (np.empty(width + 16, work),)
        self.room = lambda: (np.empty((5 + channels, samples), work), np.empty((3, samples), np.uint32))
        if levels > 1 and reads:
            run_loop(pyramids, planes, _SAMPLES // images.shape[1] + 1, images, coarse, table, room=self.line)
        # Computed by torch, because the reference's cells are.
        v, u = ((2.0 * torch.arange(n, dtype=image.dtype, device=image.device) + 1.0) / n - 1.0 for n in size)
        places = u.repeat(size[0]).numpy(), v.repeat_interleave(size[1]).numpy()
        self.call = Call(
            images, coarse, table, frames.contiguous().view(-1, 6).numpy(), span.contiguous().view(-1).numpy(), count, *places
        )


def _fill(out: Tensor, *given: Any) -> None:
    from pellucid.kernels.patches.cpu.sweep import sample

    call = _Call(*given)
    run_loop(sample, call.shape[0], call.grain, call.call, out.view(call.shape).numpy(), room=call.room)


def _back(found: list[Tensor], grad: Tensor, *given: Any) -> None:
    from pellucid.kernels.patches.cpu.sweep import to_frames, to_images

    needs = given[-1]
    moves = needs[1] or needs[2]
    call = _Call(*given[:-1], reads=moves)
    rows = grad.contiguous().view(call.shape).numpy()
    if moves:
        sums = np.empty((len(rows), 7))
        run_loop(to_frames, len(rows), call.grain, call.call, rows, sums, room=call.room)
        for gradient, part in zip(found[1:], (sums[:, :6], sums[:, 6]), strict=True):
            if gradient.numel():
                gradient.copy_(torch.from_numpy(part).reshape(gradient.shape))
    if needs[0]:
        planes = found[0].view(-1, call.call.images.shape[1]).numpy()
        below = lambda: (np.empty(call.rest, planes.dtype), *call.line(), *call.room())  # noqa: E731
        run_loop(to_images, len(planes), call.grain // call.call.patches + 1, call.call, rows, planes, room=below)


PATCHES = register(
    "cpu_patches",
    "Tensor image, Tensor frames, Tensor span, SymInt[] size, int levels",
    _fill,
    _back,
    empty=lambda image, frames, _, size, __: image.new_empty((*frames.shape[:2], image.shape[1], *size)),
)
"""See :func:`pellucid.kernels.patches.reference.patches`; all of one dtype, float32 or float64."""

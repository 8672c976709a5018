"""Blend reads over one another, compiled for the CPU: row by row, no read in memory, rows and sources split over threads.

Owns: the operators `LAYERS`.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import register
from pellucid.kernels.threads import memory, run_loop, scratch

__all__ = ["LAYERS"]

_PIXELS = 1 << 15  # the fewest worth handing to another thread


class _Call:
    """The arguments the compiled functions share, as NumPy arrays, and the scratch memory of a thread."""

    def __init__(self, image: Tensor, *given: Any) -> None:
        from pellucid.kernels.layers.cpu.sweep import Call, Reads

        offset, opacity, box, maps, plane, ground, covers, edge, dtype = given
        batch, self.channels, height, self.width = image.shape
        self.count, self.work = opacity.shape[1], memory(opacity).dtype.type
        unit = self.work(1 / 255 if image.dtype == torch.uint8 else 1)
        call = Call(self.channels, height, self.width, covers, image.dtype == dtype, self.work(edge), unit)
        none = np.empty((batch, 0, 6), self.work)
        boxes, places = (none if part is None else part.flatten(2).contiguous().numpy() for part in (box, maps))
        cut = none[:, :, :0] if plane is None else plane.contiguous().numpy()
        shares = offset.contiguous().numpy(), opacity.contiguous().numpy()
        self.reads = Reads(*shares, boxes, places, cut, np.array(ground, self.work))
        self.given = memory(image.contiguous()).reshape(-1), call, self.reads
        self.grain = _PIXELS // max(self.width, 1) + 1

    def room(self, lines: int) -> Any:
        """A thread's scratch, with ``lines`` rows of all channels."""
        from pellucid.kernels.layers.cpu.rows import AXIS
        from pellucid.kernels.layers.cpu.sweep import Room

        taps, width = 2 * AXIS, self.width
        numbers = scratch("layers", (taps + 2 + lines * self.channels) * width, self.work).reshape(-1, width)
        spans = scratch("layers' spans", 4 * self.count, np.int64).reshape(-1, 4)
        index = scratch("layers' index", width, np.int32)
        return (Room(numbers[:taps], index, numbers[taps : taps + 2], numbers[taps + 2 :], spans),)

    def table(self) -> tuple[Any, Any]:
        """The reads in the order of their sources, and where each source's reads begin."""
        batch = np.arange(len(self.reads.offset) + 1)
        sources = (self.reads.offset + batch[:-1, None]).reshape(-1)
        order = np.argsort(sources, kind="stable")
        return order, np.searchsorted(sources[order], batch)


def _fill(out: Tensor, *given: Any) -> None:
    from pellucid.kernels.layers.cpu.sweep import forward

    call, (batch, _, height, _) = _Call(*given), out.shape
    run_loop(forward, batch * height, call.grain, *call.given, memory(out).reshape(-1), room=lambda: call.room(2))


def _back(found: list[Tensor], grad: Tensor, *given: Any) -> None:
    from pellucid.kernels.layers.cpu.sweep import to_numbers, to_sources

    needs, (batch, _, height, _), work = given[-1], grad.shape, given[2].dtype
    call = _Call(*given[:-1])
    upstream, grain = memory(grad.contiguous()).reshape(-1), call.grain // height + 1
    if needs[0]:
        whole = found[0] if found[0].dtype == work else torch.empty_like(found[0], dtype=work)
        order = *call.table(), whole.view(-1).numpy()
        run_loop(to_sources, batch, grain, upstream, *call.given[1:], *order, room=lambda: call.room(0))
        found[0].copy_(whole)
    if any(needs[1:]):
        sums, cut = np.empty((batch, call.count, 11)), np.empty(call.reads.plane.shape, call.work)
        lines = 2 + 2 * call.count
        run_loop(to_numbers, batch, grain, upstream, *call.given, sums, cut, room=lambda: call.room(lines))
        for gradient, part in zip(found[2:], (sums[..., 0], sums[..., 1:5], sums[..., 5:], cut), strict=True):
            if gradient.numel():
                gradient.copy_(torch.from_numpy(part).reshape(gradient.shape))


LAYERS = register(
    "cpu_layers",
    "Tensor image, Tensor offset, Tensor opacity, Tensor? box, Tensor? maps, Tensor? plane, float[] ground, bool covers, "
    "float edge, ScalarType dtype",
    _fill,
    _back,
    empty=lambda image, *given: torch.empty_like(image, dtype=given[-1], memory_format=torch.contiguous_format),
)
"""See :func:`pellucid.kernels.layers.reference.layers`; ``dtype`` is the result's.

Opacities, boxes, maps and planes are of one dtype, float32 or float64, in which everything is computed, and have a row for every
sample.
"""

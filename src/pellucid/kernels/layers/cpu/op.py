"""The registered operators: what torch sees of the compiled layers.

Owns: their schemas, fake kernels, batching rules and CPU kernels.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import batched, empty_gradients
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.threads import memory, run_split, scratch

__all__ = ["backward", "direct", "forward"]

_TABLE = "Tensor image, Tensor offset, Tensor opacity, Tensor? box, Tensor? maps, Tensor? plane"
_COMMON = f"{_TABLE}, float[] ground, bool covers, float edge, ScalarType dtype"
torch.library.define("pellucid::cpu_layers", f"({_COMMON}) -> Tensor")
torch.library.define(
    "pellucid::cpu_layers_backward", f"(Tensor grad, {_COMMON}, bool[] needs) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)

forward = torch.ops.pellucid.cpu_layers.default
"""(image, offset, opacity, box, maps, plane, ground, covers, edge, dtype) -> the result in that dtype, as the reference.

Opacities, boxes, maps and planes are of one dtype, float32 or float64, in which everything is computed, and have a row for every
sample.
"""
backward = torch.ops.pellucid.cpu_layers_backward.default
"""The same arguments after the result's gradient; ``needs`` has one for each tensor. What is not needed has no elements."""

_PIXELS = 1 << 15  # the fewest worth handing to another thread


@torch.library.register_fake("pellucid::cpu_layers")
def _(image: Tensor, *given: Any) -> Tensor:
    return torch.empty_like(image, dtype=given[-1], memory_format=torch.contiguous_format)


@torch.library.register_fake("pellucid::cpu_layers_backward")
def _(grad: Tensor, *given: Any) -> tuple[Tensor, ...]:
    return _gradients(given[:6], given[-1], grad)


def _gradients(tensors: tuple[Tensor | None, ...], needs: list[bool], grad: Tensor) -> tuple[Tensor, ...]:
    return tuple(empty_gradients(tuple(grad.new_empty((0,)) if t is None else t for t in tensors), needs))


class _Call:
    """The arguments the compiled functions share, as NumPy arrays, and the scratch memory of a thread."""

    def __init__(
        self,
        image: Tensor,
        offset: Tensor,
        opacity: Tensor,
        box: Tensor | None,
        maps: Tensor | None,
        plane: Tensor | None,
        ground: list[float],
        covers: bool,
        edge: float,
        dtype: torch.dtype,
    ) -> None:
        from pellucid.kernels.layers.cpu.sweep import Call, Reads

        self.batch, self.channels, self.height, self.width = image.shape
        self.count, self.work = opacity.shape[1], memory(opacity).dtype.type
        self.image = memory(image.contiguous()).reshape(-1)
        unit = self.work(1 / 255 if image.dtype == torch.uint8 else 1)
        self.call = Call(self.channels, self.height, self.width, covers, image.dtype == dtype, self.work(edge), unit)
        none = np.empty((self.batch, 0, 6), self.work)
        boxes, places = (none if part is None else part.flatten(2).contiguous().numpy() for part in (box, maps))
        colors = np.array(ground, self.work)
        cut = np.empty((self.batch, 0, 0), self.work) if plane is None else plane.contiguous().numpy()
        self.reads = Reads(offset.contiguous().numpy(), opacity.contiguous().numpy(), boxes, places, cut, colors)
        self.grain = _PIXELS // max(self.width, 1) + 1

    def room(self, lines: int) -> Any:
        """Lines for a thread's own use, so many of them of pictures."""
        from pellucid.kernels.layers.cpu.rows import AXIS
        from pellucid.kernels.layers.cpu.sweep import Room

        taps, width = 2 * AXIS, self.width
        numbers = scratch("layers", (taps + 2 + lines * self.channels) * width, self.work).reshape(-1, width)
        return Room(numbers[:taps], scratch("layers' index", width, np.int32), numbers[taps : taps + 2], numbers[taps + 2 :])

    def table(self) -> tuple[Any, Any]:
        """The reads in the order of their sources, and where each source's begin."""
        sources = (self.reads.offset + np.arange(self.batch)[:, None]).reshape(-1)
        order = np.argsort(sources, kind="stable")
        return order, np.searchsorted(sources[order], np.arange(self.batch + 1))


def direct(image: Tensor, *given: Any) -> Tensor:
    """The operator's kernel."""
    from pellucid.kernels.layers.cpu.sweep import forward as sweep

    out = in_large_pages(torch.empty(image.shape, dtype=given[-1], device=image.device))
    if out.numel():
        call, into = _Call(image, *given), memory(out).reshape(-1)

        def task(start: int, stop: int) -> None:
            spans = scratch("layers' spans", 4 * call.count, np.int64).reshape(-1, 4)
            sweep(call.image, call.call, call.reads, call.room(2), spans, into, start, stop)

        run_split(task, call.batch * call.height, call.grain)
    return out


torch.library.impl("pellucid::cpu_layers", "CPU")(direct)


@torch.library.impl("pellucid::cpu_layers_backward", "CPU")
def _(grad: Tensor, *given: Any) -> tuple[Tensor, ...]:
    from pellucid.kernels.layers.cpu.sweep import to_numbers, to_sources

    image, needs = given[0], given[-1]
    results = _gradients(given[:6], needs, grad)
    if not grad.numel():
        for result in results:
            result.zero_()
        return results
    call = _Call(*given[:-1])
    upstream, grain = memory(grad.contiguous()).reshape(-1), call.grain // call.height + 1
    if needs[0]:
        order, begins = call.table()
        whole = results[0] if image.dtype == given[2].dtype else torch.empty(image.shape, dtype=given[2].dtype, device=image.device)
        into = whole.numpy().reshape(-1)

        def sources(start: int, stop: int) -> None:
            to_sources(upstream, call.call, call.reads, order, begins, call.room(0), into, start, stop)

        run_split(sources, call.batch, grain)
        if whole is not results[0]:
            results[0].copy_(whole)
    if any(needs[1:]):
        sums, cut = np.empty((call.batch, call.count, 11)), np.empty(call.reads.plane.shape, call.work)

        def numbers(start: int, stop: int) -> None:
            to_numbers(upstream, call.image, call.call, call.reads, call.room(2 + 2 * call.count), sums, cut, start, stop)

        run_split(numbers, call.batch, grain)
        for place, part in zip((2, 3, 4), (sums[..., 0], sums[..., 1:5], sums[..., 5:]), strict=True):
            if needs[place]:
                results[place].copy_(torch.from_numpy(np.ascontiguousarray(part)).view(results[place].shape))
        if needs[5]:
            results[5].copy_(torch.from_numpy(cut))
    return results


batched("pellucid::cpu_layers", forward, 6, 0)
batched("pellucid::cpu_layers_backward", backward, 7, 1)

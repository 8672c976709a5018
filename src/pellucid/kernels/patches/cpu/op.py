"""The registered operators: what torch sees of the compiled patches.

Owns: their schemas, fake kernels, batching rules and CPU kernels.
Must not: know about gradients (``../../explicit.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.explicit import batched
from pellucid.kernels.pages import in_large_pages
from pellucid.kernels.patches.layout import levels_of
from pellucid.kernels.threads import run_split

__all__ = ["backward", "direct", "forward"]

_COMMON = "Tensor image, Tensor frames, Tensor span, SymInt[] size, int levels"
torch.library.define("pellucid::cpu_patches", f"({_COMMON}) -> Tensor")
torch.library.define("pellucid::cpu_patches_backward", f"(Tensor grad, {_COMMON}, bool[] needs) -> (Tensor, Tensor, Tensor)")

forward = torch.ops.pellucid.cpu_patches.default
"""(image, frames, span, size, levels) -> patches, as the reference; all of one dtype, float32 or float64."""
backward = torch.ops.pellucid.cpu_patches_backward.default
"""The same arguments after the patches' gradient; ``needs`` has one for each tensor.

Returns the gradients of image, frames and span, those of the last two in float64. What is not needed has no elements.
"""

_SAMPLES = 1 << 13  # the fewest samples worth handing to another thread


@torch.library.register_fake("pellucid::cpu_patches")
def _(image: Tensor, frames: Tensor, span: Tensor, size: list[int], levels: int) -> Tensor:
    del span, levels
    return image.new_empty((*frames.shape[:2], image.shape[1], size[0], size[1]))


@torch.library.register_fake("pellucid::cpu_patches_backward")
def _(
    grad: Tensor, image: Tensor, frames: Tensor, span: Tensor, size: list[int], levels: int, needs: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    del grad, span, size, levels
    return _gradients(image, frames, needs)


def _gradients(image: Tensor, frames: Tensor, needs: list[bool]) -> tuple[Tensor, Tensor, Tensor]:
    return (
        image.new_empty(image.shape if needs[0] else (0,)),
        frames.new_empty(frames.shape if needs[1] or needs[2] else (0,), dtype=torch.float64),
        frames.new_empty(frames.shape[:2] if needs[1] or needs[2] else (0,), dtype=torch.float64),
    )


class _Call:
    """The arguments the compiled functions share, as NumPy arrays, and the scratch memory of a thread."""

    def __init__(self, image: Tensor, frames: Tensor, span: Tensor, size: list[int], levels: int) -> None:
        batch, self.channels, height, width = image.shape
        self.planes, self.count, self.total = batch * self.channels, frames.shape[1], batch * frames.shape[1]
        self.samples = size[0] * size[1]
        self.work = np.float64 if image.dtype == torch.float64 else np.float32
        stack = levels_of(height, width, levels)
        # Levels below the image share one array, so their starts are counted from the end of the image.
        self.table = np.array([(*level[:4], max(level.start - height * width, 0)) for level in stack], np.int64)
        self.rest = int(sum(level.height * level.width for level in stack[1:]))
        self.longest = width + 16
        self.images = image.contiguous().view(self.planes, -1).numpy()
        self.frames = frames.contiguous().view(-1, 6).numpy()
        self.span = span.contiguous().view(-1).numpy()
        # Computed by torch, because the reference's cells are.
        v, u = ((2.0 * torch.arange(n, dtype=image.dtype, device=image.device) + 1.0) / n - 1.0 for n in size)
        self.u, self.v = u.repeat(size[0]).numpy(), v.repeat_interleave(size[1]).numpy()

    def pyramids(self) -> Any:
        from pellucid.kernels.patches.cpu.sweep import pyramids

        coarse = np.empty((self.planes, self.rest), self.work)

        def task(start: int, stop: int) -> None:
            pyramids(self.images, coarse, self.table, np.empty(self.longest, self.work), start, stop)

        if len(self.table) > 1:
            run_split(task, self.planes, _SAMPLES // self.images.shape[1] + 1)
        return coarse

    def scratch(self) -> tuple[Any, Any]:
        return np.empty((5 + self.channels, self.samples), self.work), np.empty((3, self.samples), np.uint32)

    @property
    def grain(self) -> int:
        """The fewest patches worth handing to another thread."""
        return _SAMPLES // self.samples + 1


def direct(image: Tensor, frames: Tensor, span: Tensor, size: list[int], levels: int) -> Tensor:
    """The operator's kernel."""
    from pellucid.kernels.patches.cpu.sweep import sample

    out = in_large_pages(torch.empty((*frames.shape[:2], image.shape[1], size[0], size[1]), dtype=image.dtype, device=image.device))
    if out.numel() == 0:
        return out
    call = _Call(image, frames, span, size, levels)
    coarse, rows = call.pyramids(), out.view(call.total, call.channels, call.samples).numpy()

    def task(start: int, stop: int) -> None:
        sample(
            *(call.images, coarse, call.table, call.frames, call.span, call.count, call.u, call.v, rows),
            *(*call.scratch(), start, stop),
        )

    run_split(task, call.total, call.grain)
    return out


torch.library.impl("pellucid::cpu_patches", "CPU")(direct)


@torch.library.impl("pellucid::cpu_patches_backward", "CPU")
def _(
    grad: Tensor, image: Tensor, frames: Tensor, span: Tensor, size: list[int], levels: int, needs: list[bool]
) -> tuple[Tensor, Tensor, Tensor]:
    from pellucid.kernels.patches.cpu.sweep import to_frames, to_images

    results = _gradients(image, frames, needs)
    if grad.numel() == 0:
        for result in results:
            result.zero_()
        return results
    call = _Call(image, frames, span, size, levels)
    rows = grad.contiguous().view(call.total, call.channels, call.samples).numpy()
    if needs[1] or needs[2]:
        coarse, sums = call.pyramids(), torch.empty(call.total, 7, dtype=torch.float64, device="cpu")
        into = sums.numpy()

        def frames_task(start: int, stop: int) -> None:
            to_frames(
                *(rows, call.images, coarse, call.table, call.frames, call.span, call.count, call.u, call.v, into),
                *(*call.scratch(), start, stop),
            )

        run_split(frames_task, call.total, call.grain)
        results[1].copy_(sums[:, :6].view(frames.shape))
        results[2].copy_(sums[:, 6].view(frames.shape[:2]))
    if needs[0]:
        planes = results[0].view(call.planes, -1).numpy()

        def image_task(start: int, stop: int) -> None:
            below, line = np.empty(call.rest, call.work), np.empty(call.longest, call.work)
            to_images(
                *(rows, planes, below, call.table, line, call.frames, call.span, call.count, call.u, call.v),
                *(*call.scratch(), start, stop),
            )

        run_split(image_task, call.planes, call.grain // call.count + 1)
    return results


batched("pellucid::cpu_patches", forward, 3, 0)
batched("pellucid::cpu_patches_backward", backward, 4, 1)

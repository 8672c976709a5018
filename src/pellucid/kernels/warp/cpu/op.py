"""The operators of ``../operators.py`` on the CPU.

Owns: their CPU kernels.
Must not: know about gradients (``../autograd.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.threads import run_split, scratch
from pellucid.kernels.warp.cpu.layout import CAPACITY, FRAME
from pellucid.kernels.warp.dtypes import rounded
from pellucid.kernels.warp.operators import Gradients, define, empty_gradients
from pellucid.tape import undisturbed

__all__ = ["warp_backward", "warp_forward", "warp_labels"]

define("cpu")
_dispatched = torch.ops.pellucid.cpu_warp.default
warp_backward = torch.ops.pellucid.cpu_warp_backward
warp_labels = torch.ops.pellucid.cpu_labels


def warp_forward(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    field: Tensor | None,
    size: list[int],
    options: list[int],
    cubic: float,
    dtype: torch.dtype,
) -> Tensor:
    """The operator ``cpu_warp``."""
    # Passing torch's dispatcher costs as much as a small image: only where somebody listens there.
    if (
        undisturbed()
        and image.is_cpu
        and not any(t is not None and t.requires_grad for t in (image, mapping, window, params, field))
    ):
        return _forward(image, mapping, window, params, field, size, options, cubic, dtype)
    out: Tensor = _dispatched(image, mapping, window, params, field, size, options, cubic, dtype)
    return out


_STRIP = 1024  # pixels that go through all phases together: few enough for a close cache, enough to forget the calls
_PIXELS = 1 << 14  # the fewest pixels worth handing to another thread, whose wake-up takes some 0.03 ms


class _Call:
    """The arguments both compiled functions share, as NumPy arrays without copies, and the scratch memory of a thread."""

    def __init__(
        self,
        image: Tensor,
        mapping: Tensor,
        window: Tensor | None,
        params: Tensor,
        size: list[int],
        options: list[int],
        cubic: float,
    ) -> None:
        batch, channels, height, width = image.shape
        taps, mode, flags, out_channels = options
        self.out_shape = (batch, out_channels, size[0], size[1])
        rows = max(1, min(size[0], _STRIP // max(size[1], 1)))
        self.strips, self.strip = -(-size[0] // rows), rows * size[1]
        strides = image.stride()
        if image.is_contiguous():
            flat = image.view(-1)
        else:  # every element the strides reach; no copy
            span = 1 + sum((n - 1) * s for n, s in zip(image.shape, strides, strict=True)) if image.numel() else 0
            flat = torch.as_strided(image, (span,), (1,))
        self.dtype = mapping.dtype
        work = np.float64 if mapping.dtype == torch.float64 else np.float32
        self.floats, self.work = 18 + 2 * channels + 6 * max(out_channels, channels), work
        # What one staging may need: the ring, the two empty lines, four numbers a pixel.
        self.quads = min(CAPACITY, -(-channels // 3) * 4 * (width + 2) * (height + 4)) if taps == 2 else 0
        meta = (
            *(batch, channels, height, width, out_channels, size[0], size[1], *strides),
            *(
                taps,
                mode,
                int(mapping.shape[1] == 9),
                flags,
                int(mapping.shape[0] > 1),
                int(window is not None and window.shape[0] > 1),
                int(params.shape[0] > 1),
                rows,
            ),
        )
        windows = np.empty((1, 0), work) if window is None else window.contiguous().numpy()
        self.arguments = (
            *(flat.numpy(), np.array(meta, np.int64), cubic, work(1 / 255 if image.dtype == torch.uint8 else 1)),
            *(mapping.contiguous().numpy(), windows, params.contiguous().numpy()),
        )

    def scratch(self, stages: int) -> tuple[Any, ...]:
        """The thread's own memory; the second stage, for gradients, has twice the numbers."""
        work = self.work
        return (
            scratch("floats", self.floats * self.strip, work),
            *(scratch(f"stage {at}", (1 + at) * self.quads, work) for at in range(stages)),
            scratch("index", self.strip, np.int32),
            scratch("kind", self.strip, np.int32),
            scratch("frame", FRAME, np.int64),
            scratch("taps", 8, np.int64).reshape(2, 4),
            scratch("tables", 16, work).reshape(2, 2, 4),
        )


def _forward(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    field: Tensor | None,
    size: list[int],
    options: list[int],
    cubic: float,
    dtype: torch.dtype,
) -> Tensor:
    from pellucid.kernels.warp.cpu.sweep import forward

    if field is not None:
        raise NotImplementedError("field")
    image = image if image.dtype == torch.uint8 else image.to(mapping.dtype)
    call = _Call(image, mapping, window, params, size, options, cubic)
    out = torch.empty(call.out_shape, dtype=call.dtype)
    if out.numel():
        planes = out.view(-1, size[0] * size[1]).numpy()

        def task(start: int, stop: int) -> None:
            forward(*call.arguments, planes, *call.scratch(1), start, stop)

        run_split(task, image.shape[0] * call.strips, _PIXELS // call.strip + 1)
    return rounded(out, dtype)


torch.library.impl("pellucid::cpu_warp", "CPU")(_forward)


@torch.library.impl("pellucid::cpu_warp_backward", "CPU")
def _(
    grad: Tensor,
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    field: Tensor | None,
    size: list[int],
    options: list[int],
    cubic: float,
    needs: list[bool],
) -> Gradients:
    from pellucid.kernels.warp.cpu.sweep import backward

    given = image.dtype
    image = image if given == torch.uint8 else image.to(mapping.dtype)
    call = _Call(image, mapping, window, params, size, options, cubic)
    results = empty_gradients(image, mapping, window, params, field, needs)
    for sums in results[1:]:
        sums.zero_()
    planes = grad.to(mapping.dtype).contiguous().view(image.shape[0] * options[3], -1).numpy() if grad.numel() else None
    to_image = (results[0] if needs[0] else mapping.new_empty((0,))).view(-1).numpy()
    to_map, to_window, to_params = (sums.view(-1, sums.shape[-1] if sums.numel() else 1).numpy() for sums in results[1:4])

    def task(start: int, stop: int) -> None:
        wanted = (needs[0], needs[1], needs[2])
        backward(planes, *call.arguments, wanted, to_image, to_map, to_window, to_params, *call.scratch(2), start, stop)

    if grad.numel():
        run_split(task, image.shape[0], _PIXELS // (size[0] * size[1]) + 1)
    elif needs[0]:
        results[0].zero_()
    return results[0].to(given), *results[1:]


_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


@torch.library.impl("pellucid::cpu_labels", "CPU")
def _(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    fill: Tensor,
    field: Tensor | None,
    size: list[int],
    mode: int,
) -> Tensor:
    from pellucid.kernels.warp.cpu.labels import copy_labels

    if field is not None:
        raise NotImplementedError("field")
    bits = _UNSIGNED[image.element_size()]
    call = _Call(image.view(bits), mapping, window, fill.view(bits), size, [1, mode, 0, image.shape[1]], 0.0)
    out = torch.empty(call.out_shape, dtype=image.dtype)
    img, meta, _, _, *maps = call.arguments

    def task(start: int, stop: int) -> None:
        floats, _, _, _, tap_index, tables = call.scratch(0)
        copy_labels(img, meta, *maps, rows, floats, tap_index, tables, start, stop)

    if out.numel():
        rows = out.view(bits).view(-1, size[1]).numpy()
        run_split(task, image.shape[0] * size[0], _PIXELS // size[1] + 1)
    return out

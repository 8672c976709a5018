"""The registered operators: what torch sees of the compiled warp.

Owns: their schemas, fake kernels, batching rules and CPU kernels.
Must not: know about gradients (``autograd.py``) or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.kernels.threads import run_split
from pellucid.kernels.warp.cpu.layout import CAPACITY, FRAME, META
from pellucid.tape import undisturbed

__all__ = ["warp_backward", "warp_forward", "warp_labels"]

_COMMON = "Tensor image, Tensor mapping, Tensor? window, Tensor params, SymInt[] size, int[] options, float cubic"
torch.library.define("pellucid::cpu_warp", f"({_COMMON}) -> Tensor")
torch.library.define("pellucid::cpu_warp_backward", f"(Tensor grad, {_COMMON}, bool[] needs) -> (Tensor, Tensor, Tensor, Tensor)")

torch.library.define(
    "pellucid::cpu_labels", "(Tensor image, Tensor mapping, Tensor? window, Tensor fill, SymInt[] size, int mode) -> Tensor"
)

_dispatched = torch.ops.pellucid.cpu_warp.default


def warp_forward(
    image: Tensor, mapping: Tensor, window: Tensor | None, params: Tensor, size: list[int], options: list[int], cubic: float
) -> Tensor:
    """(image, mapping, window, params, size, (taps, mode, flags, out_channels), cubic) -> the output.

    Args:
        image: float32, float64 or uint8, any strides.
        mapping: (b or 1, 6 or 9).
        window: (b or 1, 4) or None.
        params: (b or 1, n); like the two before of the dtype in which everything is computed and returned.
        size, options, cubic: ``layout.py`` says what the options and parameters mean.
    """
    # Passing torch's dispatcher costs as much as a small image: only where somebody listens there.
    if undisturbed() and image.is_cpu and not (image.requires_grad or mapping.requires_grad or params.requires_grad):
        return _forward(image, mapping, window, params, size, options, cubic)
    out: Tensor = _dispatched(image, mapping, window, params, size, options, cubic)
    return out


warp_backward = torch.ops.pellucid.cpu_warp_backward
"""The same arguments after the output's gradient; ``needs`` is (image, map and window, params).

Returns the gradients of image, mapping, window and params; the last three in float64 and one row per sample, whatever the arguments
had. What is not needed has no elements.
"""

warp_labels = torch.ops.pellucid.cpu_labels
"""(image, mapping, window, fill, size, mode) -> the nearest pixels; image and fill (b or 1, c) are of one integer dtype."""

_STRIP = 1024  # pixels that go through all phases together: few enough for a close cache, enough to forget the calls
_PIXELS = 1 << 14  # the fewest pixels worth handing to another thread, whose wake-up takes some 0.03 ms


def _out_shape(image: Tensor, size: list[int], options: list[int]) -> tuple[int, int, int, int]:
    return (image.shape[0], options[3], size[0], size[1])


@torch.library.register_fake("pellucid::cpu_warp")
def _(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    size: list[int],
    options: list[int],
    cubic: float,
) -> Tensor:
    del window, params, cubic
    return mapping.new_empty(_out_shape(image, size, options))


@torch.library.register_fake("pellucid::cpu_warp_backward")
def _(
    grad: Tensor,
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    size: list[int],
    options: list[int],
    cubic: float,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    del size, options, cubic
    return _gradients(grad, image, mapping, window, params, needs)


def _gradients(
    grad: Tensor,
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch = image.shape[0]
    return (
        grad.new_empty(image.shape if needs[0] else (0,)),
        params.new_empty((batch, mapping.shape[1]) if needs[1] else (0,), dtype=torch.float64),
        params.new_empty((batch, 4) if needs[1] and window is not None else (0,), dtype=torch.float64),
        params.new_empty((batch, params.shape[1]) if needs[2] else (0,), dtype=torch.float64),
    )


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
        self.floats, self.work = 17 + 2 * channels + 6 * max(out_channels, channels), work
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
        return (
            np.empty(self.floats * self.strip, self.work),
            *(np.empty(self.quads, self.work) for _ in range(stages)),
            np.empty(self.strip, np.int32),
            np.empty(self.strip, np.int32),
            np.empty(FRAME, np.int64),
            np.empty((2, 4), np.int64),
            np.empty((2, 2, 4), self.work),
        )


def _forward(
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    size: list[int],
    options: list[int],
    cubic: float,
) -> Tensor:
    from pellucid.kernels.warp.cpu.sweep import forward

    call = _Call(image, mapping, window, params, size, options, cubic)
    out = torch.empty(call.out_shape, dtype=call.dtype)
    if out.numel():
        planes = out.view(-1, size[0] * size[1]).numpy()

        def task(start: int, stop: int) -> None:
            forward(*call.arguments, planes, *call.scratch(1), start, stop)

        run_split(task, image.shape[0] * call.strips, _PIXELS // call.strip + 1)
    return out


torch.library.impl("pellucid::cpu_warp", "CPU")(_forward)


@torch.library.impl("pellucid::cpu_warp_backward", "CPU")
def _(
    grad: Tensor,
    image: Tensor,
    mapping: Tensor,
    window: Tensor | None,
    params: Tensor,
    size: list[int],
    options: list[int],
    cubic: float,
    needs: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from pellucid.kernels.warp.cpu.sweep import backward

    call = _Call(image, mapping, window, params, size, options, cubic)
    results = _gradients(grad, image, mapping, window, params, needs)
    for sums in results[1:]:
        sums.zero_()
    planes = grad.contiguous().view(image.shape[0] * options[3], -1).numpy() if grad.numel() else None
    to_image = results[0].view(-1).numpy()
    to_map, to_window, to_params = (sums.view(-1, sums.shape[-1] if sums.numel() else 1).numpy() for sums in results[1:])

    def task(start: int, stop: int) -> None:
        backward(planes, *call.arguments, tuple(needs), to_image, to_map, to_window, to_params, *call.scratch(2), start, stop)

    if grad.numel():
        run_split(task, image.shape[0], _PIXELS // (size[0] * size[1]) + 1)
    elif needs[0]:
        results[0].zero_()
    return results


def _fold(tensors: list[Tensor | None], dims: list[int | None], lanes: int, batch: int) -> list[Tensor | None]:
    """Merge the mapped axis into the batch axis; what has no mapped axis or one row for all is repeated without a copy."""
    folded: list[Tensor | None] = []
    for tensor, dim in zip(tensors, dims, strict=True):
        if tensor is None:
            folded.append(None)
            continue
        lane = tensor[None].expand(lanes, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
        if dim is None and tensor.shape[0] == 1 and batch > 1:
            folded.append(tensor)
            continue
        lane = lane.expand(lanes, batch, *lane.shape[2:])
        folded.append(lane.reshape(lanes * batch, *lane.shape[2:]))
    return folded


@torch.library.register_vmap("pellucid::cpu_warp")
def _(info: Any, dims: Any, image: Tensor, mapping: Tensor, window: Tensor | None, params: Tensor, *rest: Any) -> Any:
    lanes = info.batch_size
    batch = image.movedim(dims[0], 0).shape[1] if dims[0] is not None else image.shape[0]
    folded = _fold([image, mapping, window, params], list(dims[:4]), lanes, batch)
    return _dispatched(*folded, *rest).unflatten(0, (lanes, batch)), 0


@torch.library.register_vmap("pellucid::cpu_warp_backward")
def _(info: Any, dims: Any, grad: Tensor, image: Tensor, mapping: Tensor, window: Tensor | None, params: Tensor, *rest: Any) -> Any:
    lanes = info.batch_size
    batch = image.movedim(dims[1], 0).shape[1] if dims[1] is not None else image.shape[0]
    folded = _fold([grad, image, mapping, window, params], list(dims[:5]), lanes, batch)
    results = warp_backward(*folded, *rest)
    split = tuple(r.unflatten(0, (lanes, batch)) if r.numel() else r.new_empty((lanes, 0)) for r in results)
    return split, (0, 0, 0, 0)


_UNSIGNED = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


@torch.library.register_fake("pellucid::cpu_labels")
def _(image: Tensor, mapping: Tensor, window: Tensor | None, fill: Tensor, size: list[int], mode: int) -> Tensor:
    del mapping, window, fill, mode
    return image.new_empty((*image.shape[:2], size[0], size[1]))


@torch.library.impl("pellucid::cpu_labels", "CPU")
def _(image: Tensor, mapping: Tensor, window: Tensor | None, fill: Tensor, size: list[int], mode: int) -> Tensor:
    from pellucid.kernels.warp.cpu.labels import copy_labels

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


@torch.library.register_vmap("pellucid::cpu_labels")
def _(info: Any, dims: Any, image: Tensor, mapping: Tensor, window: Tensor | None, fill: Tensor, *rest: Any) -> Any:
    lanes = info.batch_size
    batch = image.movedim(dims[0], 0).shape[1] if dims[0] is not None else image.shape[0]
    folded = _fold([image, mapping, window, fill], list(dims[:4]), lanes, batch)
    return warp_labels(*folded, *rest).unflatten(0, (lanes, batch)), 0

"""Colours compiled for the CPU: the chain of clipped steps, every sample in its own order, the shift in HSV, tables of bytes.

Owns: the operators `JITTER` and `HSV` with their gradients, on contiguous memory of one dtype; `by_levels`, which has no gradient,
and `stays_apart`, which tells where it applies.
Must not: know about autograd, or import Numba before an operator runs.
Read next: ``sweep.py``.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.color.luma import LUMA_TORCHVISION
from pellucid.kernels.explicit import register
from pellucid.kernels.stages.chain import TURNED, colors_of, has_curve, of_levels
from pellucid.kernels.threads import run_loop, scratch

__all__ = ["HSV", "JITTER", "by_levels", "stays_apart"]

_STRIP = 512  # pixels that go through all steps together: with their intermediate values they fill a close cache
_PIXELS = 1 << 16  # the fewest worth handing to another thread
_BYTES = 1 << 20  # the fewest, where they are only looked up
_STILL = np.eye(3).ravel()  # the identity map


def _fill(out: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int) -> None:
    from pellucid.kernels.color.cpu.sweep import forward

    into, channels = out.flatten(2).numpy(), image.shape[1]
    given = *_arrays(image, order, factors), present, into, _STRIP
    run_loop(forward, len(into), _PIXELS // into.shape[2] + 1, *given, room=lambda: _scratch(channels, into.dtype))


def _back(
    found: list[Tensor], grad: Tensor, image: Tensor, order: Tensor, factors: Tensor, present: int, needs: list[bool]
) -> None:
    from pellucid.kernels.color.cpu.sweep import backward

    sums = found[2] if needs[2] else torch.empty((image.shape[0], 4), dtype=torch.float64, device=image.device)
    into, upstream = (part.contiguous().flatten(2).numpy() for part in (found[0], grad))
    given = upstream, *_arrays(image, order, factors), present, into, sums.numpy(), _STRIP
    channels, grain = image.shape[1], _PIXELS // into.shape[2] + 1
    run_loop(backward, len(into), grain, *given, room=lambda: (*_scratch(channels, into.dtype), np.empty(channels, into.dtype)))


def _arrays(image: Tensor, order: Tensor, factors: Tensor) -> tuple[Any, ...]:
    channels = image.shape[1]
    pixels = image.contiguous().flatten(2).numpy()
    weights = LUMA_TORCHVISION if channels == 3 else (1.0 / channels,) * channels
    return pixels, order.contiguous().numpy(), factors.contiguous().numpy(), np.array(weights, pixels.dtype)


def _scratch(channels: int, work: Any) -> tuple[Any, Any]:
    return np.empty((10 * channels + 2) * _STRIP, work), np.empty(4, np.int64)


JITTER = register("cpu_jitter_steps", "Tensor image, Tensor order, Tensor factors, int present", _fill, _back, through=True)
"""See :func:`pellucid.kernels.color.reference.jitter_steps`.

* image: float32 or float64.
* order: (b or 1, 4) int64, each a permutation of 0 to 3.
* factors: (b or 1, 4), of the image's dtype: brightness, contrast, saturation, hue.
* present: which of them take part, as bits.
"""


def stays_apart(maps: Any, params: Any, flags: int, channels: int) -> bool:
    """Whether a pass moves no pixel, and its chain of colours treats each channel by itself.

    Args:
        maps: (b or 1, n), the maps of the pass.
        params: (b or 1, n), the numbers of its chain.
        flags: its stages, as ``../../stages/chain.py`` has them.
    """
    from pellucid.kernels.color.cpu.levels import stays_apart

    colors = colors_of(flags, channels, channels)
    return not (TURNED in colors.steps[:, 0] or of_levels(flags)) and stays_apart(maps, _STILL, params, colors)


def by_levels(planes: Any, params: Any, flags: int, channels: int, cells: tuple[int, ...], into: Any) -> None:
    """Apply such a chain to bytes by tables of 256 levels; writes bytes, or numbers of the dtype of the arithmetic.

    Args:
        planes, cells: as `planes_of` gives them; ``into`` as ``planes``.
    """
    from pellucid.kernels.color.cpu.levels import look_up

    batch, work = len(planes) * len(cells) // channels, params.dtype.type
    given = planes, params, colors_of(flags, channels, channels), True if has_curve(flags) else None, work(1.0 / 255.0), cells, into
    room = lambda: (scratch("levels", (2 * channels + 1) * 256, work), np.empty((channels, 256), into.dtype))  # noqa: E731
    run_loop(look_up, batch, _BYTES // (planes.size // batch) + 1, *given, room=room)


def _hsv_fill(out: Tensor, image: Tensor, numbers: Tensor) -> None:
    from pellucid.kernels.color.cpu.hsv import hsv

    pixels, rows, into = (part.contiguous().numpy() for part in (image.flatten(2), numbers, out.flatten(2)))
    work = rows.dtype.type
    unit = work(1 / 255 if into.dtype == np.uint8 else 1)
    room = lambda: (scratch("hsv", 6 * _STRIP, work).reshape(2, 3, _STRIP),)  # noqa: E731
    run_loop(hsv, len(into) * -(-into.shape[2] // _STRIP), _PIXELS // _STRIP, pixels, rows, _STRIP, unit, into, room=room)


def _hsv_back(found: list[Tensor], grad: Tensor, image: Tensor, numbers: Tensor, needs: list[bool]) -> None:
    from pellucid.kernels.color.cpu.hsv import hsv_backward

    upstream, pixels, into = (part.contiguous().flatten(2).numpy() for part in (grad, image, found[0]))
    sums = np.empty((len(into) * -(-into.shape[2] // _STRIP), 4))
    given = upstream, pixels, numbers.contiguous().numpy(), _STRIP, into, sums
    room = lambda: (scratch("hsv", 4 * _STRIP, into.dtype.type).reshape(4, _STRIP),)  # noqa: E731
    run_loop(hsv_backward, len(sums), _PIXELS // _STRIP, *given, room=room)
    if needs[1]:
        found[1].copy_(torch.from_numpy(sums).view(image.shape[0], -1, 4).sum(1)[:, : numbers.shape[1]])


HSV = register("cpu_shift_hsv", "Tensor image, Tensor numbers", _hsv_fill, _hsv_back, through=True)
"""See :func:`pellucid.kernels.color.passes.shift_hsv`.

* image: float32 or float64; or bytes, which have no gradient.
* numbers: (b or 1, 3 or 4), of the image's dtype: added to hue, saturation and value; and the gate, where there is one.
"""

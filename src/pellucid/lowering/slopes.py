"""A tape's derivative to the one number it may get from an image: its mean colour.

Owns: `play_along`, for recordings of resamples.
Must not: be used for values that depend on the mean in any other way than by an affine map.
Read next: ``lowered.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.kernels.warp.packing import Resample
from pellucid.tape import Recording, Rows

__all__ = ["play_along"]


def play_along(
    recording: Recording, rows: Rows, mean: Float[Tensor, "b c"], dtype: torch.dtype, *, mixed: bool = False
) -> Resample | None:
    """Play a recording of resamples, with a gradient from their colours to the mean; None where stages lie around them.

    The colours are affine in the mean, since contrast's pivot is the mean under the colour maps before it. So the derivative to a
    channel is constant: the colours at a mean of one unit in that channel, less the colours at a mean of zero.

    Args:
        recording: gives a `Resample`.
        rows: its inputs, of which the last c are the mean.
        mixed: whether samples have sizes of their own.
    """
    samples, channels = mean.shape
    probes = np.stack([rows] * (2 + channels))  # the inputs themselves, a mean of 0, and a unit of each channel
    probes[1, :, -channels:] = 0.0
    probes[2:, :, -channels:] = np.eye(channels)[:, None]
    played: Resample = recording.play(probes.reshape(-1, rows.shape[1]), mixed=mixed)
    if played.prologue or played.epilogue:
        return None
    mapping, window = played.mapping, played.window
    colors, base, *units = played.params.unflatten(0, (2 + channels, samples)).unbind(0)
    followed = _Following.apply(mean, colors.to(dtype), torch.stack(units, 2) - base[:, :, None])
    window = None if window is None else window[:samples].to(dtype)
    links = None if played.links is None else played.links[:samples].to(dtype)
    return Resample(played.recipe, mapping[:samples].to(dtype), window, followed, None, links)


class _Following(torch.autograd.Function):
    """(mean, numbers computed from it, their slopes (b, n, c)) -> the numbers."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, numbers: Tensor, slopes: Tensor) -> Tensor:
        del mean
        ctx.save_for_backward(slopes)
        return numbers.view_as(numbers)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return (grads[0].to(slopes.dtype)[:, :, None] * slopes).sum(1), None, None

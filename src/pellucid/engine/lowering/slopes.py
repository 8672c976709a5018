"""The derivative of a tape's result to the one input that depends on the image: its mean colour.

Owns: `play_along`, for recordings of resamples, and `following`, for numbers that a tape gave.
Must not: be used for values that are not affine in the mean.
Read next: ``lowered.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.tape import Recording, Rows
from pellucid.kernels.warp.packing import Resample

__all__ = ["following", "play_along"]


def play_along(
    recording: Recording, rows: Rows, mean: Float[Tensor, "b c"], dtype: torch.dtype, *, mixed: bool = False
) -> Resample | None:
    """Play a recording of resamples, with a gradient from their colours to the mean; None if they have a prologue or an epilogue.

    Args:
        recording: returns a `Resample`.
        rows: its inputs, of which the last c are the mean.
        mean: the same mean as a tensor of the graph.
        dtype: of the result.
        mixed: whether samples differ in size.

    The colours are affine in the mean, since contrast's pivot is the mean after the colour maps before it. So the derivative to a
    channel is constant: the colours at a mean of one unit in that channel, minus the colours at a mean of zero.
    """
    channels, (samples, numbers) = mean.shape[1], rows.shape
    probes = np.empty((2 + channels, samples, numbers))  # the inputs themselves, a mean of 0, and a unit of each channel
    probes[:] = rows
    probes[1, :, -channels:] = 0.0
    probes[2:, :, -channels:] = np.eye(channels)[:, None]
    played: Resample = recording.play(probes.reshape(-1, numbers), mixed=mixed)
    if played.prologue or played.epilogue:
        return None
    mapping, window, params, _, links, *_ = (None if part is None else part[:samples] for part in played[1:7])
    _, base, *units = played.params.unflatten(0, (-1, samples))
    slopes = torch.stack([unit - base for unit in units], 2)
    made = Resample(played.recipe, mapping, window, params, None, links).to(dtype)  # type: ignore[arg-type]
    return made._replace(params=_Following.apply(mean, made.params, slopes))


def following(mean: Float[Tensor, "b c"], numbers: Float[Tensor, "b n"], slopes: Rows) -> Float[Tensor, "b n"]:
    """Give colours that were computed at a mean a gradient to it; ``slopes`` (b, n, c) is their derivative to the mean."""
    followed: Tensor = _Following.apply(mean, numbers, torch.from_numpy(slopes))
    return followed


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

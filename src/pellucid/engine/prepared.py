"""A pass over pictures of one kind as one function of what is drawn: the tape of its numbers, and one compiled call.

Owns: whether a plan comes to that, and the function.
Must not: compute anything that :func:`pellucid.engine.execution.apply_image` does not.
Read next: ``execution.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.tape import Rows, TapeError
from pellucid.engine.lowering import Lowered, Openings, Replayed
from pellucid.engine.passes import compute_dtype, look_up, paint
from pellucid.engine.plan import Plan, Run, Single
from pellucid.kernels import blend
from pellucid.kernels.color import with_mean
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.resize import call_of as resize_of
from pellucid.kernels.resize import settled, settles
from pellucid.kernels.warp import call_of as warp_of
from pellucid.kernels.warp.packing import Opened, Resample
from pellucid.segments import Patch

__all__ = ["image_pass"]


def image_pass(
    plan: Plan, drawn: Replayed, image: Shaped[Tensor, "b c h w"], impl: str, dtype: torch.dtype
) -> Callable[[Replayed, Tensor], Tensor] | None:
    """What :func:`apply_image` comes to for pictures like this one, where that is a tape and a compiled call; else None."""
    lowered, run = Lowered(plan, drawn, image.device), plan.groups[0] if len(plan.groups) == 1 else None
    scale = 255.0 if image.dtype == torch.uint8 else 1.0
    if run is None or (plan.parts and scale == 255.0) or not lowered.taped or not Openings.never(lowered, image, plan.groups):
        return None
    if isinstance(run, Single):
        return _alone(lowered, drawn, run, image, impl, dtype)
    if not isinstance(run, Run) or run.bends or run.interpolation == "nearest":
        return None
    try:
        return (_settling if run.settled else _passing)(lowered, run, image, impl, dtype, scale)
    except TapeError:  # for this size
        return None


def _alone(
    lowered: Lowered, drawn: Replayed, single: Single, image: Tensor, impl: str, dtype: torch.dtype
) -> Callable[[Replayed, Tensor], Tensor] | None:
    """A pass on bytes that are looked up, or painted over."""
    played, spec = lowered.replayed(single.index), lowered.plan.segments[single.index]
    if played is None or impl == "reference" or image.dtype != torch.uint8:
        return None
    if isinstance(played(drawn), Patch):
        fits = dtype == image.dtype and blend.paints(impl, image.device)
    else:
        fits = look_up(played(drawn), spec, image, 255.0, impl, dtype) is not None
    if not fits:
        return None

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        segment = played(drawn)
        if isinstance(segment, Patch):
            return paint(segment, image.clone(memory_format=torch.contiguous_format), impl)
        found = look_up(segment, spec, image, 255.0, impl, dtype)
        assert found is not None
        return found

    return passing


def _passing(
    lowered: Lowered, run: Run, image: Tensor, impl: str, dtype: torch.dtype, scale: float
) -> Callable[[Replayed, Tensor], Tensor] | None:
    """A pass of a warp or a resize, and perhaps of colours."""
    if run.pivot and needs_grad(image):
        return None
    computed, framed = compute_dtype(image.dtype), lowered.framed(run) if run.framing else None
    mean = torch.zeros((len(image), image.shape[1]), dtype=torch.float64, device="cpu") if run.pivot else None
    tape, rows = lowered.recorded(run, mean, scale, computed)
    if tape is None or rows is None or (run.framing and framed is None):
        return None
    like = tape.recording.play(rows, computed).returning(dtype)
    call = (resize_of if run.separable and run.warps else warp_of)(impl, image, like)
    if call is None:
        return None
    places, play = tape.recording.pinned(rows, computed)
    tensors = itemgetter(*(-1 if place is None else place for place in places[1:7]))

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        rows = drawn.rows
        if run.pivot:
            image, mean = with_mean(image, framed and framed(rows))
            rows = np.concatenate((rows, mean.numpy()), 1)
        found = play(rows)
        found[-1] = None  # the sizes, which stand for what a pass does not have
        return call(image, tensors(found))

    return passing


def _settling(
    lowered: Lowered, run: Run, image: Tensor, impl: str, dtype: torch.dtype, scale: float
) -> Callable[[Replayed, Tensor], Tensor] | None:
    """A resize, whose colours wait for the mean of what it makes."""
    channels, computed = image.shape[1], compute_dtype(image.dtype)
    tape, rows = lowered.recorded(run, torch.zeros((len(image), channels), dtype=torch.float64, device="cpu"), scale, computed)
    if not run.separable or not settles(impl, image.device) or needs_grad(image) or tape is None or rows is None:
        return None
    like, play = tape.recording.pinned(rows, torch.float64)
    if like.prologue or like.epilogue:
        return None
    (mapping, window, params), recipe = like[1:4], like.recipe
    means = np.concatenate((np.zeros((1, channels)), np.eye(channels)))[:, None]

    def opened(rows: Rows) -> Opened:
        samples, numbers = rows.shape
        probes = np.empty((1 + channels, samples, numbers + channels))
        probes[:, :, :numbers], probes[:, :, numbers:] = rows, means
        found = play(probes.reshape(-1, numbers + channels))
        every = found[params].numpy().reshape(1 + channels, samples, -1)
        slopes = (every[1:] - every[0]).transpose(1, 2, 0)
        edges = found[window][:samples].to(computed)
        moves = Resample(recipe, found[mapping][:samples].to(computed), edges, torch.from_numpy(every[0]))
        return Opened(moves, torch.from_numpy(slopes))

    return lambda drawn, image: settled(image, opened(drawn.rows), dtype)

"""Prepare a plan of one pass as a function of the drawn words: a tape computes its numbers, and one compiled call the pixels.

Owns: which plans can be prepared, and the function.
Must not: give other results than :func:`pellucid.engine.execution.apply_image`.
Read next: ``execution.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from pellucid.core.tape import Rows, TapeError
from pellucid.engine.lowering import Lowered, Openings, Replayed
from pellucid.engine.lowering.slopes import following
from pellucid.engine.passes import apply_alone, bend_of, compute_dtype, look_up, paint
from pellucid.engine.plan import Plan, Run, Single
from pellucid.kernels import blend, curve
from pellucid.kernels.color import means_of, with_mean
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.pixels import copy_of
from pellucid.kernels.resize import call_of as resize_of
from pellucid.kernels.resize import settled, settled_of, settles
from pellucid.kernels.warp import call_of as warp_of
from pellucid.kernels.warp.packing import Opened, Recipe, Resample
from pellucid.segments import Cells, Curve, Layers, Mixture, Patch

__all__ = ["Prepared", "image_pass"]


class Prepared(NamedTuple):
    """A prepared pass for pictures with the shape, dtype and memory layout of one example.

    Args:
        of_tensors: (draw, pictures) -> the result.
        of_memory: (rows of words, the pictures' flat memory) -> the result's memory; None if the pass has no such function.
        of_pictures: (rows of words, pictures that need a gradient, a batch or one alone) -> the result; None as before.
    """

    of_tensors: Callable[[Replayed, Tensor], Tensor]
    of_memory: Callable[[Rows, Rows], Rows] | None = None
    of_pictures: Callable[[Rows, Tensor], Tensor] | None = None


def image_pass(plan: Plan, drawn: Replayed, image: Shaped[Tensor, "b c h w"], impl: str, dtype: torch.dtype) -> Prepared | None:
    """Prepare :func:`apply_image` for pictures like this one; None if it is not just a tape and one compiled call."""
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
    except TapeError:  # this size cannot be taped
        return None


def _alone(lowered: Lowered, drawn: Replayed, single: Single, image: Tensor, impl: str, dtype: torch.dtype) -> Prepared | None:
    """Prepare a pass of one segment; None for layers, cells and mixtures."""
    spec, scale, paints = lowered.plan.segments[single.index], 255.0 if image.dtype == torch.uint8 else 1.0, False
    played = lowered.replayed(single.index)
    first = played(drawn)
    if isinstance(first, Layers | Cells | Mixture) or needs_grad(image) or lowered.plan.volumes:
        return None
    if isinstance(first, Patch):
        paints = image.dtype == dtype == torch.uint8 and blend.paints(impl, image.device)

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        segment = played(drawn)
        if paints and isinstance(segment, Patch):
            return paint(segment, copy_of(image), impl)
        found = look_up(segment, spec, image, scale, impl, dtype)
        return apply_alone(segment, image, scale, impl, dtype) if found is None else found

    bend = bend_of(first) if scale == 255.0 and impl != "reference" and dtype in (torch.uint8, torch.float32) else None
    return Prepared(passing, None if bend is None else _bent(lowered, drawn, single, bend, image, dtype))


def _bent(
    lowered: Lowered, drawn: Replayed, single: Single, bend: curve.Bend, image: Tensor, dtype: torch.dtype
) -> Callable[[Rows, Rows], Rows] | None:
    """Prepare a curve over the levels of bytes as a function of memory."""
    recorded, call = lowered.pinned(single.index, drawn.rows, torch.float32), curve.tone_of_memory(image, bend, dtype)
    if recorded is None or call is None:
        return None
    like, play = recorded
    places = (like.exponent, like.gain, None) if isinstance(like, Curve) else (like.amount, None, like.gate)

    def in_memory(rows: Rows, flat: Rows) -> Rows:
        found = play(rows)
        return call(flat, [None if place is None else found[place] for place in places])

    return in_memory


def _passing(lowered: Lowered, run: Run, image: Tensor, impl: str, dtype: torch.dtype, scale: float) -> Prepared | None:
    """Prepare a pass of a warp or a resize, perhaps with colours."""
    computed, framed = compute_dtype(image.dtype), lowered.framed(run) if run.framing else None
    follows = bool(run.pivot) and needs_grad(image)
    if follows and {image.dtype, dtype} != {computed}:  # half precision would be rounded twice, and bytes have no gradient
        return None
    mean = torch.zeros((len(image), image.shape[1]), dtype=torch.float64, device="cpu") if run.pivot else None
    tape, rows = lowered.recorded(run, mean, scale, computed)
    if tape is None or rows is None or (run.framing and framed is None):
        return None
    like = tape.recording.play(rows, computed).returning(dtype)
    call = (resize_of if run.separable and run.warps else warp_of)(impl, image, like)
    if call is None:
        return None
    places, play = tape.recording.pinned(rows, computed)
    taken = itemgetter(*(-1 if place is None else place for place in places[1:7]))
    of_tensors, of_memory, of_arrays = call
    opened = _opened(lowered, run, image.shape[1], scale, computed) if follows else None
    if follows and opened is None:
        return None

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        rows = drawn.rows
        if run.pivot:
            image, mean = with_mean(image, framed and framed(rows))
            rows = np.concatenate((rows, mean.detach().numpy()), 1)
        tensors = taken([*map(torch.from_numpy, play(rows)), None])  # place -1, for absent numbers
        if opened is not None:
            tensors = *tensors[:2], following(mean, tensors[2], opened[1](drawn.rows)[3]), *tensors[3:]
        return of_tensors(image, tensors)

    if of_arrays is not None and not follows:
        return Prepared(passing, None, lambda rows, image: of_arrays(image, taken([*play(rows), None])))
    if of_memory is None:
        return Prepared(passing)
    means = means_of(image) if run.pivot else None

    def in_memory(rows: Rows, flat: Rows) -> Rows:
        if means is not None:
            rows = np.concatenate((rows, means(flat, framed and framed(rows))), 1)
        found: list[Any] = play(rows)
        found.append(None)
        return of_memory(flat, taken(found))

    return Prepared(passing, None if run.pivot and means is None else in_memory)


def _settling(lowered: Lowered, run: Run, image: Tensor, impl: str, dtype: torch.dtype, scale: float) -> Prepared | None:
    """Prepare a resize with colours that need the mean of the resized picture."""
    computed = compute_dtype(image.dtype)
    opened = _opened(lowered, run, image.shape[1], scale, computed) if run.separable and settles(impl, image.device) else None
    if opened is None:
        return None
    recipe, told = opened

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        maps, edges, colors, slopes = map(torch.from_numpy, told(drawn.rows))
        return settled(image, Opened(Resample(recipe, maps, edges, colors), slopes), dtype)

    of_memory, of_arrays = settled_of(image, recipe, computed, dtype)
    return Prepared(
        passing,
        None if of_memory is None else lambda rows, flat: of_memory(flat, told(rows)),
        None if of_arrays is None else lambda rows, image: of_arrays(image, told(rows)),
    )


def _opened(
    lowered: Lowered, run: Run, channels: int, scale: float, computed: torch.dtype
) -> tuple[Recipe, Callable[[Rows], list[Any]]] | None:
    """Prepare the numbers of a pass before its mean is known: return its recipe, and a function from rows of words to its map, its
    window, its colours (float64, at a mean of zero) and their derivative to the mean. None if no tape has them.
    """
    tape, rows = lowered.opening(run, channels, scale) or (None, None)
    if tape is None or rows is None:
        return None
    (like, slopes), play = tape.recording.pinned(rows, torch.float64)
    kind = np.float32 if computed == torch.float32 else np.float64

    def told(rows: Rows) -> list[Any]:
        found = play(rows)
        moves = [None if place is None else found[place].astype(kind) for place in like[1:3]]
        return [*moves, found[like.params], found[slopes]]

    return None if like.prologue or like.epilogue else (like.recipe, told)

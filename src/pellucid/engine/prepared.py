"""Prepare a plan of one pass as a function of the drawn words: a tape computes its numbers, and one compiled call the pixels.

Owns: which plans can be prepared, and the function.
Must not: give other results than :func:`pellucid.engine.execution.apply_image`.
Read next: ``execution.py``.
"""

from __future__ import annotations

from collections.abc import Callable
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
from pellucid.kernels.warp.operators import Compiled
from pellucid.kernels.warp.packing import Opened, Recipe, Resample
from pellucid.segments import Cells, Curve, Layers, Mixture, Patch

__all__ = ["Prepared", "image_pass"]


class Prepared(NamedTuple):
    """A prepared pass for pictures with the shape, dtype and memory layout of one example.

    Args:
        of_tensors: (draw, pictures) -> the result.
        numbers: from rows of words to what the next two functions take.
        of_memory: (the pictures' flat memory, numbers) -> the result's memory; None if the pass has no such function.
        of_arrays: (pictures that need a gradient, a batch or one alone, numbers) -> the result; None as before.
    """

    of_tensors: Callable[[Replayed, Tensor], Tensor]
    numbers: Callable[[Rows], Any] = np.asarray
    of_memory: Callable[[Rows, Any], Rows] | None = None
    of_arrays: Callable[[Tensor, Any], Tensor] | None = None


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
    tape = None if bend is None else lowered.recorded_single(single.index)
    call = None if bend is None else curve.tone_of_memory(image, bend, dtype)
    if tape is None or call is None:
        return Prepared(passing)
    like, numbers_of = tape.pinned(torch.float32)
    columns: Any = (like.exponent, like.gain, None) if isinstance(like, Curve) else (like.amount, None, like.gate)
    return Prepared(passing, numbers_of(columns), call)


def _passing(lowered: Lowered, run: Run, image: Tensor, impl: str, dtype: torch.dtype, scale: float) -> Prepared | None:
    """Prepare a pass of a warp or a resize, perhaps with colours: its numbers come from a tape, its pixels from a compiled call."""
    computed = compute_dtype(image.dtype)
    mean = torch.zeros((len(image), image.shape[1]), dtype=torch.float64, device="cpu") if run.pivot else None
    tape = lowered.recorded(run, mean, scale, computed)
    if tape is None:
        return None
    like = tape.recording.play(tape.rows, computed).returning(dtype)
    call = (resize_of if run.separable and run.warps else warp_of)(impl, image, like)
    if call is None:
        return None
    form, numbers_of = tape.pinned(computed)
    numbers = numbers_of(form[1:7])
    if run.pivot:
        return _with_mean(lowered, run, image, scale, _Pass(numbers, call, computed, dtype))
    of_tensors, of_memory, of_arrays = call
    return Prepared(lambda drawn, image: of_tensors(image, _tensors(numbers(drawn.rows))), numbers, of_memory, of_arrays)


class _Pass(NamedTuple):
    """A pass with a compiled call.

    Args:
        numbers: from rows of inputs to what the call takes besides pictures: map, window, colours, field, canvases, table.
        call: computes the pixels.
        computed, dtype: of the arithmetic and of the result.
    """

    numbers: Callable[[Rows], list[Any]]
    call: Compiled
    computed: torch.dtype
    dtype: torch.dtype


def _with_mean(lowered: Lowered, run: Run, image: Tensor, scale: float, prepared: _Pass) -> Prepared | None:
    """Prepare a pass whose colours need the mean, an input of the tape; gradients of pictures go through it, too."""
    numbers, (of_tensors, of_memory, _), computed, dtype = prepared
    framed = lowered.framed(run) if run.framing else None
    if run.framing and framed is None:
        return None
    opened: _Unsettled | None = None
    if needs_grad(image):
        if {image.dtype, dtype} != {computed}:  # half precision would be rounded twice, and bytes have no gradient
            return None
        opened = _Unsettled.of(lowered, run, image.shape[1], scale, computed)
        if opened is None:
            return None
    means = None if of_memory is None else means_of(image)

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        image, mean = with_mean(image, framed and framed(drawn.rows))
        tensors = _tensors(numbers(np.concatenate((drawn.rows, mean.detach().numpy()), 1)))
        if opened is not None:
            *_, slopes = opened.numbers(drawn.rows)
            tensors[2] = following(mean, tensors[2], slopes)
        return of_tensors(image, tensors)

    if of_memory is None or means is None:
        return Prepared(passing)

    def in_memory(flat: Rows, rows: Rows) -> Rows:
        return of_memory(flat, numbers(np.concatenate((rows, means(flat, framed and framed(rows))), 1)))

    return Prepared(passing, of_memory=in_memory)


def _tensors(arrays: list[Any]) -> list[Any]:
    return [None if array is None else torch.from_numpy(array) for array in arrays]


def _settling(lowered: Lowered, run: Run, image: Tensor, impl: str, dtype: torch.dtype, scale: float) -> Prepared | None:
    """Prepare a resize with colours that need the mean of the resized picture."""
    if not run.separable or not settles(impl, image.device):
        return None
    computed = compute_dtype(image.dtype)
    opened = _Unsettled.of(lowered, run, image.shape[1], scale, computed)
    if opened is None:
        return None
    recipe, numbers = opened

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        maps, edges, colors, slopes = _tensors(numbers(drawn.rows))
        return settled(image, Opened(Resample(recipe, maps, edges, colors), slopes), dtype)

    return Prepared(passing, numbers, *settled_of(image, recipe, computed, dtype))


class _Unsettled(NamedTuple):
    """A pass before its mean is known.

    Args:
        recipe: of the pass.
        numbers: from rows of words to its map, its window, its colours (float64, at a mean of zero), and their slopes: their
            derivative to the mean.
    """

    recipe: Recipe
    numbers: Callable[[Rows], list[Any]]

    @classmethod
    def of(cls, lowered: Lowered, run: Run, channels: int, scale: float, computed: torch.dtype) -> _Unsettled | None:
        """Prepare the numbers of a pass; None if no tape has them."""
        tape = lowered.recorded_opened(run, channels, scale)
        if tape is None:
            return None
        (like, slopes), numbers_of = tape.pinned(torch.float64)
        if like.prologue or like.epilogue:
            return None
        kind = np.float32 if computed == torch.float32 else np.float64
        exact = numbers_of((like.mapping, like.window, like.params, slopes))

        def numbers(rows: Rows) -> list[Any]:
            mapping, window, colors, slopes = exact(rows)
            return [mapping.astype(kind), None if window is None else window.astype(kind), colors, slopes]

        return cls(like.recipe, numbers)

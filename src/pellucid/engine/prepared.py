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

from pellucid.core.tape import Recording, Rows, TapeError
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
from pellucid.kernels.warp.packing import Opened, Resample
from pellucid.segments import Cells, Curve, Layers, Mixture, Patch

__all__ = ["Prepared", "image_pass"]


class Prepared(NamedTuple):
    """A prepared pass for pictures with the shape, dtype and memory layout of one example.

    Args:
        of_tensors: (draw, pictures) -> the result.
        of_memory: (rows of words, the pictures' flat memory) -> the result's memory; None if the pass has no such function.
    """

    of_tensors: Callable[[Replayed, Tensor], Tensor]
    of_memory: Callable[[Rows, Rows], Rows] | None = None


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
    if follows:
        _, opened = _opened(tape.recording, rows, image.shape[1], computed, at_mean=True)

        def after(drawn: Replayed, image: Tensor) -> Tensor:
            image, mean = with_mean(image, framed and framed(drawn.rows))
            found, slopes = opened(np.concatenate((drawn.rows, mean.detach().numpy()), 1))
            tensors = [None if part is None else torch.from_numpy(part) for part in found]
            tensors[2] = following(mean, torch.from_numpy(found[2]).to(computed), slopes)
            return of_tensors(image, tensors)

        return Prepared(after)
    if of_arrays is not None:
        return Prepared(lambda drawn, image: of_arrays(image, taken([*play(drawn.rows), None])))

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        rows = drawn.rows
        if run.pivot:
            image, mean = with_mean(image, framed and framed(rows))
            rows = np.concatenate((rows, mean.numpy()), 1)
        return of_tensors(image, taken([*map(torch.from_numpy, play(rows)), None]))  # place -1, for absent numbers

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
    channels, computed = image.shape[1], compute_dtype(image.dtype)
    tape, rows = lowered.recorded(run, torch.zeros((len(image), channels), dtype=torch.float64, device="cpu"), scale, computed)
    if not run.separable or not settles(impl, image.device) or tape is None or rows is None:
        return None
    like, opened = _opened(tape.recording, rows, channels, computed, at_mean=False)
    if like.prologue or like.epilogue:
        return None
    recipe = like.recipe
    if needs_grad(image):
        first = lowered.opened(run, (len(rows), channels), scale, computed)
        return None if first is None else _following(run, first, opened, image, impl, dtype)

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        (maps, edges, colors, *_), slopes = opened(drawn.rows)
        resample = Resample(recipe, torch.from_numpy(maps), torch.from_numpy(edges), torch.from_numpy(colors))
        return settled(image, Opened(resample, torch.from_numpy(slopes)), dtype)

    settle = settled_of(image, recipe, computed, dtype)
    if settle is None:
        return Prepared(passing)

    def in_memory(rows: Rows, flat: Rows) -> Rows:
        found, slopes = opened(rows)
        return settle(flat, found[:3], slopes)

    return Prepared(passing, in_memory)


def _opened(
    recording: Recording, rows: Rows, channels: int, computed: torch.dtype, *, at_mean: bool
) -> tuple[Resample, Callable[[Rows], tuple[list[Any], Rows]]]:
    """Return a resample as :meth:`Recording.pinned` does, and a function from rows to its numbers and to the derivative of its
    colours to the mean. The colours are in float64, at a mean of zero or, with ``at_mean``, at the mean in the rows.
    """
    first, kind = int(at_mean), np.float32 if computed == torch.float32 else np.float64
    samples, numbers = len(rows), rows.shape[1] - channels
    like, play = recording.pinned(rows, torch.float64, first + 1 + channels)
    probes = np.zeros((first + 1 + channels, samples, numbers + channels))
    probes[first + 1 :, :, numbers:] = np.eye(channels)[:, None]

    def opened(rows: Rows) -> tuple[list[Any], Rows]:
        given = probes.copy()
        given[:, :, :numbers] = rows[:, :numbers]
        if first:
            given[0] = rows
        found = play(given.reshape(-1, numbers + channels))
        every = found[like.params].reshape(first + 1 + channels, samples, -1)
        arrays = [None if place in (None, like.params) else found[place][:samples].astype(kind) for place in like[1:7]]
        arrays[2] = every[0]
        return arrays, (every[first + 1 :] - every[first]).transpose(1, 2, 0)

    return like, opened


def _following(
    run: Run, first: Opened, opened: Callable[[Rows], tuple[list[Any], Rows]], image: Tensor, impl: str, dtype: torch.dtype
) -> Prepared | None:
    """Prepare the same for pictures that need a gradient: the resize, then colours with a gradient to the mean of its result."""
    moves, colors, computed = first.resample.without_colors(), first.resample.without_moves(), compute_dtype(image.dtype)
    made = torch.empty((*image.shape[:2], *run.size_out), dtype=computed, device="cpu", requires_grad=True)
    resized, colored = resize_of(impl, image, moves), warp_of(impl, made, colors.to(computed).returning(dtype))
    resize = None if resized is None else resized.of_arrays
    if resize is None or colored is None:
        return None
    still, none, color = colors.mapping, moves.params.numpy(), colored.of_tensors

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        (maps, edges, numbers, *_), slopes = opened(drawn.rows)
        made, mean = with_mean(resize(image, (maps, edges, none)))
        for k, level in enumerate(mean.detach().numpy().T):  # as `Opened.at` adds them up
            numbers = numbers + slopes[:, :, k] * level[:, None]
        params = following(mean, torch.from_numpy(numbers).to(computed), slopes)
        return color(made, (still, None, params, None, None, None))

    return Prepared(passing)

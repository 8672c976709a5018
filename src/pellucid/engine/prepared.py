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
from pellucid.engine.execution import apply_image
from pellucid.engine.lowering import Lowered, Openings, Replayed, paints_rectangles
from pellucid.engine.lowering.lowered import Taped
from pellucid.engine.lowering.slopes import following
from pellucid.engine.passes import apply_alone, bend_of, compute_dtype, heavy_taps, look_up, paint
from pellucid.engine.plan import Group, Plan, Run, Single
from pellucid.kernels import blend, convolve, curve
from pellucid.kernels.color import means_of, with_mean
from pellucid.kernels.derivatives import needs_grad
from pellucid.kernels.pixels import copy_of
from pellucid.kernels.resize import call_of as resize_of
from pellucid.kernels.resize import settled, settled_of, settles
from pellucid.kernels.threads import elements
from pellucid.kernels.warp import call_of as warp_of
from pellucid.kernels.warp.operators import Compiled
from pellucid.kernels.warp.packing import Opened, Recipe, Resample
from pellucid.segments import Cells, Convolve, Curve, Layers, Mixture, Noise, Patch

__all__ = ["Prepared", "image_pass"]

_SOME = 8  # samples
_LARGE = 1 << 22  # bytes; larger results are allocated by torch, which may use large pages


class Prepared(NamedTuple):
    """A prepared pass for pictures with the shape, dtype and memory layout of one example.

    Args:
        of_tensors: (draw, pictures) -> the result.
        numbers: from rows of words to what the next two functions take.
        of_memory: (the pictures' flat memory, numbers) -> the result's memory, or None for numbers that leave some samples as they
            are; None if the pass has no such function.
        of_arrays: (pictures that need a gradient, a batch or one alone, numbers) -> the result; None as before.
    """

    of_tensors: Callable[[Replayed, Tensor], Tensor]
    numbers: Callable[[Rows], Any] = np.asarray
    of_memory: Callable[[Rows, Any], Rows | None] | None = None
    of_arrays: Callable[[Tensor, Any], Tensor] | None = None


def image_pass(plan: Plan, drawn: Replayed, image: Shaped[Tensor, "b c h w"], impl: str, dtype: torch.dtype) -> Prepared | None:
    """Prepare :func:`apply_image` for pictures like this one; None if no pass of the plan can be prepared."""
    lowered = Lowered(plan, drawn, image.device)
    if not lowered.taped or not plan.groups or (plan.parts and image.dtype == torch.uint8):
        return None
    if len(plan.groups) == 1 and Openings.never(lowered, image, plan.groups):
        return _one(lowered, plan.groups[0], image, 255.0 if image.dtype == torch.uint8 else 1.0, impl, dtype)
    if needs_grad(image):
        return None
    passes = _Passes(impl, len(image))

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        return apply_image(Lowered(plan, drawn, image.device, taped=True, prepared=passes), image, impl=impl, dtype=dtype)

    return Prepared(passing)


class _Passes:
    """The passes of a plan that has several, prepared when they first meet pictures of a kind.

    Args:
        impl: which implementation computes.
        samples: of a batch. A pass that changes only some of them is prepared for a few; for many, its own work takes longest.
    """

    def __init__(self, impl: str, samples: int) -> None:
        self._impl, self._samples = impl, samples
        self._known: dict[Any, Callable[[Replayed, Tensor], Tensor] | None] = {}

    def __call__(self, group: Group, lowered: Lowered, image: Tensor, scale: float, dtype: torch.dtype) -> Tensor | None:
        """Apply a pass to some or all of the samples; None if it is not prepared for them."""
        samples, drawn = len(image), lowered.params
        if not isinstance(drawn, Replayed) or _SOME < samples < self._samples or paints_rectangles(lowered.plan, group):
            return None
        kind = id(group), samples, image.dtype, image.stride(), dtype
        if kind not in self._known:
            made = _one(lowered, group, image, scale, self._impl, dtype)
            self._known[kind] = made and _in_memory(made)
        found = self._known[kind]
        return None if found is None else found(drawn, image)


def _in_memory(prepared: Prepared) -> Callable[[Replayed, Tensor], Tensor]:
    """Return a prepared pass as a function that goes by way of memory from its second call on, if it can."""
    of_tensors, numbers, of_memory, _ = prepared
    shape: tuple[int, ...] = ()

    def passing(drawn: Replayed, image: Tensor) -> Tensor:
        nonlocal shape
        flat = of_memory(elements(image), numbers(drawn.rows)) if shape and of_memory is not None else None
        if flat is not None:
            return torch.from_numpy(flat.reshape(shape))
        made = of_tensors(drawn, image)
        if made.is_contiguous() and made.nbytes < _LARGE:
            shape = made.shape
        return made

    return passing


def _one(lowered: Lowered, group: Group, image: Tensor, scale: float, impl: str, dtype: torch.dtype) -> Prepared | None:
    """Prepare one pass; None if it is not just a tape and one compiled call. ``scale``: 255 for pictures that came as bytes."""
    if isinstance(group, Single):
        return _alone(lowered, group, image, scale, impl, dtype)
    if not isinstance(group, Run) or group.bends or group.interpolation == "nearest":
        return None
    try:
        return (_settling if group.settled else _passing)(lowered, group, image, scale, impl, dtype)
    except TapeError:  # this size cannot be taped
        return None


def _alone(lowered: Lowered, single: Single, image: Tensor, scale: float, impl: str, dtype: torch.dtype) -> Prepared | None:
    """Prepare a pass of one segment; None for layers, cells and mixtures."""
    spec, paints = lowered.plan.segments[single.index], False
    played = lowered.replayed(single.index, image.dtype)
    assert isinstance(lowered.params, Replayed)
    first = played(lowered.params)
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

    bend = bend_of(first) if image.dtype == torch.uint8 and impl != "reference" and dtype in (torch.uint8, torch.float32) else None
    tape = lowered.recorded_single(single.index, image.dtype)
    if tape is not None and dtype == image.dtype and isinstance(first, Convolve | Noise):
        return Prepared(passing, *_skipping(first, tape, image, scale, impl))
    call = None if bend is None else curve.tone_of_memory(image, bend, dtype)
    if tape is None or call is None:
        return Prepared(passing)
    like, numbers_of = tape.pinned(torch.float32)
    columns: Any = (like.exponent, like.gain, None) if isinstance(like, Curve) else (like.amount, None, like.gate)
    return Prepared(passing, numbers_of(columns), call)


def _skipping(
    segment: Convolve | Noise, tape: Taped, image: Tensor, scale: float, impl: str
) -> tuple[Callable[[Rows], Any], Callable[[Rows, Any], Rows | None]] | tuple[()]:
    """Prepare a blur or noise of floats as functions of memory; none for numbers that leave a sample as it is, which is skipped."""
    like, numbers_of = tape.pinned(image.dtype)
    columns: tuple[Any, ...]
    if isinstance(segment, Noise):
        call, columns = blend.noise_of(image, impl, clip=segment.clip), (like.words, like.mean, like.sigma)
    else:
        call, columns = convolve.separable_of(image, impl), (like.vertical, like.horizontal)
    if call is None or getattr(segment, "amount", None) is not None:
        return ()

    def unless_still(flat: Rows, numbers: Any) -> Rows | None:
        if isinstance(segment, Noise):
            still = (numbers[1] == 0.0) & (numbers[2] == 0.0)
        else:
            numbers = [heavy_taps(taps, scale) for taps in numbers]
            still = (numbers[0][:, numbers[0].shape[1] // 2] == 1.0) | (numbers[1][:, numbers[1].shape[1] // 2] == 1.0)
        return None if still.any() else call(flat, *numbers)

    return numbers_of(columns), unless_still


def _passing(lowered: Lowered, run: Run, image: Tensor, scale: float, impl: str, dtype: torch.dtype) -> Prepared | None:
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


def _settling(lowered: Lowered, run: Run, image: Tensor, scale: float, impl: str, dtype: torch.dtype) -> Prepared | None:
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

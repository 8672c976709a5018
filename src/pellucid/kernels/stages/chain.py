"""The colours of a pass as one table: which stage comes after which, and where the numbers of each lie in a sample's row.

Owns: the flags of a pass; writing and reading its row of numbers; and `colors_of`, the same chain as compiled code runs it.
Must not: compute on pixels, or import a compiler.
Read next: ``../warp/packing.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pellucid.color.curves import NUMBERS, Curved
from pellucid.segments.chain import AffineStage, ClipStage, CurveStage, HueStage, Stage

__all__ = [
    *("CLIP", "CURVE", "FIRST_MIX", "GROUND", "HUE", "LAST_MIX", "LEVELS", "MATRIX", "SECOND_MIX", "SHARP", "STAGES"),
    *("CLIPPED", "CURVED", "MIXED", "TURNED", "Colors", "Unpacked", "adds_colors", "as_read", "blends_channels", "colors_of"),
    *("fusable", "has_curve", "has_stages", "is_sharp", "kept_to_first_mix", "laid_out", "of_levels", "parameter_count", "place"),
    *("read_back", "stretched", "without_colors"),
]

MATRIX, FIRST_MIX, HUE, SECOND_MIX, CLIP, LAST_MIX, LEVELS, SHARP, GROUND, CURVE, CURVE_CLIP = (1 << k for k in range(11))
CURVE_CODE = 11
"""Which stages there are: out = last(clip(curve(clip(second(hue(first(sample))))))), where the outer clip is CURVE_CLIP, never
without CURVE; the bits from CURVE_CODE on say which curve it is, as `Curved.code`. FIRST_MIX without MATRIX
mixes offset and fill alone.
LEVELS is no stage: 8-bit pixels are read and written as levels from 0 to 255, not as fractions. Nor is SHARP: a resize
that does not stretch its kernel over the footprint. GROUND: canvases have fills, which show in the first mix's result.
"""

MIXED, TURNED, CLIPPED, CURVED = range(4)
"""What compiled code does in a step."""


class _Part(NamedTuple):
    """A stage's place in the chain.

    Args:
        flag: its flag in a pass.
        numbers: how many it has in a row, by the channels of the image and of the result.
        kind: the type of stages that fit here; None for the first mix, which is no stage.
        step: what compiled code does.
        after: flags, of which one must come before it; 0: none.
    """

    flag: int
    numbers: Callable[[int, int], int]
    kind: type[Stage] | None = None
    step: int = MIXED
    after: int = 0


_PARTS = (
    _Part(MATRIX, lambda channels, outputs: outputs * channels),
    _Part(FIRST_MIX, lambda _, outputs: 2 * outputs),  # offset, fill
    _Part(HUE, lambda *_: 1, HueStage, TURNED),
    _Part(SECOND_MIX, lambda _, outputs: outputs * (outputs + 2), AffineStage),  # matrix, offset, a fill that is not used
    _Part(CLIP, lambda *_: 0, ClipStage, CLIPPED),
    _Part(CURVE, lambda *_: NUMBERS, CurveStage, CURVED),
    _Part(CURVE_CLIP, lambda *_: 0, ClipStage, CLIPPED, after=CURVE),
    _Part(LAST_MIX, lambda _, outputs: outputs * (outputs + 2), AffineStage, after=CLIP | CURVE),
)
"""In order, in the chain as in the row; after them the fills of the canvases."""

_PLACES: dict[type[Stage], list[tuple[int, _Part]]] = {
    kind: [(place, part) for place, part in enumerate(_PARTS) if part.kind is kind]
    for kind in (HueStage, AffineStage, ClipStage, CurveStage)
}

STAGES = sum(part.flag for part in _PARTS if part.kind is not None)
"""The flags of all stages after the first mix."""


def place(stage: int, flags: int, channels: int, outputs: int) -> int:
    """Where the numbers of a stage begin in a sample's row, by its flag; GROUND stands for the canvases' fills."""
    at = 0
    for flag, numbers, *_ in _PARTS:
        if flag == stage:
            break
        at += numbers(channels, outputs) if flags & flag else 0
    return at


def parameter_count(flags: int, channels: int, outputs: int) -> int:
    """How many numbers a sample's row has before the canvases' fills; one unused number where there is no stage."""
    return max(place(GROUND, flags, channels, outputs), 1)


def kept_to_first_mix(flags: int, params: Tensor, channels: int, outputs: int, canvases: int) -> tuple[int, Tensor]:
    """The flags and rows of the same pass without the stages after its first mix."""
    flags, grounds = flags & ~(STAGES | -1 << CURVE_CODE), canvases * outputs if flags & GROUND else 0
    first = place(GROUND, flags, channels, outputs) if grounds else parameter_count(flags, channels, outputs)
    return flags, torch.cat((params[:, :first], params[:, params.shape[1] - grounds :]), 1) if grounds else params[:, :first]


class Colors(NamedTuple):
    """The chain of a pass as compiled code runs it."""

    channels: int
    outputs: int
    mixes: bool
    """Whether there is a first mix,"""
    matrix: int
    """where its matrix begins in a row (-1: it is the identity), and"""
    offset: int
    """its offset, before its fill."""
    grounds: int
    """Channels of a canvas's fill, 0 where canvases have none, and"""
    fills: int
    """where the fills begin."""
    deep: int
    """The number of steps up to the last one whose slope depends on its input."""
    steps: Any
    """(steps, 3): after the first mix, what is done, where its numbers begin, and of a curve its code and whether it is clipped."""


@cache
def colors_of(flags: int, channels: int, outputs: int) -> Colors:
    """The chain that the flags name."""
    steps: list[tuple[int, int, int]] = []
    for flag, _, kind, step, _ in _PARTS:
        if kind is None or not flags & flag or flag == CURVE_CLIP:
            continue
        code = flags >> CURVE_CODE << 1 | (flags & CURVE_CLIP != 0) if step == CURVED else 0
        steps.append((step, place(flag, flags, channels, outputs), code))
    deep = max((k for k, (step, *_) in enumerate(steps, 1) if step != MIXED), default=0)
    matrix = 0 if flags & MATRIX else -1
    first = bool(flags & FIRST_MIX), matrix, place(FIRST_MIX, flags, channels, outputs)
    ground = outputs if flags & GROUND else 0, place(GROUND, flags, channels, outputs)
    return Colors(channels, outputs, *first, *ground, deep, np.array(steps, np.int64).reshape(-1, 3))


def _fitted(stages: Sequence[Stage]) -> Iterator[tuple[_Part, Stage]]:
    """The leading stages that fit the chain, each with its place."""
    at, flags = -1, 0
    for stage in stages:
        for place, part in _PLACES[type(stage)]:
            if place > at and (not part.after or part.after & flags):
                break
        else:
            return
        if isinstance(stage, AffineStage) and stage.matrix.shape[-1] != stage.matrix.shape[-2]:
            return
        at, flags = place, flags | part.flag
        yield part, stage


def laid_out(
    matrix: Tensor | None,
    offset: Tensor | None,
    fill: Tensor | None,
    stages: Sequence[Stage],
    grounds: Sequence[Tensor | None],
    *,
    levels: bool,
    sharp: bool,
) -> tuple[int, int, list[tuple[Tensor | None, int]], int]:
    """Lay out a first mix, stages and the fills of canvases: (how many of the stages fit, flags, pieces of a row (None: so many
    zeros), channels of the result (0: any)).

    Stages fit the pattern [hue] [affine] [clip] [curve [clip]] [affine]; the rest is run on the result.
    """
    flags, count = (LEVELS if levels else 0) | (SHARP if sharp else 0), 0
    sized = next((part for part in (offset, fill) if part is not None), None)
    outputs = 0 if sized is None else sized.shape[-1]
    pieces: list[tuple[Tensor | None, int]] = []
    if matrix is not None:
        flags, outputs = flags | MATRIX, matrix.shape[-2]
        pieces.append((matrix, outputs * matrix.shape[-1]))
    if matrix is not None or sized is not None:
        flags |= FIRST_MIX
        pieces += [(offset, outputs), (fill, outputs)]
    for part, stage in _fitted(stages):
        flags, count = flags | part.flag, count + 1
        if isinstance(stage, HueStage):
            pieces.append((stage.hue_shift, 1))
        elif isinstance(stage, CurveStage):
            flags |= stage.how.code << CURVE_CODE
            pieces.append((stage.numbers, NUMBERS))
        elif isinstance(stage, AffineStage):
            outputs = stage.matrix.shape[-2]
            pieces += [(stage.matrix, outputs**2), (stage.offset, outputs), (None, outputs)]
    shown = next((ground for ground in grounds if ground is not None), None)
    if shown is not None:
        flags, outputs = flags | GROUND, shown.shape[-1]
        pieces += [(ground, outputs) for ground in grounds]
    return count, flags, pieces, outputs


def fusable(stages: Sequence[Stage]) -> int:
    """How many leading stages fit."""
    return sum(1 for _ in _fitted(stages))


class Unpacked(NamedTuple):
    """The colours of a row, one by one."""

    fill: Tensor | None
    matrix: Tensor | None
    offset: Tensor | None
    stages: tuple[Stage, ...]
    grounds: Tensor | None


def read_back(flags: int, params: Tensor, channels: int, outputs: int, canvases: int) -> Unpacked:
    """Recover from rows what :func:`laid_out` was given; absent parts may come back as zeros."""

    def take(flag: int, *shape: int, after: int = 0) -> Tensor:
        at = place(flag, flags, channels, outputs) + after
        return params[:, at : at + torch.Size(shape).numel()].reshape(-1, *shape)

    stages: list[Stage] = []
    for part in _PARTS:
        if part.kind is None or not flags & part.flag:
            continue
        if part.kind is HueStage:
            stages.append(HueStage(take(part.flag)))
        elif part.kind is ClipStage:
            stages.append(ClipStage())
        elif part.kind is CurveStage:
            stages.append(CurveStage(take(part.flag, NUMBERS), Curved.of(flags >> CURVE_CODE)))
        else:
            stages.append(AffineStage(take(part.flag, outputs, outputs), take(part.flag, outputs, after=outputs**2)))
    mixes = flags & FIRST_MIX
    return Unpacked(
        take(FIRST_MIX, outputs, after=outputs) if mixes else None,
        take(MATRIX, outputs, channels) if flags & MATRIX else None,
        take(FIRST_MIX, outputs) if mixes else None,
        tuple(stages),
        take(GROUND, canvases, outputs) if flags & GROUND else None,
    )


def of_levels(flags: int) -> bool:
    """Whether 8-bit numbers are levels from 0 to 255, not fractions."""
    return bool(flags & LEVELS)


def is_sharp(flags: int) -> bool:
    """Whether a resize does not stretch its kernel."""
    return bool(flags & SHARP)


def as_read(flags: int) -> bool:
    """Whether pixels come out as they are read: without colours, and without a resize that does not stretch its kernel."""
    return not flags & ~LEVELS


def has_stages(flags: int) -> bool:
    """Whether anything comes after the first mix."""
    return bool(flags & STAGES)


def has_curve(flags: int) -> bool:
    """Whether one of the stages is a curve."""
    return bool(flags & CURVE)


def blends_channels(flags: int) -> bool:
    """Whether a channel may depend on others."""
    return bool(flags & (MATRIX | STAGES))


def adds_colors(flags: int) -> bool:
    """Whether a black picture may show anything but black, up to the first mix."""
    return bool(flags & (FIRST_MIX | GROUND))


def without_colors(flags: int) -> int:
    """The flags of the same pass without its colours."""
    return flags & (LEVELS | SHARP)


def stretched(flags: int) -> int:
    """The flags of the same colours in a pass that is no resize, or stretches its kernel."""
    return flags & ~SHARP

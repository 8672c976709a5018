"""A stage's reference, recorded on one pixel.

Owns: `program_of`, and the rules for operations that only a derivative tells from others: a clamp, an extreme, a detached value.
Must not: simplify: a program means what its reference means.
Read next: ``derived.py``, ``../src/pellucid/core/tape/recorder.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.core.tape import record
from pellucid.core.tape.machine import Op
from pellucid.core.tape.rules import RULES, Recorder, Rule, pointwise
from pellucid.kernels.stages.colour import STAGES
from printer.program import Program, Step

__all__ = ["program_of", "recorded"]


class _More(IntEnum):
    """Beside the tape's instructions; no machine plays them."""

    CLAMP = len(Op)
    LEAST = len(Op) + 1
    MOST = len(Op) + 2
    STILL = len(Op) + 3


_NAMES: Mapping[IntEnum, str] = {
    **{op: op.name.lower() for op in Op},
    **{more: more.name.lower() for more in _More},
    Op.MIN: "minimum",
    Op.MAX: "maximum",
}


def _emit(recorder: Recorder, op: IntEnum, *values: Any) -> Tensor:
    return pointwise(lambda *registers: recorder.emit(cast(Op, op), *registers), *map(recorder.shadow, values))


def _clamp(recorder: Recorder, x: Any, low: Any = None, high: Any = None) -> Tensor:
    low, high = -torch.inf if low is None else low, torch.inf if high is None else high
    return _emit(recorder, _More.CLAMP, x, low, high)


def _relu(recorder: Recorder, x: Any) -> Tensor:
    dark = _emit(recorder, Op.LE, x, 0.0)
    zero = torch.tensor(recorder.number(0.0), device="cpu")
    return pointwise(lambda *registers: recorder.emit(Op.WHERE, *registers), dark, zero, recorder.shadow(x))


def _extreme(op: _More) -> Rule:
    def rule(recorder: Recorder, x: Any, dim: Sequence[int], keepdim: bool = False) -> Tensor:
        (axis,) = dim
        shadow = recorder.shadow(x)
        found = pointwise(lambda *registers: recorder.emit(cast(Op, op), *registers), *shadow.unbind(axis))
        return found.unsqueeze(axis) if keepdim else found

    return rule


_aten = torch.ops.aten
_RULES: Mapping[Any, Rule] = {
    **RULES,
    _aten.clamp: _clamp,
    _aten.clamp_min: lambda recorder, x, low: _clamp(recorder, x, low),
    _aten.clamp_max: lambda recorder, x, high: _clamp(recorder, x, None, high),
    _aten.relu: _relu,
    _aten.exp2: lambda recorder, x: _emit(recorder, Op.POW, 2.0, x),
    _aten.amax: _extreme(_More.MOST),
    _aten.amin: _extreme(_More.LEAST),
    _aten.detach: lambda recorder, x: _emit(recorder, _More.STILL, x),
}
_TAKE: Mapping[IntEnum, int] = {_More.CLAMP: 3, Op.WHERE: 3, _More.LEAST: 3, _More.MOST: 3} | dict.fromkeys(
    (Op.NOT, Op.NEG, Op.ABS, Op.FLOOR, Op.LOG, Op.COS, _More.STILL), 1
)
"""How many values an instruction takes that does not take two."""


@cache
def program_of(name: str) -> Program:
    """The reference of a stage, by its name, recorded."""
    stage = STAGES[name]
    return recorded(stage.reference, stage.pixels, stage.numbers)


def recorded(reference: Callable[..., Tensor], pixels: Sequence[str], numbers: Mapping[str, int]) -> Program:
    """The program of a reference.

    Args:
        reference: of an image (b, channels, 1, 1) and of numbers (b,), or (b, n) where there are several; gives (b, c, 1, 1).
        pixels: names of the channels.
        numbers: how many numbers each further argument has.

    Errors:
        TapeError where the reference does what no rule covers.
    """
    shapes = [(len(pixels),), *(() if count == 1 else (count,) for count in numbers.values())]
    tape = record(lambda image, *rest: [reference(image[:, :, None, None], *rest).flatten(1)], shapes, rules=_RULES)
    given = [*pixels]
    for name, count in numbers.items():
        given += [name] if count == 1 else [f"{name}{k}" for k in range(count)]
    steps = [Step("given") for _ in given] + [Step("number", (), number) for number in tape.constants.tolist()]
    for op, _, *registers in tape.code.tolist():
        known: IntEnum = Op(op) if op < len(Op) else _More(op)
        steps.append(Step(_NAMES[known], tuple(registers[: _TAKE.get(known, 2)])))
    return Program(tuple(given), tuple(steps), tuple(tape._outputs[:, 0].tolist()))

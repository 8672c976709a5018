"""The rules that turn each of torch's operations into scalar arithmetic.

Owns: the table from operations to instructions. Operations without a row cannot be taped.
Must not: hold state; rules call the recorder through `shadow`, `emit` and `number`.
Read next: ``recorder.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from pellucid.core.tape.machine import Op

__all__ = ["CONSTANTS", "MOVES", "RULES", "Recorder", "Rule", "pointwise"]


class Recorder(Protocol):
    """The recorder's methods that a rule may call."""

    def shadow(self, value: Any) -> Tensor:
        """Return the registers that hold a tensor's (or number's) elements, as an integer tensor of its shape."""

    def emit(self, op: Op, *registers: int) -> int:
        """Append an instruction, unless its result is in a register already; return the register of the result."""

    def number(self, value: float) -> int:
        """Return the register of a constant."""


Rule: TypeAlias = Callable[..., Tensor]
"""(recorder, *the operation's arguments) -> the registers of the result."""

aten = torch.ops.aten

MOVES = {
    aten.view, aten._unsafe_view, aten.reshape, aten.select, aten.slice, aten.unsqueeze, aten.squeeze, aten.expand, aten.permute,
    aten.transpose, aten.t, aten.unbind, aten.split, aten.split_with_sizes, aten.stack, aten.cat, aten.flip, aten.alias,
    aten.detach, aten.clone, aten.index_select, aten.diagonal, aten.repeat, aten.lift_fresh, aten.movedim,
}  # fmt: skip
"""Operations that only move elements: the same operation moves their register numbers."""

CONSTANTS = {
    aten.zeros_like, aten.ones_like, aten.full_like, aten.empty_like, aten.new_zeros, aten.new_ones, aten.new_full, aten.new_empty,
}  # fmt: skip
"""Operations that use only the shape, dtype and device of the tensor that they are given."""


def pointwise(instruction: Callable[..., int], *shadows: Tensor) -> Tensor:
    """Emit an instruction for each element, after broadcasting, and return the registers of the results."""
    shadows = torch.broadcast_tensors(*shadows)
    rows = zip(*(shadow.reshape(-1).tolist() for shadow in shadows), strict=True)
    return torch.tensor([instruction(*row) for row in rows], dtype=torch.int64).reshape(shadows[0].shape)


def _op(op: Op, *, swapped: bool = False) -> Rule:
    def rule(recorder: Recorder, *values: Any) -> Tensor:
        return pointwise(lambda *r: recorder.emit(op, *(r[::-1] if swapped else r)), *map(recorder.shadow, values))

    return rule


def _unscaled(op: Op, *, swapped: bool = False) -> Rule:
    def rule(recorder: Recorder, x: Any, y: Any, alpha: float = 1) -> Tensor:
        if alpha != 1:
            raise NotImplementedError
        return _op(op, swapped=swapped)(recorder, x, y)

    return rule


def _reciprocal(recorder: Recorder, x: Any) -> Tensor:
    return _op(Op.DIV)(recorder, 1.0, x)


def _power(recorder: Recorder, x: Any, exponent: Any) -> Tensor:
    return _op(Op.MUL)(recorder, x, x) if exponent == 2 else _op(Op.POW)(recorder, x, exponent)


def _clamp(recorder: Recorder, x: Any, low: Any = None, high: Any = None) -> Tensor:
    def instruction(value: int, *ends: int) -> int:
        if low is not None:
            value = recorder.emit(Op.MAX, value, ends[0])
        return value if high is None else recorder.emit(Op.MIN, value, ends[-1])

    return pointwise(instruction, *(recorder.shadow(value) for value in (x, low, high) if value is not None))


def _total(recorder: Recorder, registers: Sequence[int]) -> int:
    return reduce(lambda total, r: recorder.emit(Op.ADD, total, r), registers)


def _reduced(op: Op) -> Rule:
    """Fold an operation over some axes, from the first element on."""

    def rule(recorder: Recorder, x: Any, dim: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
        shadow = recorder.shadow(x)
        dims = sorted({d % shadow.dim() for d in dim}) if dim else list(range(shadow.dim()))
        kept = [d for d in range(shadow.dim()) if d not in dims]
        shape = [shadow.shape[d] for d in kept]
        rows = shadow.permute(*kept, *dims).reshape(torch.Size(shape).numel(), math.prod(shadow.shape[d] for d in dims)).tolist()
        if op is Op.ADD:  # an empty sum is 0
            rows = [row or [recorder.number(0.0)] for row in rows]
        total = torch.tensor([reduce(lambda a, b: recorder.emit(op, a, b), row) for row in rows], dtype=torch.int64)
        return total.reshape([1 if d in dims else n for d, n in enumerate(shadow.shape)] if keepdim else shape)

    return rule


def _matmul(recorder: Recorder, left: Any, right: Any) -> Tensor:
    a, b = recorder.shadow(left), recorder.shadow(right)
    lead = a.shape[:-2]
    columns = b.transpose(-1, -2).reshape(-1, b.shape[-1], b.shape[-2]).tolist()
    products = [
        _total(recorder, [recorder.emit(Op.MUL, i, j) for i, j in zip(row, column, strict=True)])
        for rows, transposed in zip(a.reshape(-1, *a.shape[-2:]).tolist(), columns, strict=True)
        for row in rows
        for column in transposed
    ]
    return torch.tensor(products, dtype=torch.int64).reshape(*lead, a.shape[-2], b.shape[-1])


def _cross(recorder: Recorder, left: Any, right: Any, dim: int = -1) -> Tensor:
    shadows = torch.broadcast_tensors(recorder.shadow(left), recorder.shadow(right))
    (a, b, c), (x, y, z) = (shadow.unbind(dim) for shadow in shadows)

    def minor(p: Tensor, s: Tensor, q: Tensor, r: Tensor) -> Tensor:
        def instruction(i: int, j: int, k: int, m: int) -> int:
            return recorder.emit(Op.SUB, recorder.emit(Op.MUL, i, j), recorder.emit(Op.MUL, k, m))

        return pointwise(instruction, p, s, q, r)

    return torch.stack((minor(b, z, c, y), minor(c, x, a, z), minor(a, y, b, x)), dim)


def _argsort(recorder: Recorder, row: list[int]) -> list[int]:
    """Sort stably: an element's rank is the count of elements before it, and place p gets the index sum(i * (rank[i] == p))."""
    ranks = [
        _total(recorder, [recorder.emit(Op.LE if j < i else Op.LT, other, own) for j, other in enumerate(row) if j != i])
        for i, own in enumerate(row)
    ]
    if len(row) == 1:
        return [recorder.number(0.0)]
    numbers = [recorder.number(float(i)) for i in range(len(row))]
    return [
        _total(recorder, [recorder.emit(Op.MUL, numbers[i], recorder.emit(Op.EQ, rank, place)) for i, rank in enumerate(ranks)])
        for place in numbers
    ]


def _sort(
    recorder: Recorder, x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[None, Tensor]:
    """Return the indices only: code that uses the sorted values cannot be taped."""
    del stable  # always
    shadow = recorder.shadow(x).movedim(dim, -1)
    if descending:
        raise NotImplementedError
    rows = [_argsort(recorder, row) for row in shadow.reshape(-1, shadow.shape[-1]).tolist()]
    return None, torch.tensor(rows, dtype=torch.int64).reshape(shadow.shape).movedim(-1, dim)


RULES: dict[Any, Rule] = {
    aten.add: _unscaled(Op.ADD),
    aten.sub: _unscaled(Op.SUB),
    aten.rsub: _unscaled(Op.SUB, swapped=True),
    aten.mul: _op(Op.MUL),
    aten.div: _op(Op.DIV),
    aten.reciprocal: _reciprocal,
    aten.neg: _op(Op.NEG),
    aten.abs: _op(Op.ABS),
    aten.sqrt: _op(Op.SQRT),
    aten.cos: _op(Op.COS),
    aten.sin: _op(Op.SIN),
    aten.tan: _op(Op.TAN),
    aten.exp: _op(Op.EXP),
    aten.log: _op(Op.LOG),
    aten.pow: _power,
    aten.floor: _op(Op.FLOOR),
    aten.ceil: _op(Op.CEIL),
    aten.trunc: _op(Op.TRUNC),
    aten.round: _op(Op.ROUND),
    aten.remainder: _op(Op.REMAINDER),
    aten.minimum: _op(Op.MIN),
    aten.maximum: _op(Op.MAX),
    aten.clamp: _clamp,
    aten.clamp_min: lambda recorder, x, low: _clamp(recorder, x, low),
    aten.clamp_max: lambda recorder, x, high: _clamp(recorder, x, None, high),
    aten.lt: _op(Op.LT),
    aten.gt: _op(Op.LT, swapped=True),
    aten.le: _op(Op.LE),
    aten.ge: _op(Op.LE, swapped=True),
    aten.eq: _op(Op.EQ),
    aten.ne: _op(Op.NE),
    aten.bitwise_and: _op(Op.AND),
    aten.bitwise_or: _op(Op.OR),
    aten.bitwise_not: _op(Op.NOT),
    aten.logical_and: _op(Op.AND),
    aten.logical_or: _op(Op.OR),
    aten.logical_not: _op(Op.NOT),
    aten.where: _op(Op.WHERE),
    aten.sum: _reduced(Op.ADD),
    aten.amax: _reduced(Op.MAX),
    aten.amin: _reduced(Op.MIN),
    aten.mm: _matmul,
    aten.bmm: _matmul,
    aten.linalg_cross: _cross,
    aten.sort: _sort,  # type: ignore[dict-item]
}

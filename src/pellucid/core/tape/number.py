"""Image sizes while a tape is recorded: numbers whose Python arithmetic is written down.

Owns: `Number`.
Must not: act as a plain number unnoticed: if code needs the value itself, the tape notes that it was read.
Read next: ``recorder.py``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from pellucid.core.tape.machine import Op

__all__ = ["Number", "map_nested", "settled"]


class _Recorder(Protocol):
    """The recorder's methods that a number calls."""

    def number(self, value: float) -> int: ...
    def emit(self, op: Op, *registers: int) -> int: ...
    def read(self, register: int, value: float) -> None: ...
    def tensor(self, number: Number) -> Tensor: ...
    def settle(self) -> None: ...


class Number:
    """An int or a float in a register of a tape that is being recorded.

    Sums, products, quotients and roundings return other Numbers; in operations with tensors it acts as a tensor. A comparison
    returns a plain bool, and the tape then holds for numbers that compare alike. ``int(number)``, ``float(number)`` and whatever
    else needs the value return it, and the tape then holds for numbers with that value.

    Args:
        recorder: writes down the arithmetic.
        register: of the tape, which holds the number.
        value: the number while recording; an int, or a float.
        positive: whether it is positive for every input.
    """

    __slots__ = ("_recorder", "positive", "register", "value")

    def __init__(self, recorder: _Recorder, register: int, value: float, *, positive: bool = False) -> None:
        self._recorder, self.register, self.positive = recorder, register, positive
        self.value: Any = value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types

        def beside(value: Any) -> Any:
            return value._recorder.tensor(value) if isinstance(value, Number) else value

        if func is torch.full_like and len(args) == 2 and not kwargs:  # full_like would read the value of a tensor
            return (torch.ones_like(args[0]) * args[1]).to(args[0].dtype)
        return func(*map_nested(beside, args), **map_nested(beside, kwargs or {}))

    def __repr__(self) -> str:
        return f"Number({self.value})"

    def _read(self) -> Any:
        self._recorder.read(self.register, self.value)
        return self.value

    def __int__(self) -> int:
        return int(math.trunc(self)._read() if isinstance(self.value, float) else self._read())

    def __index__(self) -> int:
        if isinstance(self.value, float):
            raise TypeError("a float cannot be interpreted as an integer")
        return int(self._read())

    def __float__(self) -> float:
        return float(self._read())

    def __bool__(self) -> bool:
        return bool(operator.ne(self, 0))

    def __str__(self) -> str:
        return str(self._read())

    def __format__(self, spec: str) -> str:
        return format(self._read(), spec)

    def _made(self, value: float, op: Op, *operands: float | Number) -> Number:
        recorder = self._recorder
        registers = [x.register if isinstance(x, Number) else recorder.number(float(x)) for x in operands]
        return Number(recorder, recorder.emit(op, *registers), value)

    def __pos__(self) -> Number:
        return self

    def __neg__(self) -> Number:
        whole = isinstance(self.value, int)  # an int has no -0
        return self._made(-self.value, Op.SUB, 0, self) if whole else self._made(-self.value, Op.NEG, self)

    def __abs__(self) -> Number:
        return self._made(abs(self.value), Op.ABS, self)

    def __pow__(self, exponent: object) -> Number:
        whole = isinstance(exponent, int) and exponent == 2
        return self._made(self.value**2, Op.MUL, self, self) if whole else NotImplemented

    def __round__(self) -> Number:
        return self._whole(round, Op.ROUND)

    def __floor__(self) -> Number:
        return self._whole(math.floor, Op.FLOOR)

    def __ceil__(self) -> Number:
        return self._whole(math.ceil, Op.CEIL)

    def __trunc__(self) -> Number:
        return self._whole(math.trunc, Op.TRUNC)

    def _whole(self, function: Callable[[float], int], op: Op) -> Number:
        return self if isinstance(self.value, int) else self._made(function(self.value), op, self)


def _value(number: float | Number) -> float:
    return number.value if isinstance(number, Number) else number


def _arithmetic(op: Op, compute: Callable[[Any, Any], Any], *, swapped: bool = False) -> Any:
    """Make the method of a binary operator."""

    def method(self: Number, other: object) -> Any:
        if not isinstance(other, int | float | Number):
            return NotImplemented  # Python then asks the other operand: a tensor computes it through `__torch_function__`
        left, right = (other, self) if swapped else (self, other)
        a, b = _value(left), _value(right)
        divides = compute in (operator.truediv, operator.floordiv, operator.mod)
        if divides and isinstance(right, Number) and not right.positive:
            operator.eq(right, 0)  # noted in the tape, because dividing by 0 raises
        if compute in (operator.floordiv, operator.mod) and not (isinstance(a, int) and isinstance(b, int)):
            return NotImplemented  # the floor of a rounded float quotient may differ from Python's //
        result = self._made(compute(a, b) if compute is not operator.floordiv else a / b, op, left, right)
        return math.floor(result) if compute is operator.floordiv else result

    return method


def _comparison(op: Op, compare: Callable[[Any, Any], bool], *, swapped: bool = False) -> Any:
    """Make the method of a comparison, whose answer the tape notes as read."""

    def method(self: Number, other: object) -> Any:
        if not isinstance(other, int | float | Number):
            return NotImplemented
        answer = compare(self.value, _value(other))
        operands = (other, self) if swapped else (self, other)
        return bool(self._made(answer, op, *operands)._read())

    return method


for _name, _op, _compute in (
    ("add", Op.ADD, operator.add),
    ("sub", Op.SUB, operator.sub),
    ("mul", Op.MUL, operator.mul),
    ("truediv", Op.DIV, operator.truediv),
    ("floordiv", Op.DIV, operator.floordiv),
    ("mod", Op.REMAINDER, operator.mod),
):
    setattr(Number, f"__{_name}__", _arithmetic(_op, _compute))
    setattr(Number, f"__r{_name}__", _arithmetic(_op, _compute, swapped=True))
for _name, _op, _compare, _swapped in (
    ("eq", Op.EQ, operator.eq, False),
    ("ne", Op.NE, operator.ne, False),
    ("lt", Op.LT, operator.lt, False),
    ("le", Op.LE, operator.le, False),
    ("gt", Op.LT, operator.gt, True),
    ("ge", Op.LE, operator.ge, True),
):
    setattr(Number, f"__{_name}__", _comparison(_op, _compare, swapped=_swapped))
Number.__hash__ = None  # type: ignore[assignment,method-assign] # two numbers may be equal for one size and differ for another


def settled(number: float | Number) -> None:
    """Forget all values that were read so far: the caller of the tape checks them by itself."""
    if isinstance(number, Number):
        number._recorder.settle()


def map_nested(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to everything in nested lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        return type(value)(map_nested(function, v) for v in value)
    if isinstance(value, dict):
        return {k: map_nested(function, v) for k, v in value.items()}
    return function(value)

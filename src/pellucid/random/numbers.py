"""Numbers of a distribution: fixed or learned, read the same way.

Owns: the start, the bounds and the current value of a number, and the types that may stand for one.
Must not: draw.
Read next: ``continuous.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from torch import Tensor, nn

from pellucid.core.arguments import finite_number, is_number, items
from pellucid.errors import wrong_type
from pellucid.random.learnable import Learnable, Number, bounded, raw_of

__all__ = [
    "Raw", "as_number", "as_numbers", "at_least", "finite", "highest", "is_finite", "is_number", "lowest", "resolve", "start",
    "value_of",
]  # fmt: skip


Raw = Mapping[str, Tensor]
"""The unbounded tensors behind the learned numbers: scalars, or (b,) where they are predicted per sample."""


def is_finite(number: float) -> bool:
    """``math.isfinite``, also for the symbols that ``torch.compile(dynamic=True)`` puts in place of a field's numbers."""
    return -math.inf < number < math.inf


def as_number(name: str, value: object) -> Number:
    """Read a number, a `Learnable`, a parameter of the user's, or a module or function of the images."""
    if isinstance(value, Learnable):
        if value.shape:
            raise wrong_type(name, expected="one number", got=f"a Learnable of shape {value.shape}")
        return value
    if isinstance(value, Real):  # True and False as well, which `finite_number` refuses
        return finite_number(name, value)
    if isinstance(value, Tensor):
        if isinstance(value, nn.Parameter) and value.numel() == 1 and value.is_floating_point():
            return Learnable(by=value)
        fix = "Write float(tensor) for a fixed number, nn.Parameter(tensor) for one of your own that learns."
        got = f"a{'n nn.Parameter' if isinstance(value, nn.Parameter) else ' tensor'} {tuple(value.shape)} of {value.dtype}"
        raise wrong_type(name, expected="one floating-point number in an nn.Parameter", got=got, fix=fix)
    if callable(value) and not isinstance(value, type):
        return Learnable(by=value)
    raise wrong_type(name, expected="a number, a Learnable, an nn.Parameter, or a module of the images", got=repr(value))


def as_numbers(name: str, values: object) -> tuple[Number, ...]:
    """Read a sequence of at least one number, each as in `as_number`."""
    return tuple(as_number(name, value) for value in items(name, values))


def value_of(number: Number) -> float:
    """Return the starting value; NaN for a number without one, whose value only a tensor holds."""
    if isinstance(number, Learnable):
        return math.nan if number.value is None else number.value
    return float(number)


def lowest(number: Number) -> float:
    """Return the lower bound of the number."""
    if isinstance(number, Learnable):
        return -math.inf if number.low is None else number.low
    return float(number)


def highest(number: Number) -> float:
    """Return the upper bound of the number."""
    if isinstance(number, Learnable):
        return math.inf if number.high is None else number.high
    return float(number)


def finite(bound: float) -> float | None:
    """The bound, or None for no bound."""
    return bound if is_finite(bound) else None


def at_least(number: Number, floor: float) -> Number:
    """Give a `Learnable` without a lower bound the bound that its field implies."""
    if isinstance(number, Learnable) and number.low is None:
        return number.within(floor, number.high)
    return number


def start(name: str, number: Number) -> dict[str, Any]:
    """Return the unbounded starting value by name; empty for a fixed number."""
    return {name: raw_of(number.value, number.low, number.high)} if isinstance(number, Learnable) else {}


def resolve(name: str, number: Number, raw: Raw) -> Tensor | float:
    """Return the number's current value."""
    if isinstance(number, Learnable):
        return raw[name] if number.as_it_is else bounded(raw[name], number.low, number.high)
    return float(number)

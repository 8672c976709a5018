"""Read and check plain arguments of constructors: numbers, flags, choices, tables and texts.

Owns: what counts as a number, and the checks of plain arguments.
Must not: know what the numbers are for, or read tensors other than constants.
Read next: ``../random/learnable.py``, ``../transforms/base.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from pellucid.errors import invalid, wrong_type

__all__ = [
    "check_choice", "check_flag", "finite_number", "finite_numbers", "is_number", "items", "numbers_of", "padding_named", "plain",
    "table", "texts", "whole_number",
]  # fmt: skip

_SAME_MODE = {"edge": "border", "symmetric": "reflection", "reflect": "reflect_101"}
_PLAIN = {bool, float, int, str}
_LARGEST = torch.finfo(torch.float32).max


def is_number(value: object) -> bool:
    """Whether this is a plain Python number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain(value: object, depth: int = 2) -> object:
    """Turn other libraries' numbers into Python's and sequences into tuples, so that equal values compare equal; leave the rest."""
    if type(value) in _PLAIN or isinstance(value, bytes | bytearray | memoryview | str):
        return value
    if not isinstance(value, tuple | list):  # checked first: checks against the abstract classes below are slower
        if isinstance(value, Real):
            return int(value) if isinstance(value, Integral) else float(value)
        if not isinstance(value, Sequence):
            return value
    return tuple([plain(part, depth - 1) for part in value]) if depth else value


def finite_number(name: str, value: object, expected: str = "a number") -> float:
    """Read a number that float32 can hold: finite, and not beyond its range."""
    value = plain(value)
    if not is_number(value):
        raise wrong_type(name, expected=expected, got=repr(value))
    if not abs(value) <= _LARGEST:  # type: ignore[arg-type] # also refuses NaN, and integers beyond any float
        raise invalid(name, expected=f"{expected}, finite in float32", got=repr(value))
    return float(value)  # type: ignore[arg-type]


def items(name: str, values: object, expected: str = "a sequence of at least one number") -> tuple[object, ...]:
    """Read a sequence that is not empty."""
    read = plain(values)
    if not isinstance(read, tuple):
        raise wrong_type(name, expected=expected, got=repr(values))
    if not read:
        raise invalid(name, expected=expected, got=repr(values))
    return read


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """Read a whole number from ``low`` to ``high``."""
    value, expected = plain(value), f"a whole number from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, expected=expected, got=repr(value))
    if not low <= value <= high:
        raise invalid(name, expected=expected, got=repr(value))
    return value


def finite_numbers(name: str, values: object) -> tuple[float, ...]:
    """Read a sequence of at least one finite number."""
    return tuple(finite_number(name, value, "a sequence of numbers") for value in items(name, values))


def numbers_of(name: str, value: object) -> tuple[float, ...]:
    """Read a number, a sequence of numbers, or an array or tensor with at most one axis longer than 1, as a tuple."""
    if isinstance(value, torch.nn.Parameter) and not value.dim():
        raise wrong_type(name, expected="a number or a sequence of numbers", got=repr(value), fix="It cannot be learned.")
    if isinstance(value, np.ndarray | np.generic | torch.Tensor):
        if sum(length != 1 for length in value.shape) > 1:
            raise invalid(name, expected="a number or a sequence of numbers", got=f"shape {tuple(value.shape)}")
        value = value.reshape(-1).tolist()
    number = plain(value)
    return (finite_number(name, number),) if is_number(number) else finite_numbers(name, value)


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise unless ``value`` is one of ``choices``: texts, or singletons such as None."""
    for choice in choices:
        if value is choice or (isinstance(value, str) and value == choice):
            return
    raise invalid(name, expected=f"one of {choices}", got=repr(value))


def padding_named(mode: Any) -> Any:
    """Translate NumPy's and torchvision's names of padding modes into ours; return anything else unchanged."""
    return _SAME_MODE.get(mode, mode) if isinstance(mode, str) else mode


def check_flag(name: str, value: object) -> bool:
    """Raise unless ``value`` is True or False; ``"false"``, 0 and None are refused."""
    if not isinstance(value, bool):
        raise wrong_type(name, expected="True or False", got=repr(value))
    return value


def table(name: str, value: object) -> dict[str, Any]:
    """Read a mapping whose keys are text; None stands for an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise wrong_type(name, expected="a dict whose keys are text, such as {'left': ...}", got=repr(value))
    return dict(value)


def texts(name: str, value: object) -> tuple[str, ...]:
    """Read a list of texts. A single text is refused: it would be read letter by letter."""
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        raise wrong_type(
            name, expected="a list of texts", got=repr(value), fix=f"Write [{value!r}]." if isinstance(value, str) else ""
        )
    return tuple(value)

"""Learnable numbers: a user writes `Learnable(1.0)` in place of `1.0` to have the number trained with the model.

Owns: `Learnable` (a plain value: start, bounds, and the module that predicts it) and the bijections that keep it inside its bounds.
Must not: hold the parameter; the pipeline makes and holds it.
Read next: ``numbers.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.core.arguments import finite_number
from pellucid.errors import invalid, wrong_type

__all__ = ["Given", "Learnable", "Number", "bounded", "flat", "nested", "raw_of", "shape_of", "softplus_inverse"]

Given: TypeAlias = Callable[[Tensor], Tensor] | torch.nn.Parameter
"""The source of a number: a module or function of the images, (B, C, H, W) -> (B,) or (B, k), or a parameter of the user's own."""


@dataclass(frozen=True, eq=False)
class Learnable:
    """A number that is trained: its starting value and the open interval it lives in.

    The pipeline that receives it holds an ``nn.Parameter`` without bounds and maps it into (low, high) by a smooth
    bijection (sigmoid, softplus or the identity), never by a clamp, so its gradient cannot vanish at a bound.

    Args:
        value: the start, strictly inside (low, high). None, only with ``by``, starts where the bijection maps 0: in the middle of
            two bounds. A tensor or a nested sequence starts an array of numbers, each within the bounds, for draws that are arrays
            (`Constant`).
        low: lower bound, or None for none.
        high: upper bound, or None for none.
        by: a module (or function) that predicts the number per sample from the images, (B, C, H, W) in [0, 1] to (B,) or (B, k).
            Its output is added before the bijection, so that 0 means the starting value. The pipeline registers modules.
        column: which column of a (B, k) output.

    A plain ``nn.Parameter`` in a field is used as the number itself, without bounds.

    Errors:
        InvalidArgument for a start outside of the bounds, and for no start without ``by``; InvalidType for anything but a number.

    Example:
        >>> Learnable(0.5, low=0.0, high=1.0).value
        0.5
        >>> Learnable(((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))).shape  # an array
        (2, 3)
        >>> Learnable(by=lambda images: images.mean((1, 2, 3)), low=0.0, high=1.0).predicted
        True
        >>> Learnable(0.5).as_it_is  # True for an nn.Parameter
        False
    """

    value: float | Any = None  # nested tuples for arrays: hashable, and equal by value
    low: float | None = None
    high: float | None = None
    by: Given | None = None
    column: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.value, Tensor) and self.value.dim() and not isinstance(self.value, torch.nn.Parameter):
            object.__setattr__(self, "value", self.value.tolist())
        if isinstance(self.value, tuple | list):
            object.__setattr__(self, "value", nested("Learnable.value", self.value))
        for name in ("value", "low", "high") if not self.shape else ("low", "high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, finite_number(f"Learnable.{name}", getattr(self, name), "a number or None"))
        if not isinstance(self.column, int) or isinstance(self.column, bool) or self.column < 0:
            raise wrong_type("Learnable.column", expected="the number of a column, an integer >= 0", got=repr(self.column))
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if self.by is not None and not callable(self.by) and not isinstance(self.by, Tensor):
            raise wrong_type("Learnable.by", expected="a module or function of the images", got=repr(self.by))
        if self.as_it_is and (self.value, self.low, self.high) != (None, None, None):
            fix = "Leave `by` out: the pipeline makes the parameter. Or use the nn.Parameter itself in place of the Learnable."
            raise invalid("Learnable.by", expected="a module or function", got="a parameter beside a value or bounds", fix=fix)
        if not low < high:
            fix = "Swap the bounds."
            raise invalid("Learnable.low and high", expected="low < high", got=f"low={self.low}, high={self.high}", fix=fix)
        if self.value is None:
            if self.by is None:
                raise invalid("Learnable.value", expected="a number to start from", got=None)
        elif not all(low < number < high for number in flat(self.value)):
            fix = "Start inside the bounds; on a bound the gradient would be zero."
            raise invalid("Learnable.value", expected=f"a number strictly inside ({low}, {high})", got=self.value, fix=fix)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an array of numbers; () for a single number."""
        return shape_of(self.value)

    @property
    def as_it_is(self) -> bool:
        """Whether the number is the user's own parameter, used without bounds."""
        return isinstance(self.by, Tensor)

    @property
    def predicted(self) -> bool:
        """Whether the number is computed from the images."""
        return self.by is not None and not isinstance(self.by, Tensor)

    def within(self, low: float | None, high: float | None, value: float | None = None) -> Learnable:
        """Return the same number with other bounds; a user's own parameter stays without bounds.

        Args:
            low: lower bound, or None for none.
            high: upper bound, or None for none.
            value: the start; default as before.

        Errors:
            As the constructor.

        Example:
            >>> Learnable(0.5).within(0.0, 1.0).high
            1.0
        """
        if isinstance(self.by, Tensor):
            return self
        return Learnable(self.value if value is None else value, low, high, self.by, self.column)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Learnable) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.value, self.low, self.high, None if self.by is None else id(self.by), self.column)


Number: TypeAlias = float | Learnable
"""A number of a distribution: fixed or learned."""


def softplus_inverse(y: float) -> float:
    """Return the x with log(1 + e^x) = y, for y > 0."""
    return y + math.log(-math.expm1(-y))


def nested(name: str, value: object) -> Any:
    """Read a number, or nested sequences of numbers of one shape, as nested tuples."""
    if not isinstance(value, tuple | list):
        return finite_number(name, value)
    parts = tuple(nested(name, part) for part in value)
    if not parts or len({shape_of(part) for part in parts}) > 1:
        raise invalid(name, expected="a number, or an array of at least one", got=f"{len(parts)} parts of different shapes or none")
    return parts


def shape_of(value: object) -> tuple[int, ...]:
    """The shape of nested tuples."""
    return (len(value), *shape_of(value[0])) if isinstance(value, tuple) else ()


def flat(value: Any) -> list[float]:
    """The numbers in nested tuples, last axis fastest."""
    return [number for part in value for number in flat(part)] if isinstance(value, tuple) else [value]


def raw_of(value: Any, low: float | None, high: float | None) -> Any:
    """Return the unbounded number (or numbers) that :func:`bounded` maps to ``value``; 0 for None."""
    if isinstance(value, tuple):
        return tuple(raw_of(part, low, high) for part in value)
    if value is None:
        return 0.0
    if low is not None and high is not None:
        share = (value - low) / (high - low)
        return math.log(share) - math.log1p(-share)
    if low is not None:
        return softplus_inverse(value - low)
    if high is not None:
        return -softplus_inverse(high - value)
    return value


def bounded(raw: Tensor, low: float | Tensor | None, high: float | Tensor | None) -> Tensor:
    """Map an unbounded tensor smoothly into (low, high)."""
    if low is not None and high is not None:
        return low + (high - low) * torch.sigmoid(raw)
    if low is not None:
        return low + F.softplus(raw)
    if high is not None:
        return high - F.softplus(-raw)
    return raw

"""From what users write in a constructor to a distribution, with the errors they deserve.

Owns: the meaning of a number, a pair, a `Learnable` or a distribution in each kind of field.
Must not: know which transform asks.
Read next: ``../transforms/base.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from pellucid.errors import invalid, wrong_type
from pellucid.random.distributions import Bernoulli, CenteredUniform, Constant, Distribution, Uniform
from pellucid.random.learnable import Learnable

__all__ = ["Amount", "Range", "factor", "interval", "probability", "symmetric"]

Range: TypeAlias = float | Learnable | tuple[float | Learnable, float | Learnable] | Distribution
"""A field that is drawn: a number, a pair (low, high), a `Learnable` or any distribution."""

Amount: TypeAlias = Range
"""A magnitude m that stands for a symmetric range, or the range itself."""


def symmetric(name: str, value: Range) -> Distribution:
    """A number m means uniform on (-m, m); a pair is the range itself; a `Learnable` is a learned m."""
    if isinstance(value, Learnable):
        return CenteredUniform(0.0, value)
    if _is_number(value):
        _require(name, value >= 0, "a number >= 0, or a (low, high) pair", value)  # type: ignore[operator]
        return Uniform(-float(value), float(value)) if value else Constant(0.0)  # type: ignore[arg-type]
    return _pair_or_distribution(name, value)


def factor(name: str, value: Range) -> Distribution:
    """A number m in [0, ...) means uniform on (max(0, 1 - m), 1 + m), as in torchvision; a pair is the range itself.

    A `Learnable` is a learned m around 1, bounded to (0, 1) unless it has bounds of its own.
    """
    if isinstance(value, Learnable):
        high = 1.0 if value.high is None else value.high
        return CenteredUniform(1.0, Learnable(value.value, 0.0 if value.low is None else value.low, high))
    if _is_number(value):
        _require(name, value >= 0, "a number >= 0, or a (low, high) pair", value)  # type: ignore[operator]
        return Uniform(max(0.0, 1.0 - float(value)), 1.0 + float(value)) if value else Constant(1.0)  # type: ignore[arg-type]
    return _pair_or_distribution(name, value)


def interval(name: str, value: Range, *, low: float = -math.inf, high: float = math.inf) -> Distribution:
    """A number means itself, always; a pair means uniform on it; a `Learnable` is a learned constant."""
    distribution: Distribution
    if isinstance(value, Learnable):
        distribution = Constant(_bounded(value, low, high))
    elif _is_number(value):
        distribution = Constant(float(value))  # type: ignore[arg-type]
    elif isinstance(value, tuple | list) and len(value) == 2:
        # A learned end may not leave the room its field has.
        ends = tuple(_bounded(end, low, high) if isinstance(end, Learnable) else end for end in value)
        distribution = _pair_or_distribution(name, ends)
    else:
        distribution = _pair_or_distribution(name, value)
    reach = distribution.span()
    if math.isfinite(reach[0]):
        _require(name, reach[0] >= low, f"values >= {low}", value)
    if math.isfinite(reach[1]):
        _require(name, reach[1] <= high, f"values <= {high}", value)
    return distribution


def probability(name: str, value: float | Learnable | Bernoulli) -> Bernoulli:
    """A probability in [0, 1], a `Learnable`, or a `Bernoulli` (for a temperature)."""
    if isinstance(value, Bernoulli):
        return value
    if not (_is_number(value) or isinstance(value, Learnable)):
        raise wrong_type(name, expected="a probability in [0, 1], a Learnable or a Bernoulli", got=repr(value))
    start = value.value if isinstance(value, Learnable) else value
    _require(name, 0.0 <= start <= 1.0, "a probability in [0, 1]", start)
    return Bernoulli(value)


def _bounded(value: Learnable, low: float, high: float) -> Learnable:
    inner_low = low if value.low is None and math.isfinite(low) else value.low
    inner_high = high if value.high is None and math.isfinite(high) else value.high
    return Learnable(value.value, inner_low, inner_high)


def _pair_or_distribution(name: str, value: object) -> Distribution:
    if isinstance(value, Distribution):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        low, high = value
        for end in (low, high):
            if not (_is_number(end) or isinstance(end, Learnable)):
                raise wrong_type(name, expected="numbers or Learnables in the (low, high) pair", got=repr(value))
        ends = [end.value if isinstance(end, Learnable) else float(end) for end in (low, high)]
        _require(name, ends[0] <= ends[1], "a (low, high) pair with low <= high", value, "Swap the two.")
        return Uniform(low, high)
    raise wrong_type(name, expected="a number, a (low, high) pair, a Learnable or a distribution", got=repr(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require(name: str, condition: bool, expected: str, got: object, fix: str = "") -> None:
    if not condition:
        raise invalid(name, expected=expected, got=repr(got), fix=fix)

"""From what users write in a constructor to a distribution, with the errors they deserve.

Owns: the meaning of a number, a pair, a learned number or a distribution in each kind of field.
Must not: know which transform asks.
Read next: ``../transforms/base.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from torch import Tensor

from pellucid.errors import invalid, wrong_type
from pellucid.random.distributions import Bernoulli, CenteredUniform, Constant, Distribution, LogUniform, Uniform
from pellucid.random.learnable import Given, Learnable, Number
from pellucid.random.numbers import as_number, is_finite, is_number

__all__ = ["Amount", "Chance", "Range", "confined", "factor", "interval", "log_interval", "probability", "symmetric"]

Range: TypeAlias = float | Learnable | Given | tuple[float | Learnable | Given, float | Learnable | Given] | Distribution
"""A field that is drawn: a number, a pair (low, high), a learned number (a `Learnable`, an ``nn.Parameter``, a module or function
of the images) or any distribution."""

Amount: TypeAlias = Range
"""A magnitude m that stands for a symmetric range, or the range itself."""

Chance: TypeAlias = float | Learnable | Given | Bernoulli
"""A probability."""


def symmetric(name: str, value: Range) -> Distribution:
    """A number m means uniform on (-m, m); a pair is the range itself; a `Learnable` is a learned m."""
    if _is_learned(value):
        return CenteredUniform(0.0, as_number(name, value))
    if is_number(value):
        _require(name, value >= 0, "a number >= 0, or a (low, high) pair", value)  # type: ignore[operator, arg-type]
        return Uniform(-float(value), float(value)) if value else Constant(0.0)  # type: ignore[arg-type]
    return _pair_or_distribution(name, value)


def factor(name: str, value: Range) -> Distribution:
    """A number m in [0, ...) means uniform on (max(0, 1 - m), 1 + m), as in torchvision; a pair is the range itself.

    A `Learnable` is a learned m around 1, bounded to (0, 1) unless it has bounds of its own.
    """
    if _is_learned(value):
        return CenteredUniform(1.0, _bounded(as_number(name, value), 0.0, 1.0))
    if is_number(value):
        _require(name, value >= 0, "a number >= 0, or a (low, high) pair", value)  # type: ignore[operator, arg-type]
        return Uniform(max(0.0, 1.0 - float(value)), 1.0 + float(value)) if value else Constant(1.0)  # type: ignore[arg-type]
    return _pair_or_distribution(name, value)


def interval(name: str, value: Range, *, low: float = -math.inf, high: float = math.inf) -> Distribution:
    """A number means itself, always; a pair means uniform on it; a `Learnable` is a learned constant."""
    distribution: Distribution
    if _is_learned(value):
        distribution = Constant(_bounded(as_number(name, value), low, high))
    elif is_number(value):
        distribution = Constant(float(value))  # type: ignore[arg-type]
    elif isinstance(value, tuple | list) and len(value) == 2:
        # A learned end may not leave the room its field has.
        ends = tuple(_bounded(as_number(name, end), low, high) if _is_learned(end) else end for end in value)
        distribution = _pair_or_distribution(name, ends)
    else:
        distribution = _pair_or_distribution(name, value)
    reach = distribution.span()
    learned = bool(distribution.learned())
    if is_finite(reach[0]):
        fix = f"Give the Learnable low={low:g}, or no bound: it gets this one." if learned else ""
        _require(name, reach[0] >= low, f"values >= {low:g}", value, fix)
    if is_finite(reach[1]):
        fix = f"Give the Learnable high={high:g}, or no bound: it gets this one." if learned else ""
        _require(name, reach[1] <= high, f"values <= {high:g}", value, fix)
    return distribution


def log_interval(name: str, value: Range, *, low: float = 0.0) -> Distribution:
    """As :func:`interval`, except that a pair draws uniformly in the logarithm; an ``nn.Parameter`` cannot stand in the pair."""
    if isinstance(value, tuple | list) and len(value) == 2 and (value[0] != value[1] or any(map(_is_learned, value))):
        return LogUniform(as_number(name, value[0]), as_number(name, value[1]))
    return interval(name, value, low=low)


def probability(name: str, value: Chance) -> Bernoulli:
    """A probability in [0, 1], learned or not, or a `Bernoulli` (for its estimator)."""
    if isinstance(value, Bernoulli):
        return value
    if not (is_number(value) or _is_learned(value)):
        raise wrong_type(name, expected="a probability in [0, 1], a Learnable or a Bernoulli", got=repr(value))
    number = as_number(name, value)
    begin = number.value if isinstance(number, Learnable) else number
    _require(name, begin is None or 0.0 <= begin <= 1.0, "a probability in [0, 1]", begin)
    return Bernoulli(number)


def _is_learned(value: object) -> bool:
    """Whether someone else supplies the number: a `Learnable`, a parameter, or a module or function of the images."""
    if isinstance(value, Learnable | Tensor):
        return True
    return callable(value) and not isinstance(value, Distribution | type)


def confined(name: str, value: Range, low: float, high: float) -> Range:
    """A learned number with the bounds of its field where it has none of its own; anything else as it is."""
    return _bounded(as_number(name, value), low, high) if _is_learned(value) else value


def _bounded(number: Number, low: float, high: float) -> Number:
    """Give a learned number the bounds of its field where it has none of its own."""
    if not isinstance(number, Learnable):
        return number
    inner_low = low if number.low is None and is_finite(low) else number.low
    inner_high = high if number.high is None and is_finite(high) else number.high
    return number.within(inner_low, inner_high)


def _pair_or_distribution(name: str, value: object) -> Distribution:
    if isinstance(value, Distribution):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        for end in value:
            if not (is_number(end) or _is_learned(end)):
                raise wrong_type(name, expected="numbers or Learnables in the (low, high) pair", got=repr(value))
        low, high = (as_number(name, end) for end in value)
        starts = [end.value if isinstance(end, Learnable) else end for end in (low, high)]
        known = starts[0] is not None and starts[1] is not None
        _require(name, not known or starts[0] <= starts[1], "a (low, high) pair with low <= high", value, "Swap the two.")  # type: ignore[operator]
        return Uniform(low, high)
    raise wrong_type(name, expected="a number, a (low, high) pair, a Learnable or a distribution", got=repr(value))


def _require(name: str, condition: bool, expected: str, got: object, fix: str = "") -> None:
    if not condition:
        raise invalid(name, expected=expected, got=repr(got), fix=fix)

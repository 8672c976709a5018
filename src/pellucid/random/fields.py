"""Turn the value of a constructor's field into a distribution, or raise an error that says what to write.

Owns: the meaning of a number, a pair, a learned number or a distribution in each kind of field.
Must not: know the transform.
Read next: ``../transforms/base.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from pellucid.core.arguments import is_number
from pellucid.errors import invalid, wrong_type
from pellucid.random.distributions import Bernoulli, CenteredUniform, Constant, Distribution, LogUniform, Uniform
from pellucid.random.learnable import Given, Learnable, Number
from pellucid.random.numbers import as_number, is_finite, value_of

__all__ = [
    "Amount", "Chance", "Range", "Ranges", "around_one", "confined", "factor", "interval", "log_interval", "log_range",
    "no_lone_number", "probability", "symmetric",
]  # fmt: skip

Range: TypeAlias = float | Learnable | Given | tuple[float | Learnable | Given, float | Learnable | Given] | Distribution
"""The value of a drawn field: a number, a pair (low, high), a learned number (a `Learnable`, an ``nn.Parameter``, a module or
function of the images) or any distribution."""

Ranges: TypeAlias = Range | tuple[Range, Range, Range]
"""One range for all axes, or one each for x, y and z."""

Amount: TypeAlias = Range
"""A magnitude m that stands for a symmetric range, or the range itself."""

Chance: TypeAlias = float | Learnable | Given | Bernoulli
"""A probability."""


def symmetric(name: str, value: Range) -> Distribution:
    """A number m means uniform on (-m, m); a pair is the range itself; a `Learnable` is a learned m."""
    if not (_is_learned(value) or is_number(value)):
        return _pair_or_distribution(name, value)
    reach = _reach(name, value, math.inf)
    if isinstance(reach, Learnable):
        return CenteredUniform(0.0, reach)
    return Uniform(-reach, reach) if reach else Constant(0.0)


def factor(name: str, value: Range) -> Distribution:
    """A number m in [0, ...) means uniform on (max(0, 1 - m), 1 + m), as in torchvision; a pair is the range itself.

    A `Learnable` is a learned m around 1, bounded to (0, 1) unless it has bounds of its own.
    """
    if not (_is_learned(value) or is_number(value)):
        return _pair_or_distribution(name, value)
    reach = _reach(name, value, 1.0)
    if isinstance(reach, Learnable):
        return CenteredUniform(1.0, reach)
    return Uniform(max(0.0, 1.0 - reach), 1.0 + reach) if reach else Constant(1.0)


def interval(name: str, value: Range, *, low: float = -math.inf, high: float = math.inf) -> Distribution:
    """A number means always this number; a pair means uniform on (low, high); a `Learnable` is a learned constant."""
    distribution: Distribution
    if _is_learned(value):
        distribution = Constant(_bounded(name, as_number(name, value), low, high))
    elif is_number(value):
        distribution = Constant(as_number(name, value))
    elif isinstance(value, tuple | list) and len(value) == 2:
        # A learned end may not leave the range of its field.
        ends = tuple(_bounded(name, as_number(name, end), low, high) if _is_learned(end) else end for end in value)
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


def around_one(name: str, value: Range) -> Distribution:
    """As :func:`factor`, but raise if a value could be below 0."""
    return interval(name, factor(name, value), low=0.0)


def log_interval(name: str, value: Range) -> Distribution:
    """As :func:`interval` for numbers above 0, but a pair draws uniformly in the logarithm; no ``nn.Parameter`` in the pair."""
    distribution = interval(name, value, low=1e-6)
    if isinstance(value, tuple | list) and len(value) == 2 and (any(map(_is_learned, value)) or value[0] != value[1]):
        return LogUniform(as_number(name, value[0]), as_number(name, value[1]))
    return distribution


def log_range(name: str, value: Range) -> Distribution:
    """As :func:`log_interval`, but a number other than 1 could mean a range, and raises."""
    no_lone_number(name, value, lambda number: (number, 1.0 / number))
    return log_interval(name, value)


def no_lone_number(name: str, value: object, range_of: Callable[[float], tuple[float, float]], also: str = "") -> None:
    """Raise for a single number that could mean a range or a fixed value. The number 1 means 1 either way, and is accepted.

    Args:
        name, value: of the field.
        range_of: returns the range that a number could mean.
        also: a sentence for the error on a third meaning; ``{}`` stands for the number.
    """
    number = as_number(name, value) if is_number(value) else 0.0
    if isinstance(number, int | float) and number > 0 and number != 1:
        low, high = sorted(range_of(number))
        fix = f"For a range write ({low:.4g}, {high:.4g}), for always the same ({value}, {value})."
        fix = f"{also.format(value)} {fix}".lstrip()
        raise invalid(name, expected="a (low, high) pair, a Learnable or a distribution", got=repr(value), fix=fix)


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
    """Return whether the number is learned: a `Learnable`, a parameter, or a module or function of the images."""
    if isinstance(value, Learnable | Tensor):
        return True
    return callable(value) and not isinstance(value, Distribution | type)


def confined(name: str, value: Range, low: float, high: float) -> Range:
    """Give a learned number the field's bounds if it has none of its own; return anything else unchanged."""
    return _bounded(name, as_number(name, value), low, high) if _is_learned(value) else value


def _reach(name: str, value: object, ceiling: float) -> Number:
    """Read a magnitude: it starts at 0 or above, and a learned one without bounds of its own is bounded by 0 and the ceiling."""
    reach = _bounded(name, as_number(name, value), 0.0, ceiling)
    _require(
        name, not value_of(reach) < 0, "a number >= 0, or a (low, high) pair", value
    )  # NaN passes: only a tensor holds the value
    return reach


def _bounded(name: str, number: Number, low: float, high: float) -> Number:
    """Give a learned number the bounds of its field if it has none of its own."""
    if not isinstance(number, Learnable):
        return number
    inner_low = low if number.low is None and is_finite(low) else number.low
    inner_high = high if number.high is None and is_finite(high) else number.high
    floor = -math.inf if inner_low is None else inner_low
    ceiling = math.inf if inner_high is None else inner_high
    inside = number.value is None or floor < number.value < ceiling
    _require(name, inside, f"a Learnable that starts strictly between {floor} and {ceiling}", number)
    return number.within(inner_low, inner_high)


def _pair_or_distribution(name: str, value: object) -> Distribution:
    if isinstance(value, Distribution) and not value.vector:
        return value
    if isinstance(value, tuple | list) and len(value) == 2:
        for end in value:
            if not (is_number(end) or _is_learned(end)):
                raise wrong_type(name, expected="numbers or Learnables in the (low, high) pair", got=repr(value))
        low, high = (as_number(name, end) for end in value)
        starts = [end.value if isinstance(end, Learnable) else end for end in (low, high)]
        known = starts[0] is not None and starts[1] is not None
        _require(name, not known or starts[0] <= starts[1], "a (low, high) pair with low <= high", value, "Swap the two.")
        return Uniform(low, high)
    raise wrong_type(name, expected="a number, a (low, high) pair, a Learnable or a distribution of one number", got=repr(value))


def _require(name: str, condition: bool, expected: str, got: object, fix: str = "") -> None:
    if not condition:
        raise invalid(name, expected=expected, got=repr(got), fix=fix)

"""Continuous distributions: uniform in several spellings, normal, and the constant.

Owns: `Uniform, CenteredUniform, LogUniform, Normal, Constant`.
Must not: draw randomness (uniforms are arguments) or hold parameters (raw values are arguments).
Read next: ``multivariate.py``, ``discrete.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.distributions as D
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.random.distribution import Distribution
from pellucid.random.learnable import Learnable, Number, bounded, flat, nested, raw_of, shape_of, softplus_inverse
from pellucid.random.numbers import Raw, finite, highest, lowest, value_of

__all__ = ["CenteredUniform", "Constant", "LogUniform", "Normal", "Uniform"]

RANGE_ESTIMATORS = ("reparameterised", "boundary")


def _check_estimator(owner: str, estimator: str) -> None:
    check_choice(f"{owner}.estimator", estimator, RANGE_ESTIMATORS)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform on (low, high).

    Args:
        low: lower end: a number, a `Learnable`, an ``nn.Parameter``, or a module of the images.
        high: upper end, likewise, not below ``low``.
        estimator: ``reparameterised`` (the draw moves with its ends) or ``boundary`` (the gradient of an end is the difference
            between the loss there and the mean loss. It is correct for piecewise constant losses, too, and needs
            ``pipeline.expected``, which evaluates the loss at the ends).

    If both ends are learned and unbounded, the trained parameters are the centre and the inverse softplus of the width. Otherwise
    each learned end is mapped into the range that the other end leaves. Either way low < high holds at every step. Only a plain
    ``nn.Parameter`` is used unchanged.

    Gradient:
        low, high: exact through the draw (reparameterised).

    Errors:
        InvalidArgument for high below low, and for an estimator that does not exist.

    Example:
        >>> Uniform(-1.0, 3.0).sample(torch.tensor([0.25]), {})
        tensor([0.])
    """

    low: Number
    high: Number
    estimator: str = "reparameterised"

    names: ClassVar = ("low", "high")

    def __post_init__(self) -> None:
        self.read("low")
        self.read("high")
        _check_estimator("Uniform", self.estimator)
        low, high = value_of(self.low), value_of(self.high)
        learned = isinstance(self.low, Learnable) or isinstance(self.high, Learnable)
        if low > high or (low == high and learned) or (not learned and not low <= high):
            expected = "low < high" if learned else "low <= high"
            raise invalid("Uniform.low and high", expected=expected, got=f"low={low}, high={high}", fix="Swap the two.")

    def _joint(self) -> bool:
        ends = (self.low, self.high)
        return all(isinstance(end, Learnable) and end.low is None and end.high is None and not end.as_it_is for end in ends)

    def _room_of_low(self) -> tuple[float | None, float | None]:
        ceiling = min(highest(self.low), highest(self.high)) if isinstance(self.low, Learnable) else math.inf
        return finite(lowest(self.low)), finite(ceiling)

    def learned(self) -> dict[str, Learnable]:
        ends = super().learned()
        return {"center": ends["low"], "width": ends["high"]} if self._joint() else ends

    def start(self) -> dict[str, float]:
        low, high = value_of(self.low), value_of(self.high)
        if self._joint():
            known = not math.isnan(low + high)
            return {"center": (low + high) / 2 if known else 0.0, "width": softplus_inverse(high - low) if known else 0.0}
        raw: dict[str, float] = {}
        if isinstance(self.low, Learnable):
            raw["low"] = raw_of(self.low.value, *self._room_of_low())
        if isinstance(self.high, Learnable):
            floor = lowest(self.high) if math.isnan(low) else max(low, lowest(self.high))
            raw["high"] = raw_of(self.high.value, finite(floor), self.high.high)
        return raw

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        if "width" in raw:
            half = torch.nn.functional.softplus(raw["width"]) / 2
            return {"low": raw["center"] - half, "high": raw["center"] + half}
        low: Tensor | float = value_of(self.low)
        high: Tensor | float = value_of(self.high)
        if isinstance(self.low, Learnable):
            low = raw["low"] if self.low.as_it_is else bounded(raw["low"], *self._room_of_low())
        if isinstance(self.high, Learnable):
            floor: Tensor | float = low
            if self.high.low is not None:
                floor = torch.clamp(low, min=self.high.low) if isinstance(low, Tensor) else max(low, self.high.low)
            high = raw["high"] if self.high.as_it_is else bounded(raw["high"], floor, self.high.high)
        return {"low": low, "high": high}

    def density(self, now: Mapping[str, Tensor]) -> D.Uniform:
        return D.Uniform(now["low"], now["high"], validate_args=False)

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        now = self.current(raw)
        return now["low"] + (now["high"] - now["low"]) * u

    def span(self) -> tuple[float, float]:
        return (lowest(self.low), highest(self.high))

    def affine(self) -> tuple[float, float] | None:
        if isinstance(self.low, Learnable) or isinstance(self.high, Learnable):
            return None
        return (float(self.low), float(self.high) - float(self.low))


@dataclass(frozen=True)
class CenteredUniform(Distribution):
    """Uniform on (center - half_width, center + half_width), for example a magnitude around the value that changes nothing.

    Args:
        center: the middle.
        half_width: at least 0; a `Learnable` gets the lower bound 0.
        estimator: as in `Uniform`.

    Gradient:
        center, half_width: exact through the draw (reparameterised).

    Errors:
        InvalidArgument for a negative half_width, and for an estimator that does not exist.

    Example:
        >>> CenteredUniform(1.0, 0.5).sample(torch.tensor([0.0, 0.5, 1.0]), {})
        tensor([0.5000, 1.0000, 1.5000])
    """

    center: Number
    half_width: Number
    estimator: str = "reparameterised"

    names: ClassVar = ("center", "half_width")

    def __post_init__(self) -> None:
        self.read("center")
        self.read("half_width", floor=0.0)
        _check_estimator("CenteredUniform", self.estimator)

    def density(self, now: Mapping[str, Tensor]) -> D.Uniform:
        return D.Uniform(now["center"] - now["half_width"], now["center"] + now["half_width"], validate_args=False)

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        now = self.current(raw)
        return now["center"] + now["half_width"] * (2.0 * u - 1.0)

    def span(self) -> tuple[float, float]:
        reach = highest(self.half_width)
        return (lowest(self.center) - reach, highest(self.center) + reach)


@dataclass(frozen=True)
class LogUniform(Distribution):
    """Uniform in the logarithm on (low, high), both positive.

    Args:
        low, high: as in `Uniform`.
        estimator: as in `Uniform`.

    Gradient:
        low, high: exact through the draw; the learned numbers live in log space, ordered as in `Uniform`.

    Errors:
        InvalidArgument for an end that is not positive or may become so by learning, for high below low, and for an estimator that
        does not exist.

    Example:
        >>> LogUniform(0.5, 2.0).sample(torch.tensor([0.0, 0.5, 1.0]), {})
        tensor([0.5000, 1.0000, 2.0000])
    """

    low: Number
    high: Number
    estimator: str = "reparameterised"

    names: ClassVar = ("low", "high")

    def __post_init__(self) -> None:
        self.read("low")
        self.read("high")
        for name, end in (("low", self.low), ("high", self.high)):
            if value_of(end) <= 0 or (isinstance(end, Learnable) and (end.low or 0) < 0):
                raise invalid(f"LogUniform.{name}", expected="a number > 0", got=repr(end))
            if isinstance(end, Learnable) and end.as_it_is:
                fix = "Write Learnable(start), which stays positive."
                raise invalid(f"LogUniform.{name}", expected="a number or a Learnable", got="an nn.Parameter", fix=fix)
        self.logs()

    def logs(self) -> Uniform:
        """Return the uniform distribution of the logarithm.

        Example:
            >>> LogUniform(1.0, 10.0).logs().high
            2.302585092994046
        """
        known: Uniform | None = self.__dict__.get("_logs")  # kept, because making it checks its numbers
        if known is None:
            known = Uniform(_log(self.low), _log(self.high), self.estimator)
            object.__setattr__(self, "_logs", known)
        return known

    def learned(self) -> dict[str, Learnable]:
        return self.logs().learned()

    def start(self) -> dict[str, float]:
        return self.logs().start()

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        now = self.logs().current(raw)
        return {name: torch.exp(x) if isinstance(x, Tensor) else math.exp(x) for name, x in now.items()}

    def density(self, now: Mapping[str, Tensor]) -> D.Distribution:
        return _LogUniform(now["low"], now["high"])

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        return torch.exp(self.logs().sample(u, raw))

    def span(self) -> tuple[float, float]:
        low, high = self.logs().span()
        return (math.exp(low), math.exp(high) if high < math.inf else math.inf)


class _LogUniform(D.TransformedDistribution):
    """The exponential of a uniform, with the entropy that torch's transformed distribution lacks."""

    def __init__(self, low: Tensor, high: Tensor) -> None:
        super().__init__(D.Uniform(torch.log(low), torch.log(high), validate_args=False), D.ExpTransform(), validate_args=False)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.base_dist.mean


def _log(number: Number) -> Number:
    if isinstance(number, Learnable):
        low = math.log(number.low) if number.low else None
        high = None if number.high is None else math.log(number.high)
        return number.within(low, high, None if number.value is None else math.log(number.value))
    return math.log(number)


@dataclass(frozen=True)
class Normal(Distribution):
    """Normal with a mean and a standard deviation (a `Learnable` std gets the lower bound 0).

    Args:
        mean: a number, a `Learnable`, an ``nn.Parameter``, or a module of the images.
        std: likewise, at least 0.

    Gradient:
        mean, std: exact through the draw (reparameterised).

    Errors:
        InvalidArgument for a negative std.

    Example:
        >>> Normal(1.0, 2.0).sample(torch.tensor([0.5]), {})
        tensor([1.])
    """

    mean: Number = 0.0
    std: Number = 1.0

    names: ClassVar = ("mean", "std")

    def __post_init__(self) -> None:
        self.read("mean")
        self.read("std", floor=0.0)

    def density(self, now: Mapping[str, Tensor]) -> D.Normal:
        return D.Normal(now["mean"], now["std"], validate_args=False)

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        now = self.current(raw)
        return now["mean"] + now["std"] * (math.sqrt(2.0) * torch.erfinv(2.0 * u - 1.0))


@dataclass(frozen=True)
class Constant(Distribution):
    """Always the same value, which may be learned: a number or an array, the same for every sample.

    Args:
        value: a number, a `Learnable`, an ``nn.Parameter``, or a module of the images; or nested tuples of numbers, or a
            `Learnable` of an array.

    Errors:
        InvalidType for anything but a number; InvalidArgument for rows of different lengths.

    Example:
        >>> Constant(((0.0, 1.0), (2.0, 3.0))).sample(torch.rand(5, 1), {}).shape
        torch.Size([5, 2, 2])
    """

    value: Number | Any

    names: ClassVar = ("value",)

    def __post_init__(self) -> None:
        if isinstance(self.value, tuple | list):
            object.__setattr__(self, "value", nested("Constant.value", self.value))
        if not self.vector:
            self.read("value")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array; () for a number."""
        return self.value.shape if isinstance(self.value, Learnable) else shape_of(self.value)

    @property
    def vector(self) -> bool:  # type: ignore[override]
        """Whether it is an array."""
        return bool(self.shape)

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        if self.vector and not isinstance(self.value, Learnable):
            return {"value": torch.tensor(self.value, dtype=torch.float64)}
        return super().current(raw)

    def sample(self, u: Float[Tensor, "b *one"], raw: Raw) -> Float[Tensor, "b *shape"]:
        if not self.vector:
            return self.current(raw)["value"] + 0.0 * u
        if isinstance(self.value, Learnable):
            value = torch.as_tensor(self.current(raw)["value"])
        else:
            value = constant(flat(self.value), u.dtype, u.device).reshape(self.shape)
        return value + 0.0 * u.reshape(-1, *[1] * len(self.shape))

    def span(self) -> tuple[float, float]:
        return (lowest(self.value), highest(self.value))

    def affine(self) -> tuple[float, float] | None:
        return None if self.vector or isinstance(self.value, Learnable) else (float(self.value), 0.0)

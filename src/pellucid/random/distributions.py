"""The distributions parameters are drawn from: frozen values that map uniforms to numbers, differentiably.

Owns: `Uniform, CenteredUniform, LogUniform, Normal, Bernoulli, Categorical, Constant` and the internal `Permutation, Bits`.
Must not: draw randomness (uniforms are arguments) or hold parameters (raw values are arguments).
Read next: ``fields.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.learnable import Learnable, Number, bounded, raw_of, softplus_inverse

__all__ = [
    "DISTRIBUTIONS",
    "Bernoulli",
    "Bits",
    "Categorical",
    "CenteredUniform",
    "Constant",
    "Distribution",
    "LogUniform",
    "Normal",
    "Offset",
    "Permutation",
    "Uniform",
]

Raw = Mapping[str, Tensor]


class Distribution:
    """What may be drawn. Subclasses are final, frozen and hold numbers or `Learnable` only.

    ``sample(u, raw)`` maps one uniform per sample to one value per sample (the inverse of the distribution function), so
    a draw is a differentiable function of the distribution's own numbers.
    """

    words: ClassVar[int] = 1
    """How many 32-bit words of the hash one draw takes."""
    vector: ClassVar[bool] = False
    """Whether ``sample`` takes (and gives) a row of numbers per sample, even if it is a row of one."""

    def start(self) -> dict[str, float]:
        """Starting values of the unbounded parameters behind each `Learnable`; empty when nothing is learned."""
        return {}

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        """The numbers of the distribution as they are now, by field name."""
        raise NotImplementedError

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        """Map uniforms in (0, 1) to values."""
        raise NotImplementedError

    def span(self) -> tuple[float, float]:
        """Bounds that every value is certain to keep, whatever is learned."""
        return (-math.inf, math.inf)

    def affine(self) -> tuple[float, float] | None:
        """(shift, scale) when a draw is ``shift + scale * u`` with fixed numbers, else None."""
        return None


def _start(name: str, number: Number) -> dict[str, float]:
    return {name: raw_of(number.value, number.low, number.high)} if isinstance(number, Learnable) else {}


def _value(number: Number) -> float:
    return number.value if isinstance(number, Learnable) else float(number)


def _low(number: Number) -> float:
    if isinstance(number, Learnable):
        return -math.inf if number.low is None else number.low
    return float(number)


def _high(number: Number) -> float:
    if isinstance(number, Learnable):
        return math.inf if number.high is None else number.high
    return float(number)


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _at_least(number: Number, floor: float) -> Number:
    """Give a `Learnable` without a lower bound the one its place implies."""
    if isinstance(number, Learnable) and number.low is None:
        return Learnable(number.value, low=floor, high=number.high)
    return number


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform on (low, high).

    Args:
        low: lower end, a number or `Learnable`.
        high: upper end, not below ``low``.

    When both ends are learned and unbounded, what trains is the centre and the softplus of the width; otherwise each
    learned end is mapped into the room that the other one leaves. Either way low < high holds at every step.

    Gradient:
        low, high: exact through the draw (reparameterised).

    Example:
        >>> import torch
        >>> Uniform(-1.0, 3.0).sample(torch.tensor([0.25]), {})
        tensor([0.])
    """

    low: Number
    high: Number

    def __post_init__(self) -> None:
        low, high = _value(self.low), _value(self.high)
        learned = isinstance(self.low, Learnable) or isinstance(self.high, Learnable)
        if not (low < high or (low == high and not learned)):
            raise invalid(
                "Uniform", expected="low < high" if learned else "low <= high", got=f"low={low}, high={high}", fix="Swap the two."
            )

    def _joint(self) -> bool:
        ends = (self.low, self.high)
        return all(isinstance(end, Learnable) and end.low is None and end.high is None for end in ends)

    def _room_of_low(self) -> tuple[float | None, float | None]:
        ceiling = min(_high(self.low), _high(self.high)) if isinstance(self.low, Learnable) else math.inf
        return _finite(_low(self.low)), _finite(ceiling)

    def start(self) -> dict[str, float]:
        low, high = _value(self.low), _value(self.high)
        if self._joint():
            return {"center": (low + high) / 2, "width": softplus_inverse(high - low)}
        raw: dict[str, float] = {}
        if isinstance(self.low, Learnable):
            raw["low"] = raw_of(low, *self._room_of_low())
        if isinstance(self.high, Learnable):
            raw["high"] = raw_of(high, max(low, _low(self.high)), self.high.high)
        return raw

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        if "width" in raw:
            half = torch.nn.functional.softplus(raw["width"]) / 2
            return {"low": raw["center"] - half, "high": raw["center"] + half}
        low: Tensor | float = _value(self.low)
        high: Tensor | float = _value(self.high)
        if "low" in raw:
            low = bounded(raw["low"], *self._room_of_low())
        if "high" in raw and isinstance(self.high, Learnable):
            floor: Tensor | float = low
            if self.high.low is not None:
                floor = torch.clamp(low, min=self.high.low) if isinstance(low, Tensor) else max(low, self.high.low)
            high = bounded(raw["high"], floor, self.high.high)
        return {"low": low, "high": high}

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        now = self.current(raw)
        return now["low"] + (now["high"] - now["low"]) * u

    def span(self) -> tuple[float, float]:
        return (_low(self.low), _high(self.high))

    def affine(self) -> tuple[float, float] | None:
        if isinstance(self.low, Learnable) or isinstance(self.high, Learnable):
            return None
        return (float(self.low), float(self.high) - float(self.low))


@dataclass(frozen=True)
class CenteredUniform(Distribution):
    """Uniform on (center - half_width, center + half_width): a magnitude around a resting value.

    Args:
        center: the middle.
        half_width: at least 0; a `Learnable` gets the lower bound 0.
    """

    center: Number
    half_width: Number

    def __post_init__(self) -> None:
        if _value(self.half_width) < 0:
            raise invalid("CenteredUniform.half_width", expected="a number >= 0", got=_value(self.half_width))
        object.__setattr__(self, "half_width", _at_least(self.half_width, 0.0))

    def start(self) -> dict[str, float]:
        return _start("center", self.center) | _start("half_width", self.half_width)

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        return {"center": _resolve("center", self.center, raw), "half_width": _resolve("half_width", self.half_width, raw)}

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        now = self.current(raw)
        return now["center"] + now["half_width"] * (2.0 * u - 1.0)

    def span(self) -> tuple[float, float]:
        reach = _high(self.half_width)
        return (_low(self.center) - reach, _high(self.center) + reach)


def _resolve(name: str, number: Number, raw: Raw) -> Tensor | float:
    if isinstance(number, Learnable):
        return bounded(raw[name], number.low, number.high)
    return float(number)


@dataclass(frozen=True)
class LogUniform(Distribution):
    """Uniform in the logarithm on (low, high), both positive.

    Gradient:
        low, high: exact through the draw; the learned numbers live in log space, ordered as in `Uniform`.
    """

    low: Number
    high: Number

    def __post_init__(self) -> None:
        if _value(self.low) <= 0:
            raise invalid("LogUniform.low", expected="a number > 0", got=_value(self.low))
        self._logs()

    def _logs(self) -> Uniform:
        return Uniform(_log(self.low), _log(self.high))

    def start(self) -> dict[str, float]:
        return self._logs().start()

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        now = self._logs().current(raw)
        return {name: torch.exp(x) if isinstance(x, Tensor) else math.exp(x) for name, x in now.items()}

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        return torch.exp(self._logs().sample(u, raw))

    def span(self) -> tuple[float, float]:
        low, high = self._logs().span()
        return (math.exp(low), math.exp(high) if high < math.inf else math.inf)


def _log(number: Number) -> Number:
    if isinstance(number, Learnable):
        low = math.log(number.low) if number.low else None
        return Learnable(math.log(number.value), low, None if number.high is None else math.log(number.high))
    return math.log(number)


@dataclass(frozen=True)
class Normal(Distribution):
    """Normal with a mean and a standard deviation (a `Learnable` std gets the lower bound 0)."""

    mean: Number = 0.0
    std: Number = 1.0

    def __post_init__(self) -> None:
        if _value(self.std) < 0:
            raise invalid("Normal.std", expected="a number >= 0", got=_value(self.std))
        object.__setattr__(self, "std", _at_least(self.std, 0.0))

    def start(self) -> dict[str, float]:
        return _start("mean", self.mean) | _start("std", self.std)

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        return {"mean": _resolve("mean", self.mean, raw), "std": _resolve("std", self.std, raw)}

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        now = self.current(raw)
        return now["mean"] + now["std"] * (math.sqrt(2.0) * torch.erfinv(2.0 * u - 1.0))


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """1 with probability p, else 0.

    Args:
        p: in [0, 1]; a `Learnable` gets the bounds (0, 1).
        temperature: None for hard gates; a number > 0 relaxes them to the binary concrete distribution, whose values above
            one half have exactly frequency p.

    Gradient:
        p: surrogate (straight-through) when hard, exact for the relaxed variable when ``temperature`` is set.
    """

    p: Number = 0.5
    temperature: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= _value(self.p) <= 1.0:
            raise invalid("Bernoulli.p", expected="a probability in [0, 1]", got=_value(self.p))
        if self.temperature is not None and self.temperature <= 0:
            raise invalid("Bernoulli.temperature", expected="a number > 0, or None for hard gates", got=self.temperature)
        if isinstance(self.p, Learnable):
            low = 0.0 if self.p.low is None else self.p.low
            high = 1.0 if self.p.high is None else self.p.high
            object.__setattr__(self, "p", Learnable(self.p.value, low, high))

    def start(self) -> dict[str, float]:
        return _start("p", self.p)

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        return {"p": _resolve("p", self.p, raw)}

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        p = self.current(raw)["p"]
        if self.temperature is not None:
            p = torch.as_tensor(p, dtype=u.dtype, device=u.device)
            return torch.sigmoid((torch.logit(p) - torch.logit(u)) / self.temperature)
        if isinstance(p, Tensor):
            gate: Tensor = _StraightThroughGate.apply(p.to(u.dtype), u)
            return gate
        return (u < p).to(u.dtype)

    def span(self) -> tuple[float, float]:
        return (0.0, 1.0)


class _StraightThroughGate(torch.autograd.Function):
    """Forward ``u < p``; backward as if the gate were p itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(p: Tensor, u: Tensor) -> Tensor:
        return (u < p).to(u.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.scalar = inputs[0].dim() == 0

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        return (grad.sum() if ctx.scalar else grad), None


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of ``values``, with the given weights.

    Args:
        values: the numbers to choose from.
        weights: non-negative, one per value, normalised here; default equal. A `Learnable` weight gets the lower bound 0.

    Gradient:
        weights: surrogate (straight-through: the value is taken to be linear in the probabilities).
    """

    values: tuple[float, ...]
    weights: tuple[Number, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(float(v) for v in self.values))
        if not self.values:
            raise invalid("Categorical.values", expected="at least one value", got=self.values)
        if self.weights is None:
            return
        if len(self.weights) != len(self.values):
            raise invalid("Categorical.weights", expected=f"{len(self.values)} weights", got=len(self.weights))
        if min(map(_value, self.weights)) < 0 or sum(map(_value, self.weights)) <= 0:
            raise invalid("Categorical.weights", expected="non-negative numbers with a positive sum", got=self.weights)
        object.__setattr__(self, "weights", tuple(_at_least(w, 0.0) for w in self.weights))

    def _weights(self) -> tuple[Number, ...]:
        return self.weights or (1.0,) * len(self.values)

    def start(self) -> dict[str, float]:
        raw: dict[str, float] = {}
        for i, weight in enumerate(self._weights()):
            raw |= _start(f"weight_{i}", weight)
        return raw

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        weights = [_resolve(f"weight_{i}", w, raw) for i, w in enumerate(self._weights())]
        total = sum(weights[1:], start=weights[0])
        return {f"weight_{i}": w / total for i, w in enumerate(weights)}

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        shares = list(self.current(raw).values())
        values = torch.tensor(self.values, dtype=u.dtype, device=u.device)
        learned = any(isinstance(share, Tensor) for share in shares)
        if not learned:
            edges = torch.tensor(shares, dtype=u.dtype, device=u.device).cumsum(0)[:-1]
            return values[(u[:, None] >= edges).sum(1)]
        probabilities = torch.stack([torch.as_tensor(s, dtype=u.dtype, device=u.device) for s in shares])
        one_hot: Tensor = _StraightThroughChoice.apply(probabilities, u)
        return one_hot @ values

    def span(self) -> tuple[float, float]:
        return (min(self.values), max(self.values))


class _StraightThroughChoice(torch.autograd.Function):
    """Forward: the one-hot choice by inverse CDF; backward as if it were the probabilities."""

    generate_vmap_rule = True

    @staticmethod
    def forward(probabilities: Tensor, u: Tensor) -> Tensor:
        index = (u[:, None] >= probabilities.cumsum(0)[:-1]).sum(1, keepdim=True)
        return (index == torch.arange(probabilities.shape[0], device=u.device)).to(u.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del ctx, inputs, output

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].sum(0), None


@dataclass(frozen=True)
class Constant(Distribution):
    """Always the same value, which may be a `Learnable`."""

    value: Number

    def start(self) -> dict[str, float]:
        return _start("value", self.value)

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        return {"value": _resolve("value", self.value, raw)}

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        return self.current(raw)["value"] + 0.0 * u

    def span(self) -> tuple[float, float]:
        return (_low(self.value), _high(self.value))

    def affine(self) -> tuple[float, float] | None:
        return None if isinstance(self.value, Learnable) else (float(self.value), 0.0)


@dataclass(frozen=True)
class Permutation(Distribution):
    """A permutation of 0..n-1, uniformly at random. Internal: transforms with a random order use it."""

    n: int

    vector: ClassVar[bool] = True

    @property
    def words(self) -> int:  # type: ignore[override]
        """One word per element."""
        return self.n

    def sample(self, u: Float[Tensor, "b n"], raw: Raw) -> Int64[Tensor, "b n"]:
        return torch.argsort(u, dim=-1, stable=True)


@dataclass(frozen=True)
class Offset(Distribution):
    """An integer low, low + 1, ..., low + count - 1, uniformly. Internal: where to cut whole pixels.

    Gradient:
        none (integers).
    """

    low: int
    count: int

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        return self.low + torch.floor(u * self.count)

    def span(self) -> tuple[float, float]:
        return (self.low, self.low + self.count - 1)


@dataclass(frozen=True)
class Bits(Distribution):
    """Two raw 32-bit words: the key of a noise field. Internal."""

    words: ClassVar[int] = 2
    vector: ClassVar[bool] = True

    def sample(self, u: Float[Tensor, "b 2"], raw: Raw) -> Int64[Tensor, "b 2"]:
        return (u * 2.0**32).to(torch.int64)


DISTRIBUTIONS: dict[str, type[Distribution]] = {
    kind.__name__: kind for kind in (Uniform, CenteredUniform, LogUniform, Normal, Bernoulli, Categorical, Constant)
}
"""By name, for reading serialised pipelines."""

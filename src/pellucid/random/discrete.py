"""Discrete distributions: gates and choices.

Owns: `Bernoulli`, `Categorical`, their straight-through surrogates, and the names of their estimators.
Must not: evaluate a loss; ``pellucid.estimators`` does, where an estimator needs one.
Read next: ``internal.py``, ``fields.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.distributions as D
from jaxtyping import Float
from torch import Tensor

from pellucid.constants import constant, scalar
from pellucid.errors import invalid
from pellucid.random.arguments import check_choice, finite_number, finite_numbers
from pellucid.random.distribution import Distribution
from pellucid.random.learnable import Learnable, Number
from pellucid.random.numbers import Raw, as_number, as_numbers, at_least, value_of

__all__ = ["CHOICE_ESTIMATORS", "GATE_ESTIMATORS", "Bernoulli", "Categorical"]

GATE_ESTIMATORS = ("exact", "arm", "reinforce", "relaxed", "straight_through")
CHOICE_ESTIMATORS = ("exact", "reinforce", "straight_through")


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """1 with probability p, else 0.

    Args:
        p: in [0, 1]: a number, a `Learnable` (which gets the bounds (0, 1)), an ``nn.Parameter``, or a module of the images.
        temperature: of the ``relaxed`` estimator (0.5 if not given): the gate becomes a binary concrete variable, whose values
            above one half have exactly frequency p. Giving a temperature chooses that estimator.
        estimator: how a learned p gets its gradient. ``exact`` evaluates the loss with the gate open and shut; ``arm`` once more
            with every such gate antithetic; ``reinforce`` weighs the score by the loss, less the mean over the rest of the batch;
            ``relaxed`` and ``straight_through`` need no further evaluation and are biased.

    ``exact``, ``arm`` and ``reinforce`` need the loss: they act in ``pipeline.expected``. In a plain call the gate is hard and its
    gradient the straight-through surrogate.

    Gradient:
        p: surrogate (straight-through) when hard, exact for the relaxed variable when relaxed.
    """

    p: Number = 0.5
    temperature: float | None = None
    estimator: str = "exact"

    names: ClassVar = ("p",)

    def __post_init__(self) -> None:
        p = as_number("Bernoulli.p", self.p)
        if not isinstance(p, Learnable) and not 0.0 <= p <= 1.0:
            raise invalid("Bernoulli.p", expected="a probability in [0, 1]", got=p)
        if isinstance(p, Learnable):
            p = p.within(0.0 if p.low is None else p.low, 1.0 if p.high is None else p.high)
            if not p.as_it_is and (p.low < 0.0 or p.high > 1.0):  # type: ignore[operator]
                raise invalid(
                    "Bernoulli.p", expected="bounds within [0, 1]", got=f"low={p.low}, high={p.high}", fix="Leave them out."
                )
        object.__setattr__(self, "p", p)
        check_choice("Bernoulli.estimator", self.estimator, GATE_ESTIMATORS)
        if self.temperature is not None:
            object.__setattr__(self, "temperature", finite_number("Bernoulli.temperature", self.temperature))
        if self.temperature is not None and self.temperature <= 0:
            raise invalid("Bernoulli.temperature", expected="a number > 0, or None for hard gates", got=self.temperature)
        if self.temperature is not None and self.estimator == "exact":
            object.__setattr__(self, "estimator", "relaxed")
        if self.temperature is None and self.estimator == "relaxed":
            object.__setattr__(self, "temperature", 0.5)
        if self.temperature is not None and self.estimator != "relaxed":
            raise invalid("Bernoulli.temperature", expected="None, as only 'relaxed' has one", got=self.temperature)

    def density(self, now: Mapping[str, Tensor]) -> D.Bernoulli:
        return D.Bernoulli(now["p"], validate_args=False)

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        p = self.current(raw)["p"]
        if self.temperature is not None:
            p = scalar(p, u)
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
        estimator: how learned weights get their gradient: ``exact`` (the loss at every other value, too) or ``reinforce`` (both
            in ``pipeline.expected``), or ``straight_through`` (the value is taken to be linear in the probabilities).

    Gradient:
        weights: surrogate (straight-through) in a plain call.
    """

    values: tuple[float, ...]
    weights: tuple[Number, ...] | None = None
    estimator: str = "exact"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", finite_numbers("Categorical.values", self.values))
        check_choice("Categorical.estimator", self.estimator, CHOICE_ESTIMATORS)
        if self.weights is None:
            return
        weights = as_numbers("Categorical.weights", self.weights)
        if len(weights) != len(self.values):
            raise invalid(
                "Categorical.values and weights", expected="one weight per value", got=f"{len(self.values)} and {len(weights)}"
            )
        starts = [value_of(w) for w in weights]
        if any(w < 0 for w in starts) or sum(starts) <= 0:
            raise invalid("Categorical.weights", expected="non-negative numbers with a positive sum", got=weights)
        object.__setattr__(self, "weights", tuple(at_least(w, 0.0) for w in weights))

    def _weights(self) -> tuple[Number, ...]:
        return self.weights or (1.0,) * len(self.values)

    def numbers(self) -> dict[str, Number]:
        return {f"weight_{i}": w for i, w in enumerate(self._weights())}

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        weights = super().current(raw)
        total = sum(list(weights.values())[1:], start=weights["weight_0"])
        return {name: weight / total for name, weight in weights.items()}

    def probabilities(self, raw: Raw, like: Tensor) -> Float[Tensor, "*b k"]:
        """The weights as they are now, normalised; a row per sample where they are predicted."""
        shares = [scalar(s, like) for s in self.current(raw).values()]
        return torch.stack(torch.broadcast_tensors(*shares), -1)

    def density(self, now: Mapping[str, Tensor]) -> D.Categorical:
        return D.Categorical(torch.stack(torch.broadcast_tensors(*now.values()), -1), validate_args=False)

    def choose(self, u: Float[Tensor, "b"], probabilities: Float[Tensor, "*b k"]) -> Tensor:
        """Which of the values each uniform falls on, as an index."""
        return (u[:, None] >= probabilities.cumsum(-1)[..., :-1]).sum(1)

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        values = constant(self.values, u.dtype, u.device)
        probabilities = self.probabilities(raw, u)
        if not any(isinstance(weight, Learnable) for weight in self._weights()):
            return values[self.choose(u, probabilities)]
        one_hot: Tensor = _StraightThroughChoice.apply(probabilities, u)
        return one_hot @ values

    def span(self) -> tuple[float, float]:
        return (min(self.values), max(self.values))


class _StraightThroughChoice(torch.autograd.Function):
    """Forward: the one-hot choice by inverse CDF; backward as if it were the probabilities."""

    generate_vmap_rule = True

    @staticmethod
    def forward(probabilities: Tensor, u: Tensor) -> Tensor:
        index = (u[:, None] >= probabilities.cumsum(-1)[..., :-1]).sum(1, keepdim=True)
        return (index == torch.arange(probabilities.shape[-1], device=u.device)).to(u.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.shared = inputs[0].dim() == 1

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (grads[0].sum(0) if ctx.shared else grads[0]), None

"""Discrete distributions: gates and choices.

Owns: `Bernoulli`, `Categorical`, their straight-through surrogates, and the names of their estimators.
Must not: evaluate a loss; ``pellucid.pipeline.estimators`` does so for the estimators that need it.
Read next: ``internal.py``, ``fields.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
import torch.distributions as D
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import check_choice, finite_number, finite_numbers
from pellucid.core.constants import constant, scalar
from pellucid.errors import invalid
from pellucid.random.distribution import Distribution
from pellucid.random.learnable import Given, Learnable, Number, flat, nested, shape_of
from pellucid.random.numbers import Raw, as_number, as_numbers, at_least, value_of

__all__ = ["ESTIMATORS", "Bernoulli", "Categorical", "one_each"]

ESTIMATORS = ("exact", "arm", "reinforce", "relaxed", "straight_through")
_COLDEST = 1e-6
"""The lowest temperature: below it, logits overflow."""


@dataclass(frozen=True)
class Bernoulli(Distribution):
    """1 with probability p, else 0.

    Args:
        p: in [0, 1]: a number, a `Learnable` (which gets the bounds (0, 1)), an ``nn.Parameter``, or a module of the images.
        temperature: of the ``relaxed`` estimator (default 0.5): the gate becomes a binary concrete variable, which is above one
            half with probability exactly p. Passing a temperature chooses this estimator.
        estimator: how a learned p gets its gradient. ``exact`` evaluates the loss with the gate open and with it shut; ``arm``
            evaluates it once more, with antithetic draws of all such gates; ``reinforce`` multiplies the score by the loss minus
            the mean loss of the rest of the batch (in a batch of one, minus the loss of another draw); ``relaxed`` and
            ``straight_through`` need no further evaluation and are biased.

    ``exact``, ``arm`` and ``reinforce`` need the loss, so they act in ``pipeline.expected`` only. In a plain call the gate is hard,
    and its gradient is the straight-through surrogate.

    Gradient:
        p: surrogate (straight-through) when hard, exact for the relaxed variable when relaxed.

    Errors:
        InvalidArgument for a p outside of [0, 1], a temperature that is not positive, or an estimator that does not exist.

    Example:
        >>> Bernoulli(0.3).sample(torch.tensor([0.1, 0.29, 0.31, 0.9]), {})
        tensor([1., 1., 0., 0.])
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
                fix = "Leave them out."
                raise invalid("Bernoulli.p", expected="bounds within [0, 1]", got=f"low={p.low}, high={p.high}", fix=fix)
        object.__setattr__(self, "p", p)
        _read_estimator(self)

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


def _read_estimator(owner: Bernoulli | Categorical) -> None:
    """Check the estimator and the temperature; a temperature chooses the relaxed estimator."""
    name = type(owner).__name__
    check_choice(f"{name}.estimator", owner.estimator, ESTIMATORS)
    temperature = owner.temperature
    if temperature is not None and finite_number(f"{name}.temperature", temperature) < _COLDEST:
        raise invalid(f"{name}.temperature", expected=f"a number >= {_COLDEST:g}, or None for hard draws", got=temperature)
    if temperature is None and owner.estimator == "relaxed":
        temperature = 0.5
    object.__setattr__(owner, "temperature", None if temperature is None else float(temperature))
    if temperature is not None and owner.estimator == "exact":
        object.__setattr__(owner, "estimator", "relaxed")
    if temperature is not None and owner.estimator != "relaxed":
        raise invalid(f"{name}.temperature", expected="None, as only 'relaxed' has one", got=temperature)


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of ``values``, drawn by weights.

    Args:
        values: the numbers to choose from, or rows of numbers of one length.
        weights: non-negative, one per value, normalised here; default equal. A `Learnable` weight gets the lower bound 0. All
            weights together may be one `Learnable` of k numbers, or a module (or ``Learnable(by=module)``) that maps images
            (B, C, H, W) to (B, k), of which softplus makes weights.
        estimator: how learned weights get their gradient: ``exact`` (evaluates the loss at every other value, too), ``arm``
            (evaluates it once more, with antithetic draws) or ``reinforce``, all three in ``pipeline.expected``; ``relaxed`` or
            ``straight_through`` (treats the value as linear in the probabilities) need no further evaluation and are biased.
        temperature: of the ``relaxed`` estimator (default 0.5): the shares of the values follow the Gumbel-softmax, in which each
            value has the largest share with exactly its weight as probability. Passing a temperature chooses this estimator.

    Under ``arm`` a choice among k values is drawn as k - 1 gates, each with its own uniform: the first gate that opens is chosen.

    Gradient:
        weights: surrogate (straight-through) in a plain call; exact for relaxed shares.

    Errors:
        InvalidArgument for no values, rows of different lengths, weights that are negative, all 0 or not one per value, and for an
        estimator or a temperature as in `Bernoulli`.

    Source:
        Jang, Gu, Poole: "Categorical reparameterization with Gumbel-softmax", ICLR 2017.

    Example:
        >>> Categorical((0.0, 90.0, 180.0), weights=(1.0, 2.0, 1.0)).sample(torch.tensor([0.1, 0.3, 0.7, 0.9]), {})
        tensor([  0.,  90.,  90., 180.])
    """

    values: tuple[Any, ...]
    weights: tuple[Number, ...] | Learnable | Given | None = None
    estimator: str = "exact"
    temperature: float | None = None

    def __post_init__(self) -> None:
        rows = isinstance(self.values, tuple | list) and any(isinstance(value, tuple | list) for value in self.values)
        read = nested("Categorical.values", self.values) if rows else finite_numbers("Categorical.values", self.values)
        object.__setattr__(self, "values", read)
        _read_estimator(self)
        if self.weights is None:
            return
        weights = as_numbers("Categorical.weights", one_each(self.weights, len(self.values)))
        if len(weights) != len(self.values):
            expected = "one weight per value"
            raise invalid("Categorical.values and weights", expected=expected, got=f"{len(self.values)} and {len(weights)}")
        starts = [value_of(w) for w in weights]
        known = not any(math.isnan(w) for w in starts)
        if known and (min(starts) < 0 or not 0 < sum(starts) < math.inf):
            raise invalid("Categorical.weights", expected="non-negative numbers with a positive sum", got=weights)
        object.__setattr__(self, "weights", tuple(at_least(w, 0.0) for w in weights))

    @property
    def vector(self) -> bool:  # type: ignore[override]
        """Whether the values are rows."""
        return len(shape_of(self.values)) > 1

    @property
    def words(self) -> int:  # type: ignore[override]
        """One word; for ``relaxed`` one per value, for ``arm`` one per gate."""
        count = len(self.values)
        return count if self.temperature is not None else max(1, count - 1) if self.estimator == "arm" else 1

    def _weights(self) -> tuple[Number, ...]:
        return cast(Any, self.weights) or (1.0,) * len(self.values)

    def numbers(self) -> dict[str, Number]:
        return {f"weight_{i}": w for i, w in enumerate(self._weights())}

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        weights = super().current(raw)
        total = sum(list(weights.values())[1:], start=weights["weight_0"])
        return {name: weight / total for name, weight in weights.items()}

    def probabilities(self, raw: Raw, like: Tensor) -> Float[Tensor, "*b k"]:
        """Return the weights as they are now, normalised.

        Args:
            raw: the unbounded parameters behind learned numbers, by name; empty where none learn.
            like: a tensor that gives dtype and device.

        Returns:
            (k,), or (B, k) where they are predicted.

        Gradient:
            raw: exact.

        Example:
            >>> Categorical((0.0, 1.0), weights=(1.0, 3.0)).probabilities({}, torch.zeros(()))
            tensor([0.2500, 0.7500])
        """
        current = self.current(raw)
        if not any(isinstance(share, Tensor) for share in current.values()):
            return constant(tuple(current.values()), like.dtype, like.device)  # type: ignore[arg-type]
        shares = [scalar(s, like) for s in current.values()]
        return torch.stack(torch.broadcast_tensors(*shares), -1)

    def density(self, now: Mapping[str, Tensor]) -> D.Categorical:
        return D.Categorical(torch.stack(torch.broadcast_tensors(*now.values()), -1), validate_args=False)

    def gates(self, probabilities: Float[Tensor, "*b k"]) -> Float[Tensor, "*b k-1"]:
        """Return for each value but the last the probability that it is chosen if none before it is.

        Args:
            probabilities: of all values, in [0, 1].

        Returns:
            In [0, 1].

        Gradient:
            probabilities: exact.

        Example:
            >>> Categorical((0.0, 1.0, 2.0)).gates(torch.tensor([0.5, 0.25, 0.25]))
            tensor([0.5000, 0.5000])
        """
        rest = 1.0 - (probabilities.cumsum(-1) - probabilities)[..., :-1]
        # After the last value with a positive weight, rest is 0 and no gate is reached, so any value is right.
        return probabilities[..., :-1] / torch.where(rest > 1e-12, rest, 1.0)

    def shares(self, u: Float[Tensor, "b *words"], probabilities: Float[Tensor, "*b k"]) -> Float[Tensor, "b k"]:
        """Return the share of each value in each draw: 1 for the chosen value and 0 for others, or fractions in relaxed draws.

        Args:
            u: uniforms in (0, 1): one per sample, or as many as ``words``.
            probabilities: of all values, in [0, 1].

        Returns:
            In [0, 1]; each row sums to 1.

        Gradient:
            probabilities: exact for relaxed draws; else the straight-through surrogate if a weight is learned, and none if not.

        Example:
            >>> Categorical((0.0, 1.0)).shares(torch.tensor([0.2, 0.7]), torch.tensor([0.5, 0.5]))
            tensor([[1., 0.],
                    [0., 1.]])
        """
        if self.temperature is not None:
            noisy = torch.log(torch.where(probabilities > 0, probabilities, 1e-38)) - torch.log(-torch.log(u))
            return torch.softmax(noisy / self.temperature, -1)
        if self.estimator == "arm" and len(self.values) > 1:
            shut = (u.reshape(len(u), -1) >= self.gates(probabilities)).to(u.dtype).cumprod(1).sum(1)  # before the first open one
        else:
            shut = (u.reshape(-1, 1) >= probabilities.cumsum(-1)[..., :-1]).to(u.dtype).sum(1)
        hard = (shut[:, None] == constant(range(len(self.values)), u.dtype, u.device)).to(u.dtype)
        learned = any(isinstance(weight, Learnable) for weight in self._weights())
        return _StraightThroughChoice.apply(probabilities, hard) if learned else hard

    def sample(self, u: Float[Tensor, "b *words"], raw: Raw) -> Float[Tensor, "b *n"]:
        shares = self.shares(u, self.probabilities(raw, u))
        values = constant(flat(self.values), u.dtype, u.device)
        if not self.vector:
            return (shares * values).sum(1)
        return (shares[:, :, None] * values.reshape(len(self.values), -1)).sum(1)

    def span(self) -> tuple[float, float]:
        return (min(flat(self.values)), max(flat(self.values)))


def one_each(weights: Any, count: int) -> Any:
    """Split one `Learnable` or module that stands for all weights into one weight for each of ``count`` values."""
    if not isinstance(weights, Learnable):
        if not callable(weights) or isinstance(weights, Tensor | type):
            return weights
        weights = Learnable(by=weights)
    if not weights.shape and not weights.predicted:
        return weights
    starts = weights.value if weights.shape else (weights.value,) * count
    return tuple(
        Learnable(start, weights.low, weights.high, weights.by, weights.column + i)
        if weights.predicted
        else Learnable(start, weights.low, weights.high)
        for i, start in enumerate(starts)
    )


class _StraightThroughChoice(torch.autograd.Function):
    """Forward: the hard choice; backward as if the result were the probabilities."""

    generate_vmap_rule = True

    @staticmethod
    def forward(probabilities: Tensor, hard: Tensor) -> Tensor:
        return hard.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.shared = inputs[0].dim() == 1

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (grads[0].sum(0) if ctx.shared else grads[0]), None

"""The term each loss-based estimator adds: a number of the distribution, and the credit that becomes its gradient.

Owns: the formulas.
Must not: decide which evaluations are shared; see ``expected.py``.
Read next: ``docs/estimators.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import constant, scalar
from pellucid.random.distributions import Bernoulli, Categorical, CenteredUniform, Distribution, LogUniform, Raw, Uniform
from pellucid.random.learnable import Learnable, flat, shape_of

__all__ = ["Term", "antithetic", "arm", "boundary", "ends", "exact_choice", "exact_gate", "less_others", "score", "value"]

Term: TypeAlias = tuple[Tensor, Tensor]
"""(number, credit): scalars or (b,). The number is part of the graph; the credit is a constant and becomes its gradient."""

At: TypeAlias = Callable[[Tensor], Tensor]
"""Maps a replacement of this one drawn value to the losses."""


def value(distribution: Distribution, u: Float[Tensor, "b *words"], raw: Raw) -> Tensor:
    """Return the drawn value, one (or one row) per sample."""
    return distribution.sample(u, raw)


def exact_gate(gate: Bernoulli, raw: Raw, drawn: Tensor, losses: Tensor, at: At) -> list[Term]:
    """dE/dp = f(1) - f(0): one further evaluation, with the gate flipped; the gate itself adds no variance."""
    other = at(1.0 - drawn)
    sign = 2.0 * _match(drawn, losses) - 1.0
    return [(_number(gate, raw, "p", drawn), sign * (losses - other))]


def exact_choice(choice: Categorical, raw: Raw, u: Tensor, losses: Tensor, at: At) -> list[Term]:
    """dE/dw_j = f(v_j): one further evaluation for each other value.

    Only differences matter, as the probabilities sum to one, so the drawn value's own term is left out.
    """
    probabilities = choice.probabilities(raw, u)
    k = len(choice.values)
    values = constant(flat(choice.values), u.dtype, u.device).reshape(shape_of(choice.values))
    drawn = choice.shares(u, probabilities).detach().argmax(1)  # b
    rows = probabilities.expand(u.shape[0], k)
    terms = []
    for step in range(1, k):
        index = (drawn + step) % k
        share = rows.gather(1, index[:, None])[:, 0]
        terms.append((_match(share, losses), at(values[index]) - losses))
    return terms


def antithetic(distribution: Distribution, u: Tensor, raw: Raw) -> Tensor:
    """Return the values at the opposite uniforms, 1 - u."""
    return value(distribution, 1.0 - u, raw).detach()


def arm(distribution: Bernoulli | Categorical, raw: Raw, u: Tensor, losses: Tensor, opposite: Tensor) -> list[Term]:
    """dE/dlogit(p) = E (f(gate of 1 - u) - f(gate of u)) (u - 1/2), with all ARM gates opposite at once.

    A choice is drawn as the first of its gates that opens, so the formula for gates covers it.

    Source:
        Yin and Zhou: "ARM: Augment-REINFORCE-merge gradient for stochastic binary networks", ICLR 2019.
    """
    gap = opposite - losses
    if isinstance(distribution, Bernoulli):
        p = _number(distribution, raw, "p", u)
        return [(p, _inside(distribution, p, _arm_credit(p, gap, u)))]
    gates = distribution.gates(distribution.probabilities(raw, u))
    return [(p, _arm_credit(p, gap, u[..., k])) for k, p in enumerate(gates.unbind(-1))]


def _arm_credit(p: Tensor, gap: Tensor, u: Tensor) -> Tensor:
    # The credit contains the derivative of the logit at the current p, which is finite for every p that can be drawn.
    return gap * (u - 0.5) / torch.clamp(p * (1.0 - p), min=1e-12).detach()


def less_others(losses: Float[Tensor, "b"]) -> Float[Tensor, "b"]:
    """Return each loss minus the mean of the others."""
    return losses - (losses.sum() - losses) / (losses.shape[0] - 1)


def score(distribution: Distribution, raw: Raw, drawn: Tensor, credit: Tensor) -> list[Term]:
    """Return the score of the draw, weighted by its credit: the loss minus a baseline that does not depend on the draw."""
    if isinstance(distribution, Categorical):
        like = drawn[:, 0] if distribution.vector else drawn
        rows = distribution.probabilities(raw, like).expand(drawn.shape[0], len(distribution.values))
        values = constant(flat(distribution.values), drawn.dtype, drawn.device).reshape(shape_of(distribution.values))
        same = drawn[:, None] == values
        chance = torch.where(same.all(-1) if distribution.vector else same, rows, 0.0).sum(1)  # equal values count as one
    else:
        assert isinstance(distribution, Bernoulli)
        p = _number(distribution, raw, "p", drawn)
        chance = torch.where(drawn > 0.5, p, 1.0 - p)
        credit = _inside(distribution, p, credit)
    return [(torch.log(chance), credit)]


def _inside(gate: Bernoulli, p: Tensor, credit: Tensor) -> Tensor:
    """Make the credit NaN if a user's own probability has left (0, 1): otherwise the gradient would silently stay 0."""
    if isinstance(gate.p, Learnable) and gate.p.as_it_is:
        return torch.where((p > 0.0) & (p < 1.0), credit, math.nan)
    return credit


def boundary(distribution: Distribution, raw: Raw, drawn: Tensor, losses: Tensor, at: At) -> list[Term]:
    """dE/dhigh = (f(high) - E f) / (high - low), dE/dlow = (E f - f(low)) / (high - low).

    This is Leibniz' rule on the integral, so f may be piecewise constant. For `LogUniform` it holds in the logarithms; for
    `CenteredUniform`, autograd applies the chain rule from the ends to centre and half width.
    """
    low, high = _inner_ends(distribution, raw, drawn)
    width = (high - low).detach()
    at_low, at_high = (at(end) for end in ends(distribution, raw, drawn))
    return [(high, (at_high - losses) / width), (low, (losses - at_low) / width)]


def ends(distribution: Distribution, raw: Raw, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the ends of a range as drawn values, without their graph."""
    low, high = (end.detach().expand(like.shape) for end in _inner_ends(distribution, raw, like))
    return (torch.exp(low), torch.exp(high)) if isinstance(distribution, LogUniform) else (low, high)


def _inner_ends(distribution: Distribution, raw: Raw, like: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(distribution, LogUniform):
        distribution = distribution.logs()
    if isinstance(distribution, CenteredUniform):
        center, half = (_number(distribution, raw, name, like) for name in ("center", "half_width"))
        return center - half, center + half
    assert isinstance(distribution, Uniform)
    return _number(distribution, raw, "low", like), _number(distribution, raw, "high", like)


def _number(distribution: Distribution, raw: Raw, name: str, like: Tensor) -> Tensor:
    return scalar(distribution.current(raw)[name], like)


def _match(per_sample: Tensor, losses: Tensor) -> Tensor:
    """Return one number per loss: one for each sample, or only the first for a scalar loss with a shared draw."""
    return per_sample if losses.dim() else per_sample[0]

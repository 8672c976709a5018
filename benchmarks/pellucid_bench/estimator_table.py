"""Bias and spread of every estimator, measured on functions whose gradients are known.

Owns: the test functions, their closed forms, and the table.
Must not: tune an estimator to its test.
Read next: ``docs/estimators.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pellucid.pipeline.estimators.expected import evaluations, expected_loss
from pellucid.pipeline.estimators.site import Site
from pellucid.random.distributions import Bernoulli, Categorical, Distribution, Normal, Raw, Uniform
from pellucid.random.learnable import Learnable, softplus_inverse

__all__ = ["Row", "measure", "rows", "table"]

_F64 = torch.float64


def _gate_loss(gate: Tensor) -> Tensor:
    y = 2.0 * gate - 0.5
    return torch.sin(3.0 * y) + y**2


def _smooth(x: Tensor) -> Tensor:
    return torch.sin(3.0 * x) + x**3


def _stairs(x: Tensor) -> Tensor:
    return torch.floor(4.0 * x) ** 2


@dataclass(frozen=True)
class Row:
    """One estimator on one function.

    Args:
        problem: the function and the number its expectation is differentiated by.
        estimator: by name.
        forwards: evaluations of the loss per step; the first of them also goes backward.
        oracle: the closed form.
        mean: of the estimates of all samples.
        spread: their standard deviation: divide by the square root of the batch size.
        samples: how many.
    """

    problem: str
    estimator: str
    forwards: int
    oracle: float
    mean: float
    spread: float
    samples: int

    @property
    def bias(self) -> float:
        """Mean less oracle."""
        return self.mean - self.oracle

    @property
    def error(self) -> float:
        """The standard error of the mean: a bias of less than three of these cannot be told from none."""
        return self.spread / math.sqrt(self.samples)


def measure(
    distribution: Distribution, raw: Mapping[str, float], function: Callable[[Tensor], Tensor], samples: int, seed: int = 0
) -> tuple[dict[str, Tensor], int]:
    """Per-sample gradients to each raw number of one distribution, and the number of evaluations they took.

    Args:
        distribution: with learned numbers.
        raw: where they are, by name, unbounded.
        function: the loss of a drawn value.
        samples: how many draws.
        seed: of the uniforms.
    """
    u = torch.rand(samples, generator=torch.Generator().manual_seed(seed), dtype=_F64)
    leaves: Raw = {name: torch.full((samples,), value, dtype=_F64, requires_grad=True) for name, value in raw.items()}
    site = Site("value", distribution, leaves, u)

    def evaluate(changed: Mapping[Any, Tensor]) -> Tensor:
        value = changed["value"] if "value" in changed else distribution.sample(u, leaves)
        return function(value)

    total = expected_loss(evaluate, [site])
    gradients = torch.autograd.grad(total, list(leaves.values()))
    return {name: gradient * samples for name, gradient in zip(leaves, gradients, strict=True)}, evaluations([site])


def rows(samples: int = 200_000) -> list[Row]:
    """Measure every estimator on its closed forms."""
    found: list[Row] = []

    def add(problem: str, estimator: str, forwards: int, oracle: float, estimates: Tensor) -> None:
        spread = float(estimates.std())
        found.append(Row(problem, estimator, forwards, oracle, float(estimates.mean()), spread, samples))

    oracle = float(_gate_loss(torch.tensor(1.0, dtype=_F64)) - _gate_loss(torch.tensor(0.0, dtype=_F64)))
    p = 0.3
    gates = [("exact", None), ("arm", None), ("reinforce", None), ("relaxed", 1.0), ("relaxed", 0.5), ("relaxed", 0.1)]
    for estimator, temperature in [*gates, ("straight_through", None)]:
        gate = Bernoulli(Learnable(p), estimator=estimator, temperature=temperature)
        gradients, forwards = measure(gate, {"p": math.log(p / (1 - p))}, _gate_loss, samples)
        label = estimator if temperature is None else f"{estimator}({temperature:g})"
        add("gate: dE/dp", label, forwards, oracle, gradients["p"] / (p * (1 - p)))

    values = (-0.4, 0.1, 0.9)
    choices = torch.tensor([0.2, -0.3, 0.5], dtype=_F64, requires_grad=True)
    shares = torch.nn.functional.softplus(choices)
    (slopes,) = torch.autograd.grad((shares / shares.sum() * _smooth(torch.tensor(values, dtype=_F64))).sum(), choices)
    weights = tuple(Learnable(1.0) for _ in values)
    start = {f"weight_{i}": float(x) for i, x in enumerate(choices.detach())}
    for estimator in ("exact", "reinforce", "straight_through"):
        gradients, forwards = measure(Categorical(values, weights, estimator), start, _smooth, samples)
        add("choice of 3: dE/dw", estimator, forwards, float(slopes[2]), gradients["weight_2"])

    low, high = -0.4, 0.9
    means = {"smooth": _smooth_mean(low, high), "staircase": (4 * 0.15 + 0.25 + 0.25 + 4 * 0.25 + 9 * 0.15) / (high - low)}
    raw = {"center": (low + high) / 2, "width": softplus_inverse(high - low)}
    for name, function in (("smooth", _smooth), ("staircase", _stairs)):
        end = float(function(torch.tensor(high, dtype=_F64)))
        for estimator in ("reparameterised", "boundary"):
            uniform = Uniform(Learnable(low), Learnable(high), estimator)
            gradients, forwards = measure(uniform, raw, function, samples)
            half = 2.0 * gradients["width"] / (1.0 - math.exp(low - high))
            estimates = (gradients["center"] + half) / 2.0
            add(f"{name} range: dE/dhigh", estimator, forwards, (end - means[name]) / (high - low), estimates)

    normal = Normal(Learnable(0.1), Learnable(0.8))
    gradients, forwards = measure(normal, {"mean": 0.1, "std": softplus_inverse(0.8)}, lambda x: x**3, samples)
    add("normal, x^3: dE/dmean", "reparameterised", forwards, 3 * 0.1**2 + 3 * 0.8**2, gradients["mean"])
    return found


def _smooth_mean(low: float, high: float) -> float:
    """The mean of sin(3 x) + x^3 on (low, high)."""

    def antiderivative(x: float) -> float:
        return -math.cos(3.0 * x) / 3.0 + x**4 / 4.0

    return (antiderivative(high) - antiderivative(low)) / (high - low)


def table(measured: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| problem | estimator | evaluations | oracle | mean | bias | bias / standard error | spread of one sample |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in measured:
        exact = row.spread < 1e-9
        ratio = "no error" if exact and abs(row.bias) < 1e-9 else "all bias" if exact else f"{row.bias / row.error:+.1f}"
        bias = 0.0 if abs(row.bias) < 1e-9 else row.bias
        numbers = f"{row.oracle:.4f} | {row.mean:.4f} | {bias:+.4f} | {ratio} | {0.0 if exact else row.spread:.2f}"
        lines.append(f"| {row.problem} | `{row.estimator}` | {row.forwards} | {numbers} |")
    return "\n".join(lines)

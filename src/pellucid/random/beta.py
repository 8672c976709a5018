"""The symmetric beta distribution, from which transforms that mix pictures draw their weights.

Owns: `Beta`, and its quantile function as a series.
Must not: use rejection sampling: each uniform gives one number.
Read next: ``distribution.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
import torch.distributions as D
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import finite_number
from pellucid.core.constants import constant
from pellucid.errors import invalid
from pellucid.random.distribution import Distribution
from pellucid.random.numbers import Raw

__all__ = ["Beta"]

_DEGREES = 64


@dataclass(frozen=True)
class Beta(Distribution):
    """The beta distribution with both concentrations ``alpha``, on (0, 1) around one half.

    Args:
        alpha: from 0.05 to 16. Below 1 most draws lie near 0 or 1, above 1 near one half; 1 is uniform.

    Gradient:
        none: alpha is a plain number. To learn a weight, draw it from another distribution.

    Errors:
        InvalidArgument for an alpha outside of [0.05, 16].

    Source:
        ``scipy.special.betaincinv``, to 1e-12.

    Example:
        >>> Beta(2.0).sample(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64), {}).round(decimals=4)
        tensor([0.1958, 0.5000, 0.8042], dtype=torch.float64)
    """

    alpha: float = 1.0

    _terms: ClassVar[tuple[float, ...]] = ()  # each instance has its own series

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", finite_number("Beta.alpha", self.alpha))
        if not 0.05 <= self.alpha <= 16.0:
            raise invalid("Beta.alpha", expected="a number from 0.05 to 16", got=self.alpha)
        object.__setattr__(self, "_terms", _series(self.alpha))

    def density(self, now: Mapping[str, Tensor]) -> D.Beta:
        del now
        alpha = torch.tensor(self.alpha, dtype=torch.float64)
        return D.Beta(alpha, alpha, validate_args=False)

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        lower = torch.minimum(u, 1.0 - u)
        place = (2.0 * lower) ** (1.0 / self.alpha)
        angles = torch.acos(2.0 * place - 1.0)[:, None] * torch.arange(_DEGREES, dtype=u.dtype, device=u.device)
        value = place * (torch.cos(angles) * constant(self._terms, u.dtype, u.device)).sum(1)
        return torch.where(u < 0.5, value, 1.0 - value)

    def span(self) -> tuple[float, float]:
        return (0.0, 1.0)

    def affine(self) -> tuple[float, float] | None:
        return (0.0, 1.0) if self.alpha == 1.0 else None


@lru_cache(maxsize=256)
def _series(alpha: float) -> tuple[float, ...]:
    """Return Chebyshev coefficients of quantile(s) / s for s = (2 u)^(1 / alpha) from 0 to 1, that is up to the median.

    The distribution function is F(x) = x^a (1 - x)^a g(x) / (a B(a, a)) with g = sum_k x^k (2a)_k / (a + 1)_k, all terms positive.
    So s is 4 x (1 - x) (g(x) / g(1/2))^(1/a), analytic in this range; Newton's method on log s inverts it.
    """
    nodes = np.cos(np.pi * (np.arange(_DEGREES) + 0.5) / _DEGREES)
    s = (nodes + 1.0) / 2.0
    ratios = (2.0 * alpha + np.arange(200)) / (alpha + 1.0 + np.arange(200))
    terms = np.concatenate(([1.0], np.cumprod(ratios)))

    def log_place(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        g = np.polynomial.polynomial.polyval(x, terms)
        return np.log(x) + np.log1p(-x) + np.log(g) / alpha, g

    half = float(log_place(np.array([0.5]))[0][0])
    x = 0.5 * s
    for _ in range(40):
        found, g = log_place(x)
        step = (np.log(s) + half - found) * (1.0 - x) * g  # d log s / d log x is 1 / ((1 - x) g)
        x = np.clip(x * np.exp(np.clip(step, -math.log(4.0), math.log(4.0))), 1e-300, 0.5)
    return tuple(float(c) for c in np.polynomial.chebyshev.chebfit(nodes, x / s, _DEGREES - 1))

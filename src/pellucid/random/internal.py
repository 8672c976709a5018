"""Distributions that only transforms use: orders, whole-pixel offsets, keys of noise, weights of mixtures, draws of cells.

Owns: `Permutation, Offset, Bits, Uniforms, Spacing, Dirichlet, Repeated`.
Must not: have learned numbers of their own.
Read next: ``fields.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.random.distribution import Distribution, Each
from pellucid.random.numbers import Raw

__all__ = ["Bits", "Dirichlet", "Offset", "Permutation", "Repeated", "Uniforms"]


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
    """An integer low, low + 1, ..., low + count - 1, uniformly. Internal: the place of a crop in whole pixels.

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
class Dirichlet(Distribution):
    """n shares that add up to 1: Dirichlet(alpha, ..., alpha). Internal: weights of mixtures.

    Gradient:
        none: alpha is a plain number.
    Source:
        ``scipy.stats.dirichlet``; for alpha = 1 the gaps between sorted uniforms, else normalised gamma quantiles.
    """

    n: int
    alpha: float = 1.0

    vector: ClassVar[bool] = True

    @property
    def words(self) -> int:  # type: ignore[override]
        """One word less than shares for alpha = 1 (gaps between sorted numbers), else one word per share."""
        return max(1, self.n - 1) if self.alpha == 1.0 else self.n

    def sample(self, u: Float[Tensor, "b w"], raw: Raw) -> Float[Tensor, "b n"]:
        if self.alpha != 1.0:
            parts = _gamma_quantile(u, self.alpha)
            return parts / parts.sum(1, keepdim=True)
        ends = [torch.zeros_like(u[:, 0]), *_in_order(list(u[:, : self.n - 1].unbind(1))), torch.ones_like(u[:, 0])]
        return torch.stack([end - start for start, end in pairwise(ends)], 1)


def _in_order(values: list[Tensor]) -> list[Tensor]:
    """Sort by comparing neighbours: tapes have rules for minimum and maximum."""
    for last in range(len(values) - 1, 0, -1):
        for i in range(last):
            low, high = torch.minimum(values[i], values[i + 1]), torch.maximum(values[i], values[i + 1])
            values[i], values[i + 1] = low, high
    return values


def _gamma_quantile(u: Float[Tensor, "*shape"], alpha: float) -> Float[Tensor, "*shape"]:
    """Return the x at which the distribution function of Gamma(alpha, 1) is u, by bisection in log x."""
    a = torch.full_like(u, alpha)
    low = (torch.log(u) + math.lgamma(alpha + 1.0)) / alpha  # x ** alpha / Gamma(alpha + 1) bounds the distribution function
    high = torch.full_like(u, math.log(40.0 + 10.0 * alpha))
    for _ in range(64):
        middle = 0.5 * (low + high)
        below = torch.special.gammainc(a, torch.exp(middle)) < u
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.exp(0.5 * (low + high))


@dataclass(frozen=True)
class Uniforms(Distribution):
    """n independent numbers, each uniform on (0, 1). Internal: the places of several holes, drops and the like."""

    n: int

    vector: ClassVar[bool] = True

    @property
    def words(self) -> int:  # type: ignore[override]
        """One word per number."""
        return self.n

    def sample(self, u: Float[Tensor, "b n"], raw: Raw) -> Float[Tensor, "b n"]:
        return u * 1.0


@dataclass(frozen=True)
class Spacing(Distribution):
    """The distances of a sample's voxels along x, y and z; 1 if the sample does not give them. Internal: read, not drawn."""

    vector: ClassVar[bool] = True
    spacing: ClassVar[bool] = True

    def sample(self, u: Float[Tensor, "b 1"], raw: Raw) -> Float[Tensor, "b 3"]:
        return raw["spacing"].to(u) if raw else torch.ones_like(u).expand(-1, 3)


@dataclass(frozen=True)
class Bits(Distribution):
    """Two raw 32-bit words: the key of a noise field. Internal."""

    words: ClassVar[int] = 2
    vector: ClassVar[bool] = True

    def sample(self, u: Float[Tensor, "b 2"], raw: Raw) -> Int64[Tensor, "b 2"]:
        return (u * 2.0**32).to(torch.int64)


@dataclass(frozen=True)
class Repeated(Each):
    """n independent draws of one distribution, with the same learned numbers. Internal: one draw for each cell of a picture.

    Gradient:
        numbers of the distribution: as the distribution says.
    """

    of: Distribution
    n: int

    vector: ClassVar[bool] = True

    @property
    def words(self) -> int:  # type: ignore[override]
        """The words of n draws."""
        return self.n * self.of.words

    def sample(self, u: Float[Tensor, "b w"], raw: Raw) -> Tensor:
        words = self.of.words
        each = u.split(words, -1) if self.of.vector or words > 1 else u.unbind(-1)
        return torch.stack([self.of.sample(one, raw) for one in each], 1)

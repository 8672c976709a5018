"""Correlated draws: the normal distribution with a full covariance.

Owns: `MultivariateNormal`.
Must not: know what its components mean; the transform that draws it does.
Read next: ``discrete.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.distributions as D
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import items
from pellucid.core.constants import scalar
from pellucid.errors import invalid
from pellucid.random.distribution import Distribution
from pellucid.random.learnable import Learnable, Number
from pellucid.random.numbers import Raw, as_numbers, at_least, value_of

__all__ = ["MultivariateNormal"]


@dataclass(frozen=True)
class MultivariateNormal(Distribution):
    """Normal in n dimensions: ``mean + scale_tril @ z`` with z standard normal.

    Args:
        mean: n numbers.
        scale_tril: the rows of the lower triangular factor of the covariance: one number, two, ..., n. The last of each row, on
            the diagonal, is positive; a `Learnable` there gets the lower bound 0.

    Gradient:
        mean, scale_tril: exact through the draw.

    Errors:
        InvalidArgument for rows that are not of 1, 2, ... n numbers, and for a diagonal below 0.

    Source:
        ``torch.distributions.MultivariateNormal(loc, scale_tril=...)``.

    Example:
        >>> MultivariateNormal.learned_from((0.1, 0.2)).words
        2
    """

    mean: tuple[Number, ...]
    scale_tril: tuple[tuple[Number, ...], ...]

    vector: ClassVar[bool] = True

    def __post_init__(self) -> None:
        mean = as_numbers("MultivariateNormal.mean", self.mean)
        scale = items("MultivariateNormal.scale_tril", self.scale_tril, "rows of 1, 2, ... numbers")
        rows = tuple(as_numbers("MultivariateNormal.scale_tril", row) for row in scale)
        if [len(row) for row in rows] != list(range(1, len(mean) + 1)):
            expected = f"{len(mean)} rows of 1, 2, ... numbers, one row per mean"
            raise invalid("MultivariateNormal.mean and scale_tril", expected=expected, got=[len(row) for row in rows])
        if any(value_of(row[-1]) < 0 for row in rows):
            raise invalid("MultivariateNormal.scale_tril", expected="diagonal numbers >= 0", got=[value_of(r[-1]) for r in rows])
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scale_tril", tuple((*row[:-1], at_least(row[-1], 0.0)) for row in rows))

    @staticmethod
    def learned_from(std: Sequence[float]) -> MultivariateNormal:
        """Return a distribution whose numbers are all learned, starting from mean 0, these standard deviations and no correlation.

        Args:
            std: n standard deviations, each above 0.
        """
        rows = [(*(Learnable(0.0) for _ in range(i)), Learnable(float(s), low=0.0)) for i, s in enumerate(std)]
        return MultivariateNormal(tuple(Learnable(0.0) for _ in std), tuple(rows))

    @property
    def words(self) -> int:  # type: ignore[override]
        """One word per component."""
        return len(self.mean)

    def numbers(self) -> dict[str, Number]:
        named: dict[str, Number] = {f"mean_{i}": m for i, m in enumerate(self.mean)}
        return named | {f"scale_tril_{i}_{j}": x for i, row in enumerate(self.scale_tril) for j, x in enumerate(row)}

    def density(self, now: Mapping[str, Tensor]) -> D.MultivariateNormal:
        mean, lower = self._matrices(now)
        return D.MultivariateNormal(mean, scale_tril=lower, validate_args=False)

    def matrices(self, raw: Raw, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the current mean and lower triangular factor.

        Args:
            raw: the unbounded parameters behind learned numbers, by name; empty where none learn.
            like: a tensor that gives dtype and device.

        Returns:
            (n,) and (n, n), with a leading B if a number is predicted.

        Gradient:
            raw: exact.

        Example:
            >>> MultivariateNormal((0.0, 1.0), ((2.0,), (0.5, 1.0))).matrices({}, torch.zeros(()))[1]
            tensor([[2.0000, 0.0000],
                    [0.5000, 1.0000]])
        """
        return self._matrices({name: scalar(x, like) for name, x in self.current(raw).items()})

    def _matrices(self, now: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        n = len(self.mean)
        stacked = torch.stack(torch.broadcast_tensors(*now.values()), -1)  # ... n + n (n + 1) / 2
        mean, lower = stacked[..., :n], stacked[..., n:]
        zero = torch.zeros_like(lower[..., 0])
        rows = [torch.stack([lower[..., i * (i + 1) // 2 + j] if j <= i else zero for j in range(n)], -1) for i in range(n)]
        return mean, torch.stack(rows, -2)

    def sample(self, u: Float[Tensor, "b n"], raw: Raw) -> Float[Tensor, "b n"]:
        mean, lower = self.matrices(raw, u)
        z = math.sqrt(2.0) * torch.erfinv(2.0 * u - 1.0)  # b n
        return mean + (lower @ z[..., None])[..., 0]

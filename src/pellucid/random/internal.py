"""Draws that transforms use for themselves: orders, whole-pixel offsets, keys of noise.

Owns: `Permutation, Offset, Bits, Uniforms`.
Must not: be learned; there is nothing continuous in them.
Read next: ``fields.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.random.distribution import Distribution
from pellucid.random.numbers import Raw

__all__ = ["Bits", "Offset", "Permutation", "Uniforms"]


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
class Uniforms(Distribution):
    """So many numbers, each uniform on (0, 1). Internal: where several things lie."""

    n: int

    vector: ClassVar[bool] = True

    @property
    def words(self) -> int:  # type: ignore[override]
        """One word per number."""
        return self.n

    def sample(self, u: Float[Tensor, "b n"], raw: Raw) -> Float[Tensor, "b n"]:
        return u * 1.0


@dataclass(frozen=True)
class Bits(Distribution):
    """Two raw 32-bit words: the key of a noise field. Internal."""

    words: ClassVar[int] = 2
    vector: ClassVar[bool] = True

    def sample(self, u: Float[Tensor, "b 2"], raw: Raw) -> Int64[Tensor, "b 2"]:
        return (u * 2.0**32).to(torch.int64)

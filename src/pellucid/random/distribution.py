"""What a distribution is: a frozen value that maps uniforms to numbers, differentiably.

Owns: the interface `Distribution`.
Must not: draw randomness (uniforms are arguments) or hold parameters (raw values are arguments).
Read next: ``numbers.py``, ``continuous.py``, ``discrete.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.learnable import Learnable, Number
from pellucid.random.numbers import Raw, as_number, at_least, resolve, start, value_of

__all__ = ["Distribution"]


class Distribution:
    """What may be drawn. Subclasses are final, frozen and hold numbers or `Learnable` only.

    ``sample(u, raw)`` maps one uniform per sample to one value per sample (the inverse of the distribution function), so
    a draw is a differentiable function of the distribution's own numbers.
    """

    words: ClassVar[int] = 1
    """How many 32-bit words of the hash one draw takes."""
    vector: ClassVar[bool] = False
    """Whether ``sample`` takes (and gives) a row of numbers per sample, even if it is a row of one."""
    estimator: str = "reparameterised"
    """How the gradient to the distribution's own numbers is formed; see ``pellucid.estimators``."""
    names: ClassVar[tuple[str, ...]] = ()
    """The fields that hold its numbers."""

    def read(self, name: str, *, floor: float | None = None) -> None:
        """Read the number in a field; a `Learnable` without a lower bound gets ``floor``."""
        label = f"{type(self).__name__}.{name}"
        number = as_number(label, getattr(self, name))
        if floor is not None and value_of(number) < floor:
            raise invalid(label, expected=f"a number >= {floor:g}", got=value_of(number))
        object.__setattr__(self, name, number if floor is None else at_least(number, floor))

    def start(self) -> dict[str, Any]:
        """Starting values of the unbounded parameters behind each `Learnable`; empty when nothing is learned."""
        return {name: raw for name, number in self.numbers().items() for name, raw in start(name, number).items()}

    def learned(self) -> dict[str, Learnable]:
        """The `Learnable` behind each name of :meth:`start`: it says who supplies the number."""
        return {name: number for name, number in self.numbers().items() if isinstance(number, Learnable)}

    def numbers(self) -> dict[str, Number]:
        """What the distribution is made of, by the names of :meth:`current`."""
        return {name: getattr(self, name) for name in self.names}

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        """The numbers of the distribution as they are now, by field name."""
        return {name: resolve(name, number, raw) for name, number in self.numbers().items()}

    def density(self, now: Mapping[str, Tensor]) -> torch.distributions.Distribution | None:
        """The same distribution in torch's words, for entropy and divergence; None for one that does not spread."""
        return None

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        """Map uniforms in (0, 1) to values."""
        raise NotImplementedError

    def span(self) -> tuple[float, float]:
        """Bounds that every value is certain to keep, whatever is learned."""
        return (-math.inf, math.inf)

    def affine(self) -> tuple[float, float] | None:
        """(shift, scale) when a draw is ``shift + scale * u`` with fixed numbers, else None."""
        return None

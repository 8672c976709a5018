"""The interface of distributions: frozen values that map uniforms to numbers, differentiably.

Owns: the interface `Distribution`, and `Each`, the base of distributions that draw several times from another one.
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

__all__ = ["Distribution", "Each"]


class Distribution:
    """The base of all distributions. Subclasses are final, frozen and hold numbers or `Learnable` only.

    ``sample(u, raw)`` maps one uniform per sample to one value per sample (the inverse of the distribution function), so
    a draw is a differentiable function of the distribution's own numbers.

    Example:
        >>> from pellucid.random import Distribution
        >>> isinstance(pellucid.Uniform(0.0, 1.0), Distribution), Distribution.words, Distribution.vector
        (True, 1, False)
    """

    words: ClassVar[int] = 1
    """How many 32-bit words of the hash one draw takes."""
    vector: ClassVar[bool] = False
    """Whether ``sample`` takes (and gives) a row of numbers per sample, even if it is a row of one."""
    boxes: ClassVar[bool] = False
    """Whether ``sample`` reads the boxes of each sample, as ``raw["boxes"]`` (b, n, 4) and ``raw["valid"]`` (b, n)."""
    masks: ClassVar[bool] = False
    """Whether ``sample`` reads the pixels at which the masks of each sample are not 0, as ``raw["mask"]`` (b, h, w)."""
    spacing: ClassVar[bool] = False
    """Whether ``sample`` reads the distances of voxels along x, y and z, as ``raw["spacing"]`` (b, 3)."""
    estimator: str = "reparameterised"
    """How the gradient to the distribution's own numbers is formed; see ``pellucid.pipeline.estimators``."""
    names: ClassVar[tuple[str, ...]] = ()
    """The fields that hold its numbers."""

    def read(self, name: str, *, floor: float | None = None) -> None:
        """Read the number in a field, once, when the value is made.

        Args:
            name: of the field.
            floor: the least it may be; a `Learnable` without a lower bound gets this one.

        Errors:
            InvalidArgument for a number below ``floor``; InvalidType for anything but a number.

        Example:
            >>> pellucid.Normal(std=pellucid.Learnable(1.0)).std.low  # what its constructor asked for
            0.0
        """
        label = f"{type(self).__name__}.{name}"
        number = as_number(label, getattr(self, name))
        if floor is not None and value_of(number) < floor:
            raise invalid(label, expected=f"a number >= {floor:g}", got=value_of(number))
        object.__setattr__(self, name, number if floor is None else at_least(number, floor))

    def start(self) -> dict[str, Any]:
        """Return the starting values of the unbounded parameters behind each `Learnable`; empty when nothing is learned.

        Example:
            >>> pellucid.Normal(pellucid.Learnable(0.5), 1.0).start()
            {'mean': 0.5}
        """
        return {name: raw for name, number in self.numbers().items() for name, raw in start(name, number).items()}

    def learned(self) -> dict[str, Learnable]:
        """Return the `Learnable` behind each name of :meth:`start`: it says where the number comes from.

        Example:
            >>> list(pellucid.Normal(pellucid.Learnable(0.5), 1.0).learned())
            ['mean']
        """
        return {name: number for name, number in self.numbers().items() if isinstance(number, Learnable)}

    def numbers(self) -> dict[str, Number]:
        """Return the distribution's numbers, fixed or `Learnable`, by the names of :meth:`current`.

        Example:
            >>> pellucid.Uniform(0.0, 1.0).numbers()
            {'low': 0.0, 'high': 1.0}
        """
        return {name: getattr(self, name) for name in self.names}

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        """Return the current values of the distribution's numbers.

        Args:
            raw: the unbounded parameters behind learned numbers, by name; empty where none learn.

        Returns:
            By field name: plain numbers, tensors () for learned ones, or (B,) for predicted ones.

        Gradient:
            raw: exact.

        Example:
            >>> pellucid.Normal(pellucid.Learnable(0.0), 1.0).current({"mean": torch.tensor(2.0)})
            {'mean': tensor(2.), 'std': 1.0}
        """
        return {name: resolve(name, number, raw) for name, number in self.numbers().items()}

    def density(self, now: Mapping[str, Tensor]) -> torch.distributions.Distribution | None:
        """Return the same distribution from ``torch.distributions``, for entropy and divergence; None if it has no density.

        Args:
            now: the numbers of :meth:`current`, as tensors.

        Gradient:
            now: exact.

        Example:
            >>> pellucid.Uniform(0.0, 4.0).density({"low": torch.tensor(0.0), "high": torch.tensor(4.0)}).entropy()  # log(4)
            tensor(1.3863)
        """
        return None

    def sample(self, u: Float[Tensor, "b"], raw: Raw) -> Float[Tensor, "b"]:
        """Map uniforms to values: the inverse of the distribution function.

        Args:
            u: in (0, 1): one per sample, or ``words`` of them if ``vector`` is True.
            raw: as in :meth:`current`.

        Returns:
            One value per sample, in the dtype of u.

        Gradient:
            raw: as the distribution says; u: none.

        Example:
            >>> pellucid.Uniform(0.0, 4.0).sample(torch.tensor([0.25, 0.75]), {})
            tensor([1., 3.])
        """
        raise NotImplementedError

    def span(self) -> tuple[float, float]:
        """Return (low, high), which no value leaves, whatever is learned.

        Example:
            >>> pellucid.Uniform(0.0, 4.0).span()
            (0.0, 4.0)
        """
        return (-math.inf, math.inf)

    def affine(self) -> tuple[float, float] | None:
        """Return (shift, scale) when a draw is ``shift + scale * u`` with fixed numbers, else None.

        Example:
            >>> pellucid.Uniform(1.0, 4.0).affine()
            (1.0, 3.0)
        """
        return None


class Each(Distribution):
    """Several draws of one distribution, with the same numbers: the base of `Smooth`, ``Repeated`` and ``PerFrame``."""

    of: Distribution

    def start(self) -> dict[str, Any]:
        return self.of.start()

    def learned(self) -> dict[str, Learnable]:
        return self.of.learned()

    def numbers(self) -> dict[str, Number]:
        return self.of.numbers()

    def current(self, raw: Raw) -> dict[str, Tensor | float]:
        return self.of.current(raw)

    def density(self, now: Mapping[str, Tensor]) -> torch.distributions.Distribution | None:
        """Return the density of each draw."""
        return self.of.density(now)

    def span(self) -> tuple[float, float]:
        return self.of.span()

"""Learnable numbers: what a user writes where a number would stand, to have it trained with the model.

Owns: `Learnable` (a plain value: start and bounds) and the reparameterisations that keep it inside its bounds.
Must not: hold the parameter itself; the pipeline does.
Read next: ``distributions.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.errors import invalid

__all__ = ["Learnable", "Number", "bounded", "raw_of", "softplus_inverse"]


@dataclass(frozen=True)
class Learnable:
    """A number that is trained: its starting value and the open interval it lives in.

    The pipeline that receives it holds an ``nn.Parameter`` without bounds and maps it into (low, high) by a smooth
    bijection (sigmoid, softplus or the identity), never by a clamp, so its gradient cannot die at the edge.

    Args:
        value: where it starts; strictly inside (low, high).
        low: lower bound, or None for none.
        high: upper bound, or None for none.

    Example:
        >>> Learnable(0.5, low=0.0, high=1.0).value
        0.5
    """

    value: float
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if not low < high:
            raise invalid("Learnable", expected="low < high", got=f"low={self.low}, high={self.high}", fix="Swap the bounds.")
        if not low < self.value < high:
            raise invalid(
                "Learnable.value",
                expected=f"a number strictly inside ({low}, {high})",
                got=self.value,
                fix="Start inside the bounds; on a bound the gradient would be zero.",
            )


Number = float | Learnable


def softplus_inverse(y: float) -> float:
    """The x with log(1 + e^x) = y, for y > 0."""
    return y + math.log(-math.expm1(-y))


def raw_of(value: float, low: float | None, high: float | None) -> float:
    """The unbounded number that :func:`bounded` maps to ``value``."""
    if low is not None and high is not None:
        share = (value - low) / (high - low)
        return math.log(share) - math.log1p(-share)
    if low is not None:
        return softplus_inverse(value - low)
    if high is not None:
        return -softplus_inverse(high - value)
    return value


def bounded(raw: Tensor, low: float | Tensor | None, high: float | Tensor | None) -> Tensor:
    """Map an unbounded tensor smoothly into (low, high)."""
    if low is not None and high is not None:
        return low + (high - low) * torch.sigmoid(raw)
    if low is not None:
        return low + F.softplus(raw)
    if high is not None:
        return high - F.softplus(-raw)
    return raw

"""One learned drawn value, in the form that the estimators need.

Owns: `Site`, and which estimators need values of the loss.
Must not: evaluate anything.
Read next: ``expected.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from pellucid.engine.drawing import words_of
from pellucid.pipeline.trials import Drawn
from pellucid.random.distributions import Distribution, Raw

__all__ = ["LOSS_BASED", "Site", "sites_of"]

LOSS_BASED = ("exact", "arm", "reinforce", "boundary")
"""Estimators that need further evaluations of the loss, or its value; the others act through the draw alone."""


class Site(NamedTuple):
    """One learned drawn value.

    Args:
        at: its key among the drawn values.
        distribution: that it is drawn from; its ``estimator`` decides how it learns.
        raw: the unbounded tensors behind the distribution's numbers.
        u: the uniforms it was drawn with, one or a row per sample.
        shared: every sample has the same draw.
        other: the uniforms of an independent draw, for ``reinforce`` if the batch has no other samples as a baseline.
    """

    at: Hashable
    distribution: Distribution
    raw: Raw
    u: Float[Tensor, "b *words"]
    shared: bool = False
    other: Float[Tensor, "b *words"] | None = None

    @property
    def loss_based(self) -> bool:
        """Whether its gradient comes from values of the loss rather than through the draw."""
        return self.distribution.estimator in LOSS_BASED

    @property
    def label(self) -> str:
        """Its name in messages, such as ``0.gate``."""
        return ".".join(map(str, self.at)) if isinstance(self.at, tuple) else str(self.at)


def sites_of(drawn: Sequence[Drawn], u: Float[Tensor, "b words"], other: Float[Tensor, "b words"] | None = None) -> list[Site]:
    """Return every learned draw of a call, with its uniforms and those of an independent draw."""
    sites = []
    for one in drawn:
        if one.raw:
            raw = {name: tensor.to(u.dtype) for name, tensor in one.raw.items()}
            beside = None if other is None else words_of(one.draw, other)
            sites.append(Site(one.at, one.draw.distribution, raw, words_of(one.draw, u), one.shared, beside))
    return sites

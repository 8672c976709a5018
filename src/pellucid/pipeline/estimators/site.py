"""One learned drawn value, as the estimators see it.

Owns: `Site`, and which estimators look at the loss.
Must not: evaluate anything.
Read next: ``expected.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from pellucid.engine.drawing import words_of
from pellucid.engine.plan import Plan
from pellucid.random.distributions import Distribution, Raw

__all__ = ["LOSS_BASED", "Site", "sites_of"]

LOSS_BASED = ("exact", "arm", "reinforce", "boundary")
"""Estimators that need further evaluations of the loss, or its value; the others act through the draw alone."""


class Site(NamedTuple):
    """One learned drawn value.

    Args:
        at: what it is called among the values.
        distribution: where it comes from; its ``estimator`` says how it learns.
        raw: the unbounded tensors behind the distribution's numbers.
        u: the uniforms it was drawn with, one or a row per sample.
        shared: every sample has the same draw.
        other: the uniforms of an independent draw, for ``reinforce`` where the batch has nothing to compare with.
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


def sites_of(
    plan: Plan,
    u: Float[Tensor, "b words"],
    learned: Mapping[tuple[int, str], Mapping[str, Tensor]],
    other: Float[Tensor, "b words"] | None = None,
) -> list[Site]:
    """Every learned draw of a plan, with the uniforms it came from, and those of an independent draw."""
    sites = []
    for draw in plan.draws:
        at = (draw.transform, draw.name)
        if at in learned and draw.distribution.learned():
            raw = {name: tensor.to(u.dtype) for name, tensor in learned[at].items()}
            beside = None if other is None else words_of(draw, other)
            sites.append(Site(at, draw.distribution, raw, words_of(draw, u), plan.shared[draw.word // 4], beside))
    return sites

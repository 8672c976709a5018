"""The surrogate whose backward pass is an unbiased gradient of the expected loss.

Owns: which evaluations of the loss each estimator makes, and the term it adds.
Must not: know what is drawn for what; the loss is a function of drawn values here.
Read next: ``terms.py``, ``docs/estimators.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.estimators import terms
from pellucid.random.distributions import Bernoulli, Categorical, Distribution, Raw

__all__ = ["LOSS_BASED", "Evaluate", "Site", "evaluations", "expected_loss"]

LOSS_BASED = ("exact", "arm", "reinforce", "boundary")
"""Estimators that need further evaluations of the loss, or its value; the others act through the draw alone."""


class Site(NamedTuple):
    """One learned drawn value.

    Args:
        at: what it is called among the values.
        distribution: where it comes from; its ``estimator`` says how it learns.
        raw: the unbounded tensors behind the distribution's numbers.
        u: (b,) the uniforms it was drawn with.
        shared: every sample has the same draw.
    """

    at: Hashable
    distribution: Distribution
    raw: Raw
    u: Float[Tensor, "b"]
    shared: bool = False

    @property
    def loss_based(self) -> bool:
        """Whether its gradient comes from values of the loss rather than through the draw."""
        return self.distribution.estimator in LOSS_BASED


Evaluate: TypeAlias = Callable[[Mapping[Any, Tensor]], Tensor]
"""The loss with some of the drawn values replaced: (b,), or a scalar that mixes the samples."""


def expected_loss(evaluate: Evaluate, sites: Sequence[Site]) -> Float[Tensor, ""]:
    """The mean loss of one draw, with a backward pass that is unbiased for the expectation over draws.

    Args:
        evaluate: gives the losses for replaced values; the values it is not given are those of the draw.
        sites: everything learned.

    Returns:
        A scalar: the value is the mean loss of this draw.

    The loss is evaluated once with gradient. Without gradient it is evaluated once more per exact gate (with that gate alone
    the other way), k - 1 times per exact choice among k values, once for all ARM gates together (all of them antithetic), and
    once per end of a range under ``boundary``.

    Gradient:
        what ``evaluate`` depends on: as the drawn sample gives it. raw tensors: unbiased, except ``relaxed`` and
        ``straight_through``, which are the biased estimators they are known as.
    Errors:
        InvalidArgument where an estimator needs one loss per sample and gets a scalar.
    """
    drawn = {site.at: terms.value(site.distribution, site.u, site.raw).detach() for site in sites if site.loss_based}
    losses = evaluate(drawn)
    total = losses if losses.dim() == 0 else losses.mean()
    if not sites:
        return total
    known = losses.detach()
    for site in sites:
        _check(site, known)
    wide = sites[0].u.dtype
    extra = torch.zeros((), dtype=wide, device=known.device)
    known = known.to(wide)

    def again(changed: Mapping[Any, Tensor]) -> Tensor:
        with torch.no_grad():
            return evaluate({**drawn, **changed}).to(wide)

    antithetic = {site.at: terms.antithetic(site.distribution, site.u, site.raw) for site in sites if _arm(site)}
    opposite = again(antithetic) if antithetic else known
    for site in sites:
        one = _one_variable(site, known)
        for number, credit in _terms(site, drawn, known, opposite, again):
            # The value is 0; the gradient to the number is its credit.
            term = (number - number.detach()) * credit
            extra = extra + (term[:1].sum() if one and term.dim() else term.sum() if known.dim() == 0 else term.mean())
        # Every learned number takes part in every graph, whatever the loss looked at.
        extra = extra + 0.0 * torch.stack([tensor.sum().to(wide) for tensor in site.raw.values()]).sum()
    return total + extra.to(total.dtype)


def evaluations(sites: Sequence[Site]) -> int:
    """How often :func:`expected_loss` evaluates the loss: once with gradient, the rest without."""
    count = 1 + any(_arm(site) for site in sites)
    for site in sites:
        if site.distribution.estimator == "exact":
            count += len(site.distribution.values) - 1 if isinstance(site.distribution, Categorical) else 1
        elif site.distribution.estimator == "boundary":
            count += 2
    return count


def _terms(
    site: Site, drawn: Mapping[Any, Tensor], known: Tensor, opposite: Tensor, again: Callable[[Mapping[Any, Tensor]], Tensor]
) -> list[terms.Term]:
    distribution, estimator = site.distribution, site.distribution.estimator
    if not site.loss_based:
        return []
    here = drawn[site.at]

    def at(value: Tensor) -> Tensor:
        return again({site.at: value})

    if estimator == "boundary":
        return terms.boundary(distribution, site.raw, here, known, at)
    if estimator == "reinforce":
        return terms.reinforce(distribution, site.raw, here, known, site.shared)
    if isinstance(distribution, Categorical):
        return terms.exact_choice(distribution, site.raw, site.u, known, at)
    assert isinstance(distribution, Bernoulli)
    if estimator == "arm":
        return terms.arm(distribution, site.raw, site.u, known, opposite)
    return terms.exact_gate(distribution, site.raw, here, known, at)


def _arm(site: Site) -> bool:
    return site.distribution.estimator == "arm"


def _one_variable(site: Site, losses: Tensor) -> bool:
    """A scalar loss of one draw that all samples share: one term, not one per sample."""
    return losses.dim() == 0 and site.shared


def _check(site: Site, losses: Tensor) -> None:
    samples = site.u.shape[0]
    if losses.dim() > 1 or (losses.dim() == 1 and losses.shape[0] != samples):
        raise invalid(
            "loss_fn",
            expected=f"({samples},) losses, one per sample, or a scalar",
            got=f"shape {tuple(losses.shape)}",
            fix="Average each sample's loss over its own pixels.",
        )
    if losses.dim() == 1 or not site.loss_based:
        return
    if site.shared and any(tensor.dim() for tensor in site.raw.values()):
        raise invalid("loss_fn", expected="one loss per sample where numbers are predicted and a draw is shared", got="a scalar")
    if site.distribution.estimator in ("exact", "boundary") and not site.shared:
        raise invalid(
            "loss_fn",
            expected=f"({samples},) losses, one per sample, for the {site.distribution.estimator} estimator of {site.at}",
            got="a scalar",
            fix="Use reduction='none', or estimator='arm', which takes a loss that mixes the samples.",
        )

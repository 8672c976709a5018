"""The surrogate loss whose backward pass is an unbiased gradient of the expected loss.

Owns: the evaluations of the loss that each estimator makes, and the term it adds.
Must not: know the meaning of draws: the loss is a function of drawn values here.
Read next: ``terms.py``, ``docs/estimators.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.pipeline.estimators import terms
from pellucid.pipeline.estimators.mixing import MIXING, check_separate
from pellucid.pipeline.estimators.site import Site
from pellucid.random.distributions import Bernoulli, Categorical
from pellucid.random.learnable import Learnable

__all__ = ["Evaluate", "evaluations", "expected_loss"]

Evaluate: TypeAlias = Callable[[Mapping[Any, Tensor]], Tensor]
"""Maps replacements of some drawn values to the loss: (b,), or a scalar that mixes the samples."""


def expected_loss(evaluate: Evaluate, sites: Sequence[Site], *, check: bool = False) -> Float[Tensor, ""]:
    """Return the mean loss of one draw, with a backward pass that is unbiased for the expectation over draws.

    Args:
        evaluate: returns the losses with some drawn values replaced; the others stay as they were drawn.
        sites: all learned draws.
        check: test with two further evaluations whether the losses mix the samples; for a loss not seen before.

    Returns:
        A scalar: the value is the mean loss of this draw.

    The loss is evaluated once with gradient. Without gradient it is evaluated once for each exact gate (with only that gate
    flipped), k - 1 times for each exact choice among k values, once for all ARM gates and choices together (all antithetic), and
    once for each end of a range under ``boundary``. If a ``reinforce`` draw has no other samples as a baseline (a scalar loss, a
    shared draw, a single sample), it is evaluated once more, with independent draws of all ``reinforce`` sites.

    Gradient:
        model and images: as of the drawn sample. raw tensors: unbiased, except under ``relaxed`` and ``straight_through``, which
        are biased by design.
    Errors:
        InvalidArgument if an estimator needs one loss per sample and gets a scalar or losses that mix the samples, and if a
        user's own probability has left the open interval (0, 1) under ``arm`` or ``reinforce``.
    """
    for site in sites:
        _check_open(site)
    drawn = {site.at: terms.value(site.distribution, site.u, site.raw).detach() for site in sites if site.loss_based}
    losses = evaluate(drawn)
    total = losses if losses.dim() == 0 else losses.mean()
    if not sites:
        return total
    known = losses.detach()
    for site in sites:
        _check(site, known)
    if check:
        check_separate(evaluate, sites, drawn, known)
    wide = sites[0].u.dtype
    extra = torch.zeros((), dtype=wide, device=known.device)
    known = known.to(wide)

    def again(changed: Mapping[Any, Tensor]) -> Tensor:
        with torch.no_grad():
            return evaluate({**drawn, **changed}).to(wide)

    antithetic = {site.at: terms.antithetic(site.distribution, site.u, site.raw) for site in sites if _arm(site)}
    opposite = again(antithetic) if antithetic else known
    others = {site.at: terms.value(site.distribution, site.other, site.raw).detach() for site in sites if site.other is not None}
    beside = again(others) if any(site.at in others and _alone(site, known) for site in sites) else None
    for site in sites:
        one = known.dim() == 0 and site.shared
        found = (
            _scores(site, drawn[site.at], others.get(site.at), known, beside)
            if site.distribution.estimator == "reinforce"
            else _terms(site, drawn, known, opposite, again)
        )
        for number, credit in found:
            # The value is 0; the gradient to the number is its credit.
            term = (number - number.detach()) * credit
            extra = extra + (term[:1].sum() if one and term.dim() else term.sum() if known.dim() == 0 else term.mean())
        # Every learned number is part of every graph, even if the loss does not depend on it.
        extra = extra + 0.0 * torch.stack([tensor.sum().to(wide) for tensor in site.raw.values()]).sum()
    return total + extra.to(total.dtype)


def _alone(site: Site, losses: Tensor) -> bool:
    """Return whether a draw has no other samples as a baseline."""
    return losses.dim() == 0 or losses.shape[0] == 1 or site.shared


def _scores(site: Site, here: Tensor, other: Tensor | None, known: Tensor, beside: Tensor | None) -> list[terms.Term]:
    """Return the score, weighted by the loss minus a baseline: the mean loss of the other samples, or the loss of a second draw.

    A second draw also adds its own score, with the first draw as its baseline. The two halves of the difference have mean 0.
    """
    distribution, raw = site.distribution, site.raw
    if not _alone(site, known):
        return terms.score(distribution, raw, here, terms.less_others(known))
    if other is None or beside is None:
        return terms.score(distribution, raw, here, known)
    half = 0.5 * (known - beside)
    return [*terms.score(distribution, raw, here, half), *terms.score(distribution, raw, other, -half)]


def evaluations(sites: Sequence[Site]) -> int:
    """Return how often :func:`expected_loss` evaluates the loss: once with gradient, the rest without.

    This counts for losses of single samples; ``reinforce`` needs one more if it has no other samples as a baseline.
    """
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
    assert isinstance(distribution, Bernoulli | Categorical)
    if estimator == "arm":
        return terms.arm(distribution, site.raw, site.u, known, opposite)
    if isinstance(distribution, Categorical):
        return terms.exact_choice(distribution, site.raw, site.u, known, at)
    return terms.exact_gate(distribution, site.raw, here, known, at)


def _arm(site: Site) -> bool:
    return site.distribution.estimator == "arm"


def _check(site: Site, losses: Tensor) -> None:
    samples = site.u.shape[0]
    if losses.dim() > 1 or (losses.dim() == 1 and losses.shape[0] != samples):
        fix = "Average each sample's loss over its own pixels."
        expected = f"({samples},) losses, one per sample, or a scalar"
        raise invalid("loss_fn", expected=expected, got=f"shape {tuple(losses.shape)}", fix=fix)
    if losses.dim() == 1 or not site.loss_based:
        return
    if site.shared and any(tensor.dim() for tensor in site.raw.values()):
        raise invalid("loss_fn", expected="one loss per sample where numbers are predicted and a draw is shared", got="a scalar")
    if site.distribution.estimator in ("exact", "boundary") and not site.shared:
        fix = f"Where every sample's loss is its own, use reduction='none'. {MIXING}"
        expected = f"({samples},) losses, one per sample, for the {site.distribution.estimator} estimator of {site.label}"
        raise invalid("loss_fn", expected=expected, got="a scalar", fix=fix)


def _check_open(site: Site) -> None:
    """Raise if a user's own probability has left (0, 1), where all draws have the same score and the gradient would stay 0.

    On a GPU the value is not read; there the gradient becomes NaN (see ``terms.py``).
    """
    p = site.distribution.numbers().get("p")
    if site.distribution.estimator not in ("arm", "reinforce") or not (isinstance(p, Learnable) and p.as_it_is):
        return
    now = site.raw["p"].detach()
    if not torch.compiler.is_compiling() and now.device.type == "cpu" and not 0.0 < float(now) < 1.0:
        fix = "Write Learnable(start), which stays inside, or keep the nn.Parameter inside after each step."
        expected = f"a number strictly between 0 and 1: under {site.distribution.estimator} no other gets a gradient"
        raise invalid(f"the probability of {site.label}", expected=expected, got=float(now), fix=fix)

"""Test whether each sample's loss depends on its own draw alone, as estimators with one loss per sample assume.

Owns: the test, the list of losses that have been tested, and the advice for losses that mix samples.
Must not: run at every step: the pipeline tests each loss once.
Read next: ``expected.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.errors import InvalidArgument, invalid
from pellucid.pipeline.estimators import terms
from pellucid.pipeline.estimators.site import Site
from pellucid.random.distributions import Bernoulli, Categorical

__all__ = ["MIXING", "LossesSeen", "check_separate"]

MIXING = (
    "If the loss mixes the samples (InfoNCE, triplets, batch statistics), share the draw by same_on_batch=True, or return its "
    "mean, a scalar, and choose estimators that take one: 'arm' or 'reinforce' for gates and choices, "
    "'reparameterised' for ranges."
)
"""The advice for a loss that mixes samples."""


class LossesSeen:
    """The loss functions a pipeline has seen, identified by their code: a closure made anew at every step counts as the same."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def new(self, loss_fn: Callable[..., Any]) -> bool:
        """Return whether to check this loss: it is new, and the call's values can be read."""
        if torch.compiler.is_compiling() or not torch.is_grad_enabled() or torch._C._functorch.maybe_current_level() is not None:
            return False
        while isinstance(loss_fn, partial):
            loss_fn = loss_fn.func
        mark = hash(getattr(loss_fn, "__code__", type(loss_fn)))
        fresh = mark not in self._known
        self._known.add(mark)
        return fresh


def check_separate(
    evaluate: Callable[[Mapping[Any, Tensor]], Tensor],
    sites: Sequence[Site],
    drawn: Mapping[Any, Tensor],
    known: Float[Tensor, "b"],
) -> None:
    """Change the draws of some samples, and raise if the losses of the other samples change.

    The loss is evaluated twice without gradient, from one state of the random generator (so dropout is the same). If losses
    changed, it is evaluated once more, to distinguish a loss that mixes samples from one that is never reproducible.

    Args:
        evaluate: returns the losses with some of the drawn values replaced.
        sites: all learned draws.
        drawn: the values of the loss-based ones.
        known: the losses of the draw, for their number and device.

    Errors:
        InvalidArgument if losses of samples with unchanged draws changed by more than rounding.
    """
    if known.dim() == 0 or known.shape[0] < 2:
        return
    own = [site for site in sites if site.loss_based and not site.shared]
    if not own:
        return
    moved = _moved(known.shape[0], known.device)
    changed = {}
    for site in own:
        here = drawn[site.at]
        changed[site.at] = torch.where(moved.reshape(-1, *[1] * (here.dim() - 1)), _elsewhere(site, here), here)

    def losses(values: Mapping[Any, Tensor]) -> Tensor:
        with torch.no_grad(), _same_randomness(known.device):
            return evaluate({**drawn, **values})

    still = losses({})
    slack = 4.0 * torch.finfo(still.dtype).eps * still.abs().max()

    def differ(others: Tensor) -> bool:
        return bool(((others - still).abs() > slack)[~moved].any())

    if differ(losses(changed)) and not differ(losses({})):
        raise mixed(own)


def mixed(sites: Sequence[Site]) -> InvalidArgument:
    """Return the error for losses that mix the samples."""
    names = ", ".join(f"{site.distribution.estimator} of {site.label}" for site in sites)
    return invalid(
        "loss_fn",
        expected=f"losses that each depend on their own sample alone ({names} needs that)",
        got="losses that change with the draws of other samples",
        fix=f"A model with batch normalisation belongs in evaluation mode, or its statistics held. {MIXING}",
    )


def _moved(samples: int, device: torch.device) -> Bool[Tensor, "b"]:
    """Select half of the samples by the parity of their index's bits: it separates neighbours, and the halves of a batch."""
    return torch.tensor([i.bit_count() % 2 == 1 for i in range(samples)], device=device)


def _elsewhere(site: Site, here: Tensor) -> Tensor:
    """Return another value for every sample: the other gate, the next of the choices, or the lower end of the range."""
    if isinstance(site.distribution, Bernoulli):
        return 1.0 - here
    if isinstance(site.distribution, Categorical):
        values = site.distribution.values
        known = torch.tensor(values, dtype=here.dtype, device=here.device)
        gaps = (here[:, None] - known).abs()
        return known.roll(-1, 0)[(gaps.sum(-1) if gaps.dim() == 3 else gaps).argmin(1)]
    return terms.ends(site.distribution, site.raw, here)[0]


@contextmanager
def _same_randomness(device: torch.device) -> Iterator[None]:
    """Run with torch's generator in a fixed state; restore its state afterwards."""
    cuda = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if cuda else []):
        torch.default_generator.manual_seed(0)
        if cuda:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(0)
        yield

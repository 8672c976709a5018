"""How much a distribution spreads, and how far it is from another: regularisers for learned ranges.

Owns: entropy and Kullback-Leibler divergence, as differentiable functions of a distribution's current numbers.
Must not: draw.
Read next: ``../estimators/parameters.py``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pellucid.constants import scalar, wide_dtype
from pellucid.errors import invalid
from pellucid.random.distributions import (
    Bernoulli,
    Categorical,
    CenteredUniform,
    Distribution,
    LogUniform,
    MultivariateNormal,
    Normal,
    Raw,
    Uniform,
)

__all__ = ["entropy", "kl_divergence"]


def entropy(distribution: Distribution, raw: Raw) -> Tensor:
    """The (differential) entropy in nats; a scalar, or one per sample where numbers are predicted.

    Args:
        distribution: any but `Constant`, whose differential entropy is minus infinity.
        raw: the unbounded tensors behind what it learns; empty for fixed numbers.

    Gradient:
        raw: exact.
    Source:
        ``torch.distributions`` and, for `LogUniform`, ``scipy.stats.loguniform``.

    Example:
        >>> entropy(Uniform(0.0, 1.0), {})
        tensor(0., dtype=torch.float64)
    """
    if isinstance(distribution, Uniform | CenteredUniform):
        low, high = _ends(distribution, raw)
        return torch.log(high - low)
    if isinstance(distribution, LogUniform):
        low, high = _ends(distribution.logs(), raw)
        return torch.log(high - low) + (low + high) / 2
    if isinstance(distribution, Normal):
        return 0.5 * math.log(2 * math.pi * math.e) + torch.log(_now(distribution, raw)["std"])
    if isinstance(distribution, MultivariateNormal):
        _, lower = distribution.matrices(raw, _like(raw))
        spread = torch.log(lower.diagonal(dim1=-2, dim2=-1)).sum(-1)
        return 0.5 * len(distribution.mean) * math.log(2 * math.pi * math.e) + spread
    shares = _shares(distribution, raw)
    if shares is not None:
        return -torch.xlogy(shares, shares).sum(-1)
    raise invalid("entropy", expected="a distribution that spreads", got=repr(distribution))


def kl_divergence(p: Distribution, raw: Raw, q: Distribution, raw_q: Raw | None = None) -> Tensor:
    """KL(p || q) in nats: infinite where p reaches outside of q.

    Args:
        p: a distribution; ``raw`` holds what it learns.
        q: one of the same kind (the uniforms are one kind), or a `Normal` for a uniform p.
        raw_q: the same for ``q``; nothing for fixed numbers.

    Gradient:
        raw, raw_q: exact; 0 where the divergence is infinite.
    Errors:
        InvalidArgument for two distributions with no closed form between them.
    Source:
        ``torch.distributions.kl_divergence``.

    Example:
        >>> kl_divergence(Uniform(0.0, 1.0), {}, Uniform(0.0, 2.0)).item()
        0.6931471805599453
    """
    raw_q = raw_q or {}
    if isinstance(p, LogUniform) and isinstance(q, LogUniform):
        p, q = p.logs(), q.logs()
    if isinstance(p, Uniform | CenteredUniform):
        low, high = _ends(p, raw)
        if isinstance(q, Uniform | CenteredUniform):
            floor, ceiling = _ends(q, raw_q)
            inside = (floor <= low) & (high <= ceiling)
            return torch.where(inside, torch.log(ceiling - floor) - torch.log(high - low), math.inf)
        if isinstance(q, Normal):
            now = _now(q, raw_q)
            second = (high - low) ** 2 / 12 + ((low + high) / 2 - now["mean"]) ** 2
            return second / (2 * now["std"] ** 2) + torch.log(now["std"] / (high - low)) + 0.5 * math.log(2 * math.pi)
    if isinstance(p, Normal) and isinstance(q, Normal):
        one, two = _now(p, raw), _now(q, raw_q)
        ratio = one["std"] / two["std"]
        return 0.5 * (ratio**2 + ((one["mean"] - two["mean"]) / two["std"]) ** 2 - 1) - torch.log(ratio)
    if isinstance(p, MultivariateNormal) and isinstance(q, MultivariateNormal) and len(p.mean) == len(q.mean):
        mean, lower = p.matrices(raw, _like(raw))
        mean_q, lower_q = q.matrices(raw_q, _like(raw_q))
        scaled = torch.linalg.solve_triangular(lower_q, torch.cat((lower, (mean_q - mean)[..., None]), -1), upper=False)
        spread = torch.log(lower_q.diagonal(dim1=-2, dim2=-1) / lower.diagonal(dim1=-2, dim2=-1)).sum(-1)
        return 0.5 * (scaled.square().sum((-2, -1)) - len(p.mean)) + spread
    shares, shares_q = _shares(p, raw), _shares(q, raw_q)
    if type(p) is type(q) and shares is not None and shares_q is not None and shares.shape[-1] == shares_q.shape[-1]:
        return (torch.xlogy(shares, shares) - torch.xlogy(shares, shares_q)).sum(-1)
    raise invalid(
        "kl_divergence",
        expected="two distributions of one kind, or a uniform and a Normal",
        got=f"{type(p).__name__} and {type(q).__name__}",
    )


def _like(raw: Raw) -> Tensor:
    """Precision and device of small tensors about these numbers."""
    device = next((tensor.device for tensor in raw.values()), torch.device("cpu"))
    return torch.zeros((), dtype=wide_dtype(device), device=device)


def _now(distribution: Distribution, raw: Raw) -> dict[str, Tensor]:
    like = _like(raw)
    wide = {name: tensor.to(like.dtype) for name, tensor in raw.items()}
    return {name: scalar(x, like) for name, x in distribution.current(wide).items()}


def _ends(distribution: Uniform | CenteredUniform, raw: Raw) -> tuple[Tensor, Tensor]:
    now = _now(distribution, raw)
    if isinstance(distribution, CenteredUniform):
        return now["center"] - now["half_width"], now["center"] + now["half_width"]
    return now["low"], now["high"]


def _shares(distribution: Distribution, raw: Raw) -> Tensor | None:
    """The probabilities of a discrete distribution's values, on the last axis."""
    if isinstance(distribution, Bernoulli):
        p = _now(distribution, raw)["p"]
        return torch.stack((1.0 - p, p), -1)
    if isinstance(distribution, Categorical):
        return distribution.probabilities(raw, _like(raw))
    return None

"""Entropy of a distribution and its divergence from another: regularisers for learned ranges.

Owns: entropy and Kullback-Leibler divergence as differentiable functions of a distribution's current numbers; torch computes them.
Must not: draw.
Read next: ``../pipeline/estimators/parameters.py``.
"""

from __future__ import annotations

import torch
import torch.distributions as D
from torch import Tensor

from pellucid.core.constants import scalar, wide_dtype
from pellucid.errors import invalid
from pellucid.random.distributions import Distribution, Raw

__all__ = ["entropy", "kl_divergence"]


def entropy(distribution: Distribution, raw: Raw) -> Tensor:
    """Return the (differential) entropy in nats: a scalar, or one per sample if numbers are predicted.

    Args:
        distribution: any but `Constant`, whose differential entropy is minus infinity.
        raw: the unbounded tensors behind its learned numbers; empty for fixed numbers.

    Gradient:
        raw: exact.
    Source:
        ``torch.distributions``; agrees with ``scipy.stats``.

    Example:
        >>> from pellucid import Uniform
        >>> entropy(Uniform(0.0, 1.0), {})
        tensor(0., dtype=torch.float64)
    """
    return _density("entropy", distribution, raw).entropy()


def kl_divergence(p: Distribution, raw: Raw, q: Distribution, raw_q: Raw | None = None) -> Tensor:
    """Return KL(p || q) in nats: infinite if p draws values that q cannot.

    Args:
        p: a distribution.
        raw: the unbounded tensors behind the learned numbers of ``p``; empty for fixed numbers.
        q: a distribution of the same kind (the uniforms are one kind), or a `Normal` for a uniform p.
        raw_q: as ``raw``, for ``q``; None for fixed numbers.

    Gradient:
        raw, raw_q: exact; 0 where the divergence is infinite.
    Errors:
        InvalidArgument for two distributions with no closed form between them.
    Source:
        ``torch.distributions.kl_divergence``; agrees with the integral of p log(p / q) of ``scipy.stats``' densities.

    Example:
        >>> from pellucid import Uniform
        >>> kl_divergence(Uniform(0.0, 1.0), {}, Uniform(0.0, 2.0)).item()
        0.6931471805599453
    """
    first, second = _density("kl_divergence", p, raw), _density("kl_divergence", q, raw_q or {})
    alike = type(first) is type(second) and _length(first) == _length(second)
    if not alike and not (isinstance(first, D.Uniform) and isinstance(second, D.Normal)):
        expected = "two distributions of one kind, or a uniform and a Normal"
        raise invalid("kl_divergence", expected=expected, got=f"{type(p).__name__} and {type(q).__name__}")
    return D.kl_divergence(first, second)


def _density(call: str, distribution: Distribution, raw: Raw) -> D.Distribution:
    """Return the current distribution as an object of ``torch.distributions``, in float64 if the device has it."""
    device = next((tensor.device for tensor in raw.values()), torch.device("cpu"))
    like = torch.zeros((), dtype=wide_dtype(device), device=device)
    now = distribution.current({name: tensor.to(like.dtype) for name, tensor in raw.items()})
    density = distribution.density({name: scalar(x, like) for name, x in now.items()})
    if density is None:
        raise invalid(call, expected="a distribution that spreads", got=repr(distribution))
    return density


def _length(density: D.Distribution) -> int:
    """Return how many numbers a draw has; for a choice, how many values it chooses from."""
    return density.probs.shape[-1] if isinstance(density, D.Categorical) else density.event_shape.numel()

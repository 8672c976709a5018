"""Gradient policies: which statistics of a normalisation let gradients through.

Owns: the names of the four gradient policies, and which statistic lets gradients through under each.
Must not: compute a statistic; see ``moments.py``.
Read next: ``moments.py``, ``docs/normalization.md``.
"""

from typing import Literal, TypeAlias, get_args

from torch import Tensor

from pellucid.errors import invalid

__all__ = ["StatisticsGrad", "check_policy", "mean_under", "var_under"]

# "full": through both. "detached": through neither. "mean_only" / "var_only": through the one that is named.
StatisticsGrad: TypeAlias = Literal["full", "detached", "mean_only", "var_only"]


def check_policy(name: str, policy: object) -> None:
    """Raise unless ``policy`` is one of the four names."""
    if policy not in get_args(StatisticsGrad):
        raise invalid(name, expected="one of 'full', 'detached', 'mean_only', 'var_only'", got=repr(policy))


def mean_under(policy: StatisticsGrad, mean: Tensor) -> Tensor:
    """The mean, detached unless the policy lets gradients through it."""
    return mean if policy in ("full", "mean_only") else mean.detach()


def var_under(policy: StatisticsGrad, var: Tensor) -> Tensor:
    """The variance, detached unless the policy lets gradients through it."""
    return var if policy in ("full", "var_only") else var.detach()

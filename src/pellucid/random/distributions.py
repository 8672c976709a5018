"""All distributions in one module, and their table by name.

Owns: the table of distributions that serialised pipelines may name.
Must not: define a distribution; see the files it imports from.
Read next: ``continuous.py``, ``multivariate.py``, ``discrete.py``, ``internal.py``.
"""

from __future__ import annotations

from pellucid.random.beta import Beta
from pellucid.random.continuous import CenteredUniform, Constant, LogUniform, Normal, Uniform
from pellucid.random.discrete import Bernoulli, Categorical
from pellucid.random.distribution import Distribution
from pellucid.random.internal import Bits, Dirichlet, Offset, Permutation, Repeated, Uniforms
from pellucid.random.multivariate import MultivariateNormal
from pellucid.random.numbers import Raw
from pellucid.random.smooth import Smooth

__all__ = [
    "DISTRIBUTIONS", "Bernoulli", "Beta", "Bits", "Categorical", "CenteredUniform", "Constant", "Dirichlet", "Distribution",
    "LogUniform", "MultivariateNormal", "Normal", "Offset", "Permutation", "Raw", "Repeated", "Smooth", "Uniform", "Uniforms",
]  # fmt: skip

DISTRIBUTIONS: dict[str, type[Distribution]] = {
    kind.__name__: kind
    for kind in (Uniform, CenteredUniform, LogUniform, Normal, MultivariateNormal, Beta, Bernoulli, Categorical, Constant, Smooth)
}
"""By name, for reading serialised pipelines."""

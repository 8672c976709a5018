"""Counter-based randomness: keys, distributions and learnable numbers.

Owns: everything between (seed, step, sample index, slot) and a drawn value.
Must not: touch the global generator or know of transforms.
Read next: ``philox.py``, ``key.py``, ``distributions.py``, ``learnable.py``, ``fields.py``.
"""

from pellucid.core.docstrings import introduce
from pellucid.random.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    CenteredUniform,
    Constant,
    Distribution,
    LogUniform,
    MultivariateNormal,
    Normal,
    Uniform,
)
from pellucid.random.key import Key
from pellucid.random.learnable import Learnable
from pellucid.random.rows import normal_rows, uniform_rows
from pellucid.random.smooth import Smooth

__all__ = [
    "Bernoulli", "Beta", "Categorical", "CenteredUniform", "Constant", "Distribution", "Key", "Learnable", "LogUniform",
    "MultivariateNormal", "Normal", "Smooth", "Uniform", "normal_rows", "uniform_rows",
]  # fmt: skip

introduce(*map(globals().get, __all__))

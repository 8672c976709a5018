"""Augmentation and warping that gradients pass through.

Owns: the public names.
Must not: import numba, triton, matplotlib, typer or rich.
Read next: ``pipeline/module.py``.
"""

from pellucid import functional
from pellucid._version import __version__
from pellucid.core.foreign_names import missing as _missing
from pellucid.core.foreign_names import names_here as _names_here
from pellucid.errors import ImplementationError, InvalidArgument, InvalidType
from pellucid.pipeline import Pipeline
from pellucid.pipeline import transform_calls as transform_calls  # lets transforms be called on their own
from pellucid.pipeline.blocks import Blocks
from pellucid.pipeline.ragged import RaggedRecord
from pellucid.pipeline.records import Record
from pellucid.pipeline.serialization import register
from pellucid.random import (
    Bernoulli,
    Beta,
    Categorical,
    CenteredUniform,
    Constant,
    Distribution,
    Key,
    Learnable,
    LogUniform,
    MultivariateNormal,
    Normal,
    Smooth,
    Uniform,
)
from pellucid.targets.kinds import TargetKind
from pellucid.transforms import *  # noqa: F403 - the table in transforms is the single list of them
from pellucid.transforms import ALL, VOLUMES, Lambda
from pellucid.transforms.base import Transform

__all__ = [
    "ALL", "Bernoulli", "Beta", "Blocks", "Categorical", "CenteredUniform", "Constant", "Distribution", "ImplementationError",
    "InvalidArgument", "InvalidType", "Key", "Learnable", "LogUniform", "MultivariateNormal", "Normal", "Pipeline",
    "RaggedRecord", "Record", "Smooth", "TargetKind", "Transform", "Uniform", "VOLUMES", "__version__", "functional", "register",
    *(kind.__name__ for kind in (*ALL, *VOLUMES, Lambda)),
]  # fmt: skip


def __getattr__(name: str) -> object:
    raise _missing(__name__, name, _names_here((*ALL, *VOLUMES)))

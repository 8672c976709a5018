"""Normalisation and whitening whose gradients are under control.

Owns: the public names of ``pellucid.nn``.
Must not: define anything.
Read next: ``standardize.py``, ``batchnorm.py``, ``whitening.py``.
"""

from pellucid.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from pellucid.nn.policy import StatisticsGrad
from pellucid.nn.standardize import standardize

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "StatisticsGrad", "standardize"]

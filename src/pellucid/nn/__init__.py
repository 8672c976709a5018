"""Normalisation and whitening whose gradients are under control.

Owns: the public names of ``pellucid.nn``.
Must not: define anything.
Read next: ``standardize.py``, ``batchnorm.py``, ``whitening.py``.
"""

from pellucid.nn.bags import BagNorm, bag_moments, standardize_bags
from pellucid.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from pellucid.nn.convert import convert_batchnorm
from pellucid.nn.dropout_batchnorm import DropoutBatchNorm
from pellucid.nn.ghost import GhostBatchNorm
from pellucid.nn.moments import Moments, moments
from pellucid.nn.patchnorm import PatchNorm
from pellucid.nn.policy import StatisticsGrad
from pellucid.nn.renorm import BatchRenorm
from pellucid.nn.standardize import standardize
from pellucid.nn.sync import SyncBatchNorm, all_reduce_sum, moments_across

__all__ = [
    "BagNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "BatchRenorm",
    "DropoutBatchNorm",
    "GhostBatchNorm",
    "Moments",
    "PatchNorm",
    "StatisticsGrad",
    "SyncBatchNorm",
    "all_reduce_sum",
    "bag_moments",
    "convert_batchnorm",
    "moments",
    "moments_across",
    "standardize",
    "standardize_bags",
]

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
from pellucid.nn.group_whitening import GroupWhitening
from pellucid.nn.moments import Moments, moments
from pellucid.nn.patchnorm import PatchNorm
from pellucid.nn.policy import StatisticsGrad
from pellucid.nn.renorm import BatchRenorm
from pellucid.nn.spectral import matrix_roots, newton_schulz_inverse_root, stable_eigh
from pellucid.nn.standardize import standardize
from pellucid.nn.sync import SyncBatchNorm, all_reduce_sum, moments_across
from pellucid.nn.whitening import Whitener, apply_whitener, fit_whitener, invert_whitener, zca_mean, zca_whiten
from pellucid.nn.whitening_layers import CholeskyWhitening, LinearTransformation, PCAWhitening, ZCAWhitening

__all__ = [
    "BagNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchRenorm", "CholeskyWhitening", "DropoutBatchNorm",
    "GhostBatchNorm", "GroupWhitening", "LinearTransformation", "Moments", "PCAWhitening", "PatchNorm", "StatisticsGrad",
    "SyncBatchNorm", "Whitener", "ZCAWhitening", "all_reduce_sum", "apply_whitener", "bag_moments", "convert_batchnorm",
    "fit_whitener", "invert_whitener", "matrix_roots", "moments", "moments_across", "newton_schulz_inverse_root", "stable_eigh",
    "standardize", "standardize_bags", "zca_mean", "zca_whiten",
]  # fmt: skip

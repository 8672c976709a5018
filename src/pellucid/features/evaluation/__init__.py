"""Measuring local features on sequences of a plane with known homographies.

Owns: the public names of the evaluation.
Must not: train.
Read next: ``protocol.py``.
"""

from pellucid.features.evaluation.methods import BASELINES, describe_patches, network_method
from pellucid.features.evaluation.metrics import (
    Matches,
    accuracy_under,
    area_under_accuracy,
    average_precision,
    mutual_nearest,
    repeatability,
)
from pellucid.features.evaluation.protocol import Described, PairResult, Protocol, measure_pair
from pellucid.features.evaluation.run import Report, Row, evaluate_methods

__all__ = [
    "BASELINES", "Described", "Matches", "PairResult", "Protocol", "Report", "Row", "accuracy_under", "area_under_accuracy",
    "average_precision", "describe_patches", "evaluate_methods", "measure_pair", "mutual_nearest", "network_method",
    "repeatability",
]  # fmt: skip

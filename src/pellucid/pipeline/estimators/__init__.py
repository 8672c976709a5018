"""Estimators: how the numbers of a distribution get the gradient of an expected loss.

Owns: the parameters behind learned numbers, the surrogate loss of ``pipeline.expected``, and freezing.
Must not: know of the pipeline, images or transforms' pixels; a loss is a function of drawn values here.
Read next: ``expected.py``, ``docs/estimators.md``.
"""

from pellucid.pipeline.estimators.expected import evaluations, expected_loss
from pellucid.pipeline.estimators.freeze import frozen_tree
from pellucid.pipeline.estimators.mixing import LossesSeen
from pellucid.pipeline.estimators.parameters import LearnedParameters
from pellucid.pipeline.estimators.site import LOSS_BASED, Site, sites_of
from pellucid.random.information import entropy, kl_divergence

__all__ = [
    "LOSS_BASED", "LearnedParameters", "LossesSeen", "Site", "entropy", "evaluations", "expected_loss", "frozen_tree",
    "kl_divergence", "sites_of",
]  # fmt: skip

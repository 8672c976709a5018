"""Policies as values: choices among pipelines, and the published policies built from our transforms.

Owns: `RandomChoice`, the presets, and the published policies.
Must not: know of losses or of how a policy is learned; ``learn`` does.
Read next: ``choice.py``.
"""

from pellucid.policy.adversarial import ADA, DiffAugment
from pellucid.policy.choice import RandomChoice
from pellucid.policy.presets import rand_augment, searchable, trivial_augment
from pellucid.policy.published import AugMix, AutoAugment, RandAugment, TrivialAugmentWide

__all__ = [
    "ADA",
    "AugMix",
    "AutoAugment",
    "DiffAugment",
    "RandAugment",
    "RandomChoice",
    "TrivialAugmentWide",
    "rand_augment",
    "searchable",
    "trivial_augment",
]

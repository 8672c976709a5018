"""Policies as values: choices among pipelines, and the published policies built from our transforms.

Owns: `RandomChoice`, and the presets.
Must not: know of losses or of how a policy is learned; ``learn`` does.
Read next: ``choice.py``.
"""

from pellucid.policy.choice import RandomChoice
from pellucid.policy.presets import rand_augment, searchable, trivial_augment
from pellucid.policy.published import AutoAugment, RandAugment, TrivialAugmentWide

__all__ = ["AutoAugment", "RandAugment", "RandomChoice", "TrivialAugmentWide", "rand_augment", "searchable", "trivial_augment"]

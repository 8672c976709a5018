"""Policies as values: choices among pipelines, and the published policies built from our transforms.

Owns: `RandomChoice`, the presets, the published policies, and the spaces of searches.
Must not: know of losses or of how a policy is learned; ``learn`` does.
Read next: ``presets.py``.
"""

from pellucid.core.docstrings import introduce
from pellucid.policy.adversarial import ADA, DiffAugment
from pellucid.policy.presets import RandomChoice, rand_augment, trivial_augment
from pellucid.policy.published import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from pellucid.policy.search import searchable

__all__ = [
    "ADA", "AugMix", "AutoAugment", "DiffAugment", "RandAugment", "RandomChoice", "TrivialAugmentWide", "rand_augment",
    "searchable", "trivial_augment",
]  # fmt: skip

introduce(*map(globals().get, __all__))

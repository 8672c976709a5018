"""The augmentations of the study: what people write by hand, and the published space whose weights are learned.

Owns: which transforms, and how strong.
Must not: train.
Read next: ``run.py``.
"""

from __future__ import annotations

from dataclasses import replace

from pellucid import Learnable, Pipeline, RandomAffine, RandomErasing, RandomHorizontalFlip
from pellucid.policy import TrivialAugmentWide

__all__ = ["OPERATIONS", "choices", "hand_set"]

OPERATIONS = (
    *("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness"),
    *("Posterize", "Solarize", "AutoContrast", "Equalize"),
)
"""TrivialAugment's, as its paper names them, in the order of its branches."""


def hand_set(*, mild: bool = False, seed: int = 0) -> Pipeline:
    """A small affine jitter, a flip and erasing with probability one half."""
    k = 0.5 if mild else 1.0
    return Pipeline(
        [
            RandomHorizontalFlip(p=0.5),
            RandomAffine(degrees=10 * k, translate=(0.1 * k, 0.1 * k), scale=(1 - 0.1 * k, 1 + 0.1 * k), shear=5 * k),
            RandomErasing(p=0.5, scale=(0.02, 0.2), ratio=(0.5, 2.0)),
        ],
        seed=seed,
    )


def choices(*, seed: int = 0) -> Pipeline:
    """TrivialAugment's operations and magnitudes, with learned weights that start equal."""
    policy = TrivialAugmentWide()
    weights = Learnable((1.0,) * len(OPERATIONS))
    return Pipeline([replace(policy, weights=weights, estimator="reinforce")], seed=seed)

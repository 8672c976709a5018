"""The augmentations that learned ranges are compared with: what people write by hand, and a careless guess.

Owns: which transforms, and how strong.
Must not: train.
Read next: ``run.py``.
"""

from __future__ import annotations

from pellucid import CenteredUniform, Pipeline, RandomAffine, RandomErasing, RandomHorizontalFlip
from pellucid.learn.spaces import REACH

__all__ = ["hand_set", "wide"]


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


def wide(*, seed: int = 0) -> Pipeline:
    """The transforms that are learned, at half of their reach."""
    half = {name: high / 2 for name, high in REACH.items()}
    return Pipeline(
        [
            RandomHorizontalFlip(p=0.5),
            RandomAffine(
                degrees=half["degrees"],
                translate=(half["translate"], half["translate"]),
                scale=CenteredUniform(1.0, half["scale"]),
                shear=(CenteredUniform(0.0, half["shear"]), CenteredUniform(0.0, half["shear"])),
            ),
            RandomErasing(p=1.0, scale=(0.0, half["erased"]), ratio=(0.5, 2.0)),
        ],
        seed=seed,
    )

"""Augmentations to learn from, and hand-set ones to compare with.

Owns: which transforms, and where their ranges start.
Must not: train.
Read next: ``augerino.py``.
"""

from __future__ import annotations

from pellucid.pipeline import Pipeline
from pellucid.random import Bernoulli, CenteredUniform, Learnable
from pellucid.transforms import RandomAffine, RandomErasing, RandomHorizontalFlip

__all__ = ["hand_set", "narrow", "wide"]

_REACH = {"degrees": 180.0, "translate": 0.5, "scale": 0.9, "shear": 60.0, "erased": 0.8}
"""What a range can grow to at most. Nothing learned here depends on it much: ranges stop where they begin to cost."""


def narrow(*, start: float = 0.025, temperature: float | None = None, seed: int = 0) -> Pipeline:
    """Flip, affine and erasing with learnable ranges that start at a fortieth of their reach.

    The flip's probability lives in (0, 1/2): a flip is its own inverse, so beyond one half it would only change which of the two
    pictures is the usual one, and that is not the one a test shows.

    Args:
        start: the fraction of the reach.
        temperature: relaxes the flip's gate, for recipes whose loss only passes gradients through the images; None leaves it
            to the estimator that the pipeline's gates default to.
        seed: of the draws.
    """
    reach = {name: Learnable(high * start, low=0.0, high=high) for name, high in _REACH.items()}
    p = Learnable(0.25, low=0.0, high=0.5)
    flip = Bernoulli(p) if temperature is None else Bernoulli(p, temperature=temperature)
    return Pipeline(
        [
            RandomHorizontalFlip(p=flip),
            RandomAffine(
                degrees=reach["degrees"],
                translate=(reach["translate"], reach["translate"]),
                scale=CenteredUniform(1.0, reach["scale"]),
                shear=(CenteredUniform(0.0, reach["shear"]), CenteredUniform(0.0, reach["shear"])),
            ),
            RandomErasing(p=1.0, scale=(0.0, reach["erased"]), ratio=(0.5, 2.0)),
        ],
        seed=seed,
    )


def hand_set(*, mild: bool = False, flip: bool = True, seed: int = 0) -> Pipeline:
    """What people write by hand: a small affine jitter, a flip and erasing with probability one half."""
    k = 0.5 if mild else 1.0
    return Pipeline(
        [
            RandomHorizontalFlip(p=0.5 if flip else 0.0),
            RandomAffine(degrees=10 * k, translate=(0.1 * k, 0.1 * k), scale=(1 - 0.1 * k, 1 + 0.1 * k), shear=5 * k),
            RandomErasing(p=0.5, scale=(0.02, 0.2), ratio=(0.5, 2.0)),
        ],
        seed=seed,
    )


def wide(*, seed: int = 0) -> Pipeline:
    """The same transforms at half of their reach: what a careless guess does."""
    return Pipeline(
        [
            RandomHorizontalFlip(p=0.5),
            RandomAffine(
                degrees=_REACH["degrees"] / 2,
                translate=(_REACH["translate"] / 2, _REACH["translate"] / 2),
                scale=CenteredUniform(1.0, _REACH["scale"] / 2),
                shear=(CenteredUniform(0.0, _REACH["shear"] / 2), CenteredUniform(0.0, _REACH["shear"] / 2)),
            ),
            RandomErasing(p=1.0, scale=(0.0, _REACH["erased"] / 2), ratio=(0.5, 2.0)),
        ],
        seed=seed,
    )

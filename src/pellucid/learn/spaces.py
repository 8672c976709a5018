"""The augmentation that recipes learn from.

Owns: which transforms, and where their ranges start.
Must not: train.
Read next: ``augerino.py``.
"""

from __future__ import annotations

from pellucid.pipeline import Pipeline
from pellucid.random import Bernoulli, CenteredUniform, Learnable
from pellucid.transforms import RandomAffine, RandomErasing, RandomHorizontalFlip

__all__ = ["REACH", "narrow"]

REACH = {"degrees": 180.0, "translate": 0.5, "scale": 0.9, "shear": 60.0, "erased": 0.8}
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
    reach = {name: Learnable(high * start, low=0.0, high=high) for name, high in REACH.items()}
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

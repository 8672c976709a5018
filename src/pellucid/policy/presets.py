"""A pipeline of one choice; smooth relatives of TrivialAugment and RandAugment, whose every operation has a gradient.

Owns: `RandomChoice`, and the transforms and ranges of the two others.
Must not: choose, or hold state; `pellucid.OneOf` and `pellucid.SomeOf` do, and the pipeline.
Read next: ``search.py``, ``../transforms/choices.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid.core.arguments import check_flag, finite_number, finite_numbers, whole_number
from pellucid.errors import InvalidArgument, InvalidType, invalid
from pellucid.pipeline import Pipeline
from pellucid.random import Categorical, CenteredUniform, Distribution
from pellucid.random.learnable import Given, Learnable
from pellucid.transforms import (
    OneOf,
    RandomBrightness,
    RandomContrast,
    RandomInvert,
    RandomRotation,
    RandomSaturation,
    RandomShear,
    RandomTranslate,
    SomeOf,
)
from pellucid.transforms.base import Transform

__all__ = ["RandomChoice", "check_channels", "rand_augment", "trivial_augment"]

_REACH = {"shear": 45.0, "translate": 0.45, "rotate": 135.0, "factor": 0.95}
"""The largest magnitudes of TrivialAugment's wide space (shear in degrees, translation as a fraction of the size)."""


def RandomChoice(
    branches: Sequence[Sequence[Transform]],
    *,
    weights: Sequence[float] | Learnable | Given | None = None,
    learn: bool = False,
    times: int = 1,
    temperature: float | None = None,
    seed: int | None = None,
    **options: Any,
) -> Pipeline:
    """Apply one of several branches, each a list of transforms, drawn per sample: ``Pipeline([OneOf(branches)])``.

    Every learnable number takes part in every call, whatever is drawn, so distributed training needs no
    ``find_unused_parameters``.

    Args:
        branches: lists of transforms.
        weights: of the branches, not negative, normalised here; default equal. A module, or ``Learnable(by=module)``, predicts
            them from each picture, as in `OneOf`.
        learn: train the weights: ``OneOf(weights=Learnable(...))``, whose gradient under `Pipeline.expected` is exact. In a plain
            call it goes straight through the choice to the branches' probabilities, which is biased.
        times: how often a branch is drawn and applied, 1 to 64; the learned weights are the same each time.
        temperature: None draws one branch; a number > 0 mixes them, as in `OneOf`.
        seed, options: as in `Pipeline`; ``same_on_batch`` shares the branch as well.

    Returns:
        A pipeline.

    Gradient:
        weights: as for `OneOf`: exact under `Pipeline.expected`, or, with a temperature, of the mixture. image: as the branches'.

    Errors:
        InvalidArgument or InvalidType for no branches, for weights that are negative, not one per branch, or 0 where they are
        learned, and for ``times`` or a temperature outside of its range.

    Example:
        >>> from pellucid.policy import RandomChoice
        >>> flips = RandomChoice([[pellucid.RandomHorizontalFlip(p=1.0)], [pellucid.RandomVerticalFlip(p=1.0)]])
        >>> sorted({tuple(row) for row in flips(torch.arange(4.0).reshape(1, 1, 2, 2).expand(32, 1, 2, 2)).flatten(1).tolist()})
        [(1.0, 0.0, 3.0, 2.0), (2.0, 3.0, 0.0, 1.0)]
    """
    check_flag("learn", learn)
    times = whole_number("times", times, 1, 64)
    estimator = "relaxed" if temperature is not None else "exact"
    predicted = isinstance(weights, Learnable) or (callable(weights) and not isinstance(weights, type))
    starts: Any = weights if weights is None or predicted else finite_numbers("weights", weights)
    if learn and not predicted:
        starts = (1.0,) * len(branches) if starts is None else starts
        if min(starts, default=1.0) <= 0:
            fix = "A weight of 0 cannot grow."
            raise invalid("weights", expected="numbers > 0 where they are learned", got=repr(weights), fix=fix)
        starts = [Learnable(start) for start in starts]
    shared: dict[str, Any] = {"weights": starts, "estimator": estimator, "temperature": temperature}
    try:
        choice = OneOf(branches, **shared) if times == 1 else SomeOf(branches, times, replace=True, **shared)  # type: ignore[arg-type]
    except (InvalidArgument, InvalidType) as error:  # it knows the argument by another name
        raise type(error)(str(error).replace(f"{'OneOf' if times == 1 else 'SomeOf'}.transforms", "branches", 1)) from None
    return Pipeline([choice], seed=seed, **options)


def trivial_augment(*, channels: int = 3, strength: float = 1.0, seed: int | None = None) -> Pipeline:
    """One operation per sample, with a uniform magnitude: nothing to tune.

    Args:
        channels: 3, or 1 for grey pictures, which have no saturation.
        strength: from 0 to 1: scales every range.
        seed: of the draws; as in `Pipeline`.

    Returns:
        A pipeline, differentiable in the images; its operations are those that have a gradient.

    Errors:
        InvalidArgument or InvalidType for a strength outside of [0, 1], and for a number of channels that is neither 1 nor 3.

    Source:
        Mueller and Hutter: "TrivialAugment: tuning-free yet state-of-the-art data augmentation", ICCV 2021; the wide space,
        without the operations that have no gradient.

    Example:
        >>> from pellucid.policy import trivial_augment
        >>> trivial_augment(seed=0)(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 3, 32, 32])
    """
    strength = finite_number("strength", strength)
    if not 0 <= strength <= 1:
        raise invalid("strength", expected="a number from 0 to 1", got=repr(strength))
    branches = _operations(channels, lambda reach: CenteredUniform(0.0, reach * strength))
    return RandomChoice([(), *([one] for one in branches)], seed=seed)


def rand_augment(n: int = 2, magnitude: float = 0.3, *, channels: int = 3, seed: int | None = None) -> Pipeline:
    """``n`` operations per sample, one after the other in one pass, all of one magnitude and random sign.

    Args:
        n: operations per sample, 1 to 64.
        magnitude: in (0, 1]: the fraction of the largest one.
        channels, seed: as in :func:`trivial_augment`.

    Returns:
        A pipeline, differentiable in the images; its operations are those that have a gradient.

    Errors:
        InvalidArgument or InvalidType for numbers outside of their ranges.

    Source:
        Cubuk, Zoph, Shlens, Le: "RandAugment: practical automated data augmentation with a reduced search space", 2020.

    Example:
        >>> from pellucid.policy import rand_augment
        >>> rand_augment(n=2, magnitude=0.3, seed=0)(torch.rand(8, 3, 32, 32)).shape
        torch.Size([8, 3, 32, 32])
    """
    magnitude, n = finite_number("magnitude", magnitude), whole_number("n", n, 1, 64)
    if not 0 < magnitude <= 1:
        raise invalid("magnitude", expected="a number in (0, 1]", got=repr(magnitude))
    branches = _operations(channels, lambda reach: Categorical((-reach * magnitude, reach * magnitude)))
    return RandomChoice([(), *([one] for one in branches)], times=n, seed=seed)


def check_channels(channels: object) -> None:
    """Raise unless ``channels`` is 1 or 3."""
    if type(channels) is not int or channels not in (1, 3):
        raise invalid("channels", expected="3, or 1 for grey pictures", got=repr(channels))


def _operations(channels: int, spread: Callable[[float], Distribution]) -> Sequence[Transform]:
    check_channels(channels)

    def about_one(reach: float) -> Distribution:
        inner = spread(reach)
        if isinstance(inner, Categorical):
            return Categorical(tuple(1.0 + v for v in inner.values))
        assert isinstance(inner, CenteredUniform)
        return CenteredUniform(1.0, inner.half_width)

    shift = _REACH["translate"]
    operations: list[Transform] = [
        RandomShear((spread(_REACH["shear"]), spread(0.0)), p=1.0),
        RandomShear((spread(0.0), spread(_REACH["shear"])), p=1.0),
        RandomTranslate((spread(shift), 0.0), p=1.0),
        RandomTranslate((0.0, spread(shift)), p=1.0),
        RandomRotation(spread(_REACH["rotate"]), p=1.0),
        RandomBrightness(about_one(_REACH["factor"]), p=1.0),
        RandomContrast(about_one(_REACH["factor"]), p=1.0),
        RandomInvert(p=1.0),
    ]
    return operations if channels == 1 else [*operations, RandomSaturation(about_one(_REACH["factor"]), p=1.0)]

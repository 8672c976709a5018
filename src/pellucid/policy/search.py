"""The spaces that policy searches move in: the published operations with learned choices, gates and magnitudes.

Owns: what each method learns, where it starts, and through which estimator.
Must not: search; ``pellucid.learn`` does, or a loop of one's own.
Read next: ``operations.py``, ``../learn/density.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TypeVar

from pellucid.core.arguments import check_choice, finite_number, whole_number
from pellucid.errors import invalid
from pellucid.pipeline import Pipeline
from pellucid.policy.operations import ORDER, REACH, magnitudes, operation
from pellucid.policy.presets import check_channels
from pellucid.random import Bernoulli, Categorical, CenteredUniform, Distribution, Learnable, Uniform
from pellucid.transforms import (
    OneOf,
    RandomAffine,
    RandomBrightness,
    RandomContrast,
    RandomErasing,
    RandomHorizontalFlip,
    RandomRotation,
    RandomSaturation,
    RandomShear,
    RandomTranslate,
)
from pellucid.transforms.base import Transform

__all__ = ["searchable"]

T = TypeVar("T")

_OPERATIONS = (*ORDER, "Invert")
_METHODS = ("pairs", "faster_autoaugment", "dada", "adversarial_autoaugment")
_LEVELS = 10


def searchable(
    method: str = "pairs",
    *,
    operations: Sequence[str] | None = None,
    channels: int = 1,
    pairs: int | None = None,
    estimator: str | None = None,
    temperature: float = 0.1,
    seed: int | None = None,
) -> Pipeline:
    """A policy with everything that a search learns as parameters: where the search starts.

    | method | a picture goes through | learned |
    |---|---|---|
    | ``pairs`` | one of the pairs | gates, magnitudes (of smooth operations) |
    | ``faster_autoaugment`` | one of the sub-policies: two stages, each an operation | choices of operations, gates, magnitudes |
    | ``dada`` | one of the pairs | the choice of the pair, gates, magnitudes |
    | ``adversarial_autoaugment`` | two stages, each an operation at a level | choices of operations and levels |

    Args:
        method: one of these.
        operations: names as in AutoAugment's paper; default all fourteen (``Color`` for three channels only). Not for ``pairs``.
        channels: 3, or 1 for grey pictures.
        pairs: how many pairs (default all) or sub-policies (default 10). Not for ``adversarial_autoaugment``.
        estimator: of choices and gates: by default ``relaxed``, so that a loss on the pictures is enough; ``reinforce`` for
            ``adversarial_autoaugment``. ``exact``, ``arm`` and ``reinforce`` act in ``pipeline.expected``. Not for ``pairs``.
        temperature: of relaxed choices and gates.
        seed: of the draws; as in `Pipeline`.

    Returns:
        A pipeline. Ranges start at half of AutoAugment's reach, gates at one half, choices equal.

    Gradient:
        as the estimators': relaxed ones are biased for hard choices, the others are not. Magnitudes that are ranges learn through
        the draw: exact for warps, colours and sharpness, by a secant for posterize and solarize.
    Errors:
        InvalidArgument for an unknown method or operation, and for an option that the method has no use for.
    Source:
        ``pairs`` and ``faster_autoaugment``: Hataya, Zdenek, Yoshizoe, Nakayama: "Faster AutoAugment", ECCV 2020. ``dada``: Li, Hu,
        Wang, Hospedales, Robertson, Yang: "DADA: differentiable automatic data augmentation", ECCV 2020, without its control
        variate. ``adversarial_autoaugment``: Zhang, Wang, Zhang, Zhong: "Adversarial AutoAugment", ICLR 2020, with independent
        choices in place of its recurrent controller. What was changed, and why: ADR 33.

    Example:
        >>> from pellucid.policy import searchable
        >>> policy = searchable("adversarial_autoaugment", operations=["Rotate", "Invert"], seed=0)
        >>> loss = policy.expected(lambda out: out.mean((1, 2, 3)), torch.rand(8, 1, 16, 16))
        >>> (-loss).backward()  # the policy climbs where the network descends
        >>> len(list(policy.parameters()))  # two stages: two operations, twenty signed levels of Rotate
        44
    """
    check_choice("method", method, _METHODS)
    check_channels(channels)
    pairs = None if pairs is None else whole_number("pairs", pairs, 1, 1 << 24)
    if finite_number("temperature", temperature) <= 0:
        raise invalid("temperature", expected="a number > 0", got=repr(temperature))
    unused: dict[str, object] = {"operations": operations, "estimator": estimator} if method == "pairs" else {}
    if method == "adversarial_autoaugment":
        unused = {"pairs": pairs}
    for argument, given in unused.items():
        if given is not None:
            raise invalid(argument, expected=f"None for {method!r}", got=repr(given))
    if method == "pairs":
        chosen = _pairs(range(len(_smooth(channels, temperature))), pairs)
        return Pipeline([OneOf(tuple(tuple(_smooth(channels, temperature)[i] for i in pair) for pair in chosen))], seed=seed)
    names = _named(operations, channels)
    if method == "adversarial_autoaugment":
        return Pipeline([_chosen(names, estimator or "reinforce", temperature, levels=True) for _ in range(2)], seed=seed)
    how = estimator or "relaxed"
    if method == "dada":
        if len(names) < 2:
            raise invalid("operations", expected="at least two, for pairs", got=repr(names))
        branches = [[_ranged(name, how, temperature) for name in pair] for pair in _pairs(names, pairs)]
        return Pipeline([_learned_choice(branches, how, temperature)], seed=seed)
    sub_policies = [tuple(_chosen(names, how, temperature) for _ in range(2)) for _ in range(10 if pairs is None else pairs)]
    return Pipeline([OneOf(tuple(sub_policies))], seed=seed)


def _named(operations: Sequence[str] | None, channels: int) -> tuple[str, ...]:
    if operations is None:
        return tuple(name for name in _OPERATIONS if channels == 3 or name != "Color")
    if isinstance(operations, str) or not operations:
        raise invalid("operations", expected=f"some of {', '.join(_OPERATIONS)}", got=repr(operations))
    for name in operations:
        check_choice("operations", name, _OPERATIONS)
    return tuple(operations)


def _pairs(things: Sequence[T], count: int | None) -> list[tuple[T, T]]:
    """So many of all pairs, evenly spaced in their list; None takes all."""
    pairs = list(combinations(things, 2))
    return pairs if count is None or count >= len(pairs) else [pairs[i * len(pairs) // count] for i in range(count)]


def _chosen(names: Sequence[str], estimator: str, temperature: float, *, levels: bool = False) -> OneOf:
    """A stage: a learned choice among the operations."""
    one = _leveled if levels else _ranged
    return _learned_choice([[one(name, estimator, temperature)] for name in names], estimator, temperature)


def _learned_choice(branches: Sequence[Sequence[Transform]], estimator: str, temperature: float) -> OneOf:
    heat = temperature if estimator == "relaxed" else None
    return OneOf(branches, weights=Learnable((1.0,) * len(branches)), estimator=estimator, temperature=heat)  # type: ignore[arg-type]


def _ranged(name: str, estimator: str, temperature: float) -> Transform:
    """An operation with a learned gate, whose magnitude is drawn from a learned range around rest."""
    gate = Bernoulli(Learnable(0.5), temperature if estimator == "relaxed" else None, estimator)
    ends = magnitudes(name, REACH, 2)  # at rest and at its largest, with both signs where it has them
    return operation(name, ends, gate, spread=_around_rest, interpolation="bilinear", shifts="bilinear")


def _around_rest(ends: tuple[float, ...]) -> Distribution:
    """A learned range around rest, up to the largest magnitude.

    Args:
        ends: (rest, rest, largest, its opposite), or (rest, largest) where there is no sign.
    """
    rest, reach = ends[0], max(ends) - min(ends)
    if len(ends) == 4:
        return CenteredUniform(rest, Learnable(reach / 4, low=0.0, high=reach / 2))
    return Uniform(Learnable(rest - reach / 2, low=rest - reach, high=rest), rest)


def _leveled(name: str, estimator: str, temperature: float) -> Transform:
    """An operation with one of ten levels, chosen with learned weights."""

    def levels(values: tuple[float, ...]) -> Distribution:
        heat = temperature if estimator == "relaxed" else None
        return Categorical(values, (Learnable(1.0),) * len(values), estimator, heat)

    return operation(name, magnitudes(name, REACH, _LEVELS), spread=levels, interpolation="bilinear", shifts="bilinear")


def _smooth(channels: int, temperature: float) -> list[Transform]:
    gate = Bernoulli(Learnable(0.5), temperature=temperature)

    def width(start: float, high: float) -> Distribution:
        return CenteredUniform(0.0, Learnable(start, low=0.0, high=high))

    def around_one(start: float) -> Distribution:
        return CenteredUniform(1.0, Learnable(start, low=0.0, high=0.95))

    operations: list[Transform] = [
        RandomHorizontalFlip(p=gate),
        RandomRotation(width(10.0, 180.0), p=gate),
        RandomTranslate((width(0.08, 0.5), width(0.08, 0.5)), p=gate),
        RandomShear((width(8.0, 60.0), width(8.0, 60.0)), p=gate),
        RandomAffine(degrees=0.0, scale=around_one(0.1), p=gate),
        RandomBrightness(around_one(0.15), p=gate),
        RandomContrast(around_one(0.15), p=gate),
        RandomErasing(scale=(0.0, Learnable(0.1, low=0.0, high=0.6)), ratio=(0.5, 2.0), p=gate),
    ]
    return operations if channels == 1 else [*operations, RandomSaturation(around_one(0.15), p=gate)]

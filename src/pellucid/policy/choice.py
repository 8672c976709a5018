"""One of several lists of transforms per sample: a pipeline of one choice.

Owns: `RandomChoice`.
Must not: choose; `pellucid.OneOf` and `pellucid.SomeOf` do.
Read next: ``presets.py``, ``../transforms/choices.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.errors import InvalidArgument, InvalidType, invalid
from pellucid.pipeline import Pipeline
from pellucid.random.arguments import check_flag, finite_numbers, whole_number
from pellucid.random.learnable import Given, Learnable
from pellucid.transforms import OneOf, SomeOf
from pellucid.transforms.base import Transform

__all__ = ["RandomChoice"]


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
        learn: train the weights: ``OneOf(weights=Learnable(...))``, whose gradient under `Pipeline.expected` is exact. A plain call
            takes the share of a branch for the choice, which is biased.
        times: how often a branch is drawn and applied, 1 to 64; the learned weights are the same each time.
        temperature: None draws one branch; a number > 0 mixes them, as in `OneOf`.
        seed, options: as in `Pipeline`; ``same_on_batch`` shares the branch as well.

    Returns:
        A pipeline.

    Gradient:
        weights: as of `OneOf`: exact under `Pipeline.expected`, or of what a temperature mixes. image: as the branches'.

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
    except (InvalidArgument, InvalidType) as error:  # which knows the argument by another name
        raise type(error)(str(error).replace(f"{'OneOf' if times == 1 else 'SomeOf'}.transforms", "branches", 1)) from None
    return Pipeline([choice], seed=seed, **options)

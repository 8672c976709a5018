"""Choices among transforms, and how a tree of them is laid out in a row.

Owns: OneOf, SomeOf, Shuffle, Apply, and `Step`.
Must not: draw, plan, or gate anything; a choice only says which of its branches are open.
Read next: ``../engine/plan/schedule.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar, NamedTuple, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

from pellucid.core.arguments import whole_number
from pellucid.core.constants import wide_dtype
from pellucid.errors import invalid
from pellucid.random.discrete import one_each
from pellucid.random.distributions import Categorical, Permutation
from pellucid.random.fields import Chance
from pellucid.random.learnable import Given, Learnable, Number
from pellucid.transforms.base import Names, Params, Transform, as_transforms, by_options, ordered

__all__ = ["Apply", "OneOf", "Shuffle", "SomeOf"]

Branch: TypeAlias = Transform | tuple[Transform, ...]
"""One transform, or several in a row; an empty tuple leaves the picture alone."""

_MOST_TURNS = 64
_MOST_LAID = 1024
"""Steps that a choice with turns may be laid out in: planning takes 3 ms for each."""


class Choice(Transform):
    """The base of the four choices: branches, laid out ``turns`` times, each open or closed in each sample.

    A choice draws once; each step in its branches (`Step`) then reads whether it is open.
    """

    transforms: tuple[Branch, ...]

    turns: int = 1
    whole: ClassVar[bool] = False  # whether in every turn some branch is open
    rounded: bool = False

    @by_options
    def gradients(self) -> Mapping[str, str]:
        branches = self.branches if isinstance(self, Choice) else ()
        kinds = {transform.gradients["image"] for branch in branches for transform in branch}
        plain = {"exact", "almost_everywhere"}
        image = next((kind for kind in sorted(kinds - plain)), "almost_everywhere" if "almost_everywhere" in kinds else "exact")
        drawn = self._fixed if isinstance(self, Choice) else {}
        return {"image": image, **{name: "none" if name == "order" else "almost_everywhere" for name in drawn}}

    @property
    def branches(self) -> tuple[tuple[Transform, ...], ...]:
        """Each branch as a tuple of transforms."""
        return self._rows()

    def _rows(self) -> tuple[tuple[Transform, ...], ...]:
        return tuple(branch if isinstance(branch, tuple) else (branch,) for branch in self.transforms)

    def check(self) -> None:
        object.__setattr__(self, "transforms", branches_of(type(self).__name__, self.transforms))

    def among(self, branches: Sequence[Sequence[Transform]]) -> Choice:
        """This choice with other transforms in its branches."""
        return replace(self, transforms=tuple(map(tuple, branches)))  # type: ignore[type-var]

    def opened(self, values: Params, turn: int, branch: int) -> Float[Tensor, "b"] | None:
        """How far a branch is open in a turn: 0 or 1 per sample, or between where a relaxed choice was drawn.

        None where it is open always.
        """
        raise NotImplementedError

    def excludes(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Whether two branches, each as (turn, branch), are never open together."""
        del one, other
        return False


def branches_of(owner: str, transforms: object) -> tuple[Branch, ...]:
    """Read branches: transforms, or lists of them."""
    fix = f"For example {owner}([RandomInvert(p=1.0), [RandomHorizontalFlip(p=1.0), RandomRotation(9)]])."
    given = ordered(f"{owner}.transforms", transforms, "a list of transforms, or of lists of them", fix)
    if not given:
        raise invalid(f"{owner}.transforms", expected="at least one transform", got=repr(transforms), fix=fix)
    return tuple(
        one
        if isinstance(one, Transform)
        else as_transforms([one] if isinstance(one, nn.Module) else one, f"{owner}.transforms[{i}]")
        for i, one in enumerate(given)
    )


@dataclass(frozen=True)
class OneOf(Choice):
    """Apply one of several branches, drawn for each sample.

    All branches are part of one plan; those not chosen change nothing, and geometry and colour of all of them are one pass.

    Args:
        transforms: the branches: transforms, or lists of them, which may hold choices again; an empty list leaves the picture
            alone. Transforms keep their own probabilities: say ``p=1.0`` if every picture shall change. All end in one size.
        weights: of the branches, not negative, normalised here; default equal. Numbers, `Learnable`s, one `Learnable` of
            as many numbers, or a module that predicts as many from each picture, as in `Categorical`.
        estimator: how learned weights get their gradient, as in `Categorical`.
        temperature: of relaxed choices, which mix the branches, as in `Categorical`.
        rounded: pictures of bytes are rounded to bytes after every transform in the branches, as published policies do, not
            only at the end of a pass. Transforms before the choice end in bytes then, too. Floating-point pictures do not change.

    Gradient:
        choice: almost everywhere (of the shares of the branches). The image's is as the branches', that of weights as the
        estimator's. Where it rounds bytes, gradients go straight through.
    On each target:
        as the branches.
    Identity at:
        an empty branch.
    Errors:
        InvalidArgument for no branch, for weights that do not fit, for branches that end in different sizes, and for
        `Normalize` inside.

    Example:
        >>> flip = pellucid.OneOf([pellucid.RandomHorizontalFlip(p=1.0), pellucid.RandomVerticalFlip(p=1.0)])
        >>> sorted({tuple(row) for row in flip(torch.arange(4.0).reshape(1, 1, 2, 2).expand(32, 1, 2, 2)).flatten(1).tolist()})
        [(1.0, 0.0, 3.0, 2.0), (2.0, 3.0, 0.0, 1.0)]
    """

    transforms: tuple[Branch, ...]
    weights: Learnable | Given | Sequence[Number] | None = None
    _: KW_ONLY
    estimator: str = "exact"
    temperature: float | None = None
    rounded: bool = False
    same_on_batch: bool = False

    whole: ClassVar[bool] = True
    like: ClassVar[Names] = {"torchvision": "RandomChoice"}

    def check(self) -> None:
        super().check()
        object.__setattr__(self, "_fixed", {"choice": _one_of(self)})

    def opened(self, values: Params, turn: int, branch: int) -> Float[Tensor, "b"]:
        return values["choice"][:, branch]

    def excludes(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one[1] != other[1] and self.temperature is None


def _one_of(owner: OneOf | SomeOf) -> Categorical:
    """The distribution of one branch, drawn as a row of shares: one-hot, or mixed if the choice is relaxed."""
    count, name = len(owner.transforms), f"{type(owner).__name__}.weights"
    weights = one_each(owner.weights, count)
    if weights is not None:
        weights = ordered(name, weights, "a sequence of numbers, or a Learnable of as many", "For example (1.0, 3.0).")
        object.__setattr__(owner, "weights", weights)
        if len(weights) != count:
            raise invalid(name, expected=f"{count} numbers, one per branch", got=repr(owner.weights))
    rows = tuple(tuple(float(i == j) for j in range(count)) for i in range(count))
    drawn = Categorical(rows, weights, owner.estimator, owner.temperature)
    object.__setattr__(owner, "estimator", str.__str__(drawn.estimator))
    object.__setattr__(owner, "temperature", drawn.temperature)
    return drawn


@dataclass(frozen=True)
class SomeOf(Choice):
    """Apply n of several branches, drawn for each sample.

    Args:
        transforms: the branches, as in `OneOf`; each keeps the picture's size.
        n: how many.
        replace: draw n times among all, one after the other; else n different ones, in the order of the list.
        weights, estimator, temperature: with replacement, as in `OneOf`; learned weights are those of all n draws.
        rounded: as in `OneOf`.

    Gradient:
        choice: almost everywhere. order: none. The image's is as the branches'; where it rounds bytes, it goes straight through.
    On each target:
        as the branches.
    Identity at:
        n = 0.
    Errors:
        As `OneOf`; InvalidArgument for more than there are, without replacement.

    Example:
        >>> both = pellucid.SomeOf([pellucid.RandomHorizontalFlip(p=1.0), pellucid.RandomVerticalFlip(p=1.0)], n=2)
        >>> both(torch.arange(4.0).reshape(1, 1, 2, 2)).flatten()
        tensor([3., 2., 1., 0.])
    """

    transforms: tuple[Branch, ...]
    n: int = 1
    _: KW_ONLY
    replace: bool = False
    weights: Learnable | Given | Sequence[Number] | None = None
    estimator: str = "exact"
    temperature: float | None = None
    rounded: bool = False
    same_on_batch: bool = False

    def check(self) -> None:
        super().check()
        count = len(self.transforms)
        object.__setattr__(self, "n", whole_number("SomeOf.n", self.n, 0, _MOST_TURNS if self.replace else count))
        if not self.replace:
            if self.weights is not None or self.temperature is not None:
                fix = "Say replace=True."
                raise invalid("SomeOf.weights", expected="None without replacement", got=repr(self.weights), fix=fix)
            object.__setattr__(self, "_fixed", {"order": Permutation(count)})
            return
        each = _one_of(self)
        object.__setattr__(self, "_fixed", {f"choice_{turn}": each for turn in range(self.n)})
        _bounded(self)

    @property
    def tied(self) -> tuple[str, ...]:  # type: ignore[override]
        """The draws share their weights."""
        return tuple(self._fixed)

    @property
    def turns(self) -> int:  # type: ignore[override]
        """One for each draw with replacement; one for all draws without."""
        return self.n if self.replace else 1

    def opened(self, values: Params, turn: int, branch: int) -> Float[Tensor, "b"]:
        return values[f"choice_{turn}"][:, branch] if self.replace else _among(values["order"], 0, self.n, branch)

    def excludes(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        return self.replace and self.temperature is None and one[0] == other[0] and one[1] != other[1]


@dataclass(frozen=True)
class Shuffle(Choice):
    """Apply all branches, in an order drawn for each sample.

    Args:
        transforms: the branches, as in `OneOf`; each keeps the picture's size. k branches are laid out k times, in at most 1024
            steps (32 branches of one transform).

    Gradient:
        order: none. The image's is as the branches'.
    On each target:
        as the branches.
    Errors:
        As `OneOf`.

    Example:
        >>> both = pellucid.Shuffle([pellucid.RandomHorizontalFlip(p=1.0), pellucid.RandomVerticalFlip(p=1.0)])
        >>> both(torch.arange(4.0).reshape(1, 1, 2, 2)).flatten()
        tensor([3., 2., 1., 0.])
    """

    transforms: tuple[Branch, ...]
    _: KW_ONLY
    same_on_batch: bool = False

    whole: ClassVar[bool] = True
    like: ClassVar[Names] = {"torchvision": "RandomOrder"}

    def check(self) -> None:
        super().check()
        object.__setattr__(self, "_fixed", {"order": Permutation(len(self.transforms))})
        _bounded(self)

    @property
    def turns(self) -> int:  # type: ignore[override]
        """One per place in the order."""
        return len(self.transforms)

    def opened(self, values: Params, turn: int, branch: int) -> Float[Tensor, "b"]:
        return _among(values["order"], turn, turn + 1, branch)

    def excludes(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        return (one[0] == other[0]) != (one[1] == other[1])


@dataclass(frozen=True)
class Apply(Choice):
    """Apply all of several transforms, or none of them, drawn for each sample.

    Args:
        transforms: the transforms, one after the other (each a branch, as in `OneOf`); together they keep the picture's size.

    Gradient:
        gate: almost everywhere. The image's is as the transforms'.
    On each target:
        as the transforms.
    Errors:
        As `OneOf`; InvalidArgument for a probability outside of [0, 1].

    Example:
        >>> both = pellucid.Apply([pellucid.RandomHorizontalFlip(p=1.0), pellucid.RandomVerticalFlip(p=1.0)], p=1.0)
        >>> both(torch.arange(4.0).reshape(1, 1, 2, 2)).flatten()
        tensor([3., 2., 1., 0.])
    """

    transforms: tuple[Branch, ...]
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"torchvision": "RandomApply"}

    @property
    def branches(self) -> tuple[tuple[Transform, ...], ...]:
        """A single branch: all transforms in a row."""
        return (tuple(transform for branch in self._rows() for transform in branch),)

    def opened(self, values: Params, turn: int, branch: int) -> Float[Tensor, "b"] | None:
        return values.get("gate")


def _among(order: Tensor, first: int, end: int, branch: int) -> Float[Tensor, "b"]:
    """Whether a branch is among these places of the order."""
    return (order[:, first:end] == branch).to(wide_dtype(order.device)).sum(1)


def _bounded(choice: Choice) -> None:
    if (laid := _laid(choice)) > _MOST_LAID and choice.turns > 1:
        name, turns = type(choice).__name__, choice.turns
        expected = f"branches that are laid out in at most {_MOST_LAID} steps, once for each of {turns} turns"
        fix = "Take fewer branches, or split them into several choices."
        raise invalid(f"{name}.transforms", expected=expected, got=f"{laid} steps", fix=fix)


def _laid(transform: Transform) -> int:
    """How many steps a transform is laid out in, choices not counted."""
    if not isinstance(transform, Choice):
        return 1
    return transform.turns * sum(_laid(one) for branch in transform.branches for one in branch)


class Gate(NamedTuple):
    """A branch that a step lies in: the choice's own step, the turn, and the branch's number."""

    choice: int
    turn: int
    branch: int


class Step(NamedTuple):
    """A transform in the row that a tree is laid out in.

    Args:
        transform: the transform.
        gates: the branches it lies in, outermost first.
        first: the step whose learned numbers it shares: itself, or the same one in the first turn.
    """

    transform: Transform
    gates: tuple[Gate, ...]
    first: int


def steps_of(transforms: Sequence[Transform]) -> tuple[Step, ...]:
    """Lay a tree out in the order it is written; a choice comes before its branches, which follow once for each turn."""
    steps: list[Step] = []

    def lay(sequence: Sequence[Transform], gates: tuple[Gate, ...]) -> None:
        for transform in sequence:
            choice = len(steps)
            steps.append(Step(transform, gates, choice))
            if not isinstance(transform, Choice):
                continue
            for turn in range(transform.turns):
                start = len(steps)
                for branch, inner in enumerate(transform.branches):
                    lay(inner, (*gates, Gate(choice, turn, branch)))
                turned = zip(steps[start:], steps[choice + 1 :], strict=False)  # each with the same step in the first turn
                steps[start:] = [step._replace(first=same.first) for step, same in turned]

    lay(transforms, ())
    return tuple(steps)


def places_of(transforms: Sequence[Transform], at: int) -> range:
    """The steps that one of the transforms is laid out in."""
    before = len(steps_of(transforms[:at]))
    return range(before, before + len(steps_of(transforms[at : at + 1])))


def exclude(steps: Sequence[Step], one: int, other: int) -> bool:
    """Whether two steps are never open in the same sample."""
    for gate, beside in zip(steps[one].gates, steps[other].gates, strict=False):
        if gate.choice != beside.choice:
            return False
        choice = steps[gate.choice].transform
        assert isinstance(choice, Choice)
        if choice.excludes(gate[1:], beside[1:]):
            return True
        if gate != beside:
            return False
    return False

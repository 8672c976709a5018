"""The arms of the study: what each augments with, in the space of RandAugment's fourteen operations.

Owns: the arms, with their papers; what a search tries, and on which pictures.
Must not: look at test pictures.
Read next: ``run.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid import Pipeline
from pellucid.adversarial import max_up
from pellucid.learn.augerino import HeldStatistics
from pellucid.learn.classifier import Student, fixed
from pellucid.learn.data import Task
from pellucid.learn.run import train
from pellucid.learn.settings import Learning, Settings
from pellucid.policy import RandAugment, TrivialAugmentWide
from pellucid.policy.operations import ORDER, REACH, magnitudes, operation, signs
from pellucid.random import Key
from pellucid.training import TrainState, World, descend
from pellucid.transforms import SomeOf
from pellucid.transforms.base import Transform

__all__ = ["ARMS", "Arm"]


@dataclass(frozen=True)
class Arm:
    """One way to augment.

    Args:
        title: in the tables.
        train: searches, where there is a search, then trains the network; all that it costs is the arm's.
        fixed: whether it learns and selects nothing.
    """

    title: str
    train: Callable[[Task, Settings], Learning]
    fixed: bool = True


class Bytes(nn.Module):
    """Augment float pictures as the bytes they were read from, as the papers do: rounded after every operation, and fast."""

    def __init__(self, *transforms: Transform, seed: int) -> None:
        super().__init__()
        self.pipeline = Pipeline(list(transforms), seed=seed)

    def forward(self, images: Tensor, *, key: Key) -> Tensor:
        """The pictures of a draw."""
        out: Tensor = self.pipeline(as_bytes(images), key=key)
        return out.float().div_(255.0)


def as_bytes(images: Tensor) -> Tensor:
    """The bytes that float pictures were read from."""
    return images.mul(255.0).round().to(torch.uint8)


def _trained(augment: nn.Module | None, task: Task, settings: Settings) -> Learning:
    learning = fixed(task, augment, settings, World())
    train(learning, settings.steps, settings.seed)
    return learning


def _published(make: Callable[[], Transform], longer: float = 1.0) -> Callable[[Task, Settings], Learning]:
    def run(task: Task, settings: Settings) -> Learning:
        return _trained(Bytes(make(), seed=settings.seed), task, replace(settings, steps=round(longer * settings.steps)))

    return run


def _some(names: Sequence[str], n: int = 2, magnitude: int = 9) -> Transform:
    """RandAugment of some of its operations."""
    levels = {name: signs(name, magnitudes(name, REACH, 31, signed=False)[magnitude]) for name in names}
    return SomeOf(((), *(operation(name, level) for name, level in levels.items())), n=n, replace=True, rounded=True)


def _uniform() -> Transform:
    """LingChen, Khonsari, Lashkari, Nazari, Sambee, Nascimento: "UniformAugment", 2020: two operations, each at a uniform magnitude
    with a uniform probability, whose mean is one half."""
    return SomeOf(((), *(operation(name, magnitudes(name, REACH, 31), 0.5) for name in ORDER)), n=2, replace=True, rounded=True)


def _searched(made: Sequence[Callable[[], Transform]]) -> Callable[[Task, Settings], Learning]:
    """The best of several by tries: an equal part of the steps each, on four fifths of the training pictures, judged by the loss on
    the others; as many steps as the training has."""

    def run(task: Task, settings: Settings) -> Learning:
        cut, short = 4 * len(task.x) // 5, replace(settings, steps=max(1, settings.steps // len(made)))

        def loss(make: Callable[[], Transform]) -> float:
            learning = _trained(Bytes(make(), seed=settings.seed), replace(task, x=task.x[:cut], y=task.y[:cut]), short)
            assert learning.net is not None
            with torch.no_grad():
                return float(F.cross_entropy(learning.net.eval()(task.x[cut:]), task.y[cut:]))

        return _trained(Bytes(min(made, key=loss)(), seed=settings.seed), task, settings)

    return run


def _worst_of(draws: int, *, bound: float = inf, begin: float = 0.0) -> Callable[[Task, Settings], Learning]:
    """Gong, Ren, Ye, Liu: "MaxUp", CVPR 2021: of several draws of each picture, train on that of the largest loss.

    Args:
        draws: of each picture.
        bound: losses above it count as equal, so that a picture whose first draw is as hard as that keeps it.
        begin: the share of the steps before which pictures have one draw.
    """

    def run(task: Task, settings: Settings) -> Learning:
        student, augment = Student(task, settings, World()), Pipeline([RandAugment()], seed=settings.seed)
        judged = HeldStatistics(student.net)

        def step(index: int) -> dict[str, float | Tensor]:
            images, labels, key = student.batch(index)

            def losses(seen: Tensor) -> Tensor:
                found = F.cross_entropy(judged(seen.float().div_(255.0)), labels, reduction="none")
                return found if torch.is_grad_enabled() else found.clamp(max=bound)

            k = draws if index >= begin * settings.steps else 1
            loss = max_up(augment, losses, as_bytes(images), k, key=key).mean()
            descend(loss, student.optimizer, world=World())
            return {"loss": loss.detach()}

        state = TrainState({"net": student.net}, {"optimizer": student.optimizer})
        learning = Learning(step, state, augment, student.net)
        train(learning, settings.steps, settings.seed)
        return learning

    return run


_GRID = [partial(RandAugment, n, magnitude) for n in (1, 2, 3) for magnitude in (5, 9, 14)]
_GROUPS = {"all": ORDER, "geometry": ORDER[:5], "colour": ORDER[5:]}
"""The operations, and their two halves."""

ARMS = {
    "none": Arm("no augmentation", partial(_trained, None)),
    "random": Arm("RandAugment", _published(RandAugment)),
    "random15": Arm("RandAugment, 1.5 times the steps", _published(RandAugment, 1.5)),
    "random20": Arm("RandAugment, twice the steps", _published(RandAugment, 2.0)),
    "trivial": Arm("TrivialAugmentWide", _published(TrivialAugmentWide)),
    "uniform": Arm("UniformAugment", _published(_uniform)),
    "geometry": Arm("RandAugment, geometry alone", _published(partial(_some, _GROUPS["geometry"]))),
    "colour": Arm("RandAugment, colours alone", _published(partial(_some, _GROUPS["colour"]))),
    "tuned": Arm("RandAugment, its two numbers searched", _searched(_GRID)),
    "groups": Arm(
        "RandAugment, its operations searched", _searched([partial(_some, names) for names in _GROUPS.values()]), fixed=False
    ),
    "worst2": Arm("worst of two draws (MaxUp)", _worst_of(2), fixed=False),
    "bounded2": Arm("worst of two draws, losses above log 2 equal", _worst_of(2, bound=log(2.0)), fixed=False),
    "late2": Arm("worst of two draws from the middle of the steps on", _worst_of(2, begin=0.5), fixed=False),
}
"""By short name, in the order of the tables."""

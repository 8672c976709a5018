"""The arms of the study: what each augments with, in the space of RandAugment's fourteen operations.

Owns: the arms, with their papers; what a search tries, and on which pictures.
Must not: look at test pictures.
Read next: ``run.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import inf, log

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid import Pipeline
from pellucid.adversarial import max_up
from pellucid.learn.augerino import HeldStatistics
from pellucid.learn.classifier import Student, accuracy, fixed
from pellucid.learn.data import Task
from pellucid.learn.run import RECIPES, train
from pellucid.learn.settings import Learning, Settings
from pellucid.learn.teach import follow
from pellucid.learn.weaken import Weakening
from pellucid.policy import RandAugment, TrivialAugmentWide, searchable
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
    return SomeOf(((), *(_at(name, magnitude) for name in names)), n=n, replace=True, rounded=True)


def _at(name: str, magnitude: int = 9) -> Transform:
    """RandAugment's operation at one of its magnitudes."""
    return operation(name, signs(name, magnitudes(name, REACH, 31, signed=False)[magnitude]))


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


def _affine_to(least: float = 0.5) -> Callable[[Task, Settings], Learning]:
    """Gontijo-Lopes, Smullin, Cubuk, Dyer: "Affinity and diversity", ICLR 2021. A network is trained without augmentation, for a
    fourth of the steps on four fifths of the pictures, and reads the others after each operation. The operations that leave it
    this share of its accuracy are trained with, weakening.
    """

    def run(task: Task, settings: Settings) -> Learning:
        cut = 4 * len(task.x) // 5
        judge = _trained(
            None, replace(task, x=task.x[:cut], y=task.y[:cut]), replace(settings, steps=max(1, settings.steps // 4))
        ).net
        assert judge is not None
        x, y = task.x[cut:], task.y[cut:]

        def read(name: str) -> float:
            augment = Bytes(_at(name), seed=settings.seed)
            return sum(accuracy(judge, augment(x, key=Key(settings.seed, draw)), y) for draw in range(4)) / 4

        clean = accuracy(judge, x, y)
        kept = [name for name in ORDER if read(name) >= least * clean]
        return _weakening(kept or ORDER[:1])(task, settings)

    return run


def _learned(name: str) -> Callable[[Task, Settings], Learning]:
    """A recipe of `pellucid.learn`, on eight pairs of the smooth operations; hypergradients hold out a fifth of the pictures."""

    def run(task: Task, settings: Settings) -> Learning:
        recipe, cut = RECIPES[name], 4 * len(task.x) // 5
        augment = searchable("pairs", pairs=8, channels=task.x.shape[1], seed=settings.seed)
        if name == "bilevel":
            task = replace(task, x=task.x[:cut], y=task.y[:cut], x_held=task.x[cut:], y_held=task.y[cut:])
        learning = recipe.build(task, augment, recipe.settings(**asdict(settings)), World())
        train(learning, settings.steps, settings.seed)
        return learning if learning.net is not None else _trained(learning.augment, task, settings)

    return run


def _worst_of(draws: int, *, bound: float = inf, begin: float = 0.0, teacher: bool = False) -> Callable[[Task, Settings], Learning]:
    """Gong, Ren, Ye, Liu: "MaxUp", CVPR 2021: of several draws of each picture, train on that of the largest loss.

    Args:
        draws: of each picture.
        bound: losses above it count as equal, so that a picture whose first draw is as hard as that keeps it.
        begin: the share of the steps before which pictures have one draw.
        teacher: only draws that a running average of the network still reads are chosen (Suzuki: "TeachAugment", CVPR 2022).
    """

    def run(task: Task, settings: Settings) -> Learning:
        student, augment = Student(task, settings, World()), Pipeline([RandAugment()], seed=settings.seed)
        judged, average = HeldStatistics(student.net), deepcopy(student.net).eval()

        def step(index: int) -> dict[str, float | Tensor]:
            images, labels, key = student.batch(index)

            def losses(seen: Tensor) -> Tensor:
                shown = seen.float().div_(255.0)
                found = F.cross_entropy(judged(shown), labels, reduction="none")
                if torch.is_grad_enabled():
                    return found
                return torch.where(average(shown).argmax(1) == labels, found, -1.0) if teacher else found.clamp(max=bound)

            k = draws if index >= begin * settings.steps else 1
            loss = max_up(augment, losses, as_bytes(images), k, key=key).mean()
            descend(loss, student.optimizer, world=World())
            if teacher:
                follow(average, student.net, min(0.99, (1 + index) / (10 + index)))
            return {"loss": loss.detach()}

        state = TrainState({"net": student.net}, {"optimizer": student.optimizer})
        learning = Learning(step, state, augment, student.net)
        train(learning, settings.steps, settings.seed)
        return learning

    return run


def _weakening(names: Sequence[str] = ORDER, stages: Sequence[int] = (4, 3, 2, 1)) -> Callable[[Task, Settings], Learning]:
    """`pellucid.learn.Weakening`: fewer and fewer operations, each for an equal part of the steps."""

    def run(task: Task, settings: Settings) -> Learning:
        made = [Bytes(_some(names, n), seed=settings.seed) for n in stages]
        return _trained(Weakening(settings.steps, made), task, settings)

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
    "weak": Arm("RandAugment that weakens (4, 3, 2, 1 operations)", _weakening(), fixed=False),
    "affine": Arm("the same, of operations that a plain network reads (affinity)", _affine_to(), fixed=False),
    "augerino": Arm("Augerino", _learned("augerino"), fixed=False),
    "bilevel": Arm("hypergradients of one step", _learned("bilevel"), fixed=False),
    "density": Arm("density matching, then training", _learned("density"), fixed=False),
    "teach": Arm("TeachAugment", _learned("teach"), fixed=False),
    "worst2": Arm("worst of two draws (MaxUp)", _worst_of(2), fixed=False),
    "taught2": Arm("worst of two draws, of those that a running average reads", _worst_of(2, teacher=True), fixed=False),
    "bounded2": Arm("worst of two draws, losses above log 2 equal", _worst_of(2, bound=log(2.0)), fixed=False),
    "late2": Arm("worst of two draws from the middle of the steps on", _worst_of(2, begin=0.5), fixed=False),
}
"""By short name, in the order of the tables."""

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
from math import ceil, inf, log, tanh
from typing import Any, cast

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
from pellucid.policy import RandAugment, TrivialAugmentWide, rand_augment, searchable
from pellucid.policy.operations import ORDER, REACH, magnitudes, operation, signs
from pellucid.random import Key
from pellucid.training import TrainState, World, descend
from pellucid.transforms import OneOf, SomeOf
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


def _stepped(student: Student, step: Callable[[int], dict[str, float | Tensor]], augment: nn.Module) -> Learning:
    """Train a network by steps of one's own."""
    learning = Learning(step, TrainState({"net": student.net}, {"optimizer": student.optimizer}), augment, student.net)
    train(learning, student.settings.steps, student.settings.seed)
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


def _affine_to(least: float = 0.5, *, diverse: bool = False) -> Callable[[Task, Settings], Learning]:
    """Gontijo-Lopes, Smullin, Cubuk, Dyer: "Affinity and diversity", ICLR 2021. A network is trained without augmentation, for a
    fourth of the steps on four fifths of the pictures, and reads the others after each operation: affinity. What is kept is
    trained with, weakening.

    Args:
        least: operations that leave the network this share of its accuracy are kept.
        diverse: or the half whose ranks in affinity and in diversity have the largest sum. Diversity is the loss of the pictures
            trained on, after the operation, of a network that has trained with all operations as long as the other without.
    """

    def run(task: Task, settings: Settings) -> Learning:
        cut = 4 * len(task.x) // 5
        part, short = replace(task, x=task.x[:cut], y=task.y[:cut]), replace(settings, steps=max(1, settings.steps // 4))
        x, y = task.x[cut:], task.y[cut:]

        def mean_of(measure: Callable[[Tensor], float], x: Tensor, name: str) -> float:
            augment = Bytes(_at(name), seed=settings.seed)
            return sum(measure(augment(x, key=Key(settings.seed, draw))) for draw in range(4)) / 4

        judge = _trained(None, part, short).net
        assert judge is not None
        affinity = {name: mean_of(lambda seen: accuracy(judge, seen, y), x, name) for name in ORDER}
        if not diverse:
            clean = accuracy(judge, x, y)
            return _weakening([name for name in ORDER if affinity[name] >= least * clean] or ORDER[:1])(task, settings)
        other = _trained(Bytes(RandAugment(), seed=settings.seed), part, short).net
        assert other is not None
        other.eval()

        def loss(seen: Tensor) -> float:
            with torch.no_grad():
                return float(F.cross_entropy(other(seen), part.y[: len(x)]))

        diversity = {name: mean_of(loss, part.x[: len(x)], name) for name in ORDER}
        rank = {name: sum(sorted(by.values()).index(by[name]) for by in (affinity, diversity)) for name in ORDER}
        kept = sorted(ORDER, key=lambda name: -rank[name])[: (1 + len(ORDER)) // 2]
        return _weakening(kept)(task, settings)

    return run


def _space(x: Tensor, seed: int, *, by: bool = False) -> Pipeline:
    """RandAugment's space with everything learned: two operations a picture, whose choice, probability and range of magnitudes are
    parameters. Or the choice is predicted from each picture, and may leave it as it is: strength by sample.

    The heads that predict begin at equal weights.
    """
    channels = x.shape[1]
    names = [name for name in ORDER if channels == 3 or name != "Color"]
    whole = searchable("faster_autoaugment", operations=names, channels=channels, pairs=1, seed=seed)
    stages = list(whole[0].transforms[0])
    if not by:
        return Pipeline(stages, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Pipeline([_predicted(stage, x) for stage in stages], seed=seed)


def _predicted(stage: OneOf, x: Tensor) -> OneOf:
    pooled = x[:1, :, ::4, ::4].numel()
    last = nn.Linear(32, 1 + len(stage.transforms))
    nn.init.zeros_(last.weight)
    nn.init.ones_(last.bias)
    head = nn.Sequential(nn.AvgPool2d(4, ceil_mode=True), nn.Flatten(), nn.Linear(pooled, 32), nn.ReLU(), last)
    return OneOf(((), *stage.transforms), head, estimator="relaxed", temperature=0.1)


class Growing(nn.Module):
    """A policy for a share of the pictures that grows with the steps as tanh(steps / ``pace``), and the others as they are."""

    def __init__(self, policy: Pipeline, pace: float) -> None:
        super().__init__()
        self.policy, self.pace = policy, pace

    def forward(self, images: Tensor, *, key: Key) -> Tensor:
        """The pictures of a draw."""
        draw = torch.Generator().manual_seed(int(key.seed) + (int(key.step) << 20))
        chosen = torch.rand((len(images), 1, 1, 1), generator=draw) < tanh(int(key.step) / self.pace)
        return torch.where(chosen, self.policy(images, key=key), images)


def _learned(name: str, *, by: bool = False, growing: bool = False, **options: Any) -> Callable[[Task, Settings], Learning]:
    """A recipe of `pellucid.learn`, with its defaults, in RandAugment's space; hypergradients hold out a fifth of the pictures.

    Args:
        name: of the recipe.
        by: strength by sample.
        growing: more pictures with the steps, a fourth of the training its pace.
        options: of the recipe.
    """

    def run(task: Task, settings: Settings) -> Learning:
        recipe, cut = RECIPES[name], 4 * len(task.x) // 5
        augment: nn.Module = _space(task.x, settings.seed, by=by)
        if growing:
            augment = Growing(cast(Pipeline, augment), settings.steps / 4)
        if name == "bilevel":
            task = replace(task, x=task.x[:cut], y=task.y[:cut], x_held=task.x[cut:], y_held=task.y[cut:])
        learning = recipe.build(task, augment, recipe.settings(**asdict(settings), **options), World())
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

        return _stepped(student, step, augment)

    return run


def _weakening(names: Sequence[str] = ORDER, stages: Sequence[int] = (4, 3, 2, 1)) -> Callable[[Task, Settings], Learning]:
    """`pellucid.learn.Weakening`: fewer and fewer operations, each for an equal part of the steps."""

    def run(task: Task, settings: Settings) -> Learning:
        made = [Bytes(_some(names, n), seed=settings.seed) for n in stages]
        return _trained(Weakening(settings.steps, made), task, settings)

    return run


def _mixed(made: Sequence[Bytes], counts: Tensor, images: Tensor, key: Key) -> Tensor:
    """Each picture by the augmentation of its number."""
    seen = images.clone()
    with torch.no_grad():
        for count, augment in enumerate(made):
            rows = (counts == count).nonzero()[:, 0]
            if len(rows):  # one stream for each number: else all would begin with the same operations
                seen[rows] = augment(images[rows], key=Key(int(key.seed) + (count << 20), int(key.step)))
    return seen


def _by_loss(stages: Sequence[int], *, spread: float) -> Callable[[Task, Settings], Learning]:
    """Strength by the loss that a picture had when it was last trained on; it costs no pass.

    Args:
        stages: operations of a picture of middling loss, each for an equal part of the steps.
        spread: how many more operations the best-read picture of a batch has than this; the worst-read has as many less. Negative:
            the other way round.
    """

    def run(task: Task, settings: Settings) -> Learning:
        student, last = Student(task, settings, World()), torch.full((len(task.x),), inf)
        made = [Bytes(_some(ORDER, n), seed=settings.seed) for n in range(1 + max(stages) + ceil(abs(spread)))]

        def step(index: int) -> dict[str, float | Tensor]:
            images, labels, key = student.batch(index)
            rows = student.rows(index)
            place = last[rows].argsort(stable=True).argsort().double() / max(1, len(rows) - 1)  # 0 is read best
            wanted = stages[index * len(stages) // settings.steps] + spread * (1.0 - 2.0 * place)
            seen = _mixed(made, wanted.round().long().clamp(0, len(made) - 1), images, key)
            losses = F.cross_entropy(student.net(seen), labels, reduction="none")
            last[rows] = losses.detach()
            descend(losses.mean(), student.optimizer, world=World())
            return {"loss": losses.detach().mean()}

        return _stepped(student, step, made[-1])

    return run


def _by_class(task: Task, settings: Settings, *, most: int = 4, tried: int = 10, read: float = 0.6) -> Learning:
    """Ahn, Ko, Yun: "CUDA: curriculum of data augmentation for long-tailed recognition", ICLR 2023. Half of the pictures are
    augmented, by as many operations as their class's level. After each pass the level of a class goes up where the network reads
    at least ``read`` of ``tried`` of its pictures at that level, else down."""
    student = Student(task, settings, World())
    made = [Bytes(_some(ORDER, n), seed=settings.seed) for n in range(most + 1)]
    level, steps_of_a_pass = torch.zeros(task.classes, dtype=torch.long), max(1, len(task.x) // settings.batch)
    draw = torch.Generator().manual_seed(settings.seed)

    def test(index: int) -> None:
        each = [(task.y == label).nonzero()[:, 0] for label in range(task.classes)]
        rows = torch.cat([own[torch.randint(len(own), (tried,), generator=draw)] for own in each if len(own)])
        labels, key = task.y[rows], Key(settings.seed + 1, index)
        student.net.eval()
        with torch.no_grad():
            right = student.net(_mixed(made, level[labels], task.x[rows], key)).argmax(1) == labels
        student.net.train()
        for label in labels.unique():
            up = right[labels == label].double().mean() >= read
            level[label] = (level[label] + (1 if up else -1)).clamp(0, most)

    def step(index: int) -> dict[str, float | Tensor]:
        if index and index % steps_of_a_pass == 0:
            test(index)
        images, labels, key = student.batch(index)
        chosen = torch.rand(len(labels), generator=draw) < 0.5
        loss = F.cross_entropy(student.net(_mixed(made, level[labels] * chosen, images, key)), labels)
        descend(loss, student.optimizer, world=World())
        return {"loss": loss.detach()}

    return _stepped(student, step, made[-1])


def _annealed(stages: Sequence[int] = (4, 3, 2, 1), clean: float = 0.5) -> Callable[[Task, Settings], Learning]:
    """The worst of fewer and fewer draws, mixed with more and more clean pictures.

    Args:
        stages: draws of a picture, each for an equal part of the steps.
        clean: the share of the pictures that is clean in the end; it grows from 0.
    """

    def run(task: Task, settings: Settings) -> Learning:
        student, augment = Student(task, settings, World()), Pipeline([RandAugment()], seed=settings.seed)
        judged = HeldStatistics(student.net)

        def step(index: int) -> dict[str, float | Tensor]:
            images, labels, key = student.batch(index)
            hard = len(images) - round(clean * len(images) * index / settings.steps)

            def losses(seen: Tensor) -> Tensor:
                return F.cross_entropy(judged(seen.float().div_(255.0)), labels[:hard], reduction="none")

            draws = stages[index * len(stages) // settings.steps]
            found, _ = augment.worst(losses, as_bytes(images[:hard]), draws=draws, search="random", key=key)
            loss = F.cross_entropy(student.net(torch.cat((found.float().div_(255.0), images[hard:]))), labels)
            descend(loss, student.optimizer, world=World())
            return {"loss": loss.detach()}

        return _stepped(student, step, augment)

    return run


def _climbed(task: Task, settings: Settings) -> Learning:
    """Training on worst draws (Engstrom et al., ICML 2019) of the smooth operations: a signed step up the slope from each draw."""
    student = Student(task, settings, World())
    augment = rand_augment(channels=task.x.shape[1], seed=settings.seed)
    judged = HeldStatistics(student.net)

    def step(index: int) -> dict[str, float | Tensor]:
        images, labels, key = student.batch(index)

        def losses(seen: Tensor) -> Tensor:
            return F.cross_entropy(judged(seen), labels, reduction="none")

        found, _ = augment.worst(losses, images, draws=1, steps=1, restarts=1, key=key)
        loss = F.cross_entropy(student.net(found.detach()), labels)
        descend(loss, student.optimizer, world=World())
        return {"loss": loss.detach()}

    return _stepped(student, step, augment)


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
    "diverse": Arm("the same, of the half with most affinity and diversity", _affine_to(diverse=True), fixed=False),
    "eased": Arm("RandAugment, 3 to 1 operations, most on pictures of small loss", _by_loss((2,), spread=1.0), fixed=False),
    "pressed": Arm("RandAugment, 3 to 1 operations, most on pictures of large loss", _by_loss((2,), spread=-1.0), fixed=False),
    "weakeased": Arm("RandAugment that weakens, later where the loss is small", _by_loss((4, 3, 2, 1), spread=1.0), fixed=False),
    "classes": Arm("as many operations as a class can bear (CUDA)", _by_class, fixed=False),
    "augerino": Arm("Augerino: ranges, choices and an entropy", _learned("augerino"), fixed=False),
    "sample": Arm("the same, choices predicted from each picture (InstaAug)", _learned("augerino", by=True), fixed=False),
    "bilevel": Arm("hypergradients of one step (DADA)", _learned("bilevel", every=4), fixed=False),
    "adaptive": Arm(
        "the same, choices predicted, a share that grows (MADAug)",
        _learned("bilevel", by=True, growing=True, every=4),
        fixed=False,
    ),
    "density": Arm("density matching, then training (Faster AutoAugment)", _learned("density"), fixed=False),
    "teach": Arm("an adversary bounded by a teacher (TeachAugment)", _learned("teach"), fixed=False),
    "worst2": Arm("worst of two draws (MaxUp)", _worst_of(2), fixed=False),
    "taught2": Arm("worst of two draws, of those that a running average reads", _worst_of(2, teacher=True), fixed=False),
    "bounded2": Arm("worst of two draws, losses above log 2 equal", _worst_of(2, bound=log(2.0)), fixed=False),
    "late2": Arm("worst of two draws from the middle of the steps on", _worst_of(2, begin=0.5), fixed=False),
    "annealed": Arm("worst of 4, 3, 2, 1 draws, more and more clean pictures among them", _annealed(), fixed=False),
    "climbed": Arm("smooth operations, a step up the slope from each draw", _climbed, fixed=False),
}
"""By short name, in the order of the tables."""

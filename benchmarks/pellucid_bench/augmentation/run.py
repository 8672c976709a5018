"""The study: the same network and budget, several ways to augment, few training images, several seeds.

Owns: the arms, one run of one arm, and doing the runs that are not done yet.
Must not: look at test accuracy for any decision; it is written down and nothing else.
Read next: ``page.py``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import invalid
from pellucid.learn.augerino import AugerinoSettings, augerino
from pellucid.learn.classifier import accuracy, fixed
from pellucid.learn.data import Pictures, Task, small_task
from pellucid.learn.density import DensitySettings, density
from pellucid.learn.ranges import numbers_of
from pellucid.learn.run import train
from pellucid.learn.spaces import narrow
from pellucid.pipeline import Pipeline
from pellucid.policy import RandAugment, TrivialAugmentWide, searchable
from pellucid.training import World
from pellucid.training.settings import Count, Number, check_ranges
from pellucid_bench.augmentation.arms import choices, hand_set

__all__ = ["ARMS", "USUAL", "Study", "StudySettings", "read_arms", "read_sizes", "run_study"]

ARMS = {
    "none": "no augmentation",
    "mild": "hand-set, half as strong",
    "hand": "hand-set: affine, flip, erasing",
    "trivial": "TrivialAugmentWide",
    "random": "RandAugment",
    "ranges": "learned ranges (Augerino)",
    "choices": "learned choices (TrivialAugment's operations)",
    "policy": "learned policy (density matching)",
}
"""By short name, in the order of the report."""

USUAL = ("none", "hand", "trivial", "random", "ranges", "choices")
"""Those of the documented page."""

_UNUSED = {"held", "save_every", "log_every"}
"""The settings that no run here depends on; the others are kept with its result."""

DRAWS = 4
"""Draws that the second accuracy of the learned ranges averages over."""


@dataclass(frozen=True)
class StudySettings(AugerinoSettings, DensitySettings):
    """What the learned arms may be told, with the defaults of the documented page."""

    steps: Count = 5000
    batch: Count = 32
    pairs: Number = 8


@dataclass(frozen=True)
class Study:
    """What is run.

    Args:
        images: the sizes of the training set.
        seeds: each draws its own training images, initial weights and augmentations.
        arms: which of `ARMS`.
        settings: of every run; ``images`` and ``seed`` are replaced.
        search_steps: of the policy search, which comes before the network's own budget.
        held: judge on so many held-out training images instead of the test set (for developing a method).
    """

    images: tuple[int, ...] = (500, 2000, 10_000)
    seeds: Count = 5
    arms: tuple[str, ...] = USUAL
    settings: StudySettings = field(default_factory=StudySettings)
    search_steps: Count = 150
    held: Number = 0

    def __post_init__(self) -> None:
        check_ranges(self)

    def runs(self) -> list[tuple[str, int, int]]:
        """(arm, images, seed): seed by seed, so that a study that is cut short is still balanced."""
        return [(arm, n, seed) for seed in range(self.seeds) for n in self.images for arm in self.arms]


def run_study(
    study: Study, pictures: Pictures, directory: str | os.PathLike[str], tell: Callable[[int, str], None] | None = None
) -> list[dict[str, Any]]:
    """Do every run whose result is not in ``directory`` yet, one JSON file each, and return all results.

    Errors:
        InvalidArgument where a result in the folder comes from other settings.
    """
    home = Path(directory)
    home.mkdir(parents=True, exist_ok=True)
    results, digest = [], pictures.digest
    for done, (arm, images, seed) in enumerate(study.runs()):
        path = home / f"{pictures.name}-{arm}-{images}-{seed}.json"
        settings = replace(study.settings, images=images, seed=seed)
        about = {"data": pictures.name, "pictures": digest, "arm": arm, "search_steps": study.search_steps, "held_out": study.held}
        about |= {name: value for name, value in asdict(settings).items() if name not in _UNUSED}
        if path.exists():
            result = json.loads(path.read_text())
            if result["about"] != about:
                wrong = next(name for name in about if result["about"].get(name) != about[name])
                raise invalid(
                    f"{path}: {wrong}",
                    expected=repr(about[wrong]),
                    got=result["about"].get(wrong),
                    fix="Give the settings the study was started with, or choose another folder.",
                )
        else:
            task = small_task(pictures, images, held=study.held, seed=seed)
            result = {"about": about, **_run(arm, task, settings, study.search_steps, on_held=bool(study.held))}
            draft = path.with_suffix(".writing")
            draft.write_text(json.dumps(result, indent=1) + "\n")
            draft.replace(path)
        results.append(result)
        if tell is not None:
            tell(done + 1, f"{arm} {images}/{seed}: {100 * result['accuracy']:.2f} %")
    return results


def _run(arm: str, task: Task, settings: StudySettings, search_steps: int, *, on_held: bool) -> dict[str, Any]:
    started = time.process_time()
    augment, searched = _augmentation(arm, task, settings, search_steps), time.process_time()
    recipe = augerino if arm in ("ranges", "choices") else fixed
    # A choice among operations is a policy: what its entropy is worth is that of the policy search.
    own = replace(settings, entropy=settings.policy_entropy) if arm == "choices" else settings
    learning = recipe(task, augment, own, World())  # type: ignore[arg-type]
    loss = train(learning, settings.steps, settings.seed)
    finished = time.process_time()
    assert learning.net is not None
    images, labels = (task.x_held, task.y_held) if on_held else (task.x_test, task.y_test)
    result: dict[str, Any] = {
        "accuracy": accuracy(learning.net, images, labels),
        "loss": loss,
        "cpu_seconds": round(finished - searched, 2),
        "search_cpu_seconds": round(searched - started, 2),
        "learned": numbers_of(learning.augment),
    }
    if arm == "ranges":
        result["accuracy_over_draws"] = accuracy(_OverDraws(learning.net, learning.augment), images, labels)
    return result


class _OverDraws(nn.Module):
    """Class probabilities averaged over draws of the augmentation: how an invariant model is meant to be read."""

    def __init__(self, net: nn.Module, augment: nn.Module) -> None:
        super().__init__()
        self.net, self.draw = net, augment.__call__  # the augmentation stays in its mode

    def forward(self, images: Tensor) -> Tensor:
        return torch.stack([torch.softmax(self.net(self.draw(images)), 1) for _ in range(DRAWS)]).mean(0)


def _augmentation(arm: str, task: Task, settings: StudySettings, search_steps: int) -> nn.Module | None:
    if arm == "none":
        return None
    if arm in ("mild", "hand"):
        return hand_set(mild=arm == "mild", seed=settings.seed)
    if arm == "ranges":
        return narrow(seed=settings.seed)
    if arm == "choices":
        return choices(seed=settings.seed)
    if arm in ("trivial", "random"):
        return Pipeline([TrivialAugmentWide() if arm == "trivial" else RandAugment()], seed=settings.seed)
    policy = searchable(channels=task.x.shape[1], pairs=settings.pairs or None, seed=settings.seed)
    train(density(task, policy, settings, World()), search_steps, settings.seed)
    return policy


def read_sizes(text: str) -> tuple[int, ...]:
    """Read ``500,2000``."""
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise invalid("images", expected="numbers of at least 1 with commas between them, such as 500,2000", got=repr(text))
    return sizes


def read_arms(text: str | None) -> tuple[str, ...]:
    """Read ``none,ranges``; nothing means those of the page."""
    arms = tuple(text.split(",")) if text else USUAL
    for arm in arms:
        if arm not in ARMS:
            raise invalid("arms", expected=f"some of {','.join(ARMS)}", got=repr(arm))
    return arms

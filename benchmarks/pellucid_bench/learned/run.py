"""One run of the study, and its rows.

Owns: what a row says.
Must not: choose anything by test accuracy; it is written down and nothing else.
Read next: ``page.py``.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

from pellucid.learn.classifier import accuracy
from pellucid.learn.data import Task, small_task
from pellucid.learn.settings import Learning, Settings
from pellucid_bench.learned.arms import ARMS
from pellucid_bench.learned.pictures import DATA, data_named
from pellucid_bench.runs import Row

__all__ = ["ABOUT", "places", "run"]

ABOUT = {"batch": 32, "rate": 3e-3, "weight_decay": 1e-4}
"""Of every run."""


def places(data: list[str], images: list[int], steps: list[int], arms: list[str]) -> list[str]:
    """The runs of one seed, as ``fashion_mnist 500 1000 random``; sizes that a data set lacks are left out."""
    return [f"{name} {n} {count} {arm}" for name in data for n in images if n in DATA[name] for count in steps for arm in arms]


def run(place: str, seed: int, *, held: int = 0) -> Row:
    """Train one network and judge it on the test set, without augmentation; or on held-out training pictures.

    ``random_seconds`` is what RandAugment took for as many steps in the same hour: machines, and hours of one machine, differ.
    """
    name, images, steps, arm = place.split()
    task = small_task(data_named(name), int(images), held=held, seed=seed)
    settings = Settings(images=int(images), steps=int(steps), seed=seed, **ABOUT)  # type: ignore[arg-type]
    seconds, learning = _trained(arm, task, settings)
    beside = seconds if arm == "random" else _random_seconds(name, int(images), int(steps))
    assert learning.net is not None
    judged = (task.x_held, task.y_held) if held else (task.x_test, task.y_test)
    return {"cpu_seconds": seconds, "random_seconds": beside, "accuracy": accuracy(learning.net, *judged)}


def _trained(arm: str, task: Task, settings: Settings) -> tuple[float, Learning]:
    ARMS[arm].train(task, replace(settings, steps=2))  # what is compiled once, and plans
    start = time.process_time()
    learning = ARMS[arm].train(task, settings)
    return round(time.process_time() - start, 2), learning


@cache
def _random_seconds(name: str, images: int, steps: int) -> float:
    task = small_task(data_named(name), images, seed=0)
    return _trained("random", task, Settings(images=images, steps=steps, seed=0, **ABOUT))[0]  # type: ignore[arg-type]

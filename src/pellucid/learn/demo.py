"""The small version: Augerino on a few digits, and the rotation whose right width is known.

Owns: what the demo runs.
Must not: take two minutes, or word its report; ``../cli/learned.py`` does.
Read next: ``../cli/learn.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pellucid.learn.augerino import AugerinoSettings
from pellucid.learn.classifier import accuracy, fixed
from pellucid.learn.data import load_pictures, small_task
from pellucid.learn.ranges import plot_ranges, readable
from pellucid.learn.rotation import Rotation, half_width, learn_rotation, optimal_width
from pellucid.learn.run import Outcome, learn, train
from pellucid.training import World, fit_run

__all__ = ["Demo", "Turned", "run_demo", "table", "turn_both_ways"]

IMAGES = 200


@dataclass(frozen=True)
class Turned:
    """The learned half-width of the rotation from one starting point, in degrees."""

    start: float
    learned: float


@dataclass(frozen=True)
class Demo:
    """The demo's results.

    Args:
        outcome: of Augerino on digits.
        plain: test accuracy of the same network and budget without augmentation.
        turned: the rotation, from a narrow and from a wide start.
        settings: of the rotation.
    """

    outcome: Outcome
    plain: float
    turned: tuple[Turned, ...]
    settings: Rotation


def run_demo(directory: Path, *, steps: int = 300, turns: int = 400, seed: int = 0, say: Callable[[str], None] = print) -> Demo:
    """Run everything into ``directory``; finished parts are not run again."""
    settings = AugerinoSettings(images=IMAGES, steps=steps, seed=seed)
    pictures = load_pictures()
    say(f"{IMAGES} digits, without augmentation, then with ranges that learn")
    task = small_task(pictures, IMAGES, seed=seed)
    plain = fixed(task, None, settings, World())
    train(plain, steps, seed)
    assert plain.net is not None
    outcome = learn("augerino", pictures, settings, directory / "digits")
    say("A rotation with a known answer, from a narrow and from a wide start")
    rotation = Rotation(steps=turns, seed=seed)
    turned = turn_both_ways(rotation, directory)
    return Demo(outcome, accuracy(plain.net, task.x_test, task.y_test), turned, rotation)


def turn_both_ways(settings: Rotation, directory: Path) -> tuple[Turned, ...]:
    """Learn the rotation from a narrow and from a wide start, each in a folder of its own with its log and plot."""
    turned = []
    for start in (10.0, 120.0):
        here = replace(settings, start=start)
        learning, home = learn_rotation(here), directory / f"rotation-from-{start:g}"
        title = f"rotation from {start:g} degrees"
        fit_run(learning.step, learning.state, here, home, title=title)
        plot_ranges(home / "log.csv", home / "ranges.png", title=f"{title}; the truth is {here.truth:g}")
        turned.append(Turned(start, half_width(learning)))
    return tuple(turned)


def table(demo: Demo) -> list[tuple[str, str, str]]:
    """(what, at the start, in the end), for people."""
    start, end = readable(demo.outcome.start), readable(demo.outcome.learned)
    rows = [(name, start[name], end[name]) for name in end]
    truth = f"truth {demo.settings.truth:g}, optimum {optimal_width(demo.settings.theta, demo.settings.entropy):.1f}"
    return rows + [(f"rotation ({truth})", f"{t.start:.1f}", f"{t.learned:.1f}") for t in demo.turned]

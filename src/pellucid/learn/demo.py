"""The small version: Augerino on a few digits, and the rotation whose right width is known.

Owns: what the demo runs, and its report.
Must not: take two minutes.
Read next: ``../cli/learn.py``.
"""

from __future__ import annotations

import html
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
    """Run everything into ``directory`` and write ``index.html``; finished parts are not run again."""
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
    demo = Demo(outcome, accuracy(plain.net, task.x_test, task.y_test), turned, rotation)
    (directory / "index.html").write_text(_report(demo))
    return demo


def turn_both_ways(
    settings: Rotation, directory: Path, *, starts: tuple[float, ...] = (10.0, 120.0), quiet: bool = False
) -> tuple[Turned, ...]:
    """Learn the rotation from several starting widths, each in a folder of its own with its log and plot."""
    turned = []
    for start in starts:
        here = replace(settings, start=start)
        learning, home = learn_rotation(here), directory / f"rotation-from-{start:g}"
        title = f"rotation from {start:g} degrees"
        fit_run(learning.step, learning.state, here, home, title=title, quiet=quiet)
        plot_ranges(home / "log.csv", home / "ranges.png", title=f"{title}; the truth is {here.truth:g}")
        turned.append(Turned(start, half_width(learning)))
    return tuple(turned)


def table(demo: Demo) -> list[tuple[str, str, str]]:
    """(what, at the start, in the end), for people."""
    start, end = readable(demo.outcome.start), readable(demo.outcome.learned)
    rows = [(name, start[name], end[name]) for name in end]
    truth = f"truth {demo.settings.truth:g}, optimum {optimal_width(demo.settings.theta, demo.settings.entropy):.1f}"
    return rows + [(f"rotation ({truth})", f"{t.start:.1f}", f"{t.learned:.1f}") for t in demo.turned]


def _report(demo: Demo) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in table(demo))
    pictures = ["digits/ranges.png", *(f"rotation-from-{t.start:g}/ranges.png" for t in demo.turned)]
    figures = "".join(f'<p><img src="{name}" alt="ranges over steps" style="max-width:100%"></p>' for name in pictures)
    style = (
        "body{font:16px/1.5 system-ui;max-width:64rem;margin:2rem auto;padding:0 1rem}td,th{padding:.1rem .8rem;text-align:left}"
    )
    plain, learned = f"{100 * demo.plain:.1f} %", f"{100 * demo.outcome.accuracy:.1f} %"
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Learned ranges</title><style>{style}</style>
<h1>Learned ranges on digits</h1>
<p>{IMAGES} training images: {plain} on the test set without augmentation, {learned} with learned ranges, by the same network with
the same number of steps (one seed: a demonstration, not a comparison).</p>
<table><tr><th>range</th><th>start</th><th>learned</th></tr>{rows}</table>{figures}</html>
"""

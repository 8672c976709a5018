"""The demo: Augerino on a few digits, and on a rotation whose right width is known.

The task with the known answer: is a picture, turned by at most theta, upright or upside down?

Owns: the demo's runs; the rotation's data, its answer in closed form, and one run from one starting width.
Must not: take two minutes, or word its report; ``../cli/learned.py`` does.
Read next: ``../cli/learn.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.errors import invalid
from pellucid.learn.augerino import AugerinoSettings, augerino_objective
from pellucid.learn.classifier import accuracy, cosine, fixed, network_for
from pellucid.learn.data import load_pictures, small_task
from pellucid.learn.ranges import numbers_of, plot_ranges, readable
from pellucid.learn.run import Outcome, learn, train
from pellucid.learn.settings import Learning
from pellucid.pipeline import Pipeline
from pellucid.random import CenteredUniform, Key, Learnable
from pellucid.training import RunSettings, TrainState, World, descend, fit_run, set_rate
from pellucid.training.settings import Amount, Count, Positive
from pellucid.transforms import RandomRotation

__all__ = [
    "Demo", "Rotation", "Turned", "half_width", "learn_rotation", "optimal_width", "run_demo", "table", "turn_both_ways",
]  # fmt: skip

IMAGES = 200


@dataclass(frozen=True)
class Rotation(RunSettings):
    """The settings of the rotation with a known answer.

    Args:
        theta: pictures are turned by U(-theta, theta) about upright (class 0) or about upside down (class 1), in degrees < 90.
        start: the half-width the learned rotation starts from, in degrees.
        entropy: reward for entropy, as in `AugerinoSettings`.
        rate, range_rate: learning rates of the network and of the rotation.
    """

    steps: Count = 600
    theta: Positive = 45.0
    start: Positive = 10.0
    entropy: Amount = 0.02
    rate: Positive = 3e-3
    range_rate: Positive = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("theta", 90.0), ("start", 180.0)):
            if not getattr(self, name) < most:
                raise invalid(name, expected=f"degrees below {most:g}", got=getattr(self, name))

    @property
    def truth(self) -> float:
        """The widest rotation that does not mix the two classes: turned by theta and then by this, a picture lies on its side."""
        return 90.0 - self.theta


def optimal_width(theta: float, entropy: float) -> float:
    """Return the half-width, in degrees, at which the objective of a perfect classifier is least.

    With e = w - (90 - theta) > 0 degrees too much, the angles of both classes overlap in two intervals of 2 e around +-90
    degrees, in which the densities of a sum of two uniforms fall linearly to 0. The conditional entropy of the class given the
    angle is then e^2 / (2 theta w), and minus ``entropy * log w`` has its minimum at e - e^2 / (2 w) = entropy * theta.

    Example:
        >>> round(optimal_width(45.0, 0.02), 2)
        45.91
    """
    excess = entropy * theta
    for _ in range(50):
        excess = entropy * theta + excess**2 / (2 * (90.0 - theta + excess))
    return 90.0 - theta + excess


def learn_rotation(settings: Rotation) -> Learning:
    """Set up Augerino with one range, a rotation; the data's own turns are drawn anew at every step."""
    pictures = _discs()
    turn = Pipeline([RandomRotation(settings.theta)], seed=settings.seed + 1)
    augment = Pipeline([RandomRotation(CenteredUniform(0.0, Learnable(settings.start, low=0.0, high=180.0)))], seed=settings.seed)
    net = network_for(pictures, 2, seed=settings.seed)
    optimizer = torch.optim.AdamW(net.parameters(), settings.rate)
    ranges = torch.optim.Adam(augment.parameters(), settings.range_rate)

    def step(index: int) -> dict[str, float | Tensor]:
        images, labels = _batch(pictures, turn, settings, index)
        for one, rate in ((optimizer, settings.rate), (ranges, settings.range_rate)):
            set_rate(one, rate * cosine(index, settings.steps))
        objective, loss = augerino_objective(
            augment,
            lambda augmented: F.cross_entropy(net(augmented), labels, reduction="none"),
            images,
            entropy=settings.entropy,
            key=Key(settings.seed, index),
        )
        descend(objective, optimizer, ranges, world=World())
        return {"loss": loss, **numbers_of(augment)}

    return Learning(step, TrainState({"net": net, "augment": augment}, {"optimizer": optimizer, "ranges": ranges}), augment, net)


def half_width(learning: Learning) -> float:
    """The learned half-width, in degrees."""
    return numbers_of(learning.augment)["0.RandomRotation.degrees.high"]


def _batch(
    pictures: Float[Tensor, "n 1 h w"], turn: Pipeline, settings: Rotation, index: int
) -> tuple[Float[Tensor, "b 1 h w"], Int64[Tensor, "b"]]:
    generator = torch.Generator().manual_seed((settings.seed << 20) + index)
    rows = torch.randint(pictures.shape[0], (settings.batch,), generator=generator)
    labels = torch.randint(2, (settings.batch,), generator=generator)
    chosen = pictures[rows]
    images = torch.where(labels.bool()[:, None, None, None], chosen.flip(2, 3), chosen)
    with torch.no_grad():
        return turn(images, key=Key(settings.seed + 1, index)), labels


def _discs(count: int = 4, side: int = 24) -> Float[Tensor, "n 1 h w"]:
    """Return a few digits that look different upside down, in a round window, so that no corner reveals the angle."""
    digits = load_pictures()
    sevens = digits.x_train[(digits.y_train == 7) | (digits.y_train == 4)][:count].to(torch.float32) / 255.0
    large = F.interpolate(sevens, size=(side, side), mode="bilinear", align_corners=False)
    ticks = torch.arange(side) - (side - 1) / 2
    window = torch.sigmoid(2.0 * (side / 2 - 1.0 - torch.hypot(ticks[:, None], ticks)))
    return large * window


@dataclass(frozen=True)
class Turned:
    """The learned half-width of the rotation from one starting point, in degrees."""

    start: float
    learned: float


@dataclass(frozen=True)
class Demo:
    """The demo's results.

    Args:
        outcome: the outcome of Augerino on digits.
        plain: test accuracy of the same network and budget without augmentation.
        turned: the learned rotations, from a narrow and from a wide start.
        settings: the settings of the rotation.
    """

    outcome: Outcome
    plain: float
    turned: tuple[Turned, ...]
    settings: Rotation


def run_demo(directory: Path, *, steps: int = 300, turns: int = 400, seed: int = 0, say: Callable[[str], None] = print) -> Demo:
    """Run all parts of the demo in ``directory``; finished parts are not run again."""
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
        own = replace(settings, start=start)
        learning, home = learn_rotation(own), directory / f"rotation-from-{start:g}"
        title = f"rotation from {start:g} degrees"
        fit_run(learning.step, learning.state, own, home, title=title)
        plot_ranges(home / "log.csv", home / "ranges.png", title=f"{title}; the truth is {own.truth:g}")
        turned.append(Turned(start, half_width(learning)))
    return tuple(turned)


def table(demo: Demo) -> list[tuple[str, str, str]]:
    """Return rows (name, value at the start, value at the end) as text."""
    start, end = readable(demo.outcome.start), readable(demo.outcome.learned)
    rows = [(name, start[name], end[name]) for name in end]
    truth = f"truth {demo.settings.truth:g}, optimum {optimal_width(demo.settings.theta, demo.settings.entropy):.1f}"
    return rows + [(f"rotation ({truth})", f"{t.start:.1f}", f"{t.learned:.1f}") for t in demo.turned]

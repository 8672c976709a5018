"""One learning run from the command line: data, recipe, loop, plot, and the learned policy as a file.

Owns: the augmentation that each recipe starts from, and the files that a run writes.
Must not: print; it returns its results.
Read next: ``../cli/learn.py``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pellucid.errors import invalid, wrong_type
from pellucid.learn.augerino import AugerinoSettings, augerino
from pellucid.learn.bilevel import BilevelSettings, bilevel
from pellucid.learn.classifier import accuracy, fixed
from pellucid.learn.data import Pictures, Task, small_task
from pellucid.learn.density import DensitySettings, density
from pellucid.learn.ranges import numbers_of, plot_ranges
from pellucid.learn.settings import Learning, Settings
from pellucid.learn.teach import TeachSettings, teach
from pellucid.pipeline import Pipeline
from pellucid.policy import searchable
from pellucid.random import Bernoulli, CenteredUniform, Learnable
from pellucid.training import World, fit_run
from pellucid.training.distributed import pick_device
from pellucid.training.loop import step_seed
from pellucid.transforms import RandomAffine, RandomErasing, RandomHorizontalFlip

__all__ = ["RECIPES", "Outcome", "Recipe", "learn", "narrow", "train"]


REACH = {"degrees": 180.0, "translate": 0.5, "scale": 0.9, "shear": 60.0, "erased": 0.8}
"""The largest values of ranges. Results hardly depend on them: ranges stop growing where they begin to cost loss."""


def narrow(*, start: float = 0.025, temperature: float | None = None, seed: int = 0) -> Pipeline:
    """Make a pipeline of flip, affine and erasing with learnable ranges that start at a fortieth of their largest values.

    The flip's probability lies in (0, 1/2): with more than one half, flipped pictures would become the usual ones, while tests show
    unflipped ones.

    Args:
        start: the fraction of the largest values.
        temperature: relaxes the flip's gate, for recipes whose gradients pass only through the images; None uses the pipeline's
            default estimator for gates.
        seed: the seed of the draws.
    """
    reach = {name: Learnable(high * start, low=0.0, high=high) for name, high in REACH.items()}
    p = Learnable(0.25, low=0.0, high=0.5)
    flip = Bernoulli(p) if temperature is None else Bernoulli(p, temperature=temperature)
    return Pipeline(
        [
            RandomHorizontalFlip(p=flip),
            RandomAffine(
                degrees=reach["degrees"],
                translate=(reach["translate"], reach["translate"]),
                scale=CenteredUniform(1.0, reach["scale"]),
                shear=(CenteredUniform(0.0, reach["shear"]), CenteredUniform(0.0, reach["shear"])),
            ),
            RandomErasing(p=1.0, scale=(0.0, reach["erased"]), ratio=(0.5, 2.0)),
        ],
        seed=seed,
    )


@dataclass(frozen=True)
class Recipe:
    """The parts of a recipe.

    Args:
        settings: the class of its settings.
        build: makes a `Learning` from a task, an augmentation, the settings and the ranks.
        start: makes the initial augmentation from the settings and a number of channels.
        losses: columns of the log that the plot shows beside the ranges.
    """

    settings: type[Settings]
    build: Callable[[Task, Any, Any, World], Learning]
    start: Callable[[Any, int], nn.Module]
    losses: tuple[str, ...] = ("loss",)


RECIPES = {
    "augerino": Recipe(AugerinoSettings, augerino, lambda s, _: narrow(seed=s.seed)),
    "bilevel": Recipe(BilevelSettings, bilevel, lambda s, _: narrow(temperature=0.2, seed=s.seed), ("loss", "outer_loss")),
    "density": Recipe(
        DensitySettings,
        density,
        lambda s, channels: searchable(channels=channels, pairs=s.pairs or None, seed=s.seed),
        ("loss", "distance", "content"),
    ),
    "teach": Recipe(TeachSettings, teach, lambda s, _: narrow(seed=s.seed), ("loss", "objective")),
}
"""The recipes by the name of their command."""


@dataclass(frozen=True)
class Outcome:
    """The results of a run.

    Args:
        directory: holds log.csv, checkpoints/, ranges.png, result.json and augment.pt (and augment.toml for plain pipelines).
        learned: the learned numbers at the end, by readable name.
        start: the same numbers at the start.
        accuracy: the accuracy on the test set, without augmentation.
    """

    directory: Path
    start: dict[str, float]
    learned: dict[str, float]
    accuracy: float


def learn(
    recipe: str,
    pictures: Pictures,
    settings: Settings,
    directory: str | os.PathLike[str],
    *,
    world: World | None = None,
    device: str = "cpu",
    quiet: bool = False,
    resume: bool = True,
) -> Outcome:
    """Run a recipe to its end, resuming from the newest checkpoint in ``directory``.

    Args:
        recipe: one of `RECIPES`.
        pictures: the data.
        settings: the run's settings, of the recipe's class; a checkpoint with other settings is refused.
        directory: the run's folder.
        world: the ranks, from ``join_world``; every rank calls this function.
        device: the device of images and network: cpu or cuda.
        quiet: show no progress bar.
        resume: as in ``training.fit``.

    Returns:
        An `Outcome`: the folder, the learned numbers at the start and at the end, and the accuracy on the test set.

    Errors:
        ``InvalidArgument`` for an unknown recipe or device, for unsuitable pictures, and for a folder that holds another run.

    Example:
        >>> import tempfile, torch
        >>> from pellucid.learn import AugerinoSettings, learn
        >>> from pellucid.learn.data import Pictures
        >>> x, y = torch.randint(0, 256, (16, 1, 16, 16), dtype=torch.uint8), torch.arange(16) % 2
        >>> noise, settings = Pictures("noise", x, y, x, y), AugerinoSettings(images=16, steps=1, batch=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     outcome = learn("augerino", noise, settings, folder, quiet=True)
        >>> sorted(outcome.learned) == sorted(outcome.start)
        True
    """
    if recipe not in RECIPES:
        raise invalid("recipe", expected=f"one of {', '.join(RECIPES)}", got=repr(recipe))
    world, home, chosen, place = world or World(), Path(directory), RECIPES[recipe], pick_device(device)
    if not isinstance(settings, chosen.settings):
        raise wrong_type("settings", expected=chosen.settings.__name__, got=type(settings).__name__)
    _check_learnable(pictures, settings, world)
    task = small_task(pictures, settings.images, held=settings.held, seed=settings.seed).to(place)
    learning = chosen.build(task, chosen.start(settings, task.x.shape[1]).to(place), settings, world)
    start = numbers_of(learning.augment)
    about = {"recipe": recipe, "data": pictures.name, "pictures": pictures.digest, **asdict(settings)}
    title = f"{recipe} on {settings.images} of {pictures.name}"
    fit_run(learning.step, learning.state, settings, home, about=about, title=title, resume=resume, quiet=quiet, world=world)
    learned = numbers_of(learning.augment)
    score = float("nan")
    if world.rank == 0:
        score = accuracy(_network(learning, task, settings), task.x_test, task.y_test)
        plot_ranges(home / "log.csv", home / "ranges.png", losses=chosen.losses, title=title)
        torch.save(learning.augment.state_dict(), home / "augment.pt")
        if isinstance(learning.augment, Pipeline):
            learning.augment.frozen().save(home / "augment.toml")
        result = {"about": about, "accuracy": score, "start": start, "learned": learned}
        (home / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    return Outcome(home, start, learned, score)


def _check_learnable(pictures: Pictures, settings: Settings, world: World) -> None:
    """Raise for pictures or batches that the small network cannot be trained on."""
    height, width = pictures.x_train.shape[-2:]
    if pictures.classes < 2:
        raise invalid("pictures", expected="at least two classes", got=f"{pictures.classes} in {pictures.name}")
    if min(height, width) < 8:
        expected = "at least 8 x 8 pixels, because the network halves them three times"
        raise invalid("pictures", expected=expected, got=f"{height} x {width} in {pictures.name}")
    share = min(settings.batch, settings.images) // world.size
    if share * (height // 8) * (width // 8) == 1:
        raise invalid("batch", expected="at least 2, for the batch statistics of such small pictures", got=settings.batch)


def _network(learning: Learning, task: Task, settings: Settings) -> nn.Module:
    """Return the network that the recipe trained; after a search, train one with the policy."""
    if learning.net is not None:
        return learning.net
    trained = fixed(task, learning.augment, settings, World())
    train(trained, settings.steps, settings.seed)
    assert trained.net is not None
    return trained.net


def train(learning: Learning, steps: int, seed: int) -> float:
    """Run all steps without log or checkpoints, with the loop's seeds, and return the last loss; for runs of seconds."""
    with torch.random.fork_rng(devices=[]):
        for index in range(steps):
            torch.manual_seed(step_seed(seed, index))
            numbers = learning.step(index)
        return float(numbers["loss"])

"""``pellucid learn``: recipes that train the augmentation, a check with a known answer, and a demo.

Owns: the options, and what is printed.
Must not: train; ``pellucid.learn`` does.
Read next: ``../learn/run.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pellucid.cli.errors import need
from pellucid.cli.settings import takes
from pellucid.learn import RECIPES, Settings, learn

if TYPE_CHECKING:
    from rich.console import Console

    from pellucid.learn.data import Pictures

__all__ = ["app", "one_thread", "read_pictures"]

app = typer.Typer(help="Train the augmentation: its ranges, probabilities and magnitudes.", no_args_is_help=True)

_NEEDED = ("safetensors", "matplotlib")
"""Packages for checkpoints and plots."""

Data = Annotated[Path | None, typer.Option("--data", help="An .npz file or a folder (npz or IDX); default scikit-learn's digits.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The run's folder: log, checkpoints, plot, policy.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; default cuda under torchrun where there is one.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Refuse to go on from a checkpoint in the folder.")]


def _recipe(name: str, summary: str) -> None:
    def run(
        settings: Any, data: Data = None, output: Output = Path(f"learn-{name}"), device: Device = None, fresh: Fresh = False
    ) -> None:
        _learn(name, data, output, settings, device, resume=not fresh)

    run.__doc__ = summary
    app.command(name)(takes(RECIPES[name].settings)(run))


_recipe("augerino", "Train ranges and network together on the training loss, with a reward for wide ranges.")
_recipe("bilevel", "Train ranges on the loss of held-out images, through a virtual step or the implicit function theorem.")
_recipe("density", "Search a policy whose pictures a critic cannot tell from others (Faster AutoAugment), then train with it.")
_recipe("teach", "Train ranges against the network, as far as its running average still reads the pictures (TeachAugment).")


@app.command()
def rotation(
    output: Output = Path("learn-rotation"),
    theta: Annotated[float, typer.Option(min=1.0, max=85.0, help="The data's own rotation, in degrees.")] = 45.0,
    steps: Annotated[int, typer.Option(min=1, help="Steps from each start.")] = 600,
    entropy: Annotated[float, typer.Option(help="Nats of loss per nat of entropy.")] = 0.02,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
) -> None:
    """Check Augerino on data whose right width is known, from a narrow and a wide start; exit code 1 if it is off by over 10 %."""
    need("train", *_NEEDED)
    from pellucid.learn.demo import Rotation, optimal_width, turn_both_ways

    settings = Rotation(theta=theta, steps=steps, entropy=entropy, seed=seed)
    with one_thread():
        turned = turn_both_ways(settings, output)
    console = _console()
    console.print(f"Truth {settings.truth:.1f} degrees; optimum with this reward {optimal_width(theta, entropy):.2f}.")
    for result in turned:
        error = 100 * (result.learned / settings.truth - 1)
        console.print(f"From {result.start:5.1f}: learned {result.learned:.2f} degrees ({error:+.1f} %).")
    if any(abs(result.learned / settings.truth - 1) > 0.1 for result in turned):
        raise typer.Exit(1)


@app.command()
def demo(
    output: Output = Path("learn-demo"),
    steps: Annotated[int, typer.Option(min=1, help="Steps on digits.")] = 300,
    turns: Annotated[int, typer.Option(min=1, help="Steps of the rotation, from each start.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
) -> None:
    """Watch ranges grow on scikit-learn's digits: a table, plots and index.html in under two minutes."""
    import time

    from rich.table import Table

    need("train", *_NEEDED)
    from pellucid.cli.learned import write_learned
    from pellucid.learn.demo import run_demo, table

    started, console = time.perf_counter(), _console()
    with one_thread():
        result = run_demo(output, steps=steps, turns=turns, seed=seed, say=console.print)
    write_learned(output / "index.html", result)
    shown = Table("range", "start", "learned")
    for row in table(result):
        shown.add_row(*row)
    console.print(shown)
    plain, learned = 100 * result.plain, 100 * result.outcome.accuracy
    console.print(f"Test accuracy: {plain:.1f} % without augmentation, {learned:.1f} % with learned ranges.")
    console.print(f"Wrote {output / 'index.html'} in {time.perf_counter() - started:.0f} s.", markup=False, soft_wrap=True)


def _learn(recipe: str, data: Path | None, output: Path, settings: Settings, device: str | None, *, resume: bool) -> None:
    need("train", *_NEEDED)
    import torch
    from rich.table import Table

    from pellucid.learn.ranges import readable
    from pellucid.training import join_world

    world = join_world()
    place = device or ("cuda" if world.size > 1 and torch.cuda.is_available() else "cpu")
    outcome = learn(recipe, read_pictures(data), settings, output, world=world, device=place, resume=resume)
    if world.size > 1:
        torch.distributed.destroy_process_group()
    if world.rank:
        return
    start, end = readable(outcome.start), readable(outcome.learned)
    shown = Table("range", "start", "learned")
    for name, value in end.items():
        shown.add_row(name, start[name], value)
    console = _console()
    console.print(shown)
    console.print(f"Test accuracy {100 * outcome.accuracy:.2f} %. Wrote {outcome.directory}.", markup=False, soft_wrap=True)


def read_pictures(data: Path | None) -> Pictures:
    """Load a data set by its path or its name; by default scikit-learn's digits."""
    from pellucid.learn.data import find_data, load_pictures

    if data is not None and not data.exists():
        data = find_data(str(data)) or data  # a name in the shared data folder
    return load_pictures(data)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread: small pictures gain nothing from more, and results then do not depend on the number of cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""``pellucid study``: experiments that write their own page of the documentation.

Owns: the options of ``pellucid study``.
Must not: measure; ``detach``, ``learned``, ``worst``, ``hardening``, ``views``, ``camera`` and others do.
Read next: ``detach/run.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pellucid.cli.errors import need

__all__ = ["app"]

Jobs = Annotated[int, typer.Option(min=1, help="How many runs at a time, each on one thread.")]

app = typer.Typer(name="study", help="Experiments that say what our defaults do, losses included.", no_args_is_help=True)


@app.callback()
def _study() -> None:
    """Experiments that say what our defaults do, losses included."""


@app.command()
def detach(
    write: Annotated[Path | None, typer.Option(help="write detach-study.md and img/detach-study.png into this folder")] = None,
    seed: Annotated[int, typer.Option(help="of noise, weights and draws")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="for torch; the documented run uses one")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="the same parts, too small to conclude anything from")] = False,
) -> None:
    """What holding a patch's mean and deviation constant does to gradients and training. Exit code 1 if a guard fails."""
    need("demo", "skimage", *(() if write is None else ("matplotlib",)))
    import torch

    from pellucid_bench.detach.report import as_markdown, draw, verdicts
    from pellucid_bench.detach.run import run_study

    torch.set_num_threads(threads)
    result = run_study(quick=quick, seed=seed, say=lambda line: typer.echo(f"... {line}", err=True))
    page = as_markdown(result)
    typer.echo(page)
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        (write / "detach-study.md").write_text(page)
        draw(result, write / "img" / "detach-study.png")
    if not all(verdicts(result).values()):
        raise typer.Exit(1)


@app.command()
def learned(
    resume: Annotated[
        bool, typer.Option("--resume", help="Do the runs that its file lacks; else write the page of those it has.")
    ] = False,
    write: Annotated[Path, typer.Option(help="The folder of learned-augmentation.json, its page and its picture.")] = Path("docs"),
    data: Annotated[str, typer.Option(help="Data sets.")] = "fashion_mnist,digits,patches",
    images: Annotated[str, typer.Option(help="Sizes of the training set; those that a data set has.")] = "500,2000,10000",
    steps: Annotated[str, typer.Option(help="Steps of the optimiser.")] = "1000",
    arms: Annotated[str | None, typer.Option(help="Only these; default all.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many, each with its own pictures, weights and draws.")] = 5,
    minutes: Annotated[float, typer.Option(min=0.0, help="Begin no run after so many.")] = 10.0,
    jobs: Jobs = 1,
) -> None:
    """Ways to augment, fixed and learned, against RandAugment at equal steps and at equal CPU; goes on where it was stopped."""
    import time

    need("train", "safetensors", "sklearn", "skimage", "matplotlib")
    from pellucid.cli.learn import one_thread
    from pellucid.core.arguments import check_choice
    from pellucid_bench.learned.arms import ARMS
    from pellucid_bench.learned.page import as_markdown, draw
    from pellucid_bench.learned.pictures import DATA
    from pellucid_bench.learned.run import ABOUT, places, run
    from pellucid_bench.runs import read_sizes, run_all

    chosen = arms.split(",") if arms else list(ARMS)
    for option, names, known in (("arms", chosen, ARMS), ("data", data.split(","), DATA)):
        for name in names:
            check_choice(option, name, tuple(known))
    last = time.monotonic() + 60 * minutes if resume else 0.0
    with one_thread():
        rows = run_all(
            run,
            places(data.split(","), read_sizes(images), read_sizes(steps, "steps"), chosen),
            seeds,
            about=ABOUT,
            path=write / "learned-augmentation.json",
            jobs=jobs,
            say=lambda line: typer.echo(f"... {line}", err=True),
            until=last,
        )
    _finish("learned-augmentation", as_markdown(rows), partial(draw, rows), write)


@app.command()
def hypergradient(
    data: Annotated[
        Path | None,
        typer.Option("--data", help="A data set; default Fashion-MNIST under PELLUCID_DATA, else scikit-learn's digits."),
    ] = None,
    write: Annotated[Path | None, typer.Option(help="Write hypergradient.json, and the tables of estimators.md, here.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many networks.")] = 3,
    jobs: Jobs = 1,
    quick: Annotated[bool, typer.Option("--quick", help="The same parts, too small to conclude anything from.")] = False,
) -> None:
    """Each estimator's noise at one step, how far hypergradients see, and labels that survive; goes on from its file."""
    need("train", "safetensors", "sklearn")
    from pellucid.cli.learn import one_thread
    from pellucid.learn.data import find_data, load_pictures
    from pellucid_bench.learned.gradients import KINDS, as_markdown, run
    from pellucid_bench.report import insert
    from pellucid_bench.runs import run_all

    pictures = load_pictures(data or find_data("fashion_mnist"))
    with one_thread():
        rows = run_all(
            lambda arm, seed: run(pictures, arm, seed, quick=quick),
            KINDS,
            seeds,
            about={"data": pictures.name, "quick": quick},
            path=None if write is None else write / "hypergradient.json",
            jobs=jobs,
            say=lambda line: typer.echo(f"... {line}", err=True),
        )
    typer.echo(as_markdown(rows))
    if write is not None and (write / "estimators.md").exists():
        insert(write / "estimators.md", "hypergradient", f"\n{as_markdown(rows)}", kind="study")


@app.command()
def worst(
    data: Annotated[
        Path | None,
        typer.Option("--data", help="A data set; default Fashion-MNIST under PELLUCID_DATA, else scikit-learn's digits."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="The folder of worst-case.json, its page and its picture; goes on where it was stopped.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many networks.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="The same parts, too small to conclude anything from.")] = False,
) -> None:
    """What each search leaves of a network's accuracy under rotations and shifts, and what training and attacks make of it."""
    need("demo", *(() if write is None else ("matplotlib",)))
    from pellucid.cli.learn import one_thread
    from pellucid.learn.data import find_data, load_pictures
    from pellucid_bench import hardening, worst
    from pellucid_bench.report import insert
    from pellucid_bench.runs import run_all

    pictures = load_pictures(data or find_data("fashion_mnist"))
    with one_thread():
        rows = run_all(
            lambda arm, seed: (worst if arm in worst.SEARCHES else hardening).run(pictures, arm, seed, quick=quick),
            [*worst.SEARCHES, *hardening.ARMS],
            seeds,
            about={"data": pictures.name, "quick": quick},
            path=None if write is None else write / "worst-case.json",
            say=lambda line: typer.echo(f"... {line}", err=True),
        )
    tables = {"searches": worst.as_markdown(rows), **dict(zip(("tuned", "attacks"), hardening.as_markdown(rows), strict=True))}
    typer.echo("\n".join((f"{pictures.name}, {seeds} networks\n", *tables.values())))
    if write is not None:
        worst.draw(rows, write / "img" / "worst-case.png")
        for name, table in tables.items():
            if (write / "worst-case.md").exists():
                insert(write / "worst-case.md", name, f"\n{table}", kind="study")


@app.command()
def watermark(
    write: Annotated[Path | None, typer.Option(help="Write watermark.json and img/watermark.png into this folder.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many trainings of each kind.")] = 3,
    arms: Annotated[str, typer.Option(help="Which gradients of JPEG; nothing is training without distortions.")] = (
        "nothing,none,straight_through,proximity"
    ),
    jobs: Jobs = 1,
    quick: Annotated[bool, typer.Option("--quick", help="The same parts, too small to conclude anything from.")] = False,
) -> None:
    """What a watermark survives by what it was trained through; goes on where it was stopped, from the file that it writes."""
    need("demo", "skimage", *(() if write is None else ("matplotlib",)))
    from pellucid.cli.learn import one_thread
    from pellucid.core.arguments import check_choice
    from pellucid_bench.runs import example, run_all
    from pellucid_bench.watermark import LOOKS, NAMES, as_markdown, draw

    made, steps = example("watermark"), 4 if quick else 500
    chosen = arms.split(",")
    for arm in chosen:
        check_choice("arms", arm, tuple(NAMES))
    with one_thread():
        rows = run_all(
            lambda arm, seed: made.main(arm, steps, seed),
            chosen,
            seeds,
            about={"steps": steps, "looks": list(LOOKS.values())},
            path=None if write is None else write / "watermark.json",
            jobs=jobs,
            say=lambda line: typer.echo(f"... {line}", err=True),
        )
    _finish("watermark", as_markdown(rows), partial(draw, rows), write)


@app.command()
def distill(
    write: Annotated[Path | None, typer.Option(help="Write distillation.json and img/distillation.png into this folder.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many runs of each kind.")] = 3,
    images: Annotated[str, typer.Option(help="Pictures per class.")] = "1,10",
    jobs: Jobs = 1,
    quick: Annotated[bool, typer.Option("--quick", help="The same parts, too small to conclude anything from.")] = False,
) -> None:
    """What pictures teach that were learned under siamese draws; goes on where it was stopped, from the file that it writes."""
    need("demo", *(() if write is None else ("matplotlib",)))
    from pellucid.cli.learn import one_thread
    from pellucid_bench.distill import NAMES, as_markdown, draw, read, run
    from pellucid_bench.runs import read_sizes, run_all

    data = read()
    with one_thread():
        rows = run_all(
            lambda arm, seed: run(data, arm, seed, quick=quick),
            [f"{name} {count}" for count in read_sizes(images) for name in NAMES],
            seeds,
            about={"data": data.name, "quick": quick},
            path=None if write is None else write / "distillation.json",
            jobs=jobs,
            say=lambda line: typer.echo(f"... {line}", err=True),
        )
    _finish("distillation", as_markdown(rows), partial(draw, rows), write)


@app.command()
def ada(
    data: Annotated[
        Path | None,
        typer.Option("--data", help="A data set; default Fashion-MNIST under PELLUCID_DATA, else scikit-learn's digits."),
    ] = None,
    write: Annotated[Path | None, typer.Option(help="Write ada.json and img/ada.png into this folder.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many trainings of each kind.")] = 3,
    jobs: Jobs = 1,
    quick: Annotated[bool, typer.Option("--quick", help="The same parts, too small to conclude anything from.")] = False,
) -> None:
    """A GAN on 1,000 pictures, with and without adaptive augmentation; goes on where it was stopped, from its file."""
    need("demo", *(() if write is None else ("matplotlib",)))
    from pellucid.cli.learn import one_thread
    from pellucid.learn.data import find_data, load_pictures
    from pellucid_bench.ada import ARMS, PICTURES, STEPS, as_markdown, draw, run
    from pellucid_bench.runs import run_all

    pictures = load_pictures(data or find_data("fashion_mnist"))
    steps, images = (16, 100) if quick else (STEPS, PICTURES)
    with one_thread():
        rows = run_all(
            lambda arm, seed: run(pictures, arm, seed, steps=steps, images=images),
            ARMS,
            seeds,
            about={"data": pictures.name, "steps": steps, "pictures": images},
            path=None if write is None else write / "ada.json",
            jobs=jobs,
            say=lambda line: typer.echo(f"... {line}", err=True),
        )
    _finish("ada", as_markdown(rows), partial(draw, rows), write)


@app.command()
def views(
    write: Annotated[Path | None, typer.Option(help="Write views.json and img/views.png into this folder.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each example.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Two steps each, too few to conclude anything from.")] = False,
) -> None:
    """What the examples of views gain over going without, over seeds: SimCLR, DINO, FixMatch, dense correspondence, TTA."""
    import json

    need("demo", *(() if write is None else ("matplotlib",)))
    from pellucid.cli.learn import one_thread
    from pellucid_bench.views import as_markdown, draw, run_study

    with one_thread():
        rows = run_study(seeds=seeds, quick=quick, say=lambda line: typer.echo(f"... {line}", err=True))
    typer.echo(f"digits, {seeds} seeds\n\n{as_markdown(rows)}")
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        (write / "views.json").write_text(json.dumps({"data": "digits", "rows": rows}, indent=1) + "\n")
        draw(rows, write / "img" / "views.png")


@app.command()
def camera(
    write: Annotated[Path | None, typer.Option(help="Write camera.json and img/camera.png into this folder.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Sets of views.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Two views of each lens, too few to conclude anything from.")] = False,
) -> None:
    """Lenses from pictures of a chessboard, by `fit_camera` and, where it is installed, by OpenCV's calibration."""
    import json

    need("demo", *(() if write is None else ("matplotlib",)))
    from pellucid.cli.learn import one_thread
    from pellucid_bench.camera import as_markdown, draw, run_study

    with one_thread():
        rows = run_study(seeds=seeds, quick=quick, say=lambda line: typer.echo(f"... {line}", err=True))
    typer.echo(as_markdown(rows))
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        (write / "camera.json").write_text(json.dumps({"rows": rows}, indent=1) + "\n")
        draw(rows, write / "img" / "camera.png")


@app.command()
def volumes(
    resume: Annotated[
        bool, typer.Option("--resume", help="Do the runs that its file lacks; else write the table of those it has.")
    ] = False,
    write: Annotated[Path, typer.Option(help="The folder of volumes.json, and of volumes.md, which has the table.")] = Path("docs"),
    seeds: Annotated[int, typer.Option(min=1, help="Sets of scans, weights and draws.")] = 5,
    minutes: Annotated[float, typer.Option(min=0.0, help="Begin no run after so many.")] = 10.0,
    jobs: Jobs = 1,
) -> None:
    """A small segmentation of synthetic scans, trained with and without nnU-Net's recipe; goes on where it was stopped."""
    import time

    from pellucid.cli.learn import one_thread
    from pellucid_bench.runs import run_all
    from pellucid_bench.shapes import ABOUT, ARMS, as_markdown, run

    last = time.monotonic() + 60 * minutes if resume else 0.0
    with one_thread():
        rows = run_all(
            run,
            list(ARMS),
            seeds,
            about=ABOUT,
            path=write / "volumes.json",
            jobs=jobs,
            say=lambda line: typer.echo(f"... {line}", err=True),
            until=last,
        )
    _finish("volumes", as_markdown(rows), None, write)


def _finish(name: str, table: str, draw: Callable[[Path], None] | None, write: Path | None) -> None:
    """Show the table; write it into the page of that name, where there is one, and the picture beside it."""
    typer.echo(table)
    if write is not None:
        if draw is not None:
            draw(write / "img" / f"{name}.png")
        from pellucid_bench.report import insert

        page = write / f"{name}.md"
        if page.exists():
            insert(page, name, f"\n{table}", kind="study")

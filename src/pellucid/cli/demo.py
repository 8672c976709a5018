"""``pellucid demo``: real photographs, augmented, explained and differentiated.

Owns: the command, its two sizes, and its progress bar.
Must not: compute; ``showcase.py`` and ``gradients.py`` do.
Read next: ``showcase.py``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from pellucid.cli.errors import need

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["demo"]


class _Scale(NamedTuple):
    """How many pictures of which size the demo uses."""

    photographs: int
    size: int
    draws: int
    check_size: int


_FULL = _Scale(photographs=4, size=256, draws=3, check_size=48)
_SMALL = _Scale(photographs=2, size=128, draws=2, check_size=32)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the report.")] = Path("demo-report"),
    small: Annotated[bool, typer.Option("--small", help="Fewer and smaller pictures: seconds instead of half a minute.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
) -> None:
    r"""Augment photographs with a mask, boxes and keypoints; write sheet.png and index.html.

    Needs scikit-image for its photographs: pip install 'pellucid\[demo]'.
    """
    from rich.console import Console

    need("demo", "skimage")
    passed = _run(output, _SMALL if small else _FULL, seed, Console())
    if not passed:
        raise typer.Exit(1)


def _run(output: Path, scale: _Scale, seed: int, console: Console) -> bool:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from pellucid.cli.annotations import ANNOTATIONS
    from pellucid.cli.files import png_bytes, write_bytes
    from pellucid.cli.gradients import ajar, compare_gradients, count_comparisons, dithered, worst
    from pellucid.cli.photographs import load_batch
    from pellucid.cli.report import TOLERANCE, write_report
    from pellucid.cli.showcase import augmented, before_and_after, flagship, gradient_sheet

    started = time.perf_counter()
    chosen = ANNOTATIONS[: scale.photographs]
    names = tuple(annotation.name for annotation in chosen)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Loading photographs", total=4)
        batch = load_batch(chosen, scale.size)
        progress.update(task, advance=1, description="Augmenting")
        show = augmented(names, batch, draws=scale.draws, seed=seed)
        sheet = png_bytes(before_and_after(show))
        write_bytes(output / "sheet.png", sheet)
        progress.update(task, advance=1, description="Differentiating")
        gradients = png_bytes(gradient_sheet(show))

        # Float64 by the reference: the kernels would have to be compiled a second time for it.
        check = flagship(scale.check_size, seed=seed, extended=True, impl="reference")
        photographs = dithered(load_batch(chosen, scale.check_size)["image"])
        record = check.draw(photographs)
        progress.update(task, advance=1, description="Checking gradients", total=4 + count_comparisons(record))
        comparisons = []
        for comparison in compare_gradients(check, photographs, ajar(record)):
            comparisons.append(comparison)
            progress.advance(task)
        progress.update(task, description="Writing the report")
        write_report(output / "index.html", show, sheet, gradients, comparisons, check_size=scale.check_size, seed=seed)
        progress.update(task, advance=1, description="Done")
    error = worst(comparisons)
    passed = error < TOLERANCE
    seconds = time.perf_counter() - started
    verdict = f"{sum(line.flows for line in comparisons)} gradients against finite differences: worst relative error {error:.1e}"
    console.print(verdict, style="green" if passed else "bold red")
    wrote = f"Wrote {output / 'sheet.png'} and {output / 'index.html'} in {seconds:.1f} s."
    console.print(wrote, highlight=False, soft_wrap=True)
    return passed

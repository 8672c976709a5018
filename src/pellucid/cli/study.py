"""``pellucid study``: experiments that write their own page of the documentation.

Owns: the options of ``pellucid study detach``.
Must not: measure; ``pellucid.features.study`` does.
Read next: ``../features/study/run.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app"]

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
    from pellucid.cli.errors import need

    need("demo", "skimage", *(() if write is None else ("matplotlib",)))
    import torch

    from pellucid.features.study.report import as_markdown, draw, verdicts
    from pellucid.features.study.run import run_study

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

"""``pellucid audit``: the gradient audit from the command line.

Owns: the options of the command.
Must not: audit anything itself; ``pellucid.audit`` does.
Read next: ``../audit/command.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["audit"]


def audit(
    target: Annotated[str | None, typer.Argument(help="module:function, module:Class(arguments) or file.py:function")] = None,
    inputs: Annotated[str | None, typer.Option("--inputs", "-i", help="for example 2x3x16x16, or x=2x3x16x16,angle=scalar")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="write report.html or report.json")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    compile: Annotated[bool, typer.Option("--compile", help="also compile: seconds instead of tenths")] = False,  # noqa: A002
    declared: Annotated[str | None, typer.Option(help="what the author promises: x=exact,p=surrogate")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="findings to leave out: category or category:subject")] = None,
    level: Annotated[str, typer.Option(help="the mildest severity to show: note, warning or error")] = "note",
    quick: Annotated[bool, typer.Option("--quick", help="leave out other layouts, shapes, signs and modes")] = False,
    budget: Annotated[float, typer.Option(help="processor seconds for further digits, leaves, sizes and values")] = 10.0,
    watch_training: Annotated[
        str | None, typer.Option("--watch-training", help="file.py:train_step: run some steps of it and watch every parameter")
    ] = None,
    steps: Annotated[int, typer.Option(help="training steps to watch")] = 10,
) -> None:
    """Say where the gradients of a callable live, lie and die. Exit code 0: clean, 1: warnings, 2: errors."""
    from pellucid.audit.command import run_audit, run_watch
    from pellucid.cli.waiting import waiting
    from pellucid.errors import invalid

    if (target is None) == (watch_training is None):
        raise invalid("target", expected="either a target or --watch-training", got="both" if target else "neither")
    if watch_training is not None:
        raise typer.Exit(run_watch(watch_training, steps, output, json))
    code = run_audit(
        target or "",
        inputs,
        output,
        json,
        compile=compile,
        declared=declared,
        allow=allow or (),
        level=level,
        quick=quick,
        budget=budget,
        waiting=waiting,
    )
    raise typer.Exit(code)

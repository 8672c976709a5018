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
    target: Annotated[str, typer.Argument(help="module:function, module:Class(arguments) or file.py:function")],
    inputs: Annotated[str | None, typer.Option("--inputs", "-i", help="for example 2x3x16x16, or x=2x3x16x16,angle=scalar")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="write report.html or report.json")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON instead of tables")] = False,
    compile: Annotated[bool, typer.Option("--compile", help="also compile: seconds instead of tenths")] = False,  # noqa: A002
    declared: Annotated[str | None, typer.Option(help="what the author promises: x=exact,p=surrogate")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="findings to leave out: category or category:subject")] = None,
    level: Annotated[str, typer.Option(help="the mildest severity to show: note, warning or error")] = "note",
) -> None:
    """Say where the gradients of a callable live, lie and die. Exit code 0: clean, 1: warnings, 2: errors."""
    from pellucid.audit.command import run_audit

    raise typer.Exit(run_audit(target, inputs, output, json, compile=compile, declared=declared, allow=allow or (), level=level))

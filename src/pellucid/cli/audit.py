"""``pellucid audit``: the gradient audit from the command line.

Owns: the options of the command, and how a report is shown.
Must not: audit anything itself; ``pellucid.audit`` does.
Read next: ``../audit/spec.py``.
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
    compile: Annotated[bool, typer.Option("--compile", help="also check torch.compile, which takes seconds")] = False,  # noqa: A002
    declared: Annotated[str | None, typer.Option(help="what the author promises: x=exact,p=surrogate")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="findings to leave out: category or category:subject")] = None,
    level: Annotated[str, typer.Option(help="the mildest severity to show: note, warning or error")] = "note",
    quick: Annotated[bool, typer.Option("--quick", help="skip the checks of other layouts, shapes, signs and modes")] = False,
    budget: Annotated[float, typer.Option(help="processor seconds for further digits, leaves, sizes and values")] = 10.0,
    watch_training: Annotated[
        str | None, typer.Option("--watch-training", help="file.py:train_step: run some steps of it and watch every parameter")
    ] = None,
    steps: Annotated[int, typer.Option(help="training steps to watch")] = 10,
) -> None:
    """Say where a callable's gradients are right, wrong or lost. Exit code 0: clean, 1: warnings, 2: errors."""
    from pellucid.audit import AuditReport, Severity, TrainingReport
    from pellucid.audit import audit as examined
    from pellucid.audit import watch_training as watched
    from pellucid.audit.spec import parse_inputs, resolve
    from pellucid.audit.terminal import show
    from pellucid.cli.waiting import waiting
    from pellucid.errors import invalid

    words = {s.label: s for s in Severity}
    if (target is None) == (watch_training is None):
        raise invalid("target", expected="either a target or --watch-training", got="both" if target else "neither")
    if level not in words:
        raise invalid("level", expected=f"one of {', '.join(words)}", got=repr(level))
    if output is not None and output.suffix not in {".html", ".json"}:
        raise invalid("output", expected="a path that ends in .html or .json", got=str(output))
    report: AuditReport | TrainingReport
    if target is None:
        report = watched(resolve(watch_training or ""), steps, name=watch_training)
    else:
        items = (item.partition("=") for item in (declared or "").split(",") if item.strip())
        promises = {name.strip(): word.strip() for name, _, word in items}
        subject, values = resolve(target), parse_inputs(inputs)
        with waiting(f"Auditing {target}"):
            report = examined(subject, values, name=target, compile=compile, declared=promises, quick=quick, budget=budget)
        report.findings = [f for f in report.without(allow or ()) if f.severity >= words[level]]
    if output is not None:
        (report.to_json if output.suffix == ".json" else report.to_html)(output)
    if json:
        typer.echo(report.to_json())
    elif isinstance(report, TrainingReport):
        typer.echo(str(report))
    else:
        show(report)
    raise typer.Exit(report.exit_code)

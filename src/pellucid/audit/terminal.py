"""The report in a terminal: one Rich table of findings, one of measurements.

Owns: the layout of both tables.
Must not: omit anything in the report.
Read next: ``html.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pellucid.audit.finding import Finding, Severity
from pellucid.audit.report import AuditReport

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show"]

_COLOUR = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}

_SHORT = {"forward-mode": "forward", "double-backward": "double", "checkpoint": "chkpt"}


def show(report: AuditReport, console: Console | None = None) -> None:
    """Print a report."""
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

    out = console or Console()
    out.print(Text(f"Gradient audit of {report.name}", style="bold"))
    if report.findings:
        table = Table(show_lines=True, expand=True)
        table.add_column("severity", no_wrap=True)
        table.add_column("what", no_wrap=True)
        table.add_column("where and why", ratio=1, overflow="fold")
        for finding in report.findings:
            style = _COLOUR[finding.severity]
            where = f"{finding.subject} at {finding.place}" if finding.place else finding.subject
            lines = ((where, "bold"), (finding.message, ""), (_evidence(finding), "cyan"), (finding.advice, "italic"))
            body = Group(*(Text(line, style=look) for line, look in lines if line))
            table.add_row(Text(finding.severity.label, style=style), str(finding.category), body)
        out.print(table)
    else:
        out.print(Text("Nothing found.", style="green"))
    if report.measures:
        # A mode that agrees for every leaf gets no column: it would only narrow the others.
        modes = list(dict.fromkeys(mode for m in report.measures.values() for mode, word in m.modes.items() if word != "agrees"))
        columns = ("leaf", "shape", "gradient", "seen", "reachable", "antialiased", "error", "checked in")
        table = Table(*columns, *(_SHORT.get(mode, mode) for mode in modes))
        for name, m in report.measures.items():
            shape = "x".join(map(str, m.shape)) or "scalar"
            shares = ("" if share is None else f"{100 * share:.0f} %" for share in m.shares)
            numbers = (*shares, f"{m.error:.0e}", f"{m.precision} to {m.tolerance:.0e}" if m.precision else "")
            table.add_row(Text(name), shape, m.gradient, *numbers, *(m.modes.get(mode, "") for mode in modes))
        out.print(table)
    conditions = f", {report.conditions}" if report.conditions else ""
    out.print(Text(f"{report.seconds:.2f} s{conditions}, exit code {report.exit_code}", style="dim"))


def _evidence(finding: Finding) -> str:
    pairs = ((k, f"{v:.4g}" if isinstance(v, float) else str(v)) for k, v in finding.evidence.items() if v != "")
    return ", ".join(f"{k} = {v}" for k, v in pairs)

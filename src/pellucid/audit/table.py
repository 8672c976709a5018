"""Many audits as one Markdown table: the declared gradients beside the measured ones.

Owns: the table's columns and wording.
Must not: know where the cases come from.
Read next: ``run.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pellucid.audit.finding import Severity
from pellucid.audit.report import AuditReport
from pellucid.audit.run import audit

__all__ = ["Case", "audit_table", "table"]

_MODES = ("double-backward", "forward-mode", "vmap", "checkpoint")


@dataclass(frozen=True)
class Case:
    """One row group of the table.

    Args:
        name: The row's name.
        fn: The callable.
        inputs: Its inputs, as :func:`~pellucid.audit.audit` takes them.
        declared: The author's promise per input or parameter.
        options: Further options of the audit.
    """

    name: str
    fn: Callable[..., Any]
    inputs: Any
    declared: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def audit_table(cases: Iterable[Case | tuple[Any, ...]]) -> str:
    """Audit every case and return the Markdown table of declared and measured gradients.

    Args:
        cases: :class:`Case` values, or tuples ``(name, callable, inputs, declared)``.
    """
    rows = [c if isinstance(c, Case) else Case(*c) for c in cases]
    reports = [audit(c.fn, c.inputs, name=c.name, declared=c.declared, **c.options) for c in rows]
    return table(reports, [c.declared for c in rows])


def table(reports: Iterable[AuditReport], declared: Iterable[dict[str, str]]) -> str:
    """Return the Markdown table of finished audits."""
    head = ["transform", "argument", "declared", "measured", "coverage", "error", *_MODES, "findings above note"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for report, promises in zip(reports, declared, strict=True):
        found = "; ".join(
            f"{f.severity.label}: {f.category} ({f.subject}){f' at {f.place}' if f.place else ''}"
            for f in report.at_least(Severity.WARNING)
        )
        first = True
        for name, m in report.measures.items():
            promise = promises.get(name, promises.get("*", ""))
            cells = [report.name if first else "", name, promise, m.gradient, f"{100 * m.coverage:.0f} %", f"{m.error:.0e}"]
            cells += [m.modes.get(mode, "") for mode in _MODES]
            lines.append("| " + " | ".join([*cells, found if first else ""]) + " |")
            first = False
        if first:
            lines.append("| " + " | ".join([report.name, *[""] * (len(head) - 2), found]) + " |")
    return "\n".join(lines) + "\n"

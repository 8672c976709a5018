"""The result of an audit: findings and measurements, with the methods that filter and save them.

Owns: ordering, filtering, exit code, JSON, and the hand-over to the terminal and HTML renderers.
Must not: run checks or contain markup.
Read next: ``run.py`` (who fills it), ``terminal.py`` and ``html.py`` (who draw it).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pellucid.audit.finding import Category, Finding, Measure, Severity
from pellucid.audit.html import page

__all__ = ["AuditReport", "Reported"]


class Reported:
    """The common part of the reports on audits and on trainings: findings, the worst first, and saving to files."""

    findings: list[Finding]

    def __post_init__(self) -> None:
        self.findings = sorted(self.findings, key=lambda f: -f.severity)

    @property
    def exit_code(self) -> int:
        """2 with errors, 1 with warnings, 0 otherwise."""
        return int(self.findings[0].severity if self.findings else 0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that ``json`` accepts: the JSON report."""
        raise NotImplementedError

    def _page(self) -> str:
        raise NotImplementedError

    def to_json(self, path: str | Path | None = None, *, indent: int = 2) -> str:
        """Return the report as JSON, and write it to a file if a path is given.

        Args:
            path: the file to write, or None.
            indent: spaces per level.

        Example:
            >>> from pellucid.audit import AuditReport
            >>> AuditReport("sin").to_json().splitlines()[1]
            '  "name": "sin",'
        """
        text = json.dumps(self.to_dict(), indent=indent)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained HTML page (pictures included), and write it to a file if a path is given.

        Args:
            path: the file to write, or None.

        Example:
            >>> from pellucid.audit import AuditReport
            >>> AuditReport("sin").to_html()[:15]
            '<!doctype html>'
        """
        text = self._page()
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


@dataclass
class AuditReport(Reported):
    """The result of auditing one callable.

    Args:
        name: the callable's name.
        findings: all defects that the audit found, the worst first.
        measures: the measurements of each input and parameter.
        seconds: how long the audit took.
        versions: the versions of Python and torch.
        tried: the further conditions (precisions, leaves, sizes, ranges), with the processor seconds that each took.
        budget: the processor seconds that the further conditions were allowed.

    Example:
        >>> import torch
        >>> from pellucid.audit import audit
        >>> report = audit(torch.sin, torch.rand(2, 3))
        >>> report.exit_code, report.worst
        (0, None)
        >>> report.at_least(report.worst or 0), report.of("silent-zero"), report.without(["silent-zero"])
        ([], [], [])
        >>> sorted(report.to_dict())
        ['budget', 'exit_code', 'findings', 'measures', 'name', 'seconds', 'tried', 'versions']
    """

    name: str
    findings: list[Finding] = field(default_factory=list)
    measures: dict[str, Measure] = field(default_factory=dict)
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    tried: dict[str, float] = field(default_factory=dict)
    budget: float = 0.0

    @property
    def worst(self) -> Severity | None:
        """The highest severity present, or None without findings."""
        return self.findings[0].severity if self.findings else None

    @property
    def conditions(self) -> str:
        """How many further conditions were tried, and the share of their budget that they took, in words; empty if none was.

        Example:
            >>> from pellucid.audit import AuditReport
            >>> AuditReport("sin", tried={"float32": 0.02, "33 columns": 0.1}, budget=10.0).conditions
            '2 further conditions in 0.1 of 10 s'
        """
        count = len(self.tried)
        return f"{count} further conditions in {sum(self.tried.values()):.1f} of {self.budget:g} s" if count else ""

    def at_least(self, severity: Severity) -> list[Finding]:
        """Return the findings of this severity or worse.

        Args:
            severity: the mildest severity to include.
        """
        return [f for f in self.findings if f.severity >= severity]

    def of(self, category: Category | str) -> list[Finding]:
        """Return the findings of one category.

        Args:
            category: a `Category`, or its text.
        """
        return [f for f in self.findings if f.category == category]

    def without(self, allow: Iterable[str]) -> list[Finding]:
        """Return the findings that no entry of ``allow`` covers.

        Args:
            allow: ``"category"`` or ``"category:subject"``.
        """
        allowed = set(allow)
        return [f for f in self.findings if f.category not in allowed and f"{f.category}:{f.subject}" not in allowed]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: the JSON report."""
        return {
            "name": self.name,
            "exit_code": self.exit_code,
            "seconds": round(self.seconds, 3),
            "versions": dict(self.versions),
            "tried": {k: round(v, 3) for k, v in self.tried.items()},
            "budget": self.budget,
            "findings": [f.to_dict() for f in self.findings],
            "measures": {k: m.to_dict() for k, m in self.measures.items()},
        }

    def _page(self) -> str:
        versions = ", ".join(f"{k} {v}" for k, v in self.versions.items())
        details = "; ".join(part for part in (f"in {self.seconds:.2f} s", self.conditions, versions) if part)
        return page(self.name, self.findings, self.measures, details)

    def __str__(self) -> str:
        """The findings as lines of plain text."""
        head = f"{self.name}: {len(self.findings)} finding(s)"
        return "\n".join([head, *(_line(f) for f in self.findings)])


def _line(finding: Finding) -> str:
    numbers = ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in finding.evidence.items())
    where = f" at {finding.place}" if finding.place else ""
    tail = f" [{numbers}]" if numbers else ""
    head = f"  {finding.severity.label:7} {finding.category} ({finding.subject}){where}"
    return f"{head}: {finding.message}{tail} {finding.advice}".rstrip()

"""The report as a table, for the terminal and for a page.

Owns: the choice of columns, their names and their precision.
Must not: compute.
Read next: ``run.py``.
"""

from __future__ import annotations

from pellucid.features.evaluation.run import Report

__all__ = ["columns", "markdown_table", "plain_table"]


def columns(report: Report) -> list[tuple[str, list[str]]]:
    """Return (heading, one text per row) of the columns; the JSON has all thresholds."""
    rows = report.rows
    shown: list[tuple[str, list[str]]] = [("descriptor", [row.method for row in rows])]
    shown.append(("mAP", [f"{row.mean_average_precision:.4f}" for row in rows]))
    limits = [limit for limit in ("1", "3", "5", "10") if limit in rows[0].matching_accuracy]
    shown += [(f"MMA@{limit}", [f"{row.matching_accuracy[limit]:.3f}" for row in rows]) for limit in limits]
    shown += [(f"AUC@{limit}", [f"{row.homography[limit]:.3f}" for row in rows]) for limit in rows[0].homography]
    if "3" in rows[0].repeatability:
        shown.append(("rep@3", [f"{row.repeatability['3']:.3f}" for row in rows]))
    for name in ("keypoints", "matches", "correct", "inliers"):
        shown.append((name, [f"{getattr(row, name):.0f}" for row in rows]))
    return shown


def markdown_table(report: Report) -> str:
    """Return the table in Markdown, with the best of each column in bold."""
    shown = columns(report)
    lines = [[heading for heading, _ in shown], ["---"] * len(shown)]
    for i in range(len(report.rows)):
        line = [_bold(values, i) if j else values[i] for j, (_, values) in enumerate(shown)]
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def plain_table(report: Report) -> str:
    """Return the table as plain text in aligned columns."""
    pairs, sequences = len(report.rows[0].pairs), len(report.sequences)
    title = f"{_count(pairs, 'pair')} of {_count(sequences, 'sequence')}, at most {report.protocol.keypoints} keypoints per image"
    shown = columns(report)
    widths = [max(len(heading), *map(len, values)) for heading, values in shown]
    lines = [title, ""]
    for i in range(-1, len(report.rows)):
        cells = [heading if i < 0 else values[i] for heading, values in shown]
        first = cells[0].ljust(widths[0])
        lines.append("  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]))
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _bold(values: list[str], i: int) -> str:
    best = max(float(value) for value in values)
    alone = len({*values}) > 1
    return f"**{values[i]}**" if alone and float(values[i]) == best else values[i]

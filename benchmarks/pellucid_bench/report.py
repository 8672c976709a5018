"""From rows to files: JSON with its metadata, Markdown tables, and the section of a document they belong in.

Owns: the report's format.
Must not: measure.
Read next: ``plot.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pellucid.errors import invalid
from pellucid_bench.compare import Row
from pellucid_bench.environment import environment
from pellucid_bench.modes import MODES
from pellucid_bench.overhead import SHARE, Overhead

__all__ = ["VERSION", "case_tables", "describe", "insert", "overhead_table", "report", "scaling_table", "write_json"]

VERSION = 1


def report(command: str, settings: dict[str, Any], rows: list[Row]) -> dict[str, Any]:
    """The report of one command as plain data: ``pellucid_bench``, ``command``, ``environment``, ``settings``, ``rows``."""
    return {"pellucid_bench": VERSION, "command": command, "environment": environment(), "settings": settings, "rows": rows}


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a report, one row per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps({name: value for name, value in data.items() if name != "rows"}, indent=1).removesuffix("\n}")
    rows = ",\n".join(f"  {json.dumps(row)}" for row in data["rows"])
    path.write_text(f'{head},\n "rows": [\n{rows}\n ]\n}}\n')


def describe(facts: dict[str, Any]) -> str:
    """One line on where a measurement was made."""
    versions = ("pellucid", "torch", "numba", "kornia", "torchvision", "albumentations", "fuse-augmentations", "SimpleITK")
    parts = [facts["date"][:10], f"{facts['cpu']}, {facts['threads']} of {facts['cpus']} threads"]
    if "gpu" in facts:
        parts.append(facts["gpu"] + (f" (driver, clocks, limit: {facts['driver']})" if "driver" in facts else ""))
    parts.append(", ".join(f"{name} {facts[name]}" for name in versions if name in facts))
    if "commit" in facts:
        parts.append(f"commit {facts['commit']}")
    if "load" in facts:
        parts.append(f"load {facts['load']}")
    return "; ".join(parts)


def overhead_table(result: Overhead) -> str:
    """Time, calls and the shares the budget is about."""
    shapes = " | ".join(f"8x3x{size}x{size}, ms (quartiles)" for size in (64, 32, 4))
    lines = [f"| | {shapes} | calls | of which Python |", "|---|---|---|---|---|---|"]
    for name, timing in result.time.items():
        count = result.calls[name]
        spans = [_span(each.median, each.low, each.high, 1e3) for each in (timing, result.small[name], result.tiny[name])]
        lines.append(f"| {name} | {' | '.join(spans)} | {count.total} | {count.python} |")
    if result.pictures:
        lines += ["", "| one picture of 3x16x16 bytes | us (quartiles) |", "|---|---|"]
        lines += [f"| {name} | {_span(each.median, each.low, each.high, 1e6)} |" for name, each in result.pictures.items()]
    if result.missing is not None:
        return "\n".join([*lines, "", f"Nothing to compare with: kornia is missing ({result.missing})."])
    shares = ", ".join(f"{name} {share:.0%}" for name, share in result.shares().items())
    verdict = "met" if result.met() else "**missed**"
    lines += ["", f"Pellucid's share of kornia's: {shares}. Budget {SHARE:.0%} of time and calls: {verdict}."]
    return "\n".join(lines)


def case_tables(rows: list[Row]) -> str:
    """A table per mode, fastest first, with what is missing, raises or was refused."""
    parts = []
    for mode, title in MODES.items():
        timed = sorted((row for row in rows if row.get("mode") == mode and row["status"] == "ok"), key=lambda row: row["median_ms"])
        if not timed:
            continue
        ours = next((row["median_ms"] for row in timed if row["subject"] == "pellucid"), None)
        lines = [f"*{title[0].upper()}{title[1:]}*", ""]
        lines += [
            "| | regime | median ms (quartiles) | Pellucid is | images/s | of copy limit | peak memory / image |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_line(row, ours) for row in timed]
        lines += [
            f"| {row['subject']} | {row['regime']} | raises: {row['note']} | | | | |"
            for row in rows
            if row.get("mode") == mode and row["status"] == "raises"
        ]
        parts.append("\n".join(lines))
    odd = [f"* {row['subject']}: {row['status']}, {row['note']}" for row in rows if row["status"] in ("missing", "refused")]
    return "\n\n".join(parts + (["\n".join(odd)] if odd else []))


def _line(row: Row, ours: float | None) -> str:
    name = f"**{row['subject']}**" if row["subject"].startswith("pellucid") else row["subject"]
    ratio = "" if ours is None or row["subject"].startswith("pellucid") else _ratio(row["median_ms"] / ours)
    memory = f"{row['peak_per_image_bytes']:.1f} x" if "peak_per_image_bytes" in row else ""
    span = _span(row["median_ms"], row["q1_ms"], row["q3_ms"], 1.0)
    return f"| {name} | {row['regime']} | {span} | {ratio} | {row['images_per_s']:,.0f} | {row['copy_fraction']:.1%} | {memory} |"


def _ratio(times: float) -> str:
    return f"{times:.2f} x faster" if times >= 1 else f"{1 / times:.2f} x slower"


def _span(median: float, low: float, high: float, scale: float) -> str:
    digits = 2 if median * scale < 10 else 1
    return f"{median * scale:.{digits}f} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"


def scaling_table(rows: list[Row], axis: str) -> str:
    """Medians in milliseconds per point, one column per subject and mode."""
    chosen = [row for row in rows if row["axis"] == axis]
    columns = list(dict.fromkeys((row["mode"], row["subject"]) for row in chosen))
    columns.sort(key=lambda column: list(MODES).index(column[0]))
    median = {(row["value"], row["mode"], row["subject"]): row["median_ms"] for row in chosen}
    header = [f"{subject}, {'forward' if mode == 'forward' else 'fwd + bwd'}" for mode, subject in columns]
    lines = [f"| {axis} | {' | '.join(header)} |", "|---|" + "---|" * len(columns)]
    for value in sorted({row["value"] for row in chosen}):
        cells = [f"{median[(value, *column)]:.2f}" if (value, *column) in median else "" for column in columns]
        lines.append(f"| {value} | {' | '.join(cells)} |")
    return "\n".join(lines)


def insert(document: Path, section: str, text: str, *, kind: str = "bench") -> None:
    """Replace what stands between ``<!-- kind:section -->`` and ``<!-- /kind:section -->``.

    Errors:
        InvalidArgument if the document has no such pair.
    """
    start, end = f"<!-- {kind}:{section} -->", f"<!-- /{kind}:{section} -->"
    before, opened, rest = document.read_text().partition(start)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        expected, got = f"a page with a section between {start} and {end}", f"{document}, which has none"
        raise invalid("page", expected=expected, got=got, fix="Add the two lines where the table should go.")
    document.write_text(f"{before}{start}\n{text}\n{end}{after}")

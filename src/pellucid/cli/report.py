"""The demo's report: one self-contained HTML file.

Owns: the page's tables and the format of numbers; ``report.html`` holds the text, ``report.css`` the style.
Must not: compute anything.
Read next: ``gradients.py``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from pellucid._version import __version__
from pellucid.audit.pictures import data_uri
from pellucid.cli.files import facts_list, page, write_bytes
from pellucid.cli.gradients import STEPS, Comparison, worst
from pellucid.cli.showcase import Show

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TOLERANCE", "html_table", "write_report"]

TOLERANCE = 1e-4
"""The largest relative error that counts as agreement."""

_VERDICTS = {"yes": "yes", "no": "no", "none": "gate off"}


def write_report(
    path: Path, show: Show, sheet: bytes, gradients: bytes, comparisons: Sequence[Comparison], *, check_size: int, seed: int
) -> None:
    """Write the page. ``sheet`` and ``gradients`` are PNG files."""
    content = page(
        "report",
        facts=_facts(show, comparisons, seed),
        sheet=data_uri(sheet),
        plan=_plan(show),
        drawn=_drawn(show),
        gradients=data_uri(gradients),
        size=f"{check_size} x {check_size}",
        comparisons=_comparisons(comparisons),
    )
    write_bytes(path, content)


def _facts(show: Show, comparisons: Sequence[Comparison], seed: int) -> str:
    plan = show.records[0].plan
    facts = (
        (str(len(show.names)), "photographs"),
        (f"{len(plan.transforms)} \N{RIGHTWARDS ARROW} {len(plan.groups)}", "transforms \N{RIGHTWARDS ARROW} passes"),
        (str(sum(line.flows for line in comparisons)), "gradients checked"),
        (_number(worst(comparisons), ".1e"), "worst relative error"),
        (str(seed), "seed"),
        (f"{__version__} / {torch.__version__.split('+')[0]}", "pellucid / torch"),
    )
    return facts_list(facts)


def _plan(show: Show) -> str:
    flag, more = (pipeline.explain(show.batch["image"]) for pipeline in (show.pipeline, show.extended))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.toml"
        show.pipeline.save(file)
        toml = file.read_text(encoding="utf-8")
    return (
        f"{_listing(flag)}"
        f"<details><summary>The same with a blur and an erased rectangle</summary>{_listing(more)}</details>"
        f"<details><summary>As a file, by <code>pipeline.save</code></summary><pre>{escape(toml)}</pre></details>"
    )


def _listing(text: str) -> str:
    """Text with each line in a span, so that the style can indent wrapped lines."""
    return "<pre>" + "".join(f"<span>{escape(line)}</span>" for line in text.splitlines()) + "</pre>"


def _drawn(show: Show) -> str:
    """One row per drawn value, one column per photograph and draw."""
    records = (*show.records[:-1], show.last)  # this record holds the flagship's last draw and the two transforms more
    draws, width = range(len(records)), 1 + len(show.names) * len(records)
    top = "".join(f'<th colspan="{len(records)}" class="group">{escape(name)}</th>' for name in show.names)
    head = "".join(f'<th class="number{_first(d)}">{d + 1}</th>' for _ in show.names for d in draws)
    rows = []
    for index, (transform, *_) in enumerate(show.last.plan.steps):
        values = show.last.params[index]
        if values:
            rows.append(f'<tr class="owner"><th colspan="{width}">[{index}] {type(transform).__name__}</th></tr>')
        for name in values:
            cells = "".join(
                f'<td class="number{_first(d)}">{_cell(records[d].params, index, name, sample)}</td>'
                for sample in range(len(show.names))
                for d in draws
            )
            rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return html_table(f'<tr><th></th>{top}</tr><tr><th class="corner">draw</th>{head}</tr>', rows)


def _first(draw: int) -> str:
    return " first" if draw == 0 else ""


def _cell(params: Sequence[Mapping[str, Tensor]], index: int, name: str, sample: int) -> str:
    if index >= len(params):
        return "&ndash;"
    value = params[index][name][sample].detach()
    if name == "gate":
        return "on" if bool(value) else "off"
    if value.dim():
        return "".join(str(number) for number in value.tolist())
    return _number(float(value), ".3f")


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    titles = ("autograd", "differences", *(f"error at {_number(step, '.0e')}" for step in STEPS), "best")
    head = "".join(f'<th class="number">{title}</th>' for title in titles)
    rows = []
    for line in comparisons:
        words = (line.transform, line.name, line.declared.replace("_", " "))
        slopes = (_number(slope, ".5e") for slope in (line.autograd, line.differences))
        errors = (_number(error, ".1e") for error in (*line.errors, line.best))
        verdict = "no" if line.best >= TOLERANCE else "yes" if line.flows else "none"
        cells = [f"<td>{escape(word)}</td>" for word in words]
        cells += [f'<td class="number">{number}</td>' for number in (*slopes, *errors)]
        rows.append(f'<tr>{"".join(cells)}<td class="{verdict}">{_VERDICTS[verdict]}</td></tr>')
    return html_table(
        f"<tr><th>transform</th><th>gradient to</th><th>declared</th>{head}<th>agrees</th></tr>",
        rows,
        extra=f' id="gradients" data-worst="{worst(comparisons):.3e}"',
    )


def html_table(head: str, rows: Iterable[str], extra: str = "") -> str:
    """An HTML table that scrolls if it is too wide; head and rows are HTML."""
    return f'<div class="wide"><table{extra}><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _number(value: float, form: str) -> str:
    """A number with a true minus sign, so that columns line up."""
    return format(value, form).replace("e-0", "e-").replace("e+0", "e+").replace("-", "\N{MINUS SIGN}")

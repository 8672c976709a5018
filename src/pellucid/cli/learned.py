"""The report of ``pellucid learn demo``: one self-contained HTML file.

Owns: the page's facts, table and figures; ``learned.html`` holds the text, ``report.css`` the style.
Must not: train or plot.
Read next: ``report.py``.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.audit.pictures import data_uri
from pellucid.cli.files import facts_list, page, write_bytes
from pellucid.cli.report import html_table

if TYPE_CHECKING:
    from pellucid.learn.demo import Demo

__all__ = ["write_learned"]


def write_learned(path: Path, demo: Demo) -> None:
    """Write the page of a finished demo; the demo's plots must be in the same folder."""
    from pellucid.learn.demo import IMAGES, table

    facts = (
        (str(IMAGES), "training images"),
        (f"{100 * demo.plain:.1f} %", "right without augmentation"),
        (f"{100 * demo.outcome.accuracy:.1f} %", "right with learned ranges"),
        *((f"{t.learned:.1f}", f"degrees, from {t.start:g}; truth {demo.settings.truth:g}") for t in demo.turned),
    )
    rows = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table(demo)]
    starts = [f"{turned.start:g}" for turned in demo.turned]
    plots = {"The digits": "digits", **{f"The rotation, from {start} degrees": f"rotation-from-{start}" for start in starts}}
    content = page(
        "learned",
        facts=facts_list(facts),
        table=html_table("<tr><th>range</th><th>start</th><th>learned</th></tr>", rows),
        figures="\n".join(_figure(title, path.parent / name / "ranges.png") for title, name in plots.items()),
    )
    write_bytes(path, content)


def _figure(title: str, plot: Path) -> str:
    words = "Loss and ranges over the steps; a band reaches from a range's lower to its upper end."
    image = f'<img src="{data_uri(plot.read_bytes())}" alt="{title}: loss and ranges">'
    return f"<section><h2>{title}</h2><p>{words}</p><figure>{image}</figure></section>"

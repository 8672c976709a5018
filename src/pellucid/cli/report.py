"""The demo's report: one HTML file that needs nothing beside it.

Owns: the page's structure and its words.
Must not: compute anything but the formatting of numbers.
Read next: ``report.css``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
import tempfile
from typing import TYPE_CHECKING

import torch

from pellucid._version import __version__
from pellucid.cli.files import write_bytes
from pellucid.cli.gradients import STEPS, Comparison, worst
from pellucid.cli.showcase import Show

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["TOLERANCE", "write_report"]

TOLERANCE = 1e-3
"""The largest relative error, kinks aside, that counts as agreement."""


def write_report(
    path: Path, show: Show, sheet: bytes, gradients: bytes, comparisons: Sequence[Comparison], *, check_size: int, seed: int
) -> None:
    """Write the page. ``sheet`` and ``gradients`` are PNG files."""
    sections = (
        _section("Before and after", _SHEET, _figure(sheet, "Contact sheet of the photographs before and after augmentation")),
        _section("The plan", _PLAN, _plan(show)),
        _section("What was drawn", _DRAWN, _drawn(show)),
        _section("Gradient picture", _PICTURE, _figure(gradients, "Photographs, augmented images and pixel gradients")),
        _section("Gradients against finite differences", _CHECK.format(size=check_size), _comparisons(comparisons)),
    )
    style = files("pellucid.cli").joinpath("report.css").read_text(encoding="utf-8")
    page = _PAGE.format(style=style, facts=_facts(show, comparisons, seed), body="\n".join(sections))
    write_bytes(path, page.encode("utf-8"))


def _facts(show: Show, comparisons: Sequence[Comparison], seed: int) -> str:
    plan = show.records[0].plan
    facts = (
        (str(len(show.names)), "photographs"),
        (f"{len(plan.transforms)} \N{RIGHTWARDS ARROW} {len(plan.groups)}", "transforms \N{RIGHTWARDS ARROW} passes"),
        (str(len(comparisons)), "gradients checked"),
        (_number(worst(comparisons), ".1e"), "worst relative error"),
        (str(seed), "seed"),
        (f"{__version__} / {torch.__version__.split('+')[0]}", "pellucid / torch"),
    )
    return "".join(f"<div><dd>{escape(value)}</dd><dt>{escape(name)}</dt></div>" for value, name in facts)


def _section(title: str, words: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{words}</p>{content}</section>"


def _figure(png: bytes, alternative: str) -> str:
    data = base64.b64encode(png).decode("ascii")
    return f'<figure><img src="data:image/png;base64,{data}" alt="{escape(alternative)}"></figure>'


def _plan(show: Show) -> str:
    flag, more = (pipeline.explain(show.batch["image"]) for pipeline in (show.pipeline, show.extended))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.toml"
        show.pipeline.save(file)
        toml = file.read_text(encoding="utf-8")
    return (
        f"{_listing(flag)}<details><summary>The same with a blur and an erased rectangle</summary>{_listing(more)}</details>"
        f"<details><summary>As a file: <code>pipeline.save(&quot;pipeline.toml&quot;)</code></summary><pre>{escape(toml)}</pre></details>"
    )


def _listing(text: str) -> str:
    """Text line by line, so that a wrapped line hangs under its start."""
    return "<pre>" + "".join(f"<span>{escape(line)}</span>" for line in text.splitlines()) + "</pre>"


def _drawn(show: Show) -> str:
    """One row per drawn value, one column per photograph and draw."""
    records = (*show.records[:-1], show.last)  # the last draw's record holds the flagship's values and the two transforms more
    draws = range(len(records))
    top = "".join(f'<th colspan="{len(records)}" class="group">{escape(name)}</th>' for name in show.names)
    head = "".join(f'<th class="number{_first(d)}">{d + 1}</th>' for _ in show.names for d in draws)
    rows = []
    for index, transform in enumerate(show.last.plan.transforms):
        values = show.last.params[index]
        if values:
            rows.append(f'<tr class="owner"><th colspan="{1 + len(show.names) * len(records)}">[{index}] {type(transform).__name__}</th></tr>')
        for name in values:
            cells = "".join(
                f'<td class="number{_first(d)}">{_cell(records[d].params, index, name, sample)}</td>'
                for sample in range(len(show.names))
                for d in draws
            )
            rows.append(f"<tr><td>{escape(name)}</td>{cells}</tr>")
    return _table(f'<tr><th></th>{top}</tr><tr><th class="corner">draw</th>{head}</tr>', rows)


def _first(draw: int) -> str:
    return " first" if draw == 0 else ""


def _cell(params: Sequence[dict[str, Tensor]], index: int, name: str, sample: int) -> str:
    if index >= len(params):
        return "&ndash;"
    value = params[index][name][sample].detach()
    if name == "gate":
        return "on" if bool(value) else "off"
    if value.dim():
        return "".join(str(number) for number in value.tolist())
    return _number(float(value), ".3f")


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    steps = "".join(f'<th class="number">error at {_number(step, ".0e")}</th>' for step in STEPS)
    head = (
        "<tr><th>transform</th><th>gradient to</th><th>declared</th>"
        f'<th class="number">autograd</th><th class="number">differences</th>{steps}<th class="number">kinks aside</th><th>agrees</th></tr>'
    )
    rows = []
    for line in comparisons:
        agrees = line.beside_kinks < TOLERANCE
        errors = "".join(f'<td class="number">{_number(error, ".1e")}</td>' for error in (*line.errors, line.beside_kinks))
        rows.append(
            f"<tr><td>{escape(line.transform)}</td><td>{escape(line.name)}</td><td>{escape(line.declared.replace('_', ' '))}</td>"
            f'<td class="number">{_number(line.autograd, ".5e")}</td><td class="number">{_number(line.differences, ".5e")}</td>{errors}'
            f'<td class="{"yes" if agrees else "no"}">{"yes" if agrees else "no"}</td></tr>'
        )
    return _table(head, rows, extra=f' id="gradients" data-worst="{worst(comparisons):.3e}"')


def _table(head: str, rows: Iterable[str], extra: str = "") -> str:
    return f'<div class="wide"><table{extra}><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _number(value: float, form: str) -> str:
    """A number with a true minus sign, so that columns line up."""
    return format(value, form).replace("e-0", "e-").replace("e+0", "e+").replace("-", "\N{MINUS SIGN}")


_SHEET = (
    "Photographs from scikit-image with hand-placed targets. Each draw moves the image, its mask, boxes and keypoints through one matrix, so "
    "they cannot drift apart. A box becomes the hull of its mapped corners, cut at the frame. The last column uses the key of the draw "
    "before it: the transforms it adds change no other draw."
)
_PLAN = (
    "Geometry and colour compose before any pixel is read: the whole pipeline is one pass over the image, with one interpolation. "
    "Numbers in brackets are positions in the pipeline."
)
_DRAWN = (
    "One column per photograph and draw. The values depend on the seed, the step and the sample's index alone. <code>order</code> is the order "
    "of brightness, contrast, saturation and hue (0 to 3). Where a gate is off, the transform rests at its identity."
)
_PICTURE = (
    "The loss asks how far augmentation moves an image's features in a small fixed convolutional network. Its gradient runs back through the "
    "network and the pipeline to every pixel of the photograph. Outside the frame that the augmented image shows, only the contrast's pivot, "
    "the photograph's mean colour, still carries a trace."
)
_CHECK = (
    "The same loss, in float64 on {size} x {size} images, differentiated by autograd and by central differences with two steps: for the image "
    "along a random direction, and for every continuous value the pipeline drew. Errors are relative, over all photographs; the two "
    "derivatives shown are the first photograph's. Bilinear interpolation has a kink at every pixel centre, so &ldquo;almost everywhere&rdquo; "
    "gradients agree better as the step shrinks and fewer kinks lie within it. <em>Kinks aside</em>, a sample whose smaller step still crosses one "
    "uses the one-sided difference that does not."
)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Pellucid demo</title>
<style>
{style}</style>
</head>
<body>
<header><h1>Pellucid demo</h1><p>Augmentation and warping that gradients pass through.</p><dl>{facts}</dl></header>
{body}
</body>
</html>
"""

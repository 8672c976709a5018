"""The report as one self-contained HTML page: no scripts, no links, no further files.

Owns: the markup and its style.
Must not: compute anything that the report does not hold.
Read next: ``pictures.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from pellucid.audit.finding import Finding, Measure, Severity
from pellucid.audit.pictures import STATES, agreement_plot, data_uri, heat, states

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light; --ink: #1c2430; --soft: #5b6675; --line: #dfe3e8; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
.soft, .axis { color: var(--soft); fill: var(--soft); } .summary { margin: .3rem 0 0; }
.finding { border: 1px solid var(--line); border-left: 6px solid #8a95a3; border-radius: 6px; }
.finding { padding: .6rem .9rem; margin: .6rem 0; }
.finding.error { border-left-color: #ce2232; } .finding.warning { border-left-color: #e09a15; }
.finding p { margin: .2rem 0; } .tag { font-weight: 650; } .advice::before { content: "\\2192\\00a0"; }
code { font: 13px ui-monospace, monospace; background: #f3f5f7; padding: .05rem .3rem; border-radius: 4px; }
p code { overflow-wrap: anywhere; } td code { white-space: nowrap; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.leaf { display: flex; flex-wrap: wrap; gap: 1.2rem; align-items: flex-start; margin: .6rem 0 1.6rem; }
figure { margin: 0; } figcaption { font-size: 13px; color: var(--soft); margin-top: .3rem; max-width: 17rem; }
figure img { image-rendering: pixelated; border: 1px solid var(--line); background: #fff; }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .7em; border: 1px solid #0003; vertical-align: -1px; }
.frame { fill: #fafbfc; stroke: var(--line); } .diagonal { stroke: #8a95a3; stroke-dasharray: 4 3; }
.good { fill: #2670c4; } .bad { fill: #ce2232; } .axis { font-size: 11px; text-anchor: middle; }
"""


def page(name: str, findings: Sequence[Finding], measures: Mapping[str, Measure], details: str) -> str:
    """Return the whole page as HTML.

    Args:
        name: the name of the audited callable.
        findings: in the order in which they are shown.
        measures: of each input and parameter.
        details: the time it took, the further conditions, and the versions, in words.
    """
    counts = {s: sum(f.severity == s for f in findings) for s in reversed(Severity)}
    verdict = ", ".join(f"{n} {s.label}{'s' if n != 1 else ''}" for s, n in counts.items()) or "nothing found"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Gradient audit: {escape(name)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Gradient audit of <code>{escape(name)}</code></h1>",
        f'<p class="summary">{verdict} <span class="soft">{escape(details)}</span></p>',
        "<h2>Findings</h2>",
        *(_finding(f) for f in findings),
    ]
    if not findings:
        parts.append("<p>Nothing found.</p>")
    if measures:
        parts += ["<h2>Inputs and parameters</h2>", _table(measures)]
        parts += ["<h2>The gradient of each element</h2>", _legend()]
        parts += [_leaf(name, m) for name, m in measures.items()]
    return "\n".join([*parts, "</body></html>", ""])


def _finding(finding: Finding) -> str:
    numbers = " ".join(f"<code>{escape(k)} = {escape(_number(v))}</code>" for k, v in finding.evidence.items() if v != "")
    advice = f'<p class="advice">{escape(finding.advice)}</p>' if finding.advice else ""
    place = f" at <code>{escape(finding.place)}</code>" if finding.place else ""
    return (
        f'<div class="finding {finding.severity.label}"><p><span class="tag">{finding.severity.label}: {finding.category}</span>'
        f" in <code>{escape(finding.subject)}</code>{place}</p><p>{escape(finding.message)}</p>"
        f"<p>{numbers}</p>{advice}</div>"
    )


def _table(measures: Mapping[str, Measure]) -> str:
    modes = list(dict.fromkeys(mode for m in measures.values() for mode in m.modes))
    head = "".join(
        f"<th>{escape(h)}</th>"
        for h in ["name", "kind", "shape", "gradient", "seen", "reachable", "antialiased", "error", "checked in", *modes]
    )
    rows = []
    for name, m in measures.items():
        cells = f"<td><code>{escape(name)}</code></td><td>{m.kind}</td><td>{' × '.join(map(str, m.shape)) or 'scalar'}</td>"
        counts = zip((m.seen, m.reachable, m.antialiased), m.shares, strict=True)
        figures = ["" if share is None else f"{count} ({100 * share:.1f} %)" for count, share in counts]
        cells += f"<td>{m.gradient}</td>" + "".join(f'<td class="number">{cell}</td>' for cell in (*figures, f"{m.error:.1e}"))
        cells += f"<td>{m.precision} to {m.tolerance:.0e}</td>" if m.precision else "<td></td>"
        words = "".join(f"<td>{m.modes.get(mode, '')}</td>" for mode in modes)
        rows.append(f"<tr>{cells}{words}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _legend() -> str:
    keys = "".join(f'<span class="key" style="background: rgb{colour}"></span>{name}' for name, colour in STATES)
    return f'<p class="soft">Samples side by side, channels below one another. Elements:{keys}</p>'


def _leaf(name: str, measure: Measure) -> str:
    figures = []
    if measure.magnitude is not None and measure.magnitude.size > 1:
        top = float(measure.magnitude.max())
        figures.append(_figure(heat(measure.magnitude), f"Gradient magnitude: four decades up to {top:.3g}; grey is exactly zero."))
    if measure.state is not None and measure.state.size > 1:
        live = float((measure.state == 2).mean())
        figures.append(_figure(states(measure.state), f"Dead zones: {100 * live:.1f} % of the elements are live."))
    if measure.pairs:
        caption = "Directional derivatives: on the diagonal, autograd and finite differences agree."
        figures.append(f"<figure>{agreement_plot(measure.pairs)}<figcaption>{caption}</figcaption></figure>")
    return f'<h3><code>{escape(name)}</code></h3><div class="leaf">{"".join(figures)}</div>'


def _figure(png: bytes, caption: str) -> str:
    width = min(256, 16 * int.from_bytes(png[16:20], "big"))  # the header's width field
    image = f'<img alt="{escape(caption)}" style="width: {width}px" src="{data_uri(png)}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

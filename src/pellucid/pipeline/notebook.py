"""Show records and pipelines in a notebook, and a record in one line of text.

Owns: the HTML and the short text of drawn values.
Must not: draw pictures; ``figures.py`` does.
Read next: ``records.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from torch import Tensor

__all__ = ["pipeline_html", "record_html", "record_text"]

_SAMPLES = 6
_NAMES = 8


def record_text(record: Any) -> str:
    """Describe a record in one line: the number of samples, the passes, the sizes, and the names of the drawn values."""
    plans = tuple(dict.fromkeys(record.plans)) if hasattr(record, "plans") else (record.plan,)
    names = [f"{i}.{name}" for i, values in enumerate(record.params) for name in values]
    drawn = ", ".join([*names[:_NAMES], *(["..."] if len(names) > _NAMES else [])]) or "nothing"
    sizes = ", ".join(dict.fromkeys(f"{_size(plan.size_in)} -> {_size(plan.size_out)}" for plan in plans[:3]))
    more = ", ..." if len(plans) > 3 else ""
    return f"{type(record).__name__}({len(record)} samples, {plans[0] if plans else 'no plan'}, {sizes}{more}, drew {drawn})"


def record_html(record: Any) -> str:
    """Show a record as a table: a row for each drawn value, a column for each of the first samples."""
    plans = record.plans if hasattr(record, "plans") else (record.plan,)
    steps = plans[0].steps if plans else ()
    shown = min(len(record), _SAMPLES)
    head = ["transform", "drawn", *(f"sample {i}" for i in range(shown))]
    rows = [
        [f"[{i}] {type(step.transform).__name__}", name, *(_number(value[sample]) for sample in range(shown))]
        for i, (step, values) in enumerate(zip(steps, record.params, strict=True))
        for name, value in values.items()
    ]
    left = len(record) - shown
    note = f"<p>and {left} more samples</p>" if left else ""
    return f"<p><code>{escape(record_text(record))}</code></p>{_table(head, rows)}{note}"


def pipeline_html(pipeline: Any) -> str:
    """Show a pipeline as a table of its transforms and their declared gradients."""
    rows = [
        [str(i), str(transform), ", ".join(dict.fromkeys(kind.replace("_", " ") for kind in transform.gradients.values()))]
        for i, transform in enumerate(pipeline.transforms)
    ]
    learned = pipeline.ranges_text() if not pipeline.learned.predicts else ""
    note = f"<pre>{escape(learned)}</pre>" if learned else ""
    return f"<p><b>Pipeline</b>, step {pipeline.step}</p>{_table(['', 'transform', 'gradients'], rows)}{note}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _size(size: Sequence[int]) -> str:
    return " x ".join(map(str, size))


def _number(value: Tensor) -> str:
    numbers = value.detach().flatten().tolist()
    text = ", ".join(f"{number:.4g}" for number in numbers[:4])
    return f"{text}, ..." if len(numbers) > 4 else text

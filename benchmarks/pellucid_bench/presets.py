"""The table of presets in docs/presets.md; ``main`` writes it.

Owns: its form.
Must not: say what no preset's file says.
Read next: ``documents.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pellucid import presets

__all__ = ["END", "START", "TARGET", "main", "table"]

TARGET = Path(__file__).parents[2] / "docs" / "presets.md"
START, END = "<!-- presets -->", "<!-- /presets -->"


def table() -> str:
    """All presets, in Markdown."""
    lines = ["| name | options | from | what differs |", "|---|---|---|---|"]
    for name in presets.names():
        preset = presets.about(name)
        options = ", ".join(f"`{option}={_shown(value)}`" for option, value in preset.options.items())
        lines.append(f"| `{name}` | {options} | {preset.source} | {' '.join(preset.differs)} |")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        kind = next(value[key] for key in ("name", "policy", "distribution") if key in value)
        inner = ", ".join(f"{key}={_shown(one)}" for key, one in value.items() if key not in ("name", "policy", "distribution"))
        return f"{kind}({inner})"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def main() -> None:
    """Write the table into the page."""
    head, _, rest = TARGET.read_text(encoding="utf-8").partition(START)
    _, _, tail = rest.partition(END)
    TARGET.write_text(f"{head}{START}\n{table()}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Curves of a log as a picture.

Owns: the plot of columns over steps.
Must not: import matplotlib before a picture is wanted.
Read next: ``log.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pellucid.core.files import written
from pellucid.errors import needs
from pellucid.training.log import read_log

__all__ = ["plot_curves"]


def plot_curves(
    log: str | os.PathLike[str] | Mapping[str, Sequence[float]],
    picture: str | os.PathLike[str],
    *,
    panels: Mapping[str, Sequence[str]] | None = None,
    bands: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    units: Mapping[str, str] | None = None,
    title: str = "",
) -> Path:
    """Plot columns over ``step`` into a PNG, one panel per title.

    Args:
        log: a CSV file of :class:`CsvLog`, or its columns.
        picture: the PNG to write.
        panels: panel title -> columns drawn as lines; by default one panel per column.
        bands: panel title -> (low, high) pairs of columns drawn as a filled band: a range over time.
        units: panel title -> the unit of its vertical axis, such as ``"degrees"``.
        title: of the figure.
    """
    with needs("A figure of curves", "'pellucid[demo]'"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    columns = dict(log) if isinstance(log, Mapping) else read_log(log)
    steps = columns.get("step", [])
    bands = dict(bands or {})
    shown = dict(panels) if panels is not None else {name: (name,) for name in columns if name != "step"}
    names = list(dict.fromkeys((*shown, *bands)))
    across = min(3, max(1, len(names)))
    down = -(-max(1, len(names)) // across)
    figure = Figure(figsize=(4.2 * across, 2.8 * down), layout="constrained")
    FigureCanvasAgg(figure)
    for i, name in enumerate(names):
        axes = figure.add_subplot(down, across, i + 1)
        for j, (low, high) in enumerate(bands.get(name, ())):
            axes.fill_between(steps, columns[low], columns[high], alpha=0.25, color=f"C{j}", linewidth=0)
            for end in (low, high):
                axes.plot(steps, columns[end], color=f"C{j}", linewidth=1.2)
        for column in shown.get(name, ()):
            axes.plot(steps, columns[column], linewidth=1.2, label=column)
        if len(shown.get(name, ())) > 1:
            axes.legend(fontsize=7, frameon=False)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("step", fontsize=8)
        axes.set_ylabel((units or {}).get(name, ""), fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(visible=True, alpha=0.25)
    if title:
        figure.suptitle(title, fontsize=10)
    return written(picture, lambda draft: figure.savefig(draft, dpi=110, format="png"))

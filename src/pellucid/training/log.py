"""The log of a run: one CSV row per logged step, and its curves as a picture.

Owns: the file, cutting it back to the step at which a run resumes, and the plot of columns over steps.
Must not: average or smooth; import matplotlib before a plot is made.
Read next: ``loop.py``.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

from pellucid.core.files import whole, written
from pellucid.errors import invalid, needs

__all__ = ["CsvLog", "plot_curves", "read_log"]


class CsvLog:
    """Append rows of numbers under one header; the first column is ``step``.

    Args:
        path: the file. Its rows up to step ``resume_at`` are kept, and later rows dropped, so that a resumed run leaves the same
            log as an uninterrupted one. A new run renames an existing file to the next free name (``log-1.csv``), with a
            warning.
        resume_at: how many steps are done.

    Errors:
        ``InvalidArgument`` if a run resumes and the file is no log.

    Example:
        >>> import tempfile
        >>> from pellucid.training import CsvLog, read_log
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CsvLog(f"{folder}/log.csv").write(0, {"loss": 0.5})
        ...     read_log(f"{folder}/log.csv")
        {'step': [0.0], 'loss': [0.5]}
    """

    def __init__(self, path: str | os.PathLike[str], *, resume_at: int = 0) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._columns: list[str] | None = None
        kept = read_log(self.path) if resume_at and self.path.exists() else {}
        if not kept:
            _put_aside(self.path)
            return
        if next(iter(kept)) != "step":
            raise invalid(str(self.path), expected="the log of a run, whose first column is 'step'", got=repr(next(iter(kept))))
        self._columns = list(kept)
        rows = [row for row in zip(*kept.values(), strict=True) if row[0] <= resume_at]
        with whole(self.path) as draft, draft.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self._columns)
            writer.writerows((int(row[0]), *map(repr, row[1:])) for row in rows)

    def write(self, step: int, numbers: Mapping[str, float]) -> None:
        """Add one row; later rows must have the columns of the first.

        Args:
            step: the number in the first column.
            numbers: the rest of the row, by column.

        Errors:
            ValueError for other columns than those of the first row.
        """
        columns = ["step", *numbers]
        if self._columns is None:
            self._columns = columns
            with self.path.open("w", newline="") as file:
                csv.writer(file).writerow(columns)
        if columns != self._columns:
            raise ValueError(
                f"This log has the columns {self._columns}, the row has {columns}. Log the same numbers at every step."
            )
        with self.path.open("a", newline="") as file:
            csv.writer(file).writerow((step, *(repr(float(number)) for number in numbers.values())))


def read_log(path: str | os.PathLike[str]) -> dict[str, list[float]]:
    """Return the columns of a log by name. An incomplete last line, left by a kill, is ignored.

    Args:
        path: the file.

    Errors:
        ``InvalidArgument`` for a file that is no table of numbers.

    Example:
        >>> import tempfile
        >>> from pellucid.training import CsvLog, read_log
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     CsvLog(f"{folder}/log.csv").write(0, {"loss": 0.5})
        ...     read_log(f"{folder}/log.csv")["loss"]
        [0.5]
    """
    try:
        with Path(path).open(newline="") as file:
            rows = list(csv.reader(file))
        if not rows:
            return {}
        header, *body = rows
        complete = [row for row in body if len(row) == len(header)]
        return {name: [float(row[i]) for row in complete] for i, name in enumerate(header)}
    except (ValueError, csv.Error) as error:
        raise invalid(str(path), expected="the log of a run: a CSV file of numbers under one header", got=str(error)) from error


def _put_aside(path: Path) -> None:
    if not path.exists():
        return
    free = next(other for i in count(1) if not (other := path.with_stem(f"{path.stem}-{i}")).exists())
    path.rename(free)
    warnings.warn(f"{path} was there without a checkpoint to go on from; it is kept as {free.name}.", stacklevel=4)


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
        title: the figure's title.
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

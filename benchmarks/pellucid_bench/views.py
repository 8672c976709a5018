"""``pellucid study views``: what the examples of views reach, over seeds.

Owns: which of their numbers are compared, the table and the picture.
Must not: train; the files in ``examples/views`` do.
Read next: ``studies.py``.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeAlias

from pellucid_bench.plot import pyplot

__all__ = ["COMPARED", "as_markdown", "draw", "run_study"]

Row: TypeAlias = dict[str, Any]

COMPARED: dict[str, tuple[str, str, str]] = {
    "simclr": ("before", "after", "nearest neighbour, random weights and SimCLR"),
    "dino": ("before", "after", "nearest neighbour, random weights and DINO"),
    "fixmatch": ("labels", "fixmatch", "accuracy, 40 labels alone and FixMatch"),
    "dense": ("before", "after", "cells that find their own, random weights and dense correspondence"),
    "segment_tta": ("alone", "views", "IoU, one view and four merged"),
}
"""Of each example the two numbers that are compared, and what they are."""
FOLDER = Path(__file__).parents[2] / "examples" / "views"


def run_study(*, seeds: int, quick: bool, say: Callable[[str], None]) -> list[Row]:
    """Run every example for each seed, at its own settings."""
    rows: list[Row] = []
    with _examples() as load:
        for name, (before, after, _) in COMPARED.items():
            for seed in range(seeds):
                began, used = time.perf_counter(), time.process_time()
                found = load(name).main(seed=seed, **({"steps": 2} if quick else {}))
                seconds = {"seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(time.process_time() - used, 1)}
                rows.append({"example": name, "seed": seed, "without": found[before], "with": found[after], **seconds})
                say(f"{name}, seed {seed}: {found[before]:.3f} and {found[after]:.3f}")
    return rows


@contextmanager
def _examples() -> Iterator[Callable[[str], Any]]:
    """Import the examples as files, and forget them."""
    kept = sys.path.copy()
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module
    finally:
        sys.path[:] = kept
        for name in (*COMPARED, "tasks"):
            sys.modules.pop(name, None)


def as_markdown(rows: Sequence[Row]) -> str:
    """A table: means over seeds, the gain of each seed, and the time of a run."""
    lines = ["| what | without, % | with, % | gain by seed | mean gain ± deviation | CPU s a run |", "|---|---|---|---|---|---|"]
    for name, (_, _, what) in COMPARED.items():
        mine = [row for row in rows if row["example"] == name]
        gains = [100 * (row["with"] - row["without"]) for row in mine]
        spread = f" ± {stdev(gains):.1f}" if len(gains) > 1 else ""
        lines.append(
            f"| {what} | {100 * mean(row['without'] for row in mine):.1f} | {100 * mean(row['with'] for row in mine):.1f} "
            f"| {', '.join(f'{gain:+.1f}' for gain in gains)} | {mean(gains):+.1f}{spread} "
            f"| {mean(row['cpu_seconds'] for row in mine):.0f} |"
        )
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """For each example a line from without to with, a seed each."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7, 3.5))
    for at, name in enumerate(COMPARED):
        for row in (row for row in rows if row["example"] == name):
            axis.plot([at - 0.2, at + 0.2], [100 * row["without"], 100 * row["with"]], "o-", color=f"C{at}", alpha=0.7)
    axis.set_xticks(range(len(COMPARED)), list(COMPARED))
    axis.set(ylabel="%", title="without (left) and with (right), for each seed")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)

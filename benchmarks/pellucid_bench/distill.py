"""``pellucid study distill``: pictures learned from a data set by matching features, by how both sides are augmented.

Owns: the arms, the table and the picture.
Must not: distil; ``examples/distill.py`` does.
Read next: ``siamese.py``, ``runs.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from pellucid_bench.plot import pyplot
from pellucid_bench.runs import Row, each, example
from pellucid_bench.siamese import siamese

__all__ = ["NAMES", "as_markdown", "draw", "read", "run"]

NAMES = {
    "start": "not learned: real pictures, by chance",
    "nothing": "nothing",
    "independent": "a draw for each picture",
    "siamese": "a draw for each class",
    "paper": "the same, by the paper's operations",
}
TRAINED = ("with draws", "without draws")


def read() -> Any:
    """The data that ``examples/distill.py`` finds."""
    return example("distill").read()


def run(data: Any, arm: str, seed: int, *, quick: bool = False) -> Row:
    """One row; the arm is a name and, after a blank, how many pictures a class gets."""
    made = example("distill")
    name, images = arm.split()
    both = made.draws("nothing" if name in ("start", "paper") else name, data.classes, seed)
    if name == "paper":
        both = partial(siamese, classes=data.classes, seed=seed)
    steps = 0 if name == "start" else 2 if quick else made.STEPS.get(int(images), 100)
    found: Row = made.measure(data, both, int(images), steps, seed, learning=3 if quick else 200)
    return found


def as_markdown(rows: Sequence[Row]) -> str:
    """A table: the mean over seeds, and each."""
    lines = [
        "| per class | both go through | seeds | learned from with draws, % | without draws, % |",
        "|---|---|---|---|---|",
    ]
    for arm in sorted({row["arm"] for row in rows}, key=_place):
        mine = [row for row in rows if row["arm"] == arm]
        name, images = arm.split()
        found = " | ".join(each([100 * row[trained] for row in mine]) for trained in TRAINED)
        lines.append(f"| {images} | {NAMES[name]} | {len(mine)} | {found} |")
    return "\n".join(lines) + "\n"


def _place(arm: str) -> tuple[int, int]:
    name, images = arm.split()
    return int(images), list(NAMES).index(name)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Accuracy of networks that learned with draws, a point for each seed and a bar at the mean."""
    plt = pyplot()
    sizes = sorted({int(row["arm"].split()[1]) for row in rows})
    figure, axes = plt.subplots(1, len(sizes), figsize=(4.5 * len(sizes), 3.2), squeeze=False, layout="constrained")
    for axis, images in zip(axes[0], sizes, strict=True):
        for place, name in enumerate(NAMES):
            found = [100 * row["with draws"] for row in rows if row["arm"] == f"{name} {images}"]
            axis.plot(found, [place] * len(found), "o", color=f"C{place}", markersize=4)
            axis.plot([mean(found)] if found else [], [place] * bool(found), "|", color=f"C{place}", markersize=18)
        axis.set(title=f"{images} per class", xlabel="accuracy, %", yticks=range(len(NAMES)), ylim=(len(NAMES) - 0.5, -0.5))
        axis.set_yticklabels(NAMES.values() if axis is axes[0][0] else [])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)

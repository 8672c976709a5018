"""``pellucid study watermark``: what a watermark survives that was trained through distortions, by the gradient of JPEG.

Owns: the table and the picture.
Must not: train or test; ``examples/watermark.py`` does.
Read next: ``runs.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from pellucid_bench.plot import pyplot
from pellucid_bench.runs import Row, each

__all__ = ["NAMES", "TESTS", "as_markdown", "draw"]

NAMES = {
    "nothing": "nothing",
    "none": "distortions, JPEG without a gradient",
    "straight_through": "distortions, JPEG straight through",
    "proximity": "distortions, JPEG by its declared surrogate",
}
TESTS = ("as it is", "JPEG 50", "rotation", "crop, rotation, JPEG 70")


LOOKS = {"one look: ": "once", "": "30 times"}
"""Prefix of a result, and how often the decoder looks for it."""


def as_markdown(rows: Sequence[Row]) -> str:
    """A table: the mean over seeds, and each."""
    lines = [f"| trained through | looks | seeds | PSNR, dB | {' | '.join(TESTS)} |", f"|{'---|' * (4 + len(TESTS))}"]
    for prefix, looks in LOOKS.items():
        for arm in _arms(rows):
            mine = [row for row in rows if row["arm"] == arm]
            found = " | ".join(each([row[prefix + name] for row in mine], ".3f") for name in TESTS)
            lines.append(f"| {NAMES[arm]} | {looks} | {len(mine)} | {mean(row['PSNR'] for row in mine):.2f} | {found} |")
    return "\n".join(lines) + "\n"


def _arms(rows: Sequence[Row]) -> list[str]:
    return [arm for arm in NAMES if any(row["arm"] == arm for row in rows)]


def draw(rows: Sequence[Row], path: Path) -> None:
    """Bit accuracy after each distortion, a point for each seed, empty for one look."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7, 3.6))
    for number, arm in enumerate(_arms(rows)):
        for row in rows:
            if row["arm"] == arm:
                places = [at + 0.12 * number for at in range(len(TESTS))]
                for prefix in LOOKS:
                    look = {"color": f"C{number}", "fillstyle": "none" if prefix else "full"}
                    named = NAMES[arm] if row["seed"] == 0 and not prefix else None
                    axis.plot(places, [row[prefix + name] for name in TESTS], "o", label=named, **look)
    axis.axhline(0.5, color="0.6", linestyle=":")
    axis.set(xticks=range(len(TESTS)), xticklabels=TESTS, ylabel="bit accuracy")
    axis.legend(fontsize=7, loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)

"""The tables of the study, from its rows alone.

Owns: what is compared with what, and the sentences that follow from the numbers.
Must not: run anything, or leave a figure out because it is not flattering.
Read next: ``run.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean, median, stdev

from pellucid_bench.learned.arms import ARMS
from pellucid_bench.plot import pyplot
from pellucid_bench.runs import Row

__all__ = ["as_markdown", "difference", "draw", "equal_cost"]

_COLUMNS = "| | seeds | accuracy, % | against RandAugment, equal steps | CPU of RandAugment's | against RandAugment, equal CPU |"
_CURVE = {"random": 1.0, "random15": 1.5, "random20": 2.0}
"""RandAugment with more steps: what its time would have bought."""
_BY_STEPS, _BY_CPU = 0.5, 0.3
"""Points that an arm is to win."""

Cell = Mapping[str, Mapping[int, Row]]
"""Rows of one data set, size and number of steps: by arm and seed."""


def cells(rows: Sequence[Row]) -> dict[tuple[str, int, int], dict[str, dict[int, Row]]]:
    """By (data, images, steps), in the order of data, steps and sizes."""
    found: dict[tuple[str, int, int], dict[str, dict[int, Row]]] = {}
    for row in rows:
        *data, images, steps, arm = row["arm"].split()
        found.setdefault((" ".join(data), int(images), int(steps)), {}).setdefault(arm, {})[row["seed"]] = row
    return dict(sorted(found.items(), key=lambda item: (item[0][0], item[0][2], item[0][1])))


def difference(pairs: Sequence[tuple[float, float]]) -> tuple[float, float | None]:
    """Mean difference in points, and its standard error where there are two pairs."""
    each = [100 * (one - other) for one, other in pairs]
    return mean(each), stdev(each) / sqrt(len(each)) if len(each) > 1 else None


def cost(cell: Cell, arm: str) -> float:
    """CPU seconds of an arm, search included, as a multiple of RandAugment's in the same hour; the median. Rows that do not know
    that are compared with RandAugment's of the same seed.
    """
    both = cell[arm].keys() & cell["random"].keys()
    units = {seed: cell[arm][seed].get("random_seconds", cell["random"][seed]["cpu_seconds"]) for seed in both}
    return median(cell[arm][seed]["cpu_seconds"] / units[seed] for seed in both)


def equal_cost(cell: Cell, arm: str) -> list[tuple[float, float]]:
    """An arm's accuracies, each beside RandAugment's of its seed after as much time, between 1, 1.5 and 2 times the steps.

    An arm that costs less than RandAugment is compared with RandAugment, one that costs more than its longest runs with these.
    """
    names = [name for name in _CURVE if name in cell]
    if len(names) < 2:
        return []
    common = set(cell[arm]) & set(cell["random"]) & set(cell[names[-1]])
    names = [name for name in names if common <= cell[name].keys()]  # one with fewer seeds would cost the others theirs
    if not common or names[0] != "random":
        return []
    seeds = sorted(common)
    at = min(max(cost(cell, arm), 1.0), _CURVE[names[-1]])
    high = next(name for name in names[1:] if at <= _CURVE[name])
    low = names[names.index(high) - 1]
    share = (at - _CURVE[low]) / (_CURVE[high] - _CURVE[low])

    def other(seed: int) -> float:
        less, more = (cell[name][seed]["accuracy"] for name in (low, high))
        return float(less + share * (more - less))

    return [(cell[arm][seed]["accuracy"], other(seed)) for seed in seeds]


def as_markdown(rows: Sequence[Row]) -> str:
    """A table for each data set, size and number of steps, and who wins."""
    lines, won = [], []
    for (data, images, steps), cell in cells(rows).items():
        lines += [f"### {data}: {images:,} images, {steps:,} steps", "", _COLUMNS, "|---|---|---|---|---|---|"]
        for arm in [name for name in ARMS if name in cell] + [name for name in cell if name not in ARMS]:
            by_steps, by_cpu = _pairs(cell, arm), [] if arm in _CURVE else equal_cost(cell, arm)
            values = [100 * row["accuracy"] for row in cell[arm].values()]
            spread = f" ± {stdev(values) / sqrt(len(values)):.2f}" if len(values) > 1 else ""
            figures = [
                f"{mean(values):.2f}{spread}",
                _signed(by_steps),
                f"{cost(cell, arm):.2f}" if by_steps else "",
                _signed(by_cpu),
            ]
            lines.append(f"| {_title(arm)} | {len(values)} | {' | '.join(figures)} |")
            if arm in ARMS and not ARMS[arm].fixed and _wins(by_steps, _BY_STEPS) and _wins(by_cpu, _BY_CPU):
                won.append(f"{_title(arm)} ({data}, {images:,} images, {steps:,} steps)")
        lines.append("")
    lines.append(
        f"At least {_BY_STEPS} points at equal steps and {_BY_CPU} at equal CPU, each with a standard error of at most a third:"
    )
    lines.append(f"{'; '.join(won) or 'none'}.")
    return "\n".join(lines) + "\n"


def _title(arm: str) -> str:
    return ARMS[arm].title if arm in ARMS else arm.replace("_", " ")


def _pairs(cell: Cell, arm: str) -> list[tuple[float, float]]:
    if arm == "random" or "random" not in cell:
        return []
    seeds = sorted(cell[arm].keys() & cell["random"].keys())
    return [(cell[arm][seed]["accuracy"], cell["random"][seed]["accuracy"]) for seed in seeds]


def _signed(pairs: Sequence[tuple[float, float]]) -> str:
    if not pairs:
        return ""
    by, error = difference(pairs)
    return f"{by:+.2f}" if error is None else f"{by:+.2f} ± {error:.2f}"


def _wins(pairs: Sequence[tuple[float, float]], least: float) -> bool:
    by, error = difference(pairs) if len(pairs) > 1 else (0.0, None)
    return error is not None and by >= least and 3 * error <= by


def draw(rows: Sequence[Row], path: Path) -> None:
    """Differences from RandAugment of the same seed, a dot for each and a bar at the mean; a panel for each table with seeds."""
    plt = pyplot()
    shown = {key: cell for key, cell in cells(rows).items() if len(cell.get("random", ())) > 1 and "floats" not in key[0]}
    if not shown:
        return
    figure, axes = plt.subplots(1, len(shown), figsize=(2.6 * len(shown) + 3, 5), squeeze=False, layout="constrained")
    names = [name for name in ARMS if name != "random" and any(name in cell for cell in shown.values())]
    for axis, ((data, images, steps), cell) in zip(axes[0], shown.items(), strict=True):
        for place, arm in enumerate(names):
            found = [100 * (one - other) for one, other in _pairs(cell, arm)] if arm in cell else []
            axis.plot(found, [place] * len(found), "o", color=f"C{place}", markersize=3)
            axis.plot([mean(found)] if found else [], [place] * bool(found), "|", color=f"C{place}", markersize=16)
        axis.axvline(0.0, color="0.6", linewidth=0.8)
        axis.set(title=f"{data}\n{images:,} images, {steps:,} steps", xlabel="points", ylim=(len(names) - 0.5, -0.5))
        axis.set_yticks(range(len(names)), [ARMS[name].title for name in names] if axis is axes[0][0] else [""] * len(names))
        axis.title.set_fontsize(8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)

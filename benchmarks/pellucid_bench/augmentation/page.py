"""The study as a page: tables with mean and deviation, the comparison that was asked for, and a picture.

Owns: every sentence of the generated page.
Must not: run anything, or leave a figure out because it is not flattering.
Read next: ``run.py``.
"""

from __future__ import annotations

import math
import platform
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid._version import __version__
from pellucid_bench.augmentation.arms import OPERATIONS
from pellucid_bench.augmentation.run import ARMS, DRAWS

__all__ = ["draw_study", "study_page", "verdict"]

_FIXED = ("none", "mild", "hand", "trivial", "random")
_LEARNERS = ("ranges", "choices", "policy")

_INTRODUCTION = """*Written by `{command}`, which measured every figure below. pellucid {version}, torch {torch}, {machine},
one thread.*

`{data}`: {sizes} training images, {seeds}. A seed draws the training images, the initial weights and the augmentations;
the arms share it, so they can be compared in pairs. The same network (29,000 parameters) and the same budget everywhere:
{steps:,} AdamW steps of {batch} images, learning rate {rate:g} to 0 along half a cosine.{search} Judged on {judged}."""

_FAIRNESS = """The best is chosen with hindsight, by its mean on the very images it is judged on, among all arms that learn nothing:
a comparison that favours these. "Within noise" means that the mean difference of pairs is smaller than twice its standard error,
which one seed does not have."""

_LEARNED = {
    "ranges": """Mean and standard deviation over seeds. Every range starts at a fortieth of its reach and grows until
widening it costs more than the reward for spreading pays.""",
    "choices": """The probability of each operation, mean and standard deviation over seeds. All start equal; the weights
move by the score of what was drawn (REINFORCE), against the training loss and for entropy.""",
}

_CHOSEN = """The reward for entropy, {entropy:g} nats of loss per nat, and that of policies and choices,
{policy_entropy:g}, were chosen on scikit-learn's digits ([ADR 10](adr/0010-learning-recipes.md)) and
kept. While the method was developed, it was also run on held-out *training* images of Fashion-MNIST; the
test set was read by this study alone."""


def study_page(results: Sequence[dict[str, Any]], *, data: str, command: str, picture: str) -> str:
    """The Markdown of the page: what the results say of themselves, and nothing else."""
    sizes = sorted({r["about"]["images"] for r in results})
    seeds = len({r["about"]["seed"] for r in results})
    arms = [arm for arm in ARMS if any(r["about"]["arm"] == arm for r in results)]
    about = results[0]["about"]
    judged, held = "the whole test set, without augmentation at test time", about["held_out"]
    search = f" The policy search spends {about['search_steps']} steps of its own before that." if "policy" in arms else ""
    introduction = _INTRODUCTION.format(
        command=command,
        version=__version__,
        torch=torch.__version__,
        machine=platform.machine(),
        data=data,
        sizes=_listed([f"{n:,}" for n in sizes]),
        seeds=f"{seeds} seeds" if seeds > 1 else "one seed, so no deviation",
        search=search,
        judged=f"{held:,} held-out training images" if held else judged,
        **{name: about[name] for name in ("steps", "batch", "rate")},
    )
    head = " | ".join(f"{n:,} images" for n in sizes)
    lines = ["# Learned augmentation on real data", "", _flowed(introduction), "", "## Accuracy (%)", ""]
    lines += [
        "Mean and standard deviation over seeds.",
        "",
        f"| | {head} | CPU seconds per run |",
        "|---|" + "---|" * (len(sizes) + 1),
    ]
    for arm in arms:
        cells = [_mean(_column(results, arm, n, "accuracy"), 100.0) for n in sizes]
        seconds = [r["cpu_seconds"] for r in results if r["about"]["arm"] == arm]
        searched = [r["search_cpu_seconds"] for r in results if r["about"]["arm"] == arm]
        cost = f"{statistics.median(seconds):.0f}" + (f" + {statistics.median(searched):.0f} (search)" if arm == "policy" else "")
        lines.append(f"| {ARMS[arm]} | {' | '.join(cells)} | {cost} |")
    if "ranges" in arms:
        cells = [_mean(_column(results, "ranges", n, "accuracy_over_draws"), 100.0) for n in sizes]
        lines.append(f"| learned ranges, class probabilities averaged over {DRAWS} draws at test time | {' | '.join(cells)} | |")
    lines += ["", f"![Accuracy of every run]({picture})", ""]
    lines += ["## Differences, seed by seed (points)", "", "Mean difference of pairs and its standard error.", ""]
    lines += [f"| | against | {head} |", "|---|---|" + "---|" * len(sizes)]
    for ours, theirs in _pairs(arms):
        cells = [_signed(*_difference(results, ours, theirs, n)) for n in sizes]
        lines.append(f"| {ARMS[ours]} | {ARMS[theirs]} | {' | '.join(cells)} |")
    learners = [arm for arm in _LEARNERS if arm in arms]
    if learners and any(arm in arms for arm in _FIXED):
        lines += ["", "## Is what is learned as good as the best that is not?", ""]
        lines += [verdict(results, n, arm) for arm in learners for n in sizes]
        lines += ["", _flowed(_FAIRNESS)]
    for arm in ("ranges", "choices"):
        if arm in arms:
            title = "The learned ranges" if arm == "ranges" else "The learned choices"
            lines += ["", f"## {title}", "", _flowed(_LEARNED[arm]), "", f"| | {head} |", "|---|" + "---|" * len(sizes)]
            lines += _learned_rows([r for r in results if r["about"]["arm"] == arm], sizes)
    return "\n".join([*lines, "", "## How the hyperparameters were chosen", "", _flowed(_CHOSEN.format(**about)), ""])


def _pairs(arms: Sequence[str]) -> list[tuple[str, str]]:
    """What is compared: every other arm with no augmentation, and what is learned with all."""
    others = [(arm, "none") for arm in arms if arm not in ("none", *_LEARNERS) and "none" in arms]
    learners = [arm for arm in _LEARNERS if arm in arms]
    return others + [(one, other) for i, one in enumerate(learners) for other in arms if other not in learners[: i + 1]]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _flowed(text: str) -> str:
    """Paragraphs as lines of equal length."""
    return "\n\n".join(textwrap.fill(paragraph.replace("\n", " "), 132, break_on_hyphens=False) for paragraph in text.split("\n\n"))


def verdict(results: Sequence[dict[str, Any]], images: int, ours: str = "ranges") -> str:
    """One line: what is learned against the best of the arms that learn nothing, at one size, seed by seed."""
    present = [arm for arm in _FIXED if _column(results, arm, images, "accuracy")]
    best = max(present, key=lambda arm: statistics.mean(_column(results, arm, images, "accuracy")))
    mean, error = _difference(results, ours, best, images)
    word = "better" if mean > 2 * error else "worse" if mean < -2 * error else "within noise"
    if not math.isfinite(error):
        word = "above" if mean > 0 else "below"
    spread = f"standard error {error:.2f}" if math.isfinite(error) else "one seed"
    return f"* {ARMS[ours]}, {images:,} images: **{word}**: {mean:+.2f} points ({spread}) against “{ARMS[best]}”."


def _difference(results: Sequence[dict[str, Any]], ours: str, theirs: str, images: int) -> tuple[float, float]:
    """Mean difference in points over pairs of runs with one seed, and its standard error."""
    pairs = zip(_column(results, ours, images, "accuracy"), _column(results, theirs, images, "accuracy"), strict=True)
    differences = [100 * (one - other) for one, other in pairs]
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.inf
    return statistics.mean(differences), error


def _signed(mean: float, error: float) -> str:
    return f"{mean:+.2f} ± {error:.2f}" if math.isfinite(error) else f"{mean:+.2f}"


def draw_study(results: Sequence[dict[str, Any]], picture: str | Path) -> None:
    """Every run as a dot, the mean of each arm as a bar, one panel per size."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes = sorted({r["about"]["images"] for r in results})
    arms = [arm for arm in ARMS if any(r["about"]["arm"] == arm for r in results)]
    figure = Figure(figsize=(5.2 * len(sizes), 0.5 * len(arms) + 1.3), layout="constrained")
    FigureCanvasAgg(figure)
    for i, n in enumerate(sizes):
        axes = figure.add_subplot(1, len(sizes), i + 1)
        lowest = []
        for row, arm in enumerate(arms):
            values = [100 * v for v in _column(results, arm, n, "accuracy")]
            lowest += values
            axes.scatter(values, [row] * len(values), s=18, color=f"C{row}", alpha=0.6, linewidth=0, zorder=2)
            axes.plot([statistics.mean(values)] * 2, [row - 0.32, row + 0.32], color=f"C{row}", linewidth=2.5, zorder=3)
        margin = 0.08 * (max(lowest) - min(lowest)) + 0.05
        axes.set_xlim(min(lowest) - 3 * margin, max(lowest) + margin)
        axes.set_yticks(range(len(arms)), [ARMS[arm] for arm in arms] if i == 0 else [""] * len(arms), fontsize=8)
        axes.set_ylim(len(arms) - 0.4, -0.6)
        axes.tick_params(labelsize=8)
        axes.set_xlabel("accuracy (%)", fontsize=8)
        axes.set_title(f"{n:,} training images", fontsize=9)
        axes.grid(visible=True, axis="x", alpha=0.25)
    path = Path(picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _learned_rows(ours: Sequence[dict[str, Any]], sizes: Sequence[int]) -> list[str]:
    rows = []
    for name in ours[0]["learned"]:
        transform, value, field = name.split(".")[1:]
        if field == "low":
            continue
        if value == "choice":
            label = OPERATIONS[int(field.removeprefix("weight_"))]
        elif field == "high" and f"{name.rsplit('.', 1)[0]}.low" in ours[0]["learned"]:
            label = f"{transform} {value}: upper end"
        else:
            label = f"{transform}: probability" if value == "gate" else f"{transform} {value}: {field}"
        cells = [_mean([r["learned"][name] for r in ours if r["about"]["images"] == n], 1.0, digits=3) for n in sizes]
        rows.append(f"| {label} | {' | '.join(cells)} |")
    return rows


def _column(results: Sequence[dict[str, Any]], arm: str, images: int, name: str) -> list[float]:
    rows = [r for r in results if r["about"]["arm"] == arm and r["about"]["images"] == images]
    return [r[name] for r in sorted(rows, key=lambda r: r["about"]["seed"])]


def _mean(values: Sequence[float], scale: float, *, digits: int = 2) -> str:
    if len(values) < 2:
        return f"{scale * values[0]:.{digits}f}"
    return f"{scale * statistics.mean(values):.{digits}f} ± {scale * statistics.stdev(values):.{digits}f}"

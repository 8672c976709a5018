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
from pellucid_bench.augmentation.run import ARMS, DRAWS, Study

__all__ = ["draw_study", "study_page", "verdict"]

_HAND = ("none", "mild", "hand")

_INTRODUCTION = """*Written by `{command}`, which measured every figure below. pellucid {version}, torch {torch}, {machine},
one thread.*

`{data}`: {sizes} training images, {seeds} seeds. A seed draws the training images, the initial weights and the augmentations;
the arms share it, so they can be compared in pairs. The same network (29,000 parameters) and the same budget everywhere:
{s.steps} AdamW steps of {s.batch} images, learning rate {s.rate:g} to 0 along half a cosine. The policy search spends
{search} steps of its own before that. Judged on {judged}."""

_FAIRNESS = """The best is chosen with hindsight, by its mean on the very images it is judged on, among no augmentation and the
two hand-set strengths: a comparison that favours the hand-set side. "Within noise" means that the mean
difference of pairs is smaller than twice its standard error. The budget is short on purpose: with more steps,
strong augmentation has more time to pay."""

_LEARNED = """Mean and standard deviation over seeds. Every range starts at a fortieth of its reach and grows until
widening it costs more than the reward for spreading pays."""

_CHOSEN = """The reward for entropy, {s.entropy:g} nats of loss per nat, and that of the policy search,
{s.policy_entropy:g}, were chosen on scikit-learn's digits ([ADR 10](adr/0010-learning-recipes.md)) and
kept. While the method was developed, it was also run on held-out *training* images of Fashion-MNIST; the
test set was read by this study alone."""


def study_page(results: Sequence[dict[str, Any]], study: Study, *, data: str, command: str, picture: str) -> str:
    """The Markdown of the page."""
    sizes = sorted({r["about"]["images"] for r in results})
    seeds = len({r["about"]["seed"] for r in results})
    s = study.settings
    arms = [arm for arm in ARMS if any(r["about"]["arm"] == arm for r in results)]
    judged = "the whole test set, without augmentation at test time"
    lines = [
        "# Learned augmentation on real data",
        "",
        _flowed(
            _INTRODUCTION.format(
                command=command,
                version=__version__,
                torch=torch.__version__,
                machine=platform.machine(),
                data=data,
                sizes=" and ".join(f"{n:,}" for n in sizes),
                seeds=seeds,
                s=s,
                search=study.search_steps,
                judged=f"{study.held:,} held-out training images" if study.held else judged,
            )
        ),
        "",
        "## Accuracy (%)",
        "",
        "Mean and standard deviation over seeds.",
        "",
        "| | " + " | ".join(f"{n:,} images" for n in sizes) + " | CPU seconds per run |",
        "|---|" + "---|" * (len(sizes) + 1),
    ]
    for arm in arms:
        cells = [_mean(_column(results, arm, n, "accuracy"), 100.0) for n in sizes]
        seconds = [r["cpu_seconds"] for r in results if r["about"]["arm"] == arm]
        search = [r["search_cpu_seconds"] for r in results if r["about"]["arm"] == arm]
        cost = f"{statistics.median(seconds):.0f}" + (f" + {statistics.median(search):.0f} (search)" if arm == "policy" else "")
        lines.append(f"| {ARMS[arm]} | {' | '.join(cells)} | {cost} |")
    if "ranges" in arms:
        cells = [_mean(_column(results, "ranges", n, "accuracy_over_draws"), 100.0) for n in sizes]
        lines.append(f"| learned ranges, class probabilities averaged over {DRAWS} draws at test time | {' | '.join(cells)} | |")
    lines += ["", f"![Accuracy of every run]({picture})", ""]
    learners = [arm for arm in ("ranges", "policy") if arm in arms]
    if learners and seeds > 1:
        lines += ["## Differences, seed by seed (points)", "", "Mean difference of pairs and its standard error.", ""]
        lines += ["| | against | " + " | ".join(f"{n:,} images" for n in sizes) + " |", "|---|---|" + "---|" * len(sizes)]
        for ours in learners:
            for theirs in (arm for arm in arms if arm not in learners[: learners.index(ours) + 1]):
                cells = [f"{mean:+.2f} ± {error:.2f}" for mean, error in (_difference(results, ours, theirs, n) for n in sizes)]
                lines.append(f"| {ARMS[ours]} | {ARMS[theirs]} | {' | '.join(cells)} |")
        lines.append("")
    if "ranges" in arms and any(arm in arms for arm in _HAND):
        lines += ["## Are the learned ranges as good as the best hand-set ones?", ""]
        lines += [verdict(results, n) for n in sizes]
        lines += [
            "",
            _flowed(_FAIRNESS),
            "",
        ]
    if "ranges" in arms:
        lines += [
            "## What was learned",
            "",
            _flowed(_LEARNED),
            "",
            "| | " + " | ".join(f"{n:,} images" for n in sizes) + " |",
            "|---|" + "---|" * len(sizes),
        ]
        lines += _learned_rows(results, sizes)
    lines += ["", "## How the hyperparameters were chosen", "", _flowed(_CHOSEN.format(s=s)), ""]
    return "\n".join(lines)


def _flowed(text: str) -> str:
    """Paragraphs as lines of equal length."""
    return "\n\n".join(textwrap.fill(paragraph.replace("\n", " "), 132, break_on_hyphens=False) for paragraph in text.split("\n\n"))


def verdict(results: Sequence[dict[str, Any]], images: int) -> str:
    """One line: learned ranges against the best of the hand-set arms at one size, seed by seed."""
    present = [arm for arm in _HAND if _column(results, arm, images, "accuracy")]
    best = max(present, key=lambda arm: statistics.mean(_column(results, arm, images, "accuracy")))
    mean, error = _difference(results, "ranges", best, images)
    word = "better" if mean > 2 * error else "worse" if mean < -2 * error else "within noise"
    return f"* {images:,} images: **{word}**: {mean:+.2f} points (standard error {error:.2f}) against “{ARMS[best]}”."


def _difference(results: Sequence[dict[str, Any]], ours: str, theirs: str, images: int) -> tuple[float, float]:
    """Mean difference in points over pairs of runs with one seed, and its standard error."""
    pairs = zip(_column(results, ours, images, "accuracy"), _column(results, theirs, images, "accuracy"), strict=True)
    differences = [100 * (one - other) for one, other in pairs]
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.inf
    return statistics.mean(differences), error


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
            if arm != "wide":
                lowest += values
            axes.scatter(values, [row] * len(values), s=18, color=f"C{row}", alpha=0.6, linewidth=0, zorder=2)
            axes.plot([statistics.mean(values)] * 2, [row - 0.32, row + 0.32], color=f"C{row}", linewidth=2.5, zorder=3)
            if arm == "wide" and statistics.mean(values) < min(lowest) - 3:
                note = f"far to the left: {statistics.mean(values):.1f}"
                axes.annotate(note, (0.02, row), xycoords=("axes fraction", "data"), fontsize=7, va="center", color=f"C{row}")
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


def _learned_rows(results: Sequence[dict[str, Any]], sizes: Sequence[int]) -> list[str]:
    ours = [r for r in results if r["about"]["arm"] == "ranges"]
    rows = []
    for name in ours[0]["learned"]:
        transform, value, field = name.split(".")[1:]
        if field == "low":
            continue
        if field == "high" and f"{name.rsplit('.', 1)[0]}.low" in ours[0]["learned"]:
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

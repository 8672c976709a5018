"""Tone curves beside a colour pass, and flips: bytes and floats, forward and backward.

Owns: the subjects and their table.
Must not: print.
Read next: ``report.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import pellucid
from pellucid import Pipeline
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet
from pellucid_bench.settings import photographs

__all__ = ["MODES", "measure_tones", "tones_table"]

OURS: dict[str, Callable[[], list[Any]]] = {
    "brightness": lambda: [pellucid.RandomBrightness((0.6, 1.4))],
    "gamma": lambda: [pellucid.RandomGamma((0.6, 1.6))],
    "posterize": lambda: [pellucid.RandomPosterize((3, 6), p=1.0)],
    "solarize": lambda: [pellucid.RandomSolarize((0.3, 0.7), p=1.0)],
    "equalize": lambda: [pellucid.RandomEqualize(p=1.0)],
    "autocontrast": lambda: [pellucid.RandomAutoContrast(p=1.0)],
    "flip": lambda: [pellucid.RandomHorizontalFlip(p=1.0)],
    "affine, gamma, normalize": lambda: [
        pellucid.RandomAffine(15),
        pellucid.RandomGamma((0.6, 1.6)),
        pellucid.Normalize((0.4, 0.4, 0.4), (0.2, 0.2, 0.2)),
    ],
}
"""The first is the colour pass that others are measured by."""
MODES = ("bytes", "float32", "float32, forward + backward")


def measure_tones(*, batch: int, size: int, budget: float, say: Say = quiet) -> list[Row]:
    """Time every subject on the same photographs, in turns.

    Args:
        batch, size: photographs and their height and width.
        budget: seconds per subject and mode.
    """
    images = photographs(batch, size)
    levels = (images * 255.0).round().to(torch.uint8)
    rows: list[Row] = []
    for mode in MODES:
        say(mode)
        calls = {name: _call(Pipeline(make(), seed=0), levels if mode == "bytes" else images, mode) for name, make in OURS.items()}
        for name, timing in interleave(calls, budget=budget).items():
            pixels = batch * size * size
            each = {"ns": timing.median * 1e9 / pixels, "q1_ns": timing.low * 1e9 / pixels, "q3_ns": timing.high * 1e9 / pixels}
            rows.append({"subject": name, "mode": mode, "status": "ok", "rounds": timing.rounds, **each})
    return rows


def _call(pipeline: Pipeline, images: Tensor, mode: str) -> Callable[[], Any]:
    if mode != MODES[2]:
        return partial(pipeline, images)
    leaf, upstream = images.clone().requires_grad_(), torch.ones_like(images)
    return lambda: torch.autograd.grad(pipeline(leaf), leaf, upstream)


def tones_table(rows: list[Row]) -> str:
    """Medians in nanoseconds per pixel of three channels, and in brackets how many times as long as the colour pass they take."""
    times = {(row["subject"], row["mode"]): row["ns"] for row in rows}
    lines = [f"| ns per pixel (times the colour pass) | {' | '.join(MODES)} |", "|---|---|---|---|"]
    first = next(iter(OURS))
    for name in OURS:
        cells = (f"{times[name, mode]:.2f} ({times[name, mode] / times[first, mode]:.2f})" for mode in MODES)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)

"""What an image of a size not seen before costs beside one of a size that was: every image of most data sets.

Owns: the pipelines and sizes, the measurement, its table.
Must not: print.
Read next: ``report.py``.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pellucid.pipeline import Pipeline
from pellucid.transforms.affine import RandomAffine
from pellucid.transforms.base import Transform
from pellucid.transforms.color import Normalize
from pellucid.transforms.crop import CenterCrop, RandomCrop, RandomResizedCrop
from pellucid.transforms.flip import RandomHorizontalFlip
from pellucid.transforms.jitter import ColorJitter
from pellucid.transforms.resize import Letterbox, Resize
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, Timing, quiet
from pellucid_bench.settings import MEAN, STD, photographs

__all__ = ["MOST", "PIPELINES", "measure_sizes", "ratios", "sizes_table"]

MOST = 1.15
"""A new size may cost this many times what a seen one does."""

_JITTER, _NORMALIZE = ColorJitter(0.2, 0.2, saturation=0.2, hue=0.05), Normalize(MEAN, STD)

PIPELINES: dict[str, Sequence[Transform]] = {
    "classification: RandomResizedCrop(224), flip, jitter, normalise": [
        RandomResizedCrop(224),
        RandomHorizontalFlip(),
        _JITTER,
        _NORMALIZE,
    ],
    "evaluation: Resize(256), CenterCrop(224), normalise": [Resize(256), CenterCrop(224), _NORMALIZE],
    "detection: Letterbox(320), flip, jitter": [Letterbox(320), RandomHorizontalFlip(), _JITTER],
    "small crops: RandomCrop(128), flip, normalise": [RandomCrop(128), RandomHorizontalFlip(), _NORMALIZE],
    "any size: affine, flip, jitter, normalise": [
        RandomAffine(15, translate=(0.1, 0.1), scale=(0.9, 1.1), shear=5),
        RandomHorizontalFlip(),
        _JITTER,
        _NORMALIZE,
    ],
}


def measure_sizes(*, count: int = 100, longest: int = 500, impl: str = "auto", say: Say = quiet) -> list[Row]:
    """One row per pipeline: medians of a call with one image of a new and of a seen size.

    Args:
        count: how many new sizes.
        longest: side of the largest images; the others are down to 0.6 of it, which is 224 or more where it counts.
        impl: who computes.
        say: told what is measured.

    Two equal pipelines take turns with the same image. The first has just seen it, so that image and result are in the caches and
    the threads awake for both; the second has never seen its size.
    """
    rows: list[Row] = []
    for name, transforms in PIPELINES.items():
        say(name)
        seen, new = (Pipeline(transforms, seed=0, impl=impl) for _ in range(2))
        seconds: dict[str, list[float]] = {"new": [], "seen": []}
        gc.collect()
        gc.disable()
        try:
            for turn, (height, width) in enumerate(_sizes(count + 20, longest)):
                image = photographs(1, (height, width), seed=turn)
                seen(image)
                calls: list[tuple[str, Callable[[Tensor], Any]]] = [("new", new), ("seen", seen)]
                for label, call in calls if turn % 2 else calls[::-1]:
                    elapsed = _seconds(call, image)
                    if turn >= 20:  # the first sizes compile and record
                        seconds[label].append(elapsed)
        finally:
            gc.enable()
        timings = {label: Timing.of(values) for label, values in seconds.items()}
        for label, timing in timings.items():
            span = {"median_ms": timing.median * 1e3, "q1_ms": timing.low * 1e3, "q3_ms": timing.high * 1e3}
            rows.append({"subject": name, "size": label, "status": "ok", **span, "rounds": timing.rounds})
    return rows


def _sizes(count: int, longest: int) -> list[tuple[int, int]]:
    """Different ones."""
    least = max(1, round(0.6 * longest))
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm((longest - least + 1) ** 2, generator=generator)[:count].tolist()
    return [(least + n // (longest - least + 1), least + n % (longest - least + 1)) for n in order]


def _seconds(call: Callable[[Tensor], Any], image: Tensor) -> float:
    start = time.thread_time()
    call(image)
    return time.thread_time() - start


def ratios(rows: list[Row]) -> dict[str, float]:
    """What a new size costs in units of a seen one, by pipeline."""
    medians = {(row["subject"], row["size"]): row["median_ms"] for row in rows}
    return {name: medians[name, "new"] / medians[name, "seen"] for name, size in medians if size == "new"}


def sizes_table(rows: list[Row]) -> str:
    """Medians and quartiles of both, and their ratio."""
    lines = ["| | new size, ms (quartiles) | seen size, ms (quartiles) | ratio |", "|---|---|---|---|"]
    spans = {(row["subject"], row["size"]): f"{row['median_ms']:.2f} ({row['q1_ms']:.2f} to {row['q3_ms']:.2f})" for row in rows}
    lines += [f"| {name} | {spans[name, 'new']} | {spans[name, 'seen']} | {ratio:.2f} |" for name, ratio in ratios(rows).items()]
    worst = max(ratios(rows).values())
    return "\n".join([*lines, "", f"At most {MOST} times: {'met' if worst <= MOST else '**missed**'}."])

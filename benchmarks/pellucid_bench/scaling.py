"""How time grows: with batch, size, threads and the number of operations.

Owns: the axes, their caps in a short run, and measuring one curve.
Must not: print or plot.
Read next: ``plot.py``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from pellucid_bench.compare import Row, row_of
from pellucid_bench.measure import Say, interleave, on_threads, quiet
from pellucid_bench.modes import Mode, call_of, offered
from pellucid_bench.peers import ours, subjects
from pellucid_bench.settings import CHAIN, photographs
from pellucid_bench.subject import Subject

__all__ = ["AXES", "scaling"]

AXES: dict[str, tuple[int, ...]] = {
    "batch": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "size": (64, 128, 224, 384, 512, 768, 1024),
    "threads": (1, 2, 4, 8, 16, 32),
    "operations": tuple(range(1, len(CHAIN) + 1)),
}

_LIBRARIES = ("pellucid", "kornia", "torchvision", "albumentations", "fuse-augmentations")
_MODES: tuple[Mode, ...] = ("forward", "image")
_CAP_PIXELS = 16 * 224 * 224
_CAP_SECONDS = 2.0


def scaling(
    axis: str,
    *,
    batch: int = 8,
    size: int = 224,
    budget: float = 1.0,
    full: bool = False,
    only: Iterable[str] = (),
    impl: str = "auto",
    say: Say = quiet,
) -> list[Row]:
    """Measure the flagship along one axis (the chain of operations along ``operations``).

    Args:
        axis: a key of :data:`AXES`.
        batch: images per batch, where that is not what varies.
        size: their height and width, likewise.
        budget: seconds per subject and point.
        full: measure every point; otherwise points beyond 16x224x224 pixels, and every second number of operations, are left
            out, and subjects that took more than two seconds at one point are left out of larger ones.
        only: names of libraries.
        impl: which implementation of Pellucid's own runs.
        say: told what happens.
    """
    rows: list[Row] = []
    slow: set[tuple[str, str]] = set()
    for value in _points(axis, batch, size, full):
        say(f"scaling, {axis} {value}")
        at_batch, at_size = value if axis == "batch" else batch, value if axis == "size" else size
        images = photographs(at_batch, at_size)
        with on_threads(value if axis == "threads" else torch.get_num_threads()):
            present = _subjects(axis, value, only, impl)
            for mode in _MODES:
                rows += _point(axis, value, present, mode, images, budget, slow, full)
    return rows


def _points(axis: str, batch: int, size: int, full: bool) -> list[int]:
    values = list(AXES[axis])
    if axis == "threads":
        return [n for n in values if n <= (os.cpu_count() or 1)]
    if full:
        return values
    if axis == "batch":
        return [b for b in values if b * size * size <= _CAP_PIXELS]
    if axis == "size":
        return [s for s in values if batch * s * s <= _CAP_PIXELS]
    return [n for n in values if n == 1 or n % 2 == 0]


def _subjects(axis: str, value: int, only: Iterable[str], impl: str) -> list[Subject]:
    wanted = [name for name in _LIBRARIES if not only or name in only]
    if axis != "operations":
        return [s for s in subjects("flagship", only=wanted, impl=impl)[0] if "uint8 in" not in s.name]
    present = ours.chain(value, impl=impl) if "pellucid" in wanted else []
    if "kornia" in wanted:
        try:
            from pellucid_bench.peers import kornia
        except ImportError:
            return present
        present += kornia.chain(value)
    return present


def _point(
    axis: str, value: int, present: list[Subject], mode: Mode, images: Tensor, budget: float, slow: set[tuple[str, str]], full: bool
) -> list[Row]:
    calls: dict[str, Any] = {"copy": images.clone}
    regimes: dict[str, str] = {}
    for subject in present:
        if not offered(subject, mode) or (subject.name, mode) in slow:
            continue
        call = call_of(subject, mode, images)
        start = time.perf_counter()
        try:
            call()
        except RuntimeError:
            continue
        if not full and time.perf_counter() - start > _CAP_SECONDS:
            slow.add((subject.name, mode))
        calls[subject.name], regimes[subject.name] = call, subject.regime
    timings = interleave(calls, budget=budget, rounds=20, warmup=1)
    copy = timings.pop("copy")
    rows = [row_of("scaling", name, regimes[name], mode, timing, images, copy) for name, timing in timings.items()]
    return [{**row, "axis": axis, "value": value} for row in rows]

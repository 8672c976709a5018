"""Published policies on batches of bytes, beside torchvision's, which takes pictures one by one.

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

from pellucid import Pipeline
from pellucid.policy import AugMix, AutoAugment, RandAugment, TrivialAugmentWide
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet
from pellucid_bench.settings import photographs

__all__ = ["measure_policies", "policies_table"]

OURS: dict[str, Callable[[], Any]] = {
    "TrivialAugmentWide": TrivialAugmentWide,
    "RandAugment": RandAugment,
    "AutoAugment": AutoAugment,
    "AugMix": partial(AugMix, "torchvision"),
}


def _looped(transform: Any, images: Tensor) -> Tensor:
    return torch.stack([transform(image) for image in images])


def measure_policies(*, batch: int, size: int, budget: float, say: Say = quiet) -> list[Row]:
    """Time every policy on the same photographs, in turns with torchvision's of the same name, which draws for each picture.

    Args:
        batch, size: photographs and their height and width, as bytes.
        budget: seconds per subject.

    Returns:
        A row per policy and library; ``missing`` ones without torchvision.
    """
    images = (photographs(batch, size) * 255.0).round().to(torch.uint8)
    try:
        from pellucid_bench.peers.torchvision_import import torchvision_v2

        peer, note = torchvision_v2(), ""
    except ImportError as error:
        peer, note = None, str(error)
    rows: list[Row] = []
    for name, make in OURS.items():
        say(name)
        calls: dict[str, Callable[[], Any]] = {"pellucid": partial(Pipeline([make()], seed=0), images)}
        if peer is None:
            rows.append({"subject": "torchvision", "policy": name, "status": "missing", "note": note})
        else:
            calls["torchvision"] = partial(_looped, getattr(peer, name)(), images)
        for subject, timing in interleave(calls, budget=budget).items():
            times = {
                "median_ms": timing.median * 1e3,
                "q1_ms": timing.low * 1e3,
                "q3_ms": timing.high * 1e3,
                "rounds": timing.rounds,
            }
            rows.append({"subject": subject, "policy": name, "status": "ok", **times})
    return rows


def policies_table(rows: list[Row]) -> str:
    """Medians and quartiles in milliseconds, and how many times as fast ours is."""
    times = {(row["policy"], row["subject"]): row for row in rows if row["status"] == "ok"}
    lines = ["| policy | Pellucid, ms (quartiles) | torchvision, one by one | torchvision / Pellucid |", "|---|---|---|---|"]
    for name in OURS:
        ours, theirs = times[name, "pellucid"], times.get((name, "torchvision"))
        ratio = "" if theirs is None else f"{theirs['median_ms'] / ours['median_ms']:.2f}"
        lines.append(f"| {name} | {_span(ours)} | {'missing' if theirs is None else _span(theirs)} | {ratio} |")
    return "\n".join(lines)


def _span(row: Row) -> str:
    return f"{row['median_ms']:.1f} ({row['q1_ms']:.1f} to {row['q3_ms']:.1f})"

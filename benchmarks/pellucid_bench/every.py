"""Every single operation that a peer has, too: bytes, arrays, floats and gradients, at four sizes.

Owns: the ways in which an operation is called, their times, and where we are behind.
Must not: print, or know an operation's options.
Read next: ``operations.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import pellucid as pl
from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet
from pellucid_bench.operations import OPERATIONS, Operation
from pellucid_bench.real import libraries
from pellucid_bench.settings import photographs

__all__ = ["SIZES", "WAYS", "behind", "every_table", "measure_every"]

SIZES = {"32x32": (32, 32), "224x224": (224, 224), "480x640": (480, 640), "1080x1920": (1080, 1920)}
WAYS = {
    "batch": "bytes, a batch",
    "singly": "bytes, picture by picture",
    "arrays": "arrays (H, W, C) of bytes, one by one",
    "floats": "floats, a batch",
    "backward": "floats, forward + backward",
}

Call = Callable[[], Any]


def _looped(call: Callable[[Any], Any], pictures: Sequence[Any]) -> list[Any]:
    return [call(picture) for picture in pictures]


def _slopes(call: Callable[[Tensor], Any], images: Tensor, *, looped: bool = False) -> Tensor:
    learns = images.clone().requires_grad_()
    results = [call(image) for image in learns] if looped else [call(learns)]
    return torch.autograd.grad([one.sum() for one in results], learns)[0]


def _calls(operation: Operation, way: str, images: Tensor, peers: Mapping[str, Any]) -> dict[str, Call]:
    """By library: the call that treats these pictures of bytes so; none where nobody else can."""
    own: Any = operation.ours
    always = replace(own, p=1.0) if hasattr(own, "p") else own  # as the peers' are told
    ours = pl.Pipeline([always], seed=0, out="same" if way == "arrays" else "tensor")
    made = {name: column(peers[name]) for name in peers if (column := getattr(operation, name)) is not None}
    arrays = [image.permute(1, 2, 0).contiguous().numpy() for image in images]
    floats = images / 255.0
    calls: dict[str, Call] = {}
    if way in ("batch", "singly", "arrays"):
        inputs: Any = {"batch": None, "singly": list(images), "arrays": arrays}[way]
        calls["pellucid"] = partial(ours, images) if inputs is None else partial(_looped, ours, inputs)
        if "albumentations" in made:
            compose = peers["albumentations"].Compose([made["albumentations"]], seed=0)
            calls["albumentations"] = partial(_looped, lambda array: compose(image=array)["image"], arrays)
        if "torchvision" in made and way != "arrays":
            calls["torchvision"] = partial(_looped, made["torchvision"], list(images))
    elif way == "floats" or operation.image_gradient:
        calls["pellucid"] = partial(ours, floats) if way == "floats" else partial(_slopes, ours, floats)
        if "torchvision" in made and way == "floats":
            calls["torchvision"] = partial(_looped, made["torchvision"], list(floats))
        if "kornia" in made:
            calls["kornia"] = partial(made["kornia"], floats) if way == "floats" else partial(_slopes, made["kornia"], floats)
    return calls if len(calls) > 1 else {}


def measure_every(
    *,
    batch: int = 8,
    budget: float = 0.2,
    only: Sequence[str] = (),
    sizes: Sequence[str] = (),
    ways: Sequence[str] = (),
    say: Say = quiet,
) -> list[Row]:
    """One row per operation, size, way and library.

    Args:
        batch: pictures per call; a quarter of it at 1080x1920.
        budget: seconds for each library.
        only: names of operations; default all.
        sizes: keys of `SIZES`; default all.
        ways: keys of `WAYS`; default all.
        say: told what is measured.
    """
    peers, missing = libraries()
    rows: list[Row] = [{"subject": name, "status": "missing", "note": why} for name, why in missing.items()]
    for size in sizes or SIZES:
        count = batch if size != "1080x1920" else max(1, batch // 4)
        images = (photographs(count, SIZES[size]) * 255).round().to(torch.uint8)
        for name in only or OPERATIONS:
            for way in ways or WAYS:
                say(f"{name}, {count} of {size}, {WAYS[way]}")
                what = {"operation": name, "size": size, "way": way, "batch": count}
                working: dict[str, Call] = {}
                for subject, call in _calls(OPERATIONS[name], way, images, peers).items():
                    try:
                        call()
                    except Exception as error:  # a library's own limits
                        note = f"{type(error).__name__}: {str(error)[:80]}"
                        rows.append({**what, "subject": subject, "status": "refused", "note": note})
                    else:
                        working[subject] = call
                for subject, timing in interleave(working, budget=budget, rounds=30, warmup=1, clock=time.process_time).items():
                    numbers = {"least_ms": timing.least * 1e3, "median_ms": timing.median * 1e3}
                    status = "view" if subject in OPERATIONS[name].view and way in ("singly", "arrays", "batch") else "ok"
                    rows.append({**what, "subject": subject, "status": status, **numbers, "rounds": timing.rounds})
    return rows


def _ratios(rows: Sequence[Row]) -> dict[tuple[str, str, str], float]:
    """By size, way and operation: how many times our time goes into the fastest peer's that makes a copy, as we do."""
    times: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows:
        if row["status"] == "ok":
            times.setdefault((row["size"], row["way"], row["operation"]), {})[row["subject"]] = row["least_ms"]
    found = {}
    for key, by_subject in times.items():
        ours = by_subject.pop("pellucid", None)
        if ours is not None and by_subject:
            found[key] = min(by_subject.values()) / ours
    return found


def behind(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """Size, way and operation, where the fastest peer is faster than we are."""
    return [key for key, ratio in _ratios(rows).items() if ratio < 1]


def every_table(rows: Sequence[Row]) -> str:
    """Fastest peer's time over ours, by operation; a number below 1 says that we are behind."""
    ratios, lines = _ratios(rows), []
    sizes = [size for size in SIZES if any(key[0] == size for key in ratios)]
    for way, told in WAYS.items():
        names = [name for name in OPERATIONS if any((size, way, name) in ratios for size in sizes)]
        if not names:
            continue
        lines += [f"**{told}**: the fastest peer's time over ours", "", f"| | {' | '.join(sizes)} |", "|---|" + "---|" * len(sizes)]
        for name in names:
            cells = [f"{ratios[key]:.2f}" if (key := (size, way, name)) in ratios else "-" for size in sizes]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        late = [sum(ratios.get((size, way, name), 1) < 1 for name in names) for size in sizes]
        whole = [sum((size, way, name) in ratios for name in names) for size in sizes]
        cells = [f"{few} of {all_}" for few, all_ in zip(late, whole, strict=True)]
        lines += [f"| **behind in** | {' | '.join(cells)} |", ""]
    lines += [f"* {row['subject']} is missing: {row['note']}" for row in rows if row["status"] == "missing"]
    refused = {(row["subject"], row["operation"], row["note"]) for row in rows if row["status"] == "refused"}
    lines += [f"* {subject}, {operation}: {note}" for subject, operation, note in sorted(refused)]
    views = sorted({(row["subject"], row["operation"]) for row in rows if row["status"] == "view"})
    lines += [f"* {subject}, {operation}: hands back a view of the picture, and does not count" for subject, operation in views]
    return "\n".join(lines)

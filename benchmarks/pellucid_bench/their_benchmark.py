"""albumentations' own benchmark run here: one picture at a time, bytes, one thread, pictures a second of CPU time.

Owns: the pictures, how a library's result is made to lie in order, and the table.
Must not: know a row's options.
Read next: ``their_rows.py``.
"""

from __future__ import annotations

import importlib
import runpy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from pellucid_bench.compare import Row
from pellucid_bench.measure import Say, interleave, quiet
from pellucid_bench.real import libraries
from pellucid_bench.settings import photographs
from pellucid_bench.their_rows import ALBUMENTATIONS, KORNIA, PILLOW, TORCHVISION

__all__ = ["SPEC", "measure_theirs", "theirs_table"]

SPEC = Path(__file__).parents[1] / "albumentations_spec.py"
_SIZES = ((375, 500), (333, 500), (500, 375), (500, 400))
"""(height, width): the commonest sizes of ImageNet's validation pictures, which their benchmark reads."""

_PEERS: Mapping[str, Mapping[str, Any]] = {
    "albumentations": ALBUMENTATIONS,
    "kornia": KORNIA,
    "Pillow": PILLOW,
    "torchvision": TORCHVISION,
}


def _pillow(arrays: Sequence[Any]) -> tuple[Any, list[Any]]:
    names = ("Image", "ImageEnhance", "ImageFilter", "ImageOps")
    modules = SimpleNamespace(**{name: importlib.import_module(f"PIL.{name}") for name in names})
    return modules, [modules.Image.fromarray(array) for array in arrays]


def _called(subject: str, transform: Any, given: Sequence[Any]) -> Callable[[], None]:
    """All pictures one after another; results are made to lie in order, so that a view is no finished work."""
    single: Callable[[Any], Any] = {
        "albumentations": lambda image: np.ascontiguousarray(transform(image=image)["image"]),
        "Pillow": lambda image: np.ascontiguousarray(transform(image)),
        "pellucid": lambda image: np.ascontiguousarray(transform(image)),
    }.get(subject, lambda image: transform(image).contiguous())

    def run() -> None:
        for image in given:
            single(image)

    return run


def measure_theirs(*, count: int = 8, budget: float = 0.2, only: Sequence[str] = (), say: Say = quiet) -> list[Row]:
    """One row per transform and library, in pictures a second.

    Args:
        count: pictures, of sizes that ImageNet has.
        budget: seconds for each library and row.
        only: names of rows; default all.
        say: told what is measured.
    """
    images = [(photographs(1, _SIZES[i % len(_SIZES)])[0] * 255).round().to(torch.uint8) for i in range(count)]
    arrays = [image.permute(1, 2, 0).contiguous().numpy() for image in images]
    peers, missing = libraries()
    pillow, pictures = _pillow(arrays)
    modules = {**peers, "Pillow": pillow}
    given = {"albumentations": arrays, "Pillow": pictures, "torchvision": images, "kornia": [image / 255.0 for image in images]}
    rows: list[Row] = [{"subject": name, "status": "missing", "note": why} for name, why in missing.items()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in runpy.run_path(str(SPEC))["TRANSFORMS"]:
            if only and row["name"] not in only:
                continue
            say(row["name"])
            calls = {"pellucid": _called("pellucid", row["transform"], arrays)}
            for subject, table in _PEERS.items():
                if row["name"] in table and subject in modules:
                    try:
                        calls[subject] = _called(subject, table[row["name"]](modules[subject]), given[subject])
                        calls[subject]()
                    except Exception as error:  # a library's own limits
                        del calls[subject]
                        note = f"{type(error).__name__}: {str(error)[:80]}"
                        rows.append({"row": row["name"], "subject": subject, "status": "refused", "note": note})
            for subject, timing in interleave(calls, budget=budget, rounds=20, warmup=1, clock=time.process_time).items():
                rows.append({"row": row["name"], "subject": subject, "status": "ok", "images_s": count / timing.least})
    return rows


def theirs_table(rows: Sequence[Row]) -> str:
    """Pictures a second, the fastest in bold, and how many times faster than the fastest peer we are."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["status"] == "ok":
            found.setdefault(row["row"], {})[row["subject"]] = row["images_s"]
    subjects = ["pellucid", *(name for name in _PEERS if any(name in one for one in found.values()))]
    lines = [f"| | {' | '.join(subjects)} | ours / fastest peer |", "|---|" + "---|" * (len(subjects) + 1)]
    first = shared = 0
    for name, rates in sorted(found.items()):
        most = max(rates.values())
        cells = [
            (f"**{rates[one]:,.0f}**" if rates[one] == most else f"{rates[one]:,.0f}") if one in rates else "-" for one in subjects
        ]
        others = [rate for subject, rate in rates.items() if subject != "pellucid"]
        first, shared = first + (bool(others) and rates["pellucid"] == most), shared + bool(others)
        ratio = f"{rates['pellucid'] / max(others):.2f}" if others else "-"
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio} |")
    lines += ["", f"Fastest in {first} of {shared} rows that a peer has, too."]
    lines += [f"* {row['subject']} is missing: {row['note']}" for row in rows if row["status"] == "missing"]
    lines += [f"* {row['subject']}, {row['row']}: {row['note']}" for row in rows if row["status"] == "refused"]
    return "\n".join(lines)

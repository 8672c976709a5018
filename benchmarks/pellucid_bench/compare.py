"""One case, all subjects: check, time in turns, measure memory, one row per subject and mode.

Owns: `compare` and the fields of a row.
Must not: know a case's parameters or print.
Read next: ``report.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from pellucid_bench.agreement import check, statistics_of
from pellucid_bench.measure import Say, Timing, interleave, quiet
from pellucid_bench.memory import peak_extra_bytes
from pellucid_bench.modes import MODES, Mode, call_of, offered
from pellucid_bench.peers import MODULES, subjects
from pellucid_bench.settings import photographs
from pellucid_bench.subject import Subject

__all__ = ["Row", "compare", "row_of"]

Row = dict[str, Any]


def compare(
    case: str,
    *,
    batch: int,
    size: int,
    budget: float = 2.0,
    only: Iterable[str] = (),
    impl: str = "auto",
    memory: bool = True,
    say: Say = quiet,
) -> list[Row]:
    """Measure a case.

    Args:
        case: a key of ``settings.CASES``.
        batch: images per batch.
        size: their height and width.
        budget: seconds of timing per subject and mode.
        only: names of libraries; default all.
        impl: which implementation of Pellucid's own runs.
        memory: measure peaks too, each in a process of its own.
        say: told what happens.
    """
    present, missing = subjects(case, only=only, impl=impl)
    rows = [{"case": case, "subject": name, "status": "missing", "note": why} for name, why in missing.items()]
    say(f"{case}: checking {len(present)} subjects")
    ours = statistics_of(present[0]) if present and present[0].name.startswith("pellucid") else None
    sound: list[Subject] = []
    for subject in present:
        problem = check(subject, case, None if subject.name == "pellucid" else ours)
        if problem is None:
            sound.append(subject)
        else:
            rows.append({"case": case, "subject": subject.name, "regime": subject.regime, "status": "refused", "note": problem})
    images = photographs(batch, size)
    for mode in MODES:
        say(f"{case}: {MODES[mode]}")
        rows += _timed(case, sound, mode, images, budget)
    if memory:
        for subject in sound:
            say(f"{case}: memory of {subject.name}")
            _add_memory([row for row in rows if row["subject"] == subject.name and row["status"] == "ok"], batch, size, impl)
    return rows


def _timed(case: str, present: list[Subject], mode: Mode, images: Tensor, budget: float) -> list[Row]:
    calls: dict[str, Callable[[], Any]] = {"copy": images.clone}
    regimes: dict[str, str] = {}
    rows: list[Row] = []
    for subject in present:
        if not offered(subject, mode):
            continue
        call = call_of(subject, mode, images)
        regimes[subject.name] = subject.regime
        try:
            call()
        except (RuntimeError, NotImplementedError) as error:
            note = str(error).partition(". ")[0].partition("\n")[0][:120]
            rows.append(
                {"case": case, "subject": subject.name, "regime": subject.regime, "mode": mode, "status": "raises", "note": note}
            )
            continue
        calls[subject.name] = call
    timings = interleave(calls, budget=budget)
    copy = timings.pop("copy")
    return [row_of(case, name, regimes[name], mode, timing, images, copy) for name, timing in timings.items()] + rows


def row_of(case: str, name: str, regime: str, mode: Mode, timing: Timing, images: Tensor, copy: Timing) -> Row:
    """A measurement as plain data."""
    return {
        "case": case,
        "subject": name,
        "regime": regime,
        "mode": mode,
        "status": "ok",
        "shape": list(images.shape),
        "threads": torch.get_num_threads(),
        "median_ms": timing.median * 1e3,
        "q1_ms": timing.low * 1e3,
        "q3_ms": timing.high * 1e3,
        "rounds": timing.rounds,
        "images_per_s": images.shape[0] / timing.median,
        "copy_fraction": copy.median / timing.median,
    }


def _add_memory(rows: list[Row], batch: int, size: int, impl: str) -> None:
    """Measure all modes of one subject, in one child process."""
    case, name = rows[0]["case"], rows[0]["subject"]
    library = next(known for known in MODULES if _belongs(name, known))
    peaks = peak_extra_bytes(case, library, name, [row["mode"] for row in rows], batch=batch, size=size, impl=impl)
    for row in rows:
        if row["mode"] in peaks:
            row["peak_extra_bytes"] = peaks[row["mode"]]
            row["peak_per_image_bytes"] = peaks[row["mode"]] / (batch * 3 * size * size * 4)


def _belongs(subject: str, library: str) -> bool:
    return subject.startswith("cv2" if library == "opencv" else library) and not (
        library == "torch" and subject.startswith("torchvision")
    )

"""Minutes to steps: how many steps fit into the time, decided once and then kept.

Owns: the measurement, and the file that lets a resumed run keep its number.
Must not: change the run: what it measures is a copy.
Read next: ``descriptor.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Final

from pellucid.core.files import parsed, whole
from pellucid.errors import invalid

__all__ = ["decide_steps"]

_FILE: Final = "budget.json"
_RESERVE: Final = 0.97
"""Share of the time that is planned: saving, logging and a slower second half need the rest."""


def decide_steps(
    steps: int,
    minutes: float | None,
    directory: Path,
    rehearse: Callable[[], Callable[[int], object]],
    *,
    started: float,
) -> int:
    """The number of steps of a run.

    Args:
        steps: the number, unless there are
        minutes: then as many steps as fit into the time since ``started``; the rate is measured with a rehearsal.
        directory: of the run. The number is written there and read back when the run is resumed, so that the schedule, which ends
            at the last step, is the same.
        rehearse: makes a step function on a copy of everything.
        started: ``time.perf_counter()`` when the command began.

    Errors:
        ``InvalidArgument`` for a time too short for ten steps.
    """
    if minutes is None:
        return steps
    if not 0 < minutes < 1e5:
        raise invalid("minutes", expected="a positive time", got=minutes)
    kept = directory / _FILE
    if kept.exists():
        then, number = parsed(kept, _kept, expected="minutes and steps, as the start of the run wrote them")
        if then == minutes:
            return number
    seconds = _seconds_per_step(rehearse(), most=min(20.0, 0.04 * 60 * minutes))
    left = 60.0 * minutes * _RESERVE - (time.perf_counter() - started)
    number = int(left / seconds)
    if number < 10:
        raise invalid("minutes", expected=f"time for ten steps of {seconds:.2g} s after starting", got=minutes)
    directory.mkdir(parents=True, exist_ok=True)
    with whole(kept) as draft:
        draft.write_text(json.dumps({"minutes": minutes, "steps": number, "seconds_per_step": round(seconds, 5)}) + "\n")
    return number


def _kept(file: BytesIO) -> tuple[float, int]:
    earlier = json.load(file)
    return float(earlier["minutes"]), int(earlier["steps"])


def _seconds_per_step(step: Callable[[int], object], most: float) -> float:
    """The mean after two steps of warming up: a schedule is met by the mean, not by the best."""
    for index in range(2):
        step(index)
    begin = time.perf_counter()
    done = 0
    while done < 3 or (time.perf_counter() - begin < most and done < 200):
        step(done)
        done += 1
    return (time.perf_counter() - begin) / done

"""Counting the calls Python makes: a measure of overhead that does not depend on the machine.

Owns: `CallCount` and `count_calls`.
Must not: time.
Read next: ``overhead.py``.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

__all__ = ["CallCount", "count_calls"]


@dataclass(frozen=True)
class CallCount:
    """Calls made by one call.

    Args:
        total: functions of Python and of C, as cProfile counts them; the figure that budgets are stated in.
        python: functions written in Python alone, as ``sys.setprofile`` sees them.
    """

    total: int
    python: int


def count_calls(call: Callable[[], Any], *, warmup: int = 3, repeats: int = 3) -> CallCount:
    """Count the calls that ``call`` makes once warm; the smallest of a few repeats, which random branches make larger."""
    for _ in range(warmup):
        call()
    before = sys.getprofile()
    try:
        counts = [(_total(call), _python(call)) for _ in range(repeats)]
    finally:
        sys.setprofile(before)
    return CallCount(min(total for total, _ in counts), min(python for _, python in counts))


def _total(call: Callable[[], Any]) -> int:
    profile = cProfile.Profile()
    profile.enable()
    call()
    profile.disable()
    statistics: Any = pstats.Stats(profile)
    return int(statistics.total_calls)


def _python(call: Callable[[], Any]) -> int:
    count = 0

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        del frame, argument
        count += event == "call"

    sys.setprofile(on_event)
    call()
    sys.setprofile(None)
    return count

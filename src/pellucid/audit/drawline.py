"""The line of the subject's own source on which a random generator moves.

Owns: running a call under ``sys.settrace`` and comparing generator states line by line. Slow; only used on a proven defect.
Must not: be used to find out whether a generator moves (comparing the states before and after is enough for that).
Read next: ``context.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from pellucid.audit.place import is_users, short
from pellucid.audit.replay import Replay

__all__ = ["drawing_line"]


def drawing_line(replay: Replay, call: Callable[[], object]) -> str | None:
    """Run ``call`` and return the first user line after which any generator's state has changed."""
    state = replay.states()
    last: tuple[str, int] | None = None
    lines: list[str] = []

    def settle() -> None:
        nonlocal state
        if last is not None and not lines:
            now = replay.states()
            if now != state:
                lines.append(short(*last))
            state = now

    def watch(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal last
        if lines or not is_users(frame.f_code.co_filename):
            return None
        if event in {"line", "return", "exception"}:
            settle()
        if event == "line":
            last = (frame.f_code.co_filename, frame.f_lineno)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(before)
    settle()
    return lines[0] if lines else None

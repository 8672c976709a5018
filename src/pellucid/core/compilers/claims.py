"""Who compiles what: one process at a time, so that the others find the result instead of making it, too.

Owns: `claimed`, a lock that belongs to a process and ends with it, however it ends.
Must not: make a call fail, or wait for ever: where locks do not work, everybody compiles.
Read next: ``kept.py``.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None  # not on Windows

__all__ = ["claimed"]

PATIENCE = 180.0
"""Seconds after which a process no longer waits: the holder may have been stopped."""
_PAUSE = 0.05
_PLACES = 1 << 30
_HELD_ELSEWHERE = {errno.EACCES, errno.EAGAIN}
# A byte of one file stands for each piece of code. The file stays open: a process that closes it would lose all its locks on it.
_opened: dict[Path, int] = {}


@contextmanager
def claimed(folder: Path, name: str) -> Iterator[None]:
    """Inside, no other process that shares this folder has claimed this name. Waits until that is so.

    The lock is the operating system's for ranges of a file: a killed process loses it, a forked one does not inherit it, and
    network file systems know it. A process that cannot have it goes on without it.
    """
    place = int(hashlib.sha256(name.encode()).hexdigest(), 16) % _PLACES
    file = _file(folder)
    held = file is not None and _wait_for(file, place)
    try:
        yield
    finally:
        if held and file is not None:
            with suppress(OSError):
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _file(folder: Path) -> int | None:
    if fcntl is None:
        return None
    if folder not in _opened:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _opened[folder] = os.open(folder / ".claims", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:  # a folder that others own, or that nobody writes to
            return None
    return _opened[folder]


def _wait_for(file: int, place: int) -> bool:
    given_up = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            return True
        except OSError as error:
            if error.errno not in _HELD_ELSEWHERE or time.monotonic() > given_up:
                return False
        time.sleep(_PAUSE)

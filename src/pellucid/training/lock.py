"""One run at a time in a folder.

Owns: the lock, which the operating system takes back when a process ends, however it ends.
Must not: outlive a kill; a file that says "taken" would.
Read next: ``loop.py``.
"""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pellucid.errors import invalid

__all__ = ["only_run_in"]

_TAKEN = {errno.EAGAIN, errno.EACCES, errno.EDEADLK}


@contextmanager
def only_run_in(directory: Path) -> Iterator[None]:
    """Hold the folder's lock, a file ``.lock`` that stays there empty.

    Errors:
        ``InvalidArgument`` where another run holds it. A file system without locks gives a warning.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / ".lock"
    with path.open("a") as file:
        try:
            _lock(file.fileno())
        except OSError as error:
            if error.errno in _TAKEN:
                expected, fix = "a folder that no other run is writing to", "Wait for that run to end, or choose another folder."
                raise invalid("directory", expected=expected, got=str(directory), fix=fix) from None
            warnings.warn(f"{path} cannot be locked ({error.strerror}): make sure that no other run uses the folder.", stacklevel=3)
        yield


if sys.platform == "win32":

    def _lock(handle: int) -> None:
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:

    def _lock(handle: int) -> None:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

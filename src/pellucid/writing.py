"""Files that are whole or as they were before.

Owns: `whole`, through which everything in one file is written.
Must not: know what is written.
Read next: ``serialize.py``.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["flush", "whole"]


@contextmanager
def whole(path: str | os.PathLike[str], *, drafts: Path | None = None) -> Iterator[Path]:
    """Give a draft to write, and put it in the file's place once it is complete and on the disk.

    Every call has a draft of its own, of whatever process, in ``drafts`` (on the same disk) or beside the file. A full disk, an
    exception or a kill leaves the old file as it was. A new file has the mode the umask asks for, a replaced one keeps its own; a
    link is followed.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "No such folder", str(target.parent))
    draft = (drafts or target.parent) / f".writing-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        yield draft
        if target.exists():
            shutil.copymode(target, draft)
        flush(draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

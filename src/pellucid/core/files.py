"""Files that are whole or as they were before, and one sentence for those that are not.

Owns: `whole` and `written`, through which everything in one file is written, and `parsed`, which reads what may be damaged.
Must not: know what is written.
Read next: ``../pipeline/serialization.py``.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from pellucid.errors import InvalidArgument, InvalidType, invalid

__all__ = ["flush", "parsed", "whole", "written"]

T = TypeVar("T")


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


def written(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Write a file through `whole`, in a folder that is made where there is none; return its path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole(target) as draft:
        write(draft)
    return target


def parsed(path: str | os.PathLike[str], how: Callable[[BytesIO], T], *, expected: str, name: str = "") -> T:
    """Read a file of somebody else's format; whatever a wrong byte leads to there is an InvalidArgument that names the file.

    The content is in memory before it is parsed: an OSError is the disk's. ``name`` is of the argument, before the file's.
    """
    content = BytesIO(Path(path).read_bytes())
    try:
        return how(content)
    except (InvalidArgument, InvalidType):
        raise
    except Exception as error:  # of its own kind for every parser and every damage, memory that a header promises among them
        first = (str(error).splitlines() or [""])[0][:200].rstrip(".")
        raise invalid(f"{name} {path}".lstrip(), expected=expected, got=f"{type(error).__name__}: {first}") from error


def flush(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

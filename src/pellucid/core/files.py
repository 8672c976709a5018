"""Atomic writes of files, and one error for files that cannot be read.

Owns: `whole` and `written`, through which every single file is written, and `parsed`, which reads files that may be damaged.
Must not: know the format of a file.
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
    """Yield the path of a draft to write, and move the draft to the file's place once it is complete and flushed to disk.

    Every call in every process has its own draft, in ``drafts`` (on the same disk) or beside the file. A full disk, an exception
    or a kill leaves the old file as it was. A new file gets its mode from the umask, a replaced file keeps its mode; links are
    followed.
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
    """Write a file through `whole`, make its folder if needed, and return its path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole(target) as draft:
        write(draft)
    return target


def parsed(path: str | os.PathLike[str], how: Callable[[BytesIO], T], *, expected: str, name: str = "") -> T:
    """Read a file with a parser of another library; whatever that raises becomes an InvalidArgument that names the file.

    The content is in memory before it is parsed, so an OSError comes from the disk. ``name`` is the argument's, for the error.
    """
    content = BytesIO(Path(path).read_bytes())
    try:
        return how(content)
    except (InvalidArgument, InvalidType):
        raise
    except Exception as error:  # each parser and each damage raises its own kind, even MemoryError for a header with a wrong size
        first = (str(error).splitlines() or [""])[0][:200].rstrip(".")
        raise invalid(f"{name} {path}".lstrip(), expected=expected, got=f"{type(error).__name__}: {first}") from error


def flush(path: Path) -> None:
    """Flush a file, or a folder's directory entries, to the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open a folder
    handle = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

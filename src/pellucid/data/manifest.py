"""Notes in a folder of results: the settings of the run, and from what each file was made.

Owns: notes on pictures, by which a call decides what is left to do; and the writing of files into the folder.
Must not: read a picture, or trust a file whose digest it has not checked.
Read next: ``folders.py``.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pellucid.core.files import whole
from pellucid.errors import invalid

__all__ = ["NOTES", "Manifest", "Note", "digest"]

NOTES = ".augment"
"""The subfolder of the results that holds the notes."""

_OLD = 86400.0
"""Age in seconds at which a draft counts as left behind by a killed process."""


def digest(*parts: bytes) -> str:
    """SHA-256 of several byte strings, each hashed after its length."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()


@dataclass(frozen=True)
class Note:
    """The note on one finished picture.

    Args:
        picture: its path.
        made_of: digest of settings, picture and annotations.
        copies: for each copy, ``files`` (digest by name) and ``part``, its part of the shared annotation file.
    """

    picture: str
    made_of: str
    copies: Sequence[Mapping[str, Any]]


class Manifest:
    """The notes in a folder of results: one file for each picture, so that many processes can write at the same time.

    Args:
        out: the folder of results.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._pictures, self._drafts = out / NOTES / "pictures", out / NOTES / "drafts"

    def begin(self, settings: Mapping[str, Any], pictures: Sequence[PurePosixPath]) -> None:
        """Begin the folder, or go on in it; raise if it holds other files, or results of other settings or pictures."""
        file, text = self.out / NOTES / "settings.json", json.dumps(settings, indent=1)
        # Settings are written before any result: list the folder first, then a listed result means that the settings exist.
        names = {path.name for path in self.out.iterdir()} if self.out.is_dir() else set()
        if not file.exists():
            if names - {NOTES}:
                expected = "an empty folder, or one that this command began"
                raise invalid(str(self.out), expected=expected, got="a folder with files in it")
            self._drafts.mkdir(parents=True, exist_ok=True)
            self._put(file, text.encode())
        if file.read_text() != text:
            try:
                before = dict(json.loads(file.read_text()))
            except (TypeError, ValueError):
                before = {}
            other = [name for name, value in json.loads(text).items() if before.get(name) != value]
            fix = "Choose another folder, or pass --overwrite."
            expected = "an empty folder, or one that the same command began"
            raise invalid(str(self.out), expected=expected, got=f"a result with other settings ({', '.join(other)})", fix=fix)
        known = {self._path(str(picture)).name for picture in pictures}
        gone = [path for path in self._pictures.rglob("*.json") if path.name not in known]
        if gone:
            note = _read(gone[0])
            fix = "Choose another folder, or pass --overwrite."
            got = f"{len(gone)} of other pictures, such as {note.picture if note else gone[0]}"
            raise invalid(str(self.out), expected="results of pictures that are in IN", got=got, fix=fix)
        for draft in self._drafts.glob(".writing-*"):
            if time.time() - draft.stat().st_mtime > _OLD:
                draft.unlink(missing_ok=True)

    def note(self, picture: PurePosixPath) -> Note | None:
        """The note on a picture, or None if it has no valid one."""
        return _read(self._path(str(picture)))

    def keep(self, note: Note) -> None:
        """Write a note; call it after all files of the picture are written."""
        self._put(self._path(note.picture), json.dumps(vars(note), allow_nan=False).encode())

    def drop(self, note: Note) -> None:
        """Delete an outdated note, and then the files it lists."""
        self._path(note.picture).unlink(missing_ok=True)
        self.remove(name for copy in note.copies for name in copy["files"])

    def remove(self, names: Iterable[str]) -> None:
        """Delete files of the folder by name."""
        for name in names:
            (self.out / name).unlink(missing_ok=True)

    def write(self, name: PurePosixPath, content: bytes) -> str:
        """Write a result, and return its digest."""
        self._put(self.out / name, content)
        return digest(content)

    def intact(self, copy: Mapping[str, Any]) -> bool:
        """Whether every file of a copy exists and has its digest."""
        paths = {self.out / name: value for name, value in copy["files"].items()}
        return all(path.is_file() for path in paths) and all(digest(path.read_bytes()) == one for path, one in paths.items())

    def parts(self, pictures: Sequence[PurePosixPath]) -> Iterator[Any]:
        """The parts of all copies whose files exist, in the order of the pictures."""
        for picture in pictures:
            note = self.note(picture)
            for copy in note.copies if note else ():
                if all((self.out / name).exists() for name in copy["files"]):
                    yield copy["part"]

    def _path(self, picture: str) -> Path:
        name = hashlib.sha256(os.fsencode(picture)).hexdigest()  # names may be long, and need not be text
        return self._pictures / name[:2] / f"{name[:40]}.json"

    def _put(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path, drafts=self._drafts) as draft:
            draft.write_bytes(content)


def _read(path: Path) -> Note | None:
    """Read a note; None if the file is missing, damaged, or names a file outside of the folder."""
    try:
        note = Note(**json.loads(path.read_bytes()))
        names = [PurePosixPath(name) for copy in note.copies for name in dict(copy["files"]) if "part" in copy]
        right = isinstance(note.made_of, str) and not any(name.is_absolute() or ".." in name.parts for name in names)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return note if right else None

"""What a folder of results knows of itself: under which settings it was begun, and what each file in it was made of.

Owns: notes on pictures, by which a call decides what is still to be done; and the one way files get into the folder.
Must not: read a picture, or trust a file that it has not summed.
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
"""The folder, in that of results, that holds all this."""

_OLD = 86400.0
"""Seconds after which a draft is one that a kill has left."""


def digest(*parts: bytes) -> str:
    """SHA-256 of several contents, each with its length."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()


@dataclass(frozen=True)
class Note:
    """What is known of one picture.

    Args:
        picture: its path.
        made_of: digest of settings, picture and annotations.
        copies: for each, ``files`` (digest by name) and ``part``, of what there is one of.
    """

    picture: str
    made_of: str
    copies: Sequence[Mapping[str, Any]]


class Manifest:
    """The notes in a folder of results, one file for each picture, so that any number of processes can write at a time.

    Args:
        out: the folder.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._pictures, self._drafts = out / NOTES / "pictures", out / NOTES / "drafts"

    def begin(self, settings: Mapping[str, Any], pictures: Sequence[PurePosixPath]) -> None:
        """Take the folder, or go on in it; refuse one that holds something else, or results of other settings or pictures."""
        file, text = self.out / NOTES / "settings.json", json.dumps(settings, indent=1)
        # Settings come before any result: where a result is seen in this list, they are seen after it.
        there = {path.name for path in self.out.iterdir()} if self.out.is_dir() else set()
        if not file.exists():
            if there - {NOTES}:
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
            got = f"{len(gone)} of others, such as {note.picture if note else gone[0]}"
            raise invalid(str(self.out), expected="results of pictures that are in IN", got=got, fix=fix)
        for draft in self._drafts.glob(".writing-*"):
            if time.time() - draft.stat().st_mtime > _OLD:
                draft.unlink(missing_ok=True)

    def note(self, picture: PurePosixPath) -> Note | None:
        """What is known of a picture."""
        return _read(self._path(str(picture)))

    def keep(self, note: Note) -> None:
        """Write a note, once all of its files are there."""
        self._put(self._path(note.picture), json.dumps(vars(note), allow_nan=False).encode())

    def drop(self, note: Note) -> None:
        """Take away what was made of something that is no longer so; first of all the note."""
        self._path(note.picture).unlink(missing_ok=True)
        self.remove(name for copy in note.copies for name in copy["files"])

    def remove(self, names: Iterable[str]) -> None:
        """Take files away."""
        for name in names:
            (self.out / name).unlink(missing_ok=True)

    def write(self, name: PurePosixPath, content: bytes) -> str:
        """Write a result, and say its digest."""
        self._put(self.out / name, content)
        return digest(content)

    def intact(self, copy: Mapping[str, Any]) -> bool:
        """Whether every file of a copy is there as it was written."""
        paths = {self.out / name: value for name, value in copy["files"].items()}
        return all(path.is_file() for path in paths) and all(digest(path.read_bytes()) == one for path, one in paths.items())

    def parts(self, pictures: Sequence[PurePosixPath]) -> Iterator[Any]:
        """The parts of all copies that are there, in the order of the pictures."""
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
    """A note; None where there is none that is whole."""
    try:
        note = Note(**json.loads(path.read_bytes()))
        names = [PurePosixPath(name) for copy in note.copies for name in dict(copy["files"]) if "part" in copy]
        right = isinstance(note.made_of, str) and not any(name.is_absolute() or ".." in name.parts for name in names)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return note if right else None

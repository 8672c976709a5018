"""YOLO: a text file for each picture, where trainers look for it.

Owns: the path of a picture's labels, and reading and writing their lines.
Must not: guess at a number; a line that is not clearly YOLO's is refused.
Read next: ``../geometry/polygons.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
import torch

from pellucid.data.form import Annotations, rows
from pellucid.errors import invalid
from pellucid.geometry.polygons import rings_of, stacked
from pellucid.types import Size

__all__ = ["Yolo", "labels_of"]

_LINE = re.compile(rb"^\s*\S+(\s+[-+.\deE]+){4,}\s*$")
_TRIED = 20
"""After so many text files without a YOLO line, text beside pictures counts as something else, such as captions."""


def labels_of(path: PurePosixPath) -> PurePosixPath:
    """Where trainers look for a picture's labels: the path's last folder ``images`` becomes ``labels``; else beside the picture."""
    parts = list(path.parts)
    if "images" in parts[:-1]:
        at = len(parts) - 2 - parts[-2::-1].index("images")
        parts[at] = "labels"
    return PurePosixPath(*parts).with_suffix(".txt")


class Yolo(Annotations):
    """A text file for each picture, a line for each object: ``class cx cy w h`` or ``class x1 y1 x2 y2 ...``, as shares.

    Args:
        root: the folder of pictures. Where a picture's path holds a folder ``images``, in ``root`` or above it, its labels are in
            ``labels`` beside that; else they are beside the picture. A picture without a file has no objects.
    """

    form: ClassVar[str] = "yolo"

    def __init__(self, root: Path) -> None:
        self.root = root

    def check(self) -> None:
        """Raise for labels with keypoints, whose lines cannot be told from polygons."""
        for path in (self.root / "data.yaml", self.root / ".." / "data.yaml"):
            if path.is_file() and b"kpt_shape" in path.read_bytes():
                raise invalid(str(path), expected="boxes or polygons", got="kpt_shape: labels with keypoints", fix="Use COCO.")

    def where(self, picture: PurePosixPath) -> Path | None:
        """The file of a picture's labels, or None if there is none."""
        at = Path(labels_of(PurePosixPath(Path(os.path.abspath(self.root), picture).as_posix())))  # noqa: PTH100 - links stay
        beside = (self.root / picture).with_suffix(".txt")
        return next((path for path in (at, beside) if path.exists()), None)

    def looks_right(self, pictures: Sequence[PurePosixPath]) -> bool:
        """Whether there are YOLO labels: any file in ``labels``; beside pictures, a file with a YOLO line, or only empty files."""
        found = [path for picture in pictures if (path := self.where(picture)) is not None]
        beside = {(self.root / picture).with_suffix(".txt") for picture in pictures}
        if not beside.issuperset(found):
            return True
        others = 0
        for path in found:
            if not path.is_file():
                continue
            first = path.read_bytes().strip().partition(b"\n")[0]
            if _LINE.match(first):
                return True
            others += bool(first)
            if others == _TRIED:
                break
        return bool(found) and not others

    def files(self, name: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """The path of a new picture's labels."""
        return (labels_of(name),)

    def common(self) -> tuple[PurePosixPath, ...]:
        """The files with the list of classes, if there are any."""
        return tuple(PurePosixPath(name) for name in ("classes.txt", "data.yaml") if (self.root / name).exists())

    def raw(self, picture: PurePosixPath) -> bytes:
        """The content of a picture's labels, after a line ``labels``; empty if there is no file."""
        path = self.where(picture)
        return b"" if path is None else b"labels\n" + path.read_bytes()

    def read(self, raw: bytes, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """The boxes and polygons of a picture, and for each the class and whether it is a polygon."""
        path = self.where(picture)
        try:
            lines = raw.partition(b"\n")[2].decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise invalid(str(path), expected="text in UTF-8", got=str(error)) from error
        boxes, outlines, known = [], [], []
        scale = np.array(size[::-1])
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            name, values = _shares(f"{path}:{number}", line)
            if len(values) == 4:
                half = values[2:] / 2
                boxes.append(np.concatenate((values[:2] - half, values[:2] + half)) * np.tile(scale, 2))
                known.append((name, False))
            else:
                shape = values.reshape(-1, 2) * scale
                boxes.append(np.concatenate((shape.min(0), shape.max(0))))
                outlines.append(torch.from_numpy(shape))
                known.append((name, True))
        return {"boxes": rows(boxes, 4), **({"polygons": stacked(outlines)} if outlines else {})}, known

    def made(
        self, known: Any, result: Mapping[str, Any], name: PurePosixPath, size: Size
    ) -> tuple[dict[PurePosixPath, bytes], Any]:
        """The lines of the objects that are still visible."""
        scale, lines, outlines = np.array(size[::-1]), [], iter(result.get("polygons", ()))
        for (label, outlined), box, valid in zip(known, result["boxes"].numpy(), result["boxes_valid"].tolist(), strict=True):
            rings = rings_of(next(outlines)) if outlined else []
            if not valid or (outlined and not rings):
                continue
            centred = np.stack(((box[:2] + box[2:]) / 2, box[2:] - box[:2]))
            # Several pieces go into one line, as trainers expect: each piece is closed, and lines join one piece to the next.
            joined = [part.numpy() for ring in rings for part in ((ring, ring[:1]) if len(rings) > 1 else (ring,))]
            values = (np.concatenate(joined) if outlined else centred) / scale
            lines.append(" ".join([label, *(f"{value:.6f}" for value in values.reshape(-1))]))
        return {labels_of(name): "".join(f"{line}\n" for line in lines).encode()}, None

    def finish(self, parts: Iterable[Any]) -> dict[PurePosixPath, bytes]:
        """The files with the list of classes, unchanged."""
        return {name: (self.root / name).read_bytes() for name in self.common()}


def _shares(where: str, line: str) -> tuple[str, Any]:
    """Return the class of a line and its numbers."""
    name, *parts = line.split()
    try:
        values = np.array([float(part) for part in parts])
    except ValueError:
        values = np.zeros(0)
    if len(values) != 4 and (len(values) < 6 or len(values) % 2):
        raise invalid(where, expected="class cx cy w h, or class and at least three points", got=repr(line))
    if not (np.abs(values - 0.5) <= 1.5).all() or (len(values) == 4 and values[2:].min() < 0):
        raise invalid(where, expected="shares of the picture's width and height, from 0 to 1", got=repr(line))
    return name, values

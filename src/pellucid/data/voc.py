"""Pascal VOC: an XML file for each picture.

Owns: boxes of objects and of their parts in it.
Must not: leave a coordinate where it was.
Read next: ``form.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from xml.etree import ElementTree as ET

import numpy as np

from pellucid.data.form import Annotations, check_size, numbers, rows
from pellucid.errors import invalid
from pellucid.types import Size

__all__ = ["Voc"]

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
_PLACE = re.compile(r"([xy](min|max|\d+)?|c[xy]|[wh]|angle)", re.IGNORECASE)
"""Names of numbers that would have to move, too."""


class Voc(Annotations):
    """An XML file for each picture, beside it or in ``Annotations`` beside ``JPEGImages``; boxes count pixels from 1."""

    form: ClassVar[str] = "voc"

    def __init__(self, root: Path) -> None:
        self.root = root

    def where(self, picture: PurePosixPath) -> Path | None:
        """Its file, if it has one."""
        path = self.root / _voc_of(picture)
        return path if path.exists() else None

    def files(self, name: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Its file."""
        return (_voc_of(name),)

    def raw(self, picture: PurePosixPath) -> bytes:
        """The file."""
        return (self.root / _voc_of(picture)).read_bytes()

    def read(self, raw: bytes, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """Boxes of objects, each before those of its parts."""
        path = self.root / _voc_of(picture)
        try:
            tree = ET.fromstring(raw)
            said = [float(tree.findtext(f"size/{name}") or 0) for name in ("height", "width")]
            boxes = [_corners(box) for box in _boxes(tree)]
        except (ET.ParseError, ValueError, LookupError) as error:
            raise invalid(str(path), expected="a Pascal VOC annotation", got=str(error)) from error
        check_size(f"{path}: size", (said[0], said[1]), size)
        return {"boxes": rows([np.array(box) - (1, 1, 0, 0) for box in boxes], 4)}, tree

    def made(
        self, known: Any, result: Mapping[str, Any], name: PurePosixPath, size: Size
    ) -> tuple[dict[PurePosixPath, bytes], Any]:
        """The tree that was read, with the new boxes, without what is no longer visible."""
        tree = ET.fromstring(ET.tostring(known))
        moved = list(zip(_boxes(tree), result["boxes"].tolist(), result["boxes_valid"].tolist(), strict=True))
        owners = {child: parent for parent in tree.iter() for child in parent}
        for box, place, valid in moved:
            if valid:
                for corner, value in zip(_CORNERS, (place[0] + 1, place[1] + 1, place[2], place[3]), strict=True):
                    _set(box, corner, f"{value:.2f}".rstrip("0").rstrip("."))
            else:
                owners[owners[box]].remove(owners[box])
        for key, text in (("filename", name.name), ("size/width", str(size[1])), ("size/height", str(size[0]))):
            _set(tree, key, text)
        return {_voc_of(name): (ET.tostring(tree, encoding="unicode") + "\n").encode()}, None


def _voc_of(picture: PurePosixPath) -> PurePosixPath:
    parts = ["Annotations" if part == "JPEGImages" else part for part in picture.parts[:-1]]
    return PurePosixPath(*parts, picture.name).with_suffix(".xml")


def _boxes(tree: Any) -> list[Any]:
    """The box of each object and, behind it, those of its parts; ValueError where anything else has a place in the picture."""
    found = []
    for item in tree.findall("object"):
        for owner in (item, *item.findall("part")):
            boxes = owner.findall("bndbox")
            if len(boxes) != 1:
                raise ValueError(f"{len(boxes)} bndbox in one {owner.tag}")
            found.append(boxes[0])
    known = {corner for box in found for corner in box}
    other = {element.tag for element in tree.iter() if _PLACE.fullmatch(element.tag) and element not in known}
    if other or len(tree.findall("object")) < len(list(tree.iter("object"))):
        names = ", ".join(sorted(other))
        raise ValueError(f"numbers that are not of a bndbox: {names}" if other else "an object within another element")
    return found


def _corners(box: Any) -> list[float]:
    values = numbers("bndbox", [float(box.findtext(name) or "nan") for name in _CORNERS], "four corners, each a number")
    if values[2] < values[0] or values[3] < values[1]:
        raise ValueError(f"a box that ends before it begins: {values}")
    return values


def _set(item: Any, name: str, value: str) -> None:
    element = item.find(name)
    if element is not None:
        element.text = value

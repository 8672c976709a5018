"""Pascal VOC: an XML file for each picture.

Owns: reading and writing the boxes of objects and of their parts.
Must not: copy an old coordinate into a new file; elements that it cannot move are refused.
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
"""Names of elements that hold coordinates."""


class Voc(Annotations):
    """An XML file for each picture, beside it or in ``Annotations`` beside ``JPEGImages``; boxes count pixels from 1."""

    form: ClassVar[str] = "voc"

    def __init__(self, root: Path) -> None:
        self.root = root

    def where(self, picture: PurePosixPath) -> Path | None:
        """The XML file of a picture, or None if there is none."""
        path = self.root / _voc_of(picture)
        return path if path.exists() else None

    def files(self, name: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """The name of a new picture's XML file."""
        return (_voc_of(name),)

    def raw(self, picture: PurePosixPath) -> bytes:
        """The content of a picture's XML file."""
        return (self.root / _voc_of(picture)).read_bytes()

    def read(self, raw: bytes, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """The boxes, each object's before those of its parts, and the XML tree."""
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
        """The XML tree with the new boxes, without objects that are no longer visible."""
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
    """Return each object's box, followed by its parts' boxes; ValueError if any other element holds coordinates."""
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
        raise ValueError(f"coordinates outside of a bndbox: {names}" if other else "an object within another element")
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

"""The interface of annotation readers.

Owns: `Annotations`, the check of numbers in annotation files, and rows of targets.
Must not: write files; results are returned as bytes, by file name.
Read next: ``coco.py``, ``yolo.py``, ``voc.py``, ``annotations.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.types import Size

__all__ = ["Annotations", "check_size", "numbers", "rows", "short"]


class Annotations:
    """The reader and writer of one form of annotations; this class itself stands for pictures without annotations.

    ``raw`` returns a picture's entries in the files. ``read`` turns them into targets (boxes are edges ``xyxy``, points pixel
    centres) and a value ``known``, which is handed to ``made``. ``made`` returns the annotations of the new picture. These three
    raise for faults in one picture's annotations.
    """

    form: ClassVar[str] = "none"

    def where(self, picture: PurePosixPath) -> Path | None:
        """The file with a picture's annotations, or None if there is none."""
        return None

    def files(self, name: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """The annotation files that belong to a new picture of this name alone."""
        return ()

    def common(self) -> tuple[PurePosixPath, ...]:
        """The files that all pictures share, such as COCO's."""
        return ()

    def notes(self, pictures: Sequence[PurePosixPath]) -> list[str]:
        """Remarks on the annotations of these pictures, for the summary before a run."""
        return []

    def faults(self) -> list[str]:
        """Faults in the files that belong to no single picture."""
        return []

    def raw(self, picture: PurePosixPath) -> bytes:
        """All of a picture's entries, as bytes: equal bytes give equal targets."""
        return b""

    def read(self, raw: bytes, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """The targets of a picture of this (height, width), and the value that `made` gets as ``known``."""
        return {}, None

    def made(
        self, known: Any, result: Mapping[str, Any], name: PurePosixPath, size: Size
    ) -> tuple[dict[PurePosixPath, bytes], Any]:
        """The new picture's annotations: its own files, and its part (JSON) of the shared file."""
        return {}, None

    def finish(self, parts: Iterable[Any]) -> dict[PurePosixPath, bytes]:
        """The shared files, made from all parts."""
        return {}


_MOST = 1e9
"""Larger than any picture, and small enough that float64 counts every step."""


def numbers(name: str, value: object, expected: str) -> list[float]:
    """Return ``value`` as floats if it is a list of finite numbers; else raise an error that says ``expected``."""
    right = isinstance(value, list) and all(type(one) in (int, float) and abs(one) < _MOST for one in value)
    if not right:
        raise invalid(name, expected=expected, got=f"{value!r:.80}")
    return [float(one) for one in value]  # type: ignore[attr-defined]  # a list, as checked


def rows(parts: Sequence[Any], width: int) -> Tensor:
    """Join parts into rows of targets (n, width)."""
    return torch.from_numpy(np.concatenate([np.reshape(part, (-1, width)) for part in parts]) if parts else np.zeros((0, width)))


def short(value: float) -> float:
    """Round a number to the three decimals that files get."""
    return round(float(value), 3)


def check_size(name: str, said: tuple[object, object], size: Size) -> None:
    """Raise if the (height, width) in an annotation differs from its picture's; None and 0 count as unknown."""
    if all(one in (None, 0) or (type(one) in (int, float) and one == here) for one, here in zip(said, size, strict=True)):
        return
    turned = said == size[::-1]
    fix = "Is this the size before the EXIF orientation is applied?" if turned else "Do the annotations belong to another picture?"
    fix += " Boxes would be misplaced."
    expected = f"the size of its picture, {size[0]} high and {size[1]} wide"
    raise invalid(name, expected=expected, got=f"{said[0]!r} high and {said[1]!r} wide", fix=fix)

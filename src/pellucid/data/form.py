"""What every form of annotations can be asked.

Owns: `Annotations`, what counts as a number in their files, and rows of targets.
Must not: write; what came out is handed back as bytes, by the names of its files.
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
    """An interface; as it stands, that of pictures alone.

    ``raw`` gives what files say of a picture, ``read`` makes targets of it (boxes are edges ``xyxy``, points pixel centres) and
    whatever ``made`` needs to know of it again; ``made`` gives what goes with a new picture. What is wrong with one picture's
    annotations is raised by one of these three.
    """

    form: ClassVar[str] = "none"

    def where(self, picture: PurePosixPath) -> Path | None:
        """The file that says something of a picture, if there is one."""
        return None

    def files(self, name: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """The files that go with a new picture of this name."""
        return ()

    def common(self) -> tuple[PurePosixPath, ...]:
        """The files that there is one of."""
        return ()

    def notes(self, pictures: Sequence[PurePosixPath]) -> list[str]:
        """What is worth knowing of them beside these pictures."""
        return []

    def faults(self) -> list[str]:
        """What is wrong with them and belongs to no picture."""
        return []

    def raw(self, picture: PurePosixPath) -> bytes:
        """All that is said of a picture: where this is the same, the targets are."""
        return b""

    def read(self, raw: bytes, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """The targets of a picture of this (height, width)."""
        return {}, None

    def made(
        self, known: Any, result: Mapping[str, Any], name: PurePosixPath, size: Size
    ) -> tuple[dict[PurePosixPath, bytes], Any]:
        """What the pipeline made of them, as files beside the new picture, and as a part (JSON) of what there is one of."""
        return {}, None

    def finish(self, parts: Iterable[Any]) -> dict[PurePosixPath, bytes]:
        """What there is one of, of all parts."""
        return {}


_MOST = 1e9
"""Beyond any picture, and far within what float64 counts."""


def numbers(name: str, value: object, expected: str) -> list[float]:
    """A list of finite numbers; ``expected`` says of which, for everything else."""
    right = isinstance(value, list) and all(type(one) in (int, float) and abs(one) < _MOST for one in value)
    if not right:
        raise invalid(name, expected=expected, got=f"{value!r:.80}")
    return [float(one) for one in value]  # type: ignore[attr-defined]  # a list, as checked


def rows(parts: Sequence[Any], width: int) -> Tensor:
    """Rows of targets, (n, width), one part after the other."""
    return torch.from_numpy(np.concatenate([np.reshape(part, (-1, width)) for part in parts]) if parts else np.zeros((0, width)))


def short(value: float) -> float:
    """A number with as many digits as a file needs."""
    return round(float(value), 3)


def check_size(name: str, said: tuple[object, object], size: Size) -> None:
    """Raise where the (height, width) that an annotation says is not its picture's; None and 0 say nothing."""
    if all(one in (None, 0) or (type(one) in (int, float) and one == here) for one, here in zip(said, size, strict=True)):
        return
    turned = " Its size before its orientation (EXIF) is applied?" if said == size[::-1] else ""
    fix = f"{turned.strip() or 'Is it of another picture?'} Boxes would be of another frame."
    expected = f"the size of its picture, {size[0]} high and {size[1]} wide"
    raise invalid(name, expected=expected, got=f"{said[0]!r} high and {said[1]!r} wide", fix=fix)

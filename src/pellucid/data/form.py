"""What every form of annotations can be asked.

Owns: `Annotations`.
Must not: write; what came out is handed back as bytes, by the names of its files.
Read next: ``coco.py``, ``yolo.py``, ``voc.py``, ``masks.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from pellucid.types import Size

__all__ = ["Annotations"]


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

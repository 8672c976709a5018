"""Masks: a folder of pictures of class numbers.

Owns: reading and writing one, with its palette.
Must not: change a number.
Read next: ``decoding.py``.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
import torch

from pellucid.data.decoding import decode_labels
from pellucid.data.form import Annotations
from pellucid.errors import InvalidArgument, invalid
from pellucid.types import Size

__all__ = ["Masks"]


class Masks(Annotations):
    """A folder of masks: for each picture one of the same relative name, ``.png``.

    Args:
        root: the folder.
        name: of the folder that is written.
    """

    form: ClassVar[str] = "masks"

    def __init__(self, root: Path, name: str = "masks") -> None:
        self.root, self.name = root, name

    def where(self, picture: PurePosixPath) -> Path | None:
        """Its mask, if it has one."""
        path = self.root / picture.with_suffix(".png")
        return path if path.exists() else None

    def files(self, name: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Its mask."""
        return (self.name / name.with_suffix(".png"),)

    def raw(self, picture: PurePosixPath) -> bytes:
        """The file."""
        return (self.root / picture.with_suffix(".png")).read_bytes()

    def read(self, raw: bytes, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """The mask, as class numbers, and its palette."""
        from PIL import Image

        path = self.root / picture.with_suffix(".png")
        try:
            mask = decode_labels(raw)
        except InvalidArgument as error:
            raise InvalidArgument(f"{path}: {error}") from error
        if tuple(mask.shape) != tuple(size):
            raise invalid(str(path), expected=f"the size of its picture, {tuple(size)}", got=tuple(mask.shape))
        if mask.dtype == torch.int32 and not 0 <= int(mask.min()) <= int(mask.max()) < 1 << 16:
            raise invalid(str(path), expected="class numbers from 0 to 65535", got=f"{int(mask.min())} to {int(mask.max())}")
        with Image.open(io.BytesIO(raw)) as image:
            palette = image.getpalette() if image.mode == "P" else None
        return {"mask": mask}, palette

    def made(
        self, known: Any, result: Mapping[str, Any], name: PurePosixPath, size: Size
    ) -> tuple[dict[PurePosixPath, bytes], Any]:
        """The mask, with the palette it had."""
        from PIL import Image

        values = result["mask"].numpy()
        image, content = Image.fromarray(values.astype(np.uint16) if values.dtype == np.int32 else values), io.BytesIO()
        if known is not None:
            image.putpalette(known)
        image.save(content, "png")
        return {self.files(name)[0]: content.getvalue()}, None

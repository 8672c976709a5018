"""Find the annotations of a folder of pictures: COCO, YOLO and Pascal VOC files, and folders of masks.

Owns: the choice of a form for a folder, the remarks on files that look like annotations and are not read, and folders of masks.
Must not: parse annotation files; each form has a file of its own.
Read next: ``form.py``.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
import torch

from pellucid.data.coco import Coco
from pellucid.data.decoding import decode_labels
from pellucid.data.form import Annotations
from pellucid.data.voc import Voc
from pellucid.data.yolo import Yolo, labels_of
from pellucid.errors import InvalidArgument, invalid
from pellucid.types import Size

__all__ = ["FORMATS", "Annotations", "Coco", "Masks", "Voc", "Yolo", "find_annotations", "unread"]

FORMATS = ("auto", "none", "coco", "yolo", "voc", "masks")


def find_annotations(
    form: str, root: Path, pictures: Sequence[PurePosixPath], *, file: Path | None, masks: Path | None
) -> Annotations:
    """Return the reader of a folder's annotations.

    Args:
        form: one of `FORMATS`; ``auto`` takes the first of these that exists: the COCO file or the folder of masks that is passed,
            labels where YOLO's trainers look for them, XML files.
        root: the folder of pictures.
        pictures: the pictures' paths, relative to ``root``.
        file: the COCO file.
        masks: the folder of masks.
    """
    for name, wanted, given in (("--coco", "coco", file), ("--masks", "masks", masks)):
        if form == wanted and given is None:
            raise invalid(name, expected={"coco": "the COCO file", "masks": "the folder of masks"}[wanted], got=None)
        if form not in ("auto", wanted) and given is not None:
            raise invalid("--annotations", expected=f"auto or {wanted} with {name}", got=form)
    if file is not None and masks is not None:
        raise invalid("--masks", expected="not with --coco: one form of annotations in a call", got=str(masks))
    if file is not None:
        return Coco(file)
    if masks is not None:
        return Masks(masks)
    if form == "auto":
        _refuse_masks(root, pictures)
    yolo, voc = Yolo(root), Voc(root)
    if form == "yolo" or (form == "auto" and yolo.looks_right(pictures)):
        yolo.check()
        return yolo
    return voc if form == "voc" or (form == "auto" and any(map(voc.where, pictures))) else Annotations()


def _refuse_masks(root: Path, pictures: Sequence[PurePosixPath]) -> None:
    """Raise if a subfolder holds the pictures' masks: they would be warped as colours, each by a draw of its own."""
    folders = {picture: next((part for part in picture.parts[:-1] if part.lower() in _MASKS), "") for picture in pictures}
    stems = {picture.stem for picture, folder in folders.items() if not folder}
    found = sorted({folder for picture, folder in folders.items() if folder and picture.stem in stems})
    if found:
        fix = "Pass the pictures' own folder with --masks FOLDER; or --annotations none, if these are pictures, too."
        expected = "a folder of pictures without their masks"
        raise invalid(str(root), expected=expected, got=f"{', '.join(found)}, with files named like pictures", fix=fix)


_MASKS = ("mask", "masks", "segmentationclass", "segmentationobject")
_FOLDERS = ("labels", "Annotations", "annotations", "masks")
_COCO = re.compile(r"(.*[._-])?(instances|annotations|coco|keypoints)([._-].*)?\.json", re.IGNORECASE)


def unread(root: Path, pictures: Sequence[PurePosixPath]) -> list[str]:
    """Return a remark on each file or folder, in a folder of pictures or beside it, that looks like annotations and is not read."""
    where = [root, Path(os.path.abspath(root)).parent]  # noqa: PTH100 - a link's own neighbours
    found = [folder / name for folder in where for name in _FOLDERS if (folder / name).is_dir()]
    labels = Path(labels_of(PurePosixPath(where[1].joinpath(root.name, "x").as_posix()))).parent
    found += [labels] if labels not in (*found, where[1] / root.name) and labels.is_dir() else []
    found += [path for folder in where for path in sorted(folder.glob("*.json")) if _COCO.fullmatch(path.name)]
    notes = [f"{Path(os.path.relpath(path, root)).as_posix()} exists" for path in found]
    for suffix in (".xml", ".txt", ".json"):
        count = sum((root / picture).with_suffix(suffix).exists() for picture in pictures)
        if count:
            notes.append(f"{count} {suffix} {'file lies' if count == 1 else 'files lie'} beside pictures")
    return notes


class Masks(Annotations):
    """A folder of masks: for each picture a PNG file of the same relative name.

    Args:
        root: the folder of masks.
        name: the name of the folder that new masks are written to.
    """

    form: ClassVar[str] = "masks"

    def __init__(self, root: Path, name: str = "masks") -> None:
        self.root, self.name = root, name

    def where(self, picture: PurePosixPath) -> Path | None:
        """The path of a picture's mask, or None if it has no mask."""
        path = self.root / picture.with_suffix(".png")
        return path if path.exists() else None

    def files(self, name: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """The path of the mask of a new picture."""
        return (self.name / name.with_suffix(".png"),)

    def raw(self, picture: PurePosixPath) -> bytes:
        """The content of a picture's mask file."""
        return (self.root / picture.with_suffix(".png")).read_bytes()

    def read(self, raw: bytes, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """The mask as class numbers, and the palette of its file."""
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
        """The new mask's file, with the palette of the old one."""
        from PIL import Image

        values = result["mask"].numpy()
        image, content = Image.fromarray(values.astype(np.uint16) if values.dtype == np.int32 else values), io.BytesIO()
        if known is not None:
            image.putpalette(known)
        image.save(content, "png")
        return {self.files(name)[0]: content.getvalue()}, None

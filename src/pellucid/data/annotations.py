"""What belongs to the pictures of a folder: COCO, YOLO and Pascal VOC files, and folders of masks.

Owns: reading them as targets of a pipeline, and writing what came out in the same form.
Must not: decode pictures or draw.
Read next: ``folders.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from xml.etree import ElementTree as ET

import numpy as np
import torch
from torch import Tensor

from pellucid.data.decoding import decode_labels
from pellucid.data.polygons import area, clipped, rle_of, unpacked_rle
from pellucid.errors import invalid
from pellucid.types import Size
from pellucid.writing import whole

__all__ = ["FORMATS", "Annotations", "Coco", "Masks", "Nothing", "Voc", "Yolo", "find_annotations"]

FORMATS = ("auto", "none", "coco", "yolo", "voc", "masks")


class Annotations(Protocol):
    """One form of annotations.

    ``read`` gives a picture's targets (boxes are edges ``xyxy``, points pixel centres) and whatever ``write`` needs to know of it
    again; ``write`` puts what the pipeline made of them beside the new picture; ``finish`` is called when all pictures are written.
    """

    def read(self, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """The targets of a picture of this (height, width)."""

    def write(self, known: Any, result: Mapping[str, Any], picture: PurePosixPath, size: Size, out: Path) -> None:
        """Write the annotations of a new picture; before the picture itself, whose presence says that all is done."""

    def finish(self, pictures: list[PurePosixPath], out: Path) -> None:
        """Write what there is one of."""


class Nothing:
    """Pictures alone."""

    def read(self, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """No targets."""
        return {}, None

    def write(self, known: Any, result: Mapping[str, Any], picture: PurePosixPath, size: Size, out: Path) -> None:
        """Nothing."""

    def finish(self, pictures: list[PurePosixPath], out: Path) -> None:
        """Nothing."""


class Masks:
    """A folder of masks: for each picture one of the same relative name, ``.png``.

    Args:
        root: the folder.
        name: of the folder that is written.
    """

    def __init__(self, root: Path, name: str = "masks") -> None:
        self.root, self.name = root, name

    def read(self, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """The mask, as class numbers."""
        mask = decode_labels(self.root / picture.with_suffix(".png"))
        return {"mask": mask}, _palette(self.root / picture.with_suffix(".png"))

    def write(self, known: Any, result: Mapping[str, Any], picture: PurePosixPath, size: Size, out: Path) -> None:
        """The mask, with the palette it had."""
        from PIL import Image

        values = result["mask"].numpy()
        image = Image.fromarray(values.astype(np.uint16) if values.dtype == np.int32 else values)
        if known is not None:
            image.putpalette(known)
        with whole(_made(out / self.name / picture.with_suffix(".png"))) as draft:
            image.save(draft, "png")

    def finish(self, pictures: list[PurePosixPath], out: Path) -> None:
        """Nothing."""


class Yolo:
    """A text file for each picture, a line for each object: ``class cx cy w h`` or ``class x1 y1 x2 y2 ...``, as shares.

    Args:
        root: the folder of pictures. Where a picture's path holds a folder ``images``, its labels are in ``labels`` beside it;
            else they are beside the picture. A picture without a file has no objects.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """Boxes; polygons as points."""
        path = self.root / _labels_of(picture)
        boxes, points, known = [], [], []
        scale = np.array(size[::-1])
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), 1):
            if not line.strip():
                continue
            name, *numbers = line.split()
            try:
                values = np.array([float(part) for part in numbers])
            except ValueError:
                values = np.zeros(0)
            if len(values) != 4 and (len(values) < 6 or len(values) % 2):
                raise invalid(f"{path}:{number}", expected="class cx cy w h, or class and at least three points", got=repr(line))
            if len(values) == 4:
                half = values[2:] / 2
                boxes.append(np.concatenate((values[:2] - half, values[:2] + half)) * np.tile(scale, 2))
                known.append((name, 0))
            else:
                shape = values.reshape(-1, 2) * scale
                boxes.append(np.concatenate((shape.min(0), shape.max(0))))
                points.append(shape - 0.5)
                known.append((name, len(shape)))
        return {"boxes": _rows(boxes, 4), "keypoints": _rows(points, 2)}, known

    def write(self, known: Any, result: Mapping[str, Any], picture: PurePosixPath, size: Size, out: Path) -> None:
        """The objects that are still to be seen."""
        scale, lines, first = np.array(size[::-1]), [], 0
        for (name, count), box, valid in zip(known, result["boxes"].numpy(), result["boxes_valid"].tolist(), strict=True):
            points, first = result["keypoints"][first : first + count].numpy() + 0.5, first + count
            if not valid:
                continue
            centred = np.stack(((box[:2] + box[2:]) / 2, box[2:] - box[:2]))
            values = (clipped(points, size) if count else centred) / scale
            if len(values) >= 2:
                lines.append(" ".join([name, *(f"{value:.6f}" for value in values.reshape(-1))]))
        with whole(_made(out / _labels_of(picture))) as draft:
            draft.write_text("".join(f"{line}\n" for line in lines))

    def finish(self, pictures: list[PurePosixPath], out: Path) -> None:
        """Copy the list of classes, where there is one."""
        for name in ("classes.txt", "data.yaml"):
            if (self.root / name).exists():
                with whole(out / name) as draft:
                    draft.write_bytes((self.root / name).read_bytes())


class Voc:
    """An XML file for each picture, beside it or in ``Annotations`` beside ``JPEGImages``; boxes count pixels from 1."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """Boxes of objects."""
        path = self.root / _voc_of(picture)
        try:
            tree = ET.fromstring(path.read_text())
            boxes = [[float(_text(item, f"bndbox/{name}")) for name in _CORNERS] for item in tree.iter("object")]
        except (ET.ParseError, ValueError) as error:
            raise invalid(str(path), expected="a Pascal VOC annotation", got=str(error)) from error
        return {"boxes": _rows([np.array(box) - (1, 1, 0, 0) for box in boxes], 4)}, tree

    def write(self, known: Any, result: Mapping[str, Any], picture: PurePosixPath, size: Size, out: Path) -> None:
        """Write the tree that was read, with the new boxes and without the objects that are no longer visible."""
        tree = ET.fromstring(ET.tostring(known))
        objects = list(tree.iter("object"))
        for item, box, valid in zip(objects, result["boxes"].tolist(), result["boxes_valid"].tolist(), strict=True):
            if not valid:
                tree.remove(item)
                continue
            for name, value in zip(_CORNERS, (box[0] + 1, box[1] + 1, box[2], box[3]), strict=True):
                _set(item, f"bndbox/{name}", f"{value:.2f}".rstrip("0").rstrip("."))
        for name, value in (("filename", picture.name), ("size/width", str(size[1])), ("size/height", str(size[0]))):
            _set(tree, name, value)
        with whole(_made(out / _voc_of(picture))) as draft:
            draft.write_text(ET.tostring(tree, encoding="unicode") + "\n")

    def finish(self, pictures: list[PurePosixPath], out: Path) -> None:
        """Nothing."""


class Coco:
    """One JSON file for all pictures: boxes, keypoints, polygons and uncompressed run lengths.

    Args:
        file: ``{"images": [...], "annotations": [...], "categories": [...]}``; ``file_name`` is relative to the folder of pictures.

    What is new is written picture by picture into ``.augment``, and put together once all of it is there.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    @cached_property
    def _content(self) -> dict[str, Any]:
        try:
            content = json.loads(self.file.read_text())
            _ = content["images"], content["annotations"]
        except (ValueError, KeyError, TypeError) as error:
            raise invalid(str(self.file), expected="a COCO file with images and annotations", got=str(error)) from error
        return dict(content)

    @cached_property
    def _images(self) -> dict[str, dict[str, Any]]:
        return {image["file_name"]: image for image in self._content["images"]}

    @cached_property
    def _objects(self) -> dict[Any, list[dict[str, Any]]]:
        found: dict[Any, list[dict[str, Any]]] = {}
        for item in self._content["annotations"]:
            found.setdefault(item["image_id"], []).append(item)
        return found

    def read(self, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """Boxes; keypoints and polygons as points; run lengths as channels of a mask."""
        image = self._images.get(str(picture))
        if image is None:
            raise invalid(str(picture), expected=f"a picture that {self.file.name} lists", got="none of that name")
        objects = self._objects.get(image["id"], [])
        boxes, points, masks = [], [], []
        for item in objects:
            x, y, width, height = item["bbox"]
            boxes.append(np.array((x, y, x + width, y + height), dtype=float))
            points.append(np.array(item.get("keypoints", ()), dtype=float).reshape(-1, 3)[:, :2])
            shape = item.get("segmentation") or []
            if isinstance(shape, Mapping):
                masks.append(unpacked_rle(shape, size, f"{self.file}: annotation {item.get('id')}"))
            else:
                points += [np.array(polygon, dtype=float).reshape(-1, 2) - 0.5 for polygon in shape]
        targets: dict[str, Any] = {"boxes": _rows(boxes, 4), "keypoints": _rows(points, 2)}
        if masks:
            targets["mask"] = torch.from_numpy(np.stack(masks))
        return targets, (image, objects)

    def write(self, known: Any, result: Mapping[str, Any], picture: PurePosixPath, size: Size, out: Path) -> None:
        """The picture's part of the file."""
        image, objects = known
        points, inside = result["keypoints"].numpy(), result["keypoints_valid"].numpy()
        masks = iter(result["mask"].numpy() if "mask" in result else ())
        kept, first = [], 0
        for item, box, valid in zip(objects, result["boxes"].tolist(), result["boxes_valid"].tolist(), strict=True):
            new = {**item, "bbox": [_short(v) for v in (box[0], box[1], box[2] - box[0], box[3] - box[1])]}
            if "keypoints" in item:
                flags = item["keypoints"][2::3]
                at = slice(first, first + len(flags))
                seen = [flag if here else 0 for flag, here in zip(flags, inside[at].tolist(), strict=True)]
                rows = [(x, y, flag) if flag else (0, 0, 0) for (x, y), flag in zip(points[at].tolist(), seen, strict=True)]
                new["keypoints"] = [v if i == 2 else _short(v) for row in rows for i, v in enumerate(row)]
                new["num_keypoints"] = sum(flag > 0 for flag in seen)
                first += len(flags)
            shape = item.get("segmentation") or []
            if isinstance(shape, Mapping):
                mask = next(masks)
                new["segmentation"], new["area"] = rle_of(mask), int(mask.sum())
            elif shape:
                polygons = []
                for polygon in shape:
                    polygons.append(clipped(points[first : first + len(polygon) // 2] + 0.5, size))
                    first += len(polygon) // 2
                polygons = [polygon for polygon in polygons if len(polygon) >= 3]
                new["segmentation"] = [[_short(v) for v in polygon.reshape(-1).tolist()] for polygon in polygons]
                new["area"] = _short(sum(map(area, polygons)))
                valid = valid and bool(polygons)
            elif "area" in item:
                new["area"] = _short((box[2] - box[0]) * (box[3] - box[1]))
            if valid:
                kept.append(new)
        content = {"image": {**image, "file_name": str(picture), "height": size[0], "width": size[1]}, "annotations": kept}
        with whole(_made(_part(picture, out))) as draft:
            draft.write_text(json.dumps(content))

    def finish(self, pictures: list[PurePosixPath], out: Path) -> None:
        """All parts that are there as one file, numbered anew."""
        there: list[PurePosixPath] = []
        # Another shard may end at the same time: the last to write has seen everything.
        while (now := [picture for picture in pictures if (out / picture).exists() and _part(picture, out).exists()]) != there:
            there = now
            self._write_all(there, out)

    def _write_all(self, present: list[PurePosixPath], out: Path) -> None:
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for number, picture in enumerate(present, 1):
            part = json.loads(_part(picture, out).read_text())
            images.append({**part["image"], "id": number})
            for item in part["annotations"]:
                annotations.append({**item, "image_id": number, "id": len(annotations) + 1})
        with whole(out / self.file.name) as draft:
            draft.write_text(json.dumps({**self._content, "images": images, "annotations": annotations}))


_CORNERS = ("xmin", "ymin", "xmax", "ymax")


def find_annotations(form: str, root: Path, *, file: Path | None, masks: Path | None) -> Annotations:
    """The annotations of a folder.

    Args:
        form: one of `FORMATS`; ``auto`` goes by what is there: a COCO file or a folder of masks that is given, text files in
            ``labels``, XML files.
        root: the folder of pictures.
        file: for COCO.
        masks: for masks.
    """
    if form == "auto":
        voc = any(root.rglob("*.xml"))
        form = "coco" if file else "masks" if masks else "yolo" if (root / "labels").is_dir() else "voc" if voc else "none"
    if form == "coco" and file is None:
        raise invalid("--coco", expected="the COCO file", got=None)
    if form == "masks" and masks is None:
        raise invalid("--masks", expected="the folder of masks", got=None)
    if form == "coco":
        assert file is not None
        return Coco(file)
    if form == "masks":
        assert masks is not None
        return Masks(masks)
    if form == "yolo":
        return Yolo(root)
    return Voc(root) if form == "voc" else Nothing()


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _rows(parts: list[Any], width: int) -> Tensor:
    return torch.from_numpy(np.concatenate([np.reshape(part, (-1, width)) for part in parts]) if parts else np.zeros((0, width)))


def _labels_of(picture: PurePosixPath) -> PurePosixPath:
    parts = list(picture.parts)
    if "images" in parts[:-1]:
        at = len(parts) - 2 - parts[-2::-1].index("images")
        parts[at] = "labels"
    return PurePosixPath(*parts).with_suffix(".txt")


def _voc_of(picture: PurePosixPath) -> PurePosixPath:
    parts = ["Annotations" if part == "JPEGImages" else part for part in picture.parts[:-1]]
    return PurePosixPath(*parts, picture.name).with_suffix(".xml")


def _part(picture: PurePosixPath, out: Path) -> Path:
    return out / ".augment" / f"{picture}.json"


def _palette(path: Path) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return image.getpalette() if image.mode == "P" else None


def _text(item: Any, name: str) -> str:
    element = item.find(name)
    if element is None or element.text is None:
        raise ValueError(f"an object without {name}")
    return str(element.text)


def _set(item: Any, name: str, value: str) -> None:
    element = item.find(name)
    if element is not None:
        element.text = value


def _short(value: float) -> float:
    return round(float(value), 3)

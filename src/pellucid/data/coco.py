"""COCO: one JSON file for all pictures.

Owns: reading a picture's boxes, keypoints, polygons and run lengths, and writing the new file.
Must not: let a fault of one picture's annotations stop another picture.
Read next: ``form.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pellucid.data.form import Annotations, check_size, numbers, rows, short
from pellucid.errors import invalid
from pellucid.geometry.polygons import polygon_of, rings_of, signed_areas, stacked
from pellucid.types import Size

__all__ = ["Coco", "outline", "rle_of", "unpacked_rle"]


class Coco(Annotations):
    """One JSON file for all pictures: boxes, keypoints, polygons and uncompressed run lengths.

    Args:
        file: ``{"images": [...], "annotations": [...], "categories": [...]}``; ``file_name`` is relative to the folder of pictures.

    The manifest's note on a picture keeps the picture's part of the new file; `finish` joins all parts.
    """

    form: ClassVar[str] = "coco"

    def __init__(self, file: Path) -> None:
        self.file = file

    @cached_property
    def _content(self) -> dict[str, Any]:
        expected = "a COCO file, with lists of images and annotations"
        try:
            content = json.loads(self.file.read_bytes())
            lists = [content[name] for name in ("images", "annotations")]
            json.dumps({name: value for name, value in content.items() if name not in ("images", "annotations")}, allow_nan=False)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise invalid(str(self.file), expected=expected, got=f"{type(error).__name__}: {error}") from error
        if not all(isinstance(one, list) for one in lists):
            raise invalid(str(self.file), expected=expected, got="no list")
        return dict(content)

    @cached_property
    def _images(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for image in self._content["images"]:
            if isinstance(image, dict) and isinstance(image.get("file_name"), str):
                found.setdefault(image["file_name"], []).append(image)
        return found

    @cached_property
    def _ids(self) -> Counter[Any]:
        return Counter(image["id"] for image in self._content["images"] if isinstance(image, dict) and _is_id(image.get("id")))

    @cached_property
    def _objects(self) -> dict[Any, list[dict[str, Any]]]:
        found: dict[Any, list[dict[str, Any]]] = {}
        for item in self._content["annotations"]:
            if isinstance(item, dict) and _is_id(item.get("image_id")):
                found.setdefault(item["image_id"], []).append(item)
        return found

    def where(self, picture: PurePosixPath) -> Path | None:
        """The COCO file, if it lists this picture; else None."""
        return self.file if str(picture) in self._images else None

    def common(self) -> tuple[PurePosixPath, ...]:
        """The name of the COCO file."""
        return (PurePosixPath(self.file.name),)

    def notes(self, pictures: Sequence[PurePosixPath]) -> list[str]:
        """Remarks on the file: listed pictures that are not in the folder, ids used twice, annotations of unlisted pictures."""
        names = set(map(str, pictures))
        gone = [name for name in self._images if name not in names]
        ids = Counter(item["id"] for items in self._objects.values() for item in items if _is_id(item.get("id")))
        twice = sum(count > 1 for count in ids.values())
        loose = sum(len(items) for name, items in self._objects.items() if name not in self._ids)
        notes = []
        if gone:
            notes.append(f"{_counted(len(gone), 'listed picture is', 'listed pictures are')} not in the folder, such as {gone[0]}")
        if twice:
            notes.append(f"{_counted(twice, 'annotation id is', 'annotation ids are')} used twice")
        if loose:
            notes.append(f"{_counted(loose, 'annotation belongs', 'annotations belong')} to no listed picture")
        return notes

    def faults(self) -> list[str]:
        """Entries that belong to no picture, so no picture can be reported as faulty."""
        images = len(self._content["images"]) - sum(map(len, self._images.values()))
        items = len(self._content["annotations"]) - sum(map(len, self._objects.values()))
        faults = [f"{_counted(images, 'image has', 'images have')} no file_name"] if images else []
        return faults + ([f"{_counted(items, 'annotation has', 'annotations have')} no image_id"] if items else [])

    def raw(self, picture: PurePosixPath) -> bytes:
        """The file's entries for a picture: its images, their annotations, and whether another image has the same id."""
        images = self._images.get(str(picture), [])
        objects = [self._objects.get(image["id"], []) for image in images if _is_id(image.get("id"))]
        return json.dumps([images, objects, self._doubled(images)], sort_keys=True).encode()

    def _doubled(self, images: Sequence[dict[str, Any]]) -> bool:
        return any(self._ids[image["id"]] > 1 for image in images if _is_id(image.get("id")))

    def read(self, raw: bytes, picture: PurePosixPath, size: Size) -> tuple[dict[str, Any], Any]:
        """Boxes, keypoints and polygons of a picture; run lengths become channels of a mask."""
        images, objects, doubled = json.loads(raw)
        if len(images) != 1:
            got = f"{len(images)} of that name" if images else "none of that name"
            raise invalid(f"{self.file}: {picture}", expected=f"a picture that {self.file.name} lists once", got=got)
        image, where = images[0], f"{self.file}: image {images[0].get('id')!r:.40}"
        if not objects or doubled:
            got = "another image with the same" if doubled else repr(image.get("id"))
            raise invalid(where, expected="an id that no other image has, a number or text", got=got)
        check_size(where, (image.get("height"), image.get("width")), size)
        _check_numbers(where, image)
        boxes, points, outlines, masks = [], [], [], []
        for item in objects[0]:
            name = f"{self.file}: annotation {item.get('id')!r:.40}"
            _check_numbers(name, item)
            box = numbers(f"{name}: bbox", item.get("bbox"), "[x, y, width, height]")
            if len(box) != 4 or min(box[2:]) < 0:
                raise invalid(f"{name}: bbox", expected="[x, y, width, height] with no negative size", got=box)
            boxes.append(np.array((box[0], box[1], box[0] + box[2], box[1] + box[3])))
            known = numbers(f"{name}: keypoints", item.get("keypoints") or [], "[x, y, visibility, ...]")
            if len(known) % 3:
                raise invalid(f"{name}: keypoints", expected="three numbers for each point", got=f"{len(known)} numbers")
            points.append(np.array(known).reshape(-1, 3)[:, :2])
            shape = item.get("segmentation")
            if isinstance(shape, Mapping):
                masks.append(unpacked_rle(shape, size, name))
            elif shape is not None and (rings := _polygons(f"{name}: segmentation", shape)):
                outlines.append(polygon_of(name, rings))
        targets: dict[str, Any] = {"boxes": rows(boxes, 4), "keypoints": rows(points, 2)}
        if outlines:
            targets["polygons"] = stacked(outlines)
        if masks:
            targets["mask"] = torch.from_numpy(np.stack(masks))
        return targets, (image, objects[0])

    def made(
        self, known: Any, result: Mapping[str, Any], name: PurePosixPath, size: Size
    ) -> tuple[dict[PurePosixPath, bytes], Any]:
        """The new picture's part of the file: its image and the annotations that are still visible."""
        image, objects = known
        points, inside = result["keypoints"].numpy(), result["keypoints_valid"].numpy()
        masks = iter(result["mask"].numpy() if "mask" in result else ())
        outlines = iter(result.get("polygons", ()))
        kept, first = [], 0
        for item, box, valid in zip(objects, result["boxes"].tolist(), result["boxes_valid"].tolist(), strict=True):
            new = {**item, "bbox": [short(v) for v in (box[0], box[1], box[2] - box[0], box[3] - box[1])]}
            if item.get("keypoints"):
                flags = item["keypoints"][2::3]
                at = slice(first, first + len(flags))
                seen = [flag if here else 0 for flag, here in zip(flags, inside[at].tolist(), strict=True)]
                placed = [(x, y, flag) if flag else (0, 0, 0) for (x, y), flag in zip(points[at].tolist(), seen, strict=True)]
                new["keypoints"] = [v if i == 2 else short(v) for row in placed for i, v in enumerate(row)]
                new["num_keypoints"] = sum(flag > 0 for flag in seen)
                first += len(flags)
            shape = item.get("segmentation") or []
            if isinstance(shape, Mapping):
                mask = next(masks)
                new["segmentation"], new["area"] = rle_of(mask), int(mask.sum())
            elif shape:
                polygon = next(outlines)
                rings = rings_of(polygon)
                new["segmentation"] = [[short(v) for v in ring.flatten().tolist()] for ring in rings]
                new["area"] = short(float(signed_areas(polygon).abs()))
                valid = valid and bool(rings)
            elif "area" in item:
                new["area"] = short((box[2] - box[0]) * (box[3] - box[1]))
            if valid:
                kept.append(new)
        part = {"image": {**image, "file_name": str(name), "height": size[0], "width": size[1]}, "annotations": kept}
        _check_numbers(str(name), part)
        return {}, part

    def finish(self, parts: Iterable[Any]) -> dict[PurePosixPath, bytes]:
        """One file of all parts, with new ids."""
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for number, part in enumerate(parts, 1):
            images.append({**part["image"], "id": number})
            for item in part["annotations"]:
                annotations.append({**item, "image_id": number, "id": len(annotations) + 1})
        content = json.dumps({**self._content, "images": images, "annotations": annotations}, allow_nan=False)
        return {PurePosixPath(self.file.name): content.encode()}


def _is_id(value: object) -> bool:
    return type(value) in (int, str) or (isinstance(value, float) and value == value)  # NaN is not even itself


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _check_numbers(name: str, value: object) -> None:
    """Raise for NaN and infinity, which JSON cannot hold."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise invalid(name, expected="finite numbers", got="NaN or infinity") from error


def _polygons(name: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise invalid(name, expected="a list of polygons, or run lengths", got=f"{value!r:.80}")
    return [outline(name, one) for one in value]


def outline(name: str, value: object) -> NDArray[Any]:
    """Return a list x1, y1, x2, y2, ... as a polygon (n, 2)."""
    expected = "polygons [x1, y1, x2, y2, x3, y3, ...] of at least three corners"
    flat = numbers(name, value, expected)
    if len(flat) < 6 or len(flat) % 2:
        raise invalid(name, expected=expected, got=f"{len(flat)} numbers")
    return np.array(flat).reshape(-1, 2)


def rle_of(mask: NDArray[Any]) -> dict[str, Any]:
    """Run lengths of a mask (H, W) column by column, zeros first, as COCO stores crowds."""
    flat = np.concatenate(([0], (mask.T.reshape(-1) != 0).astype(np.int8), [2]))
    ends = np.flatnonzero(np.diff(flat))
    return {"counts": np.diff(np.concatenate(([0], ends))).tolist(), "size": list(mask.shape)}


def unpacked_rle(value: Mapping[str, Any], size: Size, name: str) -> NDArray[np.uint8]:
    """Return the mask (H, W) that COCO's run lengths describe."""
    counts, said = value.get("counts"), value.get("size")
    right = isinstance(counts, list) and all(type(count) is int and count >= 0 for count in counts)
    if not right or sum(counts) != size[0] * size[1]:  # type: ignore[arg-type]  # a list, as checked
        got = "a compressed text" if isinstance(counts, str) else f"{counts!r:.60}"
        raise invalid(f"{name}: counts", expected=f"uncompressed run lengths of {size[0]}x{size[1]} pixels", got=got)
    if said != list(size):
        raise invalid(f"{name}: size", expected=f"that of its picture, {list(size)}", got=f"{said!r:.60}")
    assert isinstance(counts, list)
    return np.repeat(np.arange(len(counts)) % 2, counts).astype(np.uint8).reshape(size[::-1]).T

"""What a call will write, before it writes: names, and what there is to be said of pictures and annotations.

Owns: `Plan`, and the pipelines and names that are refused.
Must not: open a picture, or write.
Read next: ``folders.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch

from pellucid.data.annotations import Annotations, unread
from pellucid.data.yolo import labels_of
from pellucid.errors import InvalidArgument, invalid
from pellucid.pipeline import Pipeline
from pellucid.segments import LayerSpec
from pellucid.transforms.base import ANY_IMAGE, Transform
from pellucid.transforms.choices import Choice

__all__ = ["PICTURES", "Plan", "check_pipeline", "name_of", "pictures_in", "plan_of"]

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm")
_OTHERS = (".gif", ".heic", ".heif", ".avif", ".jfif", ".jpe", ".jp2", ".pgm", ".pbm", ".tga", ".exr", ".hdr", ".dng", ".npy")
"""Of pictures, too, and not read."""


@dataclass(frozen=True)
class Plan:
    """What is to be done.

    Args:
        pictures: all of them, in order.
        labels: how many of them have annotations, of which form, and where.
        notes: what else there is to be said.
    """

    pictures: tuple[PurePosixPath, ...]
    labels: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """One line, such as ``60 pictures, 0 labels; ../labels exists.``."""
        count = len(self.pictures)
        notes = f"; {', '.join(self.notes)}" if self.notes else ""
        return f"{count} picture{'s' * (count != 1)}, {self.labels}{notes}."


def name_of(picture: PurePosixPath, copy: int) -> PurePosixPath:
    """The path of a copy, relative to the folder: that of ``cat/01.jpg`` is ``cat/01_0.jpg``."""
    return picture.with_name(f"{picture.stem}_{copy}{picture.suffix}")


def plan_of(source: Path, out: Path, pictures: Sequence[PurePosixPath], annotations: Annotations, copies: int) -> Plan:
    """Look at every name that will be written.

    Errors:
        InvalidArgument where two files would have one name, and where labels would lie where nobody looks for them.
    """
    owners: dict[str, PurePosixPath] = {}
    at = PurePosixPath(Path(os.path.abspath(out)).as_posix())  # noqa: PTH100 - trainers go by the path as it is written
    for picture in pictures:
        name = name_of(picture, 0)  # whose other copies meet where these do
        for file in (name, *annotations.files(name)):
            other = owners.setdefault(str(file), picture)
            if other is not picture:
                raise _twice(out / file, f"{other} and {picture}")
        if annotations.form == "yolo" and labels_of(at / name) != at / labels_of(name):
            fix = f"Trainers would look for labels in {labels_of(at / name).parent}, and they are written in OUT."
            raise invalid("OUT", expected="a folder that is in no folder named images", got=str(out), fix=fix)
    for file in annotations.common():
        stem, _, copy = file.stem.rpartition("_")
        owner = owners.get(str(file.with_name(f"{stem}_0{file.suffix}")))
        if copy.isdecimal() and int(copy) < copies and owner is not None:
            raise _twice(out / file, f"{owner} and all pictures")
    found = [path for path in map(annotations.where, pictures) if path is not None]
    notes = annotations.notes(pictures) + (unread(source, pictures) if annotations.form == "none" else _loose(found))
    others = sorted(path.name for path in source.rglob("*") if path.suffix.lower() in _OTHERS)
    if others:
        which = f"{len(others)} file{' is' if len(others) == 1 else 's are'}"
        notes.append(f"{which} of no kind that is read, such as {others[0]}")
    return Plan(tuple(pictures), _labels(source, annotations, found), tuple(notes))


def _labels(source: Path, annotations: Annotations, found: Sequence[Path]) -> str:
    """How many there are, and where from."""
    if not found:
        return "0 labels"
    folders = {path if annotations.form == "coco" else path.parent for path in found}
    name = Path(os.path.relpath(os.path.commonpath(folders), source)).as_posix()
    return f"{len(found)} with labels ({annotations.form}, {'beside them' if name == '.' else f'in {name}'})"


def _loose(found: Sequence[Path]) -> list[str]:
    """Files of labels in the same folders, if these hold nothing else, that are of no picture."""
    used = set(found)
    folders = {path.parent for path in found if path.parent.name in ("labels", "Annotations", "masks")}
    loose = sorted(path for folder in folders for path in folder.glob(f"*{found[0].suffix}") if path not in used)
    return [f"{len(loose)} in {loose[0].parent.name} of no picture, such as {loose[0].name}"] if loose else []


def _twice(file: Path, owners: str) -> InvalidArgument:
    return invalid(str(file), expected="to be written once", got=f"a file of {owners}", fix="Give one of them another name.")


def pictures_in(source: Path, *, without: tuple[Path, ...] = ()) -> list[PurePosixPath]:
    """Every picture of a folder by its relative path, in order; ``without`` names folders inside that are left out."""
    if not source.is_dir():
        raise invalid("IN", expected="a folder of pictures", got=str(source))
    left_out = [path.resolve() for path in without]
    files = [path for path in source.rglob("*") if path.suffix.lower() in PICTURES and path.is_file()]
    kept = [path for path in files if not any(path.resolve().is_relative_to(other) for other in left_out)]
    return sorted(PurePosixPath(path.relative_to(source).as_posix()) for path in kept)


def check_pipeline(pipeline: Pipeline, annotations: Annotations) -> None:
    """Raise for a pipeline that cannot make files of one picture at a time."""
    steps = list(_all(step.transform for step in pipeline.steps))
    for transform in steps:
        layers = _layers(transform)
        if layers is not None and any(layers.partners):
            fix = "It belongs where batches are made: in the training step."
            expected = "transforms of one picture at a time"
            raise invalid("--pipeline", expected=expected, got=f"{type(transform).__name__}, which shows others, too", fix=fix)
        if layers is not None and layers.moves and annotations.form not in ("none", "masks"):
            raise invalid(
                "--pipeline",
                expected=f"transforms that keep an object in one piece, for {annotations.form}",
                got=f"{type(transform).__name__}, which cuts pictures into pieces",
                fix="Leave it out, or pass --annotations none.",
            )
    units = [transform for transform in steps if transform.units is not None]
    dtype = pipeline.options.dtype
    if dtype not in (None, torch.uint8) or (units and units[-1].units == "normalised"):
        got = f"dtype {dtype}" if dtype not in (None, torch.uint8) else f"{type(units[-1]).__name__}, whose results are not"
        fix = "Files are written before that: it belongs to training."
        raise invalid("--pipeline", expected="transforms that keep 8-bit pictures 8-bit", got=got, fix=fix)
    if pipeline.options.pairs and annotations.form != "none":
        fix = "Points keep their names; swap left and right where a picture was mirrored, or leave pairs out."
        expected = "no pairs, as points of several objects follow one another here"
        raise invalid("--pipeline", expected=expected, got=f"pairs={pipeline.options.pairs}", fix=fix)


def _all(transforms: Iterable[Transform]) -> Iterable[Transform]:
    """Transforms and, of a mixture, those in its chains."""
    for transform in transforms:
        yield transform
        inner = () if isinstance(transform, Choice) else getattr(transform, "transforms", ())
        yield from _all(one for branch in inner for one in (branch if isinstance(branch, tuple) else (branch,)))


def _layers(transform: Transform) -> LayerSpec | None:
    """What it lays over one another, if it does."""
    if isinstance(transform, Choice):
        return None
    try:
        spec = transform.segment(ANY_IMAGE)
    except InvalidArgument:  # of other pictures alone; where one of these comes, it is named
        return None
    return spec if isinstance(spec, LayerSpec) else None

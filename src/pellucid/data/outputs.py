"""Plan a run before anything is written: the names of the results, and remarks on pictures and annotations.

Owns: `Plan`, and the refusal of pipelines and names that cannot work.
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
"""Suffixes of files that are pictures too, and that are not read."""


@dataclass(frozen=True)
class Plan:
    """The pictures of a run, and a summary of them.

    Args:
        pictures: all of them, in order.
        labels: how many of them have annotations, of which form, and where.
        notes: further remarks.
    """

    pictures: tuple[PurePosixPath, ...]
    labels: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """A line such as ``60 pictures, 0 labels; ../labels exists.``."""
        count = len(self.pictures)
        notes = f"; {', '.join(self.notes)}" if self.notes else ""
        return f"{count} picture{'s' * (count != 1)}, {self.labels}{notes}."


def name_of(picture: PurePosixPath, copy: int) -> PurePosixPath:
    """The path of a copy, relative to the folder of results: copy 0 of ``cat/01.jpg`` is ``cat/01_0.jpg``."""
    return picture.with_name(f"{picture.stem}_{copy}{picture.suffix}")


def plan_of(source: Path, out: Path, pictures: Sequence[PurePosixPath], annotations: Annotations, copies: int) -> Plan:
    """Check every name that will be written, and summarise the pictures and their annotations.

    Errors:
        InvalidArgument where two files would have one name, and where trainers would not find the new labels.
    """
    owners: dict[str, PurePosixPath] = {}
    at = PurePosixPath(Path(os.path.abspath(out)).as_posix())  # noqa: PTH100 - trainers go by the path as it is written
    for picture in pictures:
        name = name_of(picture, 0)  # other copies collide exactly where copy 0 does
        for file in (name, *annotations.files(name)):
            other = owners.setdefault(str(file), picture)
            if other is not picture:
                raise _twice(out / file, f"{other} and {picture}")
        if annotations.form == "yolo" and labels_of(at / name) != at / labels_of(name):
            fix = f"Trainers would look for labels in {labels_of(at / name).parent}, but labels are written to OUT."
            raise invalid("OUT", expected="a folder outside of any folder named images", got=str(out), fix=fix)
    for file in annotations.common():
        stem, _, copy = file.stem.rpartition("_")
        owner = owners.get(str(file.with_name(f"{stem}_0{file.suffix}")))
        if copy.isdecimal() and int(copy) < copies and owner is not None:
            raise _twice(out / file, f"{owner} and all pictures")
    found = [path for path in map(annotations.where, pictures) if path is not None]
    notes = annotations.notes(pictures) + (unread(source, pictures) if annotations.form == "none" else _loose(found))
    others = sorted(path.name for path in source.rglob("*") if path.suffix.lower() in _OTHERS)
    if others:
        which = f"{len(others)} picture file{' has' if len(others) == 1 else 's have'}"
        notes.append(f"{which} a format that is not read, such as {others[0]}")
    return Plan(tuple(pictures), _labels(source, annotations, found), tuple(notes))


def _labels(source: Path, annotations: Annotations, found: Sequence[Path]) -> str:
    """Say how many pictures have annotations, of which form, and where these lie."""
    if not found:
        return "0 labels"
    folders = {path if annotations.form == "coco" else path.parent for path in found}
    name = Path(os.path.relpath(os.path.commonpath(folders), source)).as_posix()
    return f"{len(found)} with labels ({annotations.form}, {'beside them' if name == '.' else f'in {name}'})"


def _loose(found: Sequence[Path]) -> list[str]:
    """Remark on label files without a picture, in those folders that by their name hold only labels."""
    used = set(found)
    folders = {path.parent for path in found if path.parent.name in ("labels", "Annotations", "masks")}
    loose = sorted(path for folder in folders for path in folder.glob(f"*{found[0].suffix}") if path not in used)
    return [f"{len(loose)} in {loose[0].parent.name} without a picture, such as {loose[0].name}"] if loose else []


def _twice(file: Path, owners: str) -> InvalidArgument:
    return invalid(str(file), expected="to be written once", got=f"a file of {owners}", fix="Give one of them another name.")


def pictures_in(source: Path, *, without: tuple[Path, ...] = ()) -> list[PurePosixPath]:
    """The relative paths of all pictures in a folder, sorted; ``without`` names folders inside it that are left out."""
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
            raise invalid("--pipeline", expected=expected, got=f"{type(transform).__name__}, which mixes pictures", fix=fix)
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
        got = f"dtype {dtype}" if dtype not in (None, torch.uint8) else f"{type(units[-1]).__name__}, whose results are floats"
        fix = "Move it to the training step."
        raise invalid("--pipeline", expected="transforms that keep 8-bit pictures 8-bit", got=got, fix=fix)
    if pipeline.options.pairs and annotations.form != "none":
        fix = "Leave pairs out; where a picture was mirrored, swap left and right points yourself."
        expected = "no pairs, because the points of all objects are one list here"
        raise invalid("--pipeline", expected=expected, got=f"pairs={pipeline.options.pairs}", fix=fix)


def _all(transforms: Iterable[Transform]) -> Iterable[Transform]:
    """Yield every transform, and those inside a mixture's chains."""
    for transform in transforms:
        yield transform
        inner = () if isinstance(transform, Choice) else getattr(transform, "transforms", ())
        yield from _all(one for branch in inner for one in (branch if isinstance(branch, tuple) else (branch,)))


def _layers(transform: Transform) -> LayerSpec | None:
    """The layer description of a transform that composes pictures; None for all others."""
    if isinstance(transform, Choice):
        return None
    try:
        spec = transform.segment(ANY_IMAGE)
    except InvalidArgument:  # a transform for other kinds of pictures; the run itself will name it
        return None
    return spec if isinstance(spec, LayerSpec) else None

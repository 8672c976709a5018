"""A folder of pictures through a pipeline, to disk: in parts, by many workers, and again after a stop.

Owns: which file is made from which, and with which draw.
Must not: print.
Read next: ``annotations.py``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pellucid.data.annotations import Annotations
from pellucid.data.decoding import decode
from pellucid.data.samples import index_of
from pellucid.errors import InvalidArgument, InvalidType, invalid
from pellucid.pipeline import Pipeline
from pellucid.random.key import Key
from pellucid.writing import whole

__all__ = ["PICTURES", "Job", "Outcome", "for_files", "pictures_in", "run", "shard_of"]

PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm")
_STATE = ".augment.json"


class Outcome(NamedTuple):
    """What became of one picture: how many were written, how many were there already, and what was wrong, if anything."""

    picture: PurePosixPath
    written: int
    kept: int
    wrong: str = ""


@dataclass(frozen=True)
class Job:
    """What is to be done.

    Args:
        source, out: folders.
        pipeline: keeps bytes bytes.
        annotations: of the pictures.
        copies: of each picture; copy c is the draw of step c, counted from 0.
        seed: of the draws; the index is that of the picture's relative path.
        quality: of JPEG and WebP files.
        gray: read one channel.
    """

    source: Path
    out: Path
    pipeline: Pipeline
    annotations: Annotations
    copies: int = 1
    seed: int = 0
    quality: int = 95
    gray: bool = False

    def name(self, picture: PurePosixPath, copy: int) -> PurePosixPath:
        """The path of a copy, relative to the folder: that of ``cat/01.jpg`` is ``cat/01_0.jpg``."""
        return picture.with_name(f"{picture.stem}_{copy}{picture.suffix}")

    def work(self, picture: PurePosixPath) -> Outcome:
        """Make every copy of a picture that is not there yet."""
        names = [self.name(picture, copy) for copy in range(self.copies)]
        missing = [copy for copy, name in enumerate(names) if not (self.out / name).exists()]
        kept = self.copies - len(missing)
        if not missing:
            return Outcome(picture, 0, kept)
        try:
            image = decode(self.source / picture, gray=self.gray)
            targets, known = self.annotations.read(picture, (image.shape[1], image.shape[2]))
            results = [self._made({"image": image, **targets}, picture, copy) for copy in missing]
        except (InvalidArgument, InvalidType, FileNotFoundError) as error:
            return Outcome(picture, 0, kept, str(error))
        for copy, result in zip(missing, results, strict=True):
            shown = result["image"]
            self.annotations.write(known, result, names[copy], (shown.shape[1], shown.shape[2]), self.out)
            _save(shown, self.out / names[copy], self.quality)
        return Outcome(picture, len(missing), kept)

    def _made(self, batch: dict[str, Any], picture: PurePosixPath, copy: int) -> dict[str, Any]:
        key = Key(self.seed, copy, torch.tensor([index_of(str(picture))]))
        with torch.no_grad():
            augmented: dict[str, Any] = self.pipeline(batch, key=key)
        if augmented["image"].dtype != torch.uint8:
            raise invalid("--pipeline", expected="transforms that keep 8-bit pictures 8-bit", got=f"{augmented['image'].dtype}")
        return augmented

    def begin(self) -> None:
        """Take the folder, or go on in it; refuse one that holds something else."""
        state = json.dumps(self._state(), indent=1)
        file = self.out / _STATE
        if file.exists():
            if file.read_text() != state:
                raise invalid(
                    str(self.out),
                    expected="an empty folder, or one that the same command began",
                    got="the result of other settings or another pipeline",
                    fix="Choose another folder, or pass --overwrite.",
                )
            return
        if self.out.is_dir() and any(self.out.iterdir()):
            raise invalid(
                str(self.out), expected="an empty folder, or one that this command began", got="a folder with files in it"
            )
        self.out.mkdir(parents=True, exist_ok=True)
        with whole(file) as draft:
            draft.write_text(state)

    def _state(self) -> dict[str, Any]:
        described = json.dumps(self.pipeline.to_dict(), sort_keys=True)
        settings = {"copies": self.copies, "seed": self.seed, "quality": self.quality, "gray": self.gray}
        form = type(self.annotations).__name__.lower()
        return {"pipeline": hashlib.sha256(described.encode()).hexdigest(), "annotations": form, **settings}


def for_files(pipeline: Pipeline, *, seed: int) -> Pipeline:
    """The pipeline's transforms, with the options that fit targets as `Annotations` read them."""
    plain = {"box_format": "xyxy", "targets": {}, "passthrough": (), "return_valid": False}
    return Pipeline(pipeline.transforms, seed=seed, **{**pipeline.options.settings(), **plain})


def pictures_in(source: Path, *, without: tuple[Path, ...] = ()) -> list[PurePosixPath]:
    """Every picture of a folder by its relative path, in order; ``without`` names folders inside that are left out."""
    if not source.is_dir():
        raise invalid("IN", expected="a folder of pictures", got=str(source))
    left_out = [path.resolve() for path in without]
    files = [path for path in source.rglob("*") if path.suffix.lower() in PICTURES and path.is_file()]
    kept = [path for path in files if not any(path.resolve().is_relative_to(other) for other in left_out)]
    return sorted(PurePosixPath(path.relative_to(source).as_posix()) for path in kept)


def shard_of(text: str | None) -> tuple[int, int]:
    """(which, of how many), counted from 0: of ``I/N``, which counts from 1, or of the process that torchrun started."""
    if text is None:
        return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    which, _, count = text.partition("/")
    if not (which.isdecimal() and count.isdecimal() and 1 <= int(which) <= int(count)):
        raise invalid("--shard", expected="I/N with I from 1 to N, such as 2/8", got=repr(text))
    return int(which) - 1, int(count)


def run(job: Job, pictures: list[PurePosixPath], *, workers: int = 0) -> Iterator[Outcome]:
    """Do the work on these pictures; an outcome for each, in their order."""
    loader = DataLoader(_Work(job, pictures), batch_size=None, num_workers=workers, collate_fn=_same)
    yield from loader


class _Work(Dataset[Outcome]):
    def __init__(self, job: Job, pictures: list[PurePosixPath]) -> None:
        self.job, self.pictures = job, pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, i: int) -> Outcome:
        return self.job.work(self.pictures[i])


def _same(outcome: Any) -> Any:
    return outcome


def _save(image: Tensor, path: Path, quality: int) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.ascontiguousarray(image.permute(1, 2, 0).numpy())
    picture = Image.fromarray(values[..., 0] if values.shape[2] == 1 else values)
    form = Image.registered_extensions()[path.suffix.lower()]
    options = {"quality": quality} if form in ("JPEG", "WEBP") else {}
    with whole(path) as draft:
        picture.save(draft, form, **options)

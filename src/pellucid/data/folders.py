"""Augment a folder of pictures to disk: in shards, by many workers, and resumable after a stop.

Owns: which file is made from which picture with which draw, and that a fault in one picture stops no other.
Must not: print.
Read next: ``outputs.py``, ``manifest.py``, ``annotations.py``.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pellucid._version import __version__
from pellucid.data.annotations import Annotations
from pellucid.data.decoding import decode
from pellucid.data.manifest import Manifest, Note, digest
from pellucid.data.outputs import name_of
from pellucid.data.samples import index_of
from pellucid.errors import ImplementationError, InvalidArgument, InvalidType, StoppedRun, invalid
from pellucid.pipeline import Pipeline
from pellucid.random.key import Key
from pellucid.random.stream import launched

__all__ = ["Job", "Outcome", "for_files", "run", "shard_of"]

_ORIENTATION = 0x0112
"""EXIF's tag for the camera's orientation."""


class Outcome(NamedTuple):
    """What became of one picture.

    Args:
        picture: its path.
        written: copies that were written.
        anew: how many of these replace copies that older settings, an older picture or older annotations had given.
        kept: copies that existed already.
        turned: the picture was turned by its EXIF orientation.
        wrong: the error, if any.
    """

    picture: PurePosixPath
    written: int = 0
    anew: int = 0
    kept: int = 0
    turned: bool = False
    wrong: str = ""


@dataclass(frozen=True)
class Job:
    """The settings of one run, and the work on one picture.

    Args:
        source, out: folders.
        pipeline: as `for_files` gives it.
        annotations: the reader of the pictures' annotations.
        copies: how many of each picture; copy c is the draw of step c, counted from 0.
        seed: the seed of the draws; a picture's index is `index_of` its relative path.
        quality: the quality of JPEG and WebP files.
        gray: read pictures as one channel.
    """

    source: Path
    out: Path
    pipeline: Pipeline
    annotations: Annotations
    copies: int = 1
    seed: int = 0
    quality: int = 95
    gray: bool = False

    @cached_property
    def manifest(self) -> Manifest:
        """The notes in the folder of results."""
        return Manifest(self.out)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings that every result depends on."""
        described = json.dumps(self.pipeline.to_dict(), sort_keys=True)
        plain = {"copies": self.copies, "seed": self.seed, "quality": self.quality, "gray": self.gray}
        form = self.annotations.form
        names = self.annotations.common() if form == "coco" else ()  # a file of another name would stay beside this one
        return {"pipeline": digest(described.encode()), "annotations": [form, *map(str, names)], **plain}

    def work(self, picture: PurePosixPath) -> Outcome:
        """Make the copies of a picture that are missing or outdated. An error is returned in the outcome, not raised."""
        try:
            return self._work(picture)
        except Exception as error:
            return Outcome(picture, wrong=_sentence(error))

    def _work(self, picture: PurePosixPath) -> Outcome:
        content, raw = (self.source / picture).read_bytes(), self.annotations.raw(picture)
        made_of = digest(json.dumps([self.settings, __version__]).encode(), content, raw)
        note, anew = self.manifest.note(picture), False
        if note is not None and note.made_of != made_of:
            self.manifest.drop(note)
            note, anew = None, True
        copies = {i: copy for i, copy in enumerate(note.copies) if self.manifest.intact(copy)} if note else {}
        missing = [copy for copy in range(self.copies) if copy not in copies]
        if not missing:
            return Outcome(picture, kept=self.copies)
        image, turned = decode(content, gray=self.gray), _is_turned(content)
        targets, known = self.annotations.read(raw, picture, (image.shape[1], image.shape[2]))
        batch = {"image": image, **targets}
        kept, begun = len(copies), list[str]()
        try:
            for copy in missing:
                files, part = self._made(batch, known, picture, copy)
                begun += map(str, files)
                copies[copy] = {"files": {str(name): self.manifest.write(name, files[name]) for name in files}, "part": part}
            self.manifest.keep(Note(str(picture), made_of, [copies[copy] for copy in range(self.copies)]))
        except Exception:
            self.manifest.remove(begun)
            raise
        return Outcome(picture, len(missing), len(missing) * anew, kept, turned)

    def _made(self, batch: dict[str, Any], known: Any, picture: PurePosixPath, copy: int) -> tuple[dict[PurePosixPath, bytes], Any]:
        """The files of one copy, the picture last, and the copy's part of the common annotation file."""
        key = Key(self.seed, copy, torch.tensor([index_of(os.fsencode(str(picture)))]))
        with torch.no_grad():
            result: dict[str, Any] = self.pipeline(batch, key=key)
        image, name = result["image"], name_of(picture, copy)
        if image.dtype != batch["image"].dtype:
            raise invalid("--pipeline", expected=f"transforms that keep {batch['image'].dtype} pictures", got=f"{image.dtype}")
        files, part = self.annotations.made(known, result, name, (image.shape[1], image.shape[2]))
        return {**files, name: _encoded(image, name.suffix, self.quality)}, part

    def finish(self, pictures: Sequence[PurePosixPath]) -> None:
        """Write the annotation files that all pictures share, from the parts of the finished pictures."""
        seen: list[Any] | None = None
        # Another shard may end at the same time: repeat until no new part appears, so that the last to write has seen every part.
        while self.annotations.common() and (now := list(self.manifest.parts(pictures))) != seen:
            seen = now
            for name, content in self.annotations.finish(now).items():
                self.manifest.write(name, content)


def for_files(pipeline: Pipeline, *, seed: int) -> Pipeline:
    """The pipeline's transforms, with options that fit pictures as `decode` gives them and targets as `Annotations` reads them."""
    plain = {
        "box_format": "xyxy",
        "targets": {},
        "passthrough": (),
        "pairs": {},
        "channels_last": False,
        "return_valid": False,
        "out": "tensor",
        "pad_targets": True,
        "drop_invalid": False,
    }
    return Pipeline(pipeline.transforms, seed=seed, **{**pipeline.options.settings(), **plain})


def shard_of(text: str | None) -> tuple[int, int]:
    """Return (shard counted from 0, number of shards) for ``I/N``, where I counts from 1; for None, torchrun's rank."""
    if text is None:
        return launched()
    which, _, count = text.partition("/")
    if not (which.isdecimal() and count.isdecimal() and 1 <= int(which) <= int(count)):
        raise invalid("--shard", expected="I/N with I from 1 to N, such as 2/8", got=repr(text))
    return int(which) - 1, int(count)


def run(job: Job, pictures: list[PurePosixPath], *, workers: int = 0) -> Iterator[Outcome]:
    """Work on these pictures, and yield an outcome for each, in order."""
    loader = DataLoader(_Work(job, pictures), batch_size=None, num_workers=workers, collate_fn=_same)
    try:
        yield from loader
    except RuntimeError as error:  # a worker is gone: `Job.work` itself raises nothing
        why = str(error).partition("\n")[0]
        fix = "Finished pictures are kept, and the same call goes on from there; fewer workers take less memory."
        raise StoppedRun(f"--workers: {why} {fix}") from error


class _Work(Dataset[Outcome]):
    def __init__(self, job: Job, pictures: list[PurePosixPath]) -> None:
        self.job, self.pictures = job, pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, i: int) -> Outcome:
        return self.job.work(self.pictures[i])


def _same(outcome: Any) -> Any:
    return outcome


def _encoded(image: Tensor, suffix: str, quality: int) -> bytes:
    """Encode a picture in memory: encoders that write to disk themselves do not report a full disk."""
    from PIL import Image

    values = np.ascontiguousarray(image.permute(1, 2, 0).numpy())
    if values.dtype == np.uint16:
        if suffix.lower() != ".png":
            raise invalid(suffix, expected=".png, the only format in which 16-bit pictures are written", got=repr(suffix))
        return _deep_png(values)
    picture = Image.fromarray(values[..., 0] if values.shape[2] == 1 else values)
    form, content = Image.registered_extensions()[suffix.lower()], io.BytesIO()
    picture.save(content, form, **({"quality": quality} if form in ("JPEG", "WEBP") else {}))
    return content.getvalue()


def _deep_png(values: np.ndarray[Any, Any]) -> bytes:
    """Encode (H, W, 1) or (H, W, 3) as PNG with 16 bits a channel; Pillow cannot write colours of 16 bits."""
    height, width, channels = values.shape
    head = struct.pack(">IIBBBBB", width, height, 16, 2 if channels == 3 else 0, 0, 0, 0)
    rows = np.pad(values.astype(">u2").reshape(height, -1).view(np.uint8), ((0, 0), (1, 0)))  # filter type 0 before each row
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    chunks = [struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _is_turned(content: bytes) -> bool:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as picture:
        return bool(picture.getexif().get(_ORIENTATION, 1) != 1)


def _sentence(error: Exception) -> str:
    """An error in one line; errors of other libraries begin with their class name."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    ours = isinstance(error, InvalidArgument | InvalidType | ImplementationError)
    return " ".join((str(error) if ours else f"{type(error).__name__}: {error}").split())

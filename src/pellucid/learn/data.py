"""Labelled pictures for the learning commands: scikit-learn's digits, an npz file, or a folder of IDX files.

Owns: reading them, small balanced-by-chance subsets, and the order of batches.
Must not: download, or augment.
Read next: ``classifier.py``.
"""

from __future__ import annotations

import gzip
import os
import struct
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.errors import invalid
from pellucid.training import World

__all__ = ["Batches", "Pictures", "Task", "find_data", "load_pictures", "small_task"]

_IDX = {
    "x_train": ("train-images-idx3-ubyte", "train-images.idx3-ubyte"),
    "y_train": ("train-labels-idx1-ubyte", "train-labels.idx1-ubyte"),
    "x_test": ("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"),
    "y_test": ("t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"),
}


@dataclass(frozen=True)
class Pictures:
    """A labelled data set, as it was read.

    Args:
        name: for reports.
        x_train, x_test: (N, C, H, W) uint8.
        y_train, y_test: (N,) classes 0, 1, ...
    """

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor

    @property
    def classes(self) -> int:
        """How many there are."""
        return int(torch.maximum(self.y_train.max(), self.y_test.max())) + 1


@dataclass(frozen=True)
class Task:
    """A small learning problem cut out of a data set: float images in [0, 1].

    Args:
        name: for reports.
        classes: how many.
        x, y: what is learned from.
        x_held, y_held: held-out images of the training set, for validation losses and for choosing between methods.
        x_test, y_test: for the last line of a report.
    """

    name: str
    classes: int
    x: Float[Tensor, "n c h w"]
    y: Int64[Tensor, "n"]
    x_held: Float[Tensor, "m c h w"]
    y_held: Int64[Tensor, "m"]
    x_test: Float[Tensor, "t c h w"]
    y_test: Int64[Tensor, "t"]

    def to(self, device: torch.device | str) -> Task:
        """The same on another device."""
        tensors = ("x", "y", "x_held", "y_held", "x_test", "y_test")
        return replace(self, **{name: getattr(self, name).to(device) for name in tensors})


@dataclass(frozen=True)
class Batches:
    """Rows of every step's batch: shuffled epochs, a pure function of (seed, step, rank), so a run resumes exactly.

    Args:
        rows: how many there are to choose from.
        size: of a batch, over all ranks together.
        seed: of the shuffling.
        world: the ranks; each takes its own part of the batch.
    """

    rows: int
    size: int
    seed: int
    world: World = field(default_factory=World)

    def __call__(self, step: int) -> Int64[Tensor, "b"]:
        """The rows of one step on this rank."""
        size = min(self.size, self.rows)
        per_epoch = self.rows // size
        epoch, place = divmod(step, per_epoch)
        generator = torch.Generator().manual_seed((self.seed << 20) + epoch)
        rows = torch.randperm(self.rows, generator=generator)[place * size : (place + 1) * size]
        return rows[self.world.rank :: self.world.size]


def load_pictures(path: str | os.PathLike[str] | None = None) -> Pictures:
    """Read a data set.

    Args:
        path: an ``.npz`` file with x_train, y_train, x_test, y_test; a folder with such a file or with the four IDX files of the
            MNIST family (also gzipped); None for scikit-learn's digits, enlarged to 16 x 16.
    """
    if path is None:
        return _digits()
    place = Path(path)
    if place.is_dir():
        archives = sorted(place.glob("*.npz"))
        if archives:
            place = archives[0]
        else:
            return _pictures(place.name, {name: _idx(place, names) for name, names in _IDX.items()})
    if place.suffix != ".npz":
        raise invalid("--data", expected="an .npz file or a folder", got=str(place))
    return _pictures(place.stem, _npz(place))


def find_data(name: str, start: Path | None = None) -> Path | None:
    """The folder ``name`` of a shared data folder: under $PELLUCID_DATA, or under ``shared/data`` beside or above ``start``."""
    root = os.environ.get("PELLUCID_DATA")
    here = (start or Path.cwd()).resolve()
    places = [Path(root) / name] if root else []
    places += [parent / "shared" / "data" / name for parent in (here, *here.parents)]
    return next((place for place in places if place.is_dir()), None)


def small_task(pictures: Pictures, images: int, *, held: int = 0, seed: int = 0, test: int | None = None) -> Task:
    """Draw ``images`` training and ``held`` held-out images from the training set; the first ``test`` test images, or all."""
    available = pictures.x_train.shape[0]
    if images + held > available:
        raise invalid("images", expected=f"at most {available} training and held-out images", got=images + held)
    rows = torch.randperm(available, generator=torch.Generator().manual_seed(seed))
    first, second = rows[:images], rows[images : images + held]
    return Task(
        pictures.name,
        pictures.classes,
        _float(pictures.x_train[first]),
        pictures.y_train[first],
        _float(pictures.x_train[second]),
        pictures.y_train[second],
        _float(pictures.x_test[:test]),
        pictures.y_test[:test],
    )


def _float(images: Tensor) -> Float[Tensor, "n c h w"]:
    return images.to(torch.float32) / 255.0


def _digits() -> Pictures:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise invalid(
            "data", expected="scikit-learn, for its digits", got="no such package", fix="pip install scikit-learn, or pass --data."
        ) from None
    bunch = load_digits()
    small = torch.from_numpy(bunch.images).to(torch.float32)[:, None] / 16.0
    large = torch.nn.functional.interpolate(small, size=(16, 16), mode="bilinear", align_corners=False)
    images, labels = (large * 255).round().to(torch.uint8), torch.from_numpy(bunch.target).to(torch.int64)
    rows = torch.randperm(images.shape[0], generator=torch.Generator().manual_seed(0))
    return Pictures(
        "digits", images[rows[:1097]], labels[rows[:1097]], images[rows[1097:]], labels[rows[1097:]]
    )  # 700 for the test


def _npz(path: Path) -> dict[str, Any]:
    import numpy as np

    with np.load(path) as archive:
        missing = [name for name in _IDX if name not in archive]
        if missing:
            raise invalid(str(path), expected=f"the arrays {', '.join(_IDX)}", got=", ".join(archive.files))
        return {name: archive[name] for name in _IDX}


def _idx(folder: Path, names: tuple[str, ...]) -> Any:
    """Read one file of the IDX format: two zero bytes, a type (8 is uint8), the number of axes, the sizes, the data."""
    import numpy as np

    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if not path.exists():
                continue
            raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            zero, kind, axes = struct.unpack(">HBB", raw[:4])
            if zero != 0 or kind != 8:
                raise invalid(str(path), expected="an IDX file of bytes", got=f"magic number {zero:04x}{kind:02x}{axes:02x}")
            shape = struct.unpack(f">{axes}I", raw[4 : 4 + 4 * axes])
            return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape).copy()
    raise invalid(str(folder), expected=f"an .npz file or {names[0]} (or .gz)", got="neither")


def _pictures(name: str, arrays: dict[str, Any]) -> Pictures:
    tensors = {key: torch.as_tensor(array) for key, array in arrays.items()}
    for part in ("train", "test"):
        images, labels = tensors[f"x_{part}"], tensors[f"y_{part}"]
        if images.dim() == 4:  # channels last, as image files have them
            images = images.permute(0, 3, 1, 2)
        elif images.dim() == 3:
            images = images[:, None]
        if images.dim() != 4 or images.dtype != torch.uint8 or labels.shape != images.shape[:1]:
            raise invalid(
                f"{name}: x_{part}, y_{part}",
                expected="(N, H, W) or (N, H, W, C) uint8 images and (N,) labels",
                got=f"{tuple(images.shape)} {images.dtype} and {tuple(labels.shape)}",
            )
        tensors[f"x_{part}"], tensors[f"y_{part}"] = images, labels.to(torch.int64)
    return Pictures(name, tensors["x_train"], tensors["y_train"], tensors["x_test"], tensors["y_test"])

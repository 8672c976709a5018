"""Labelled pictures for the learning commands: scikit-learn's digits, an npz file, or a folder of IDX files.

Owns: reading them, small random subsets, and the order of batches.
Must not: download, or augment.
Read next: ``classifier.py``.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.data.arrays import read_arrays, read_idx
from pellucid.errors import invalid
from pellucid.training import World

__all__ = ["Batches", "Pictures", "Task", "find_data", "load_pictures", "small_task"]

_IDX = {
    "x_train": ("train-images-idx3-ubyte", "train-images.idx3-ubyte"),
    "y_train": ("train-labels-idx1-ubyte", "train-labels.idx1-ubyte"),
    "x_test": ("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"),
    "y_test": ("t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"),
}

_MOST_CLASSES = 1 << 16
"""A label at or above this is an error, and not the size of a network."""


@dataclass(frozen=True)
class Pictures:
    """A labelled data set.

    Args:
        name: its name in reports.
        x_train, x_test: (N, C, H, W) uint8.
        y_train, y_test: (N,) classes 0, 1, ...
    """

    name: str
    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor

    @property
    def digest(self) -> str:
        """A short hash of pictures and labels, by which a resumed run checks that its data is the same."""
        seen = hashlib.sha256()
        for tensor in (self.x_train, self.y_train, self.x_test, self.y_test):
            seen.update(repr(tuple(tensor.shape)).encode())
            seen.update(tensor.contiguous().numpy().tobytes())
        return seen.hexdigest()[:16]

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(torch.maximum(self.y_train.max(), self.y_test.max())) + 1


@dataclass(frozen=True)
class Task:
    """A small learning problem from a part of a data set: float images in [0, 1].

    Args:
        name: its name in reports.
        classes: the number of classes.
        x, y: training images and labels.
        x_held, y_held: held-out images of the training set, for validation losses and for choosing between methods.
        x_test, y_test: test images, used only for the accuracy in the report.
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
        """Return this task on another device."""
        tensors = ("x", "y", "x_held", "y_held", "x_test", "y_test")
        return replace(self, **{name: getattr(self, name).to(device) for name in tensors})


@dataclass(frozen=True)
class Batches:
    """The rows of every step's batch, in shuffled epochs: a pure function of (seed, step, rank), so a run resumes exactly.

    Args:
        rows: how many rows the data set has.
        size: the batch size, over all ranks together.
        seed: the seed of the shuffling.
        world: the ranks; each takes its own part of the batch.
    """

    rows: int
    size: int
    seed: int
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        if min(self.rows, self.size) < self.world.size:
            got = f"batches of {self.size} of {self.rows} images for {self.world.size}"
            raise invalid("batch", expected="at least one image for every process", got=got)

    def __call__(self, step: int) -> Int64[Tensor, "b"]:
        """Return this rank's rows of one step."""
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
            MNIST family (also gzipped); None for scikit-learn's digits, enlarged to 16 x 16. Images are (N, H, W), or (N, H, W, C)
            with up to 4 channels, uint8; labels are whole numbers from 0.

    Errors:
        ``InvalidArgument`` that names the file or array: if it cannot be read, is shorter than its header says, is empty, has other
        axes or types, if labels are no classes, or if training and test images differ in size.
    """
    if path is None:
        return _digits()
    place = Path(path)
    if place.is_dir():
        archives = sorted(file for file in place.glob("*.npz") if not file.name.startswith("."))
        if archives:
            place = archives[0]
        else:
            return _pictures(place.name, {name: _idx(place, names) for name, names in _IDX.items()})
    if place.suffix != ".npz":
        raise invalid("--data", expected="an .npz file or a folder", got=str(place))
    if not place.exists():
        raise invalid("--data", expected="an existing file or folder", got=str(place))
    return _pictures(place.stem, read_arrays(place, tuple(_IDX)))


def find_data(name: str, start: Path | None = None) -> Path | None:
    """Find the folder ``name`` in a shared data folder: in $PELLUCID_DATA, or in ``shared/data`` at or above ``start``."""
    root = os.environ.get("PELLUCID_DATA")
    here = (start or Path.cwd()).resolve()
    places = [Path(root) / name] if root else []
    places += [parent / "shared" / "data" / name for parent in (here, *here.parents)]
    return next((place for place in places if place.is_dir()), None)


def small_task(pictures: Pictures, images: int, *, held: int = 0, seed: int = 0, test: int | None = None) -> Task:
    """Draw ``images`` training and ``held`` held-out images from the training set; take the first ``test`` test images, or all."""
    for argument, value, least in (("images", images, 1), ("held", held, 0), ("test", test, 1)):
        if value is not None and value < least:
            raise invalid(argument, expected=f"at least {least}", got=value)
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
        fix = "pip install scikit-learn, or pass --data."
        raise invalid("data", expected="scikit-learn, for its digits", got="no such package", fix=fix) from None
    bunch = load_digits()
    small = torch.from_numpy(bunch.images).to(torch.float32)[:, None] / 16.0
    large = torch.nn.functional.interpolate(small, size=(16, 16), mode="bilinear", align_corners=False)
    images, labels = (large * 255).round().to(torch.uint8), torch.from_numpy(bunch.target).to(torch.int64)
    rows = torch.randperm(images.shape[0], generator=torch.Generator().manual_seed(0))
    first, rest = rows[:1097], rows[1097:]  # 700 test images
    return Pictures("digits", images[first], labels[first], images[rest], labels[rest])


def _idx(folder: Path, names: tuple[str, ...]) -> Tensor:
    """Read the IDX file of one of these names, plain or gzipped."""
    found = next((path for name in names for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
    if found is None:
        raise invalid(str(folder), expected=f"an .npz file or {names[0]} (or .gz)", got="neither")
    return read_idx(found)


def _pictures(name: str, arrays: dict[str, Tensor]) -> Pictures:
    tensors: dict[str, Tensor] = {}
    for part in ("train", "test"):
        images, labels = f"x_{part}", f"y_{part}"
        tensors[images] = _images(f"{name}: {images}", arrays[images].numpy())
        tensors[labels] = _labels(f"{name}: {labels}", arrays[labels].numpy(), tensors[images].shape[0])
    if tensors["x_test"].shape[1:] != tensors["x_train"].shape[1:]:
        expected = f"images like those of x_train, {tuple(tensors['x_train'].shape[1:])}"
        raise invalid(f"{name}: x_test", expected=expected, got=tuple(tensors["x_test"].shape[1:]))
    if not bool((tensors["x_train"] != tensors["x_train"].flatten()[0]).any()):
        raise invalid(f"{name}: x_train", expected="images with different values", got="one value in all pixels")
    return Pictures(name, tensors["x_train"], tensors["y_train"], tensors["x_test"], tensors["y_test"])


def _images(name: str, array: Any) -> Tensor:
    """Check images of bytes, (N, H, W) or (N, H, W, C), and return them as (N, C, H, W)."""
    expected, fix = "(N, H, W) or (N, H, W, C) uint8 images with at most 4 channels", ""
    if str(array.dtype) == "uint8" and array.ndim == 4 and array.shape[3] > 4 and array.shape[1] <= 4:
        fix = f"{name.split()[-1]}.transpose(0, 2, 3, 1) puts the channels last."
    if str(array.dtype) != "uint8" or array.ndim not in (3, 4) or 0 in array.shape or (array.ndim == 4 and array.shape[3] > 4):
        raise invalid(name, expected=expected, got=f"{array.shape} {array.dtype}", fix=fix)
    images = torch.from_numpy(array)
    return images.permute(0, 3, 1, 2) if images.dim() == 4 else images[:, None]


def _labels(name: str, array: Any, count: int) -> Tensor:
    """Check labels, one class for each image, and return them as int64."""
    if array.dtype.kind not in "iub" or array.shape != (count,):
        fix = "Labels are class numbers: labels.astype('int64')." if array.dtype.kind == "f" else ""
        raise invalid(name, expected=f"{count} whole numbers, shape ({count},)", got=f"{array.shape} {array.dtype}", fix=fix)
    if int(array.min()) < 0 or int(array.max()) >= _MOST_CLASSES:
        expected = f"classes 0, 1, ..., below {_MOST_CLASSES}"
        raise invalid(name, expected=expected, got=f"labels from {array.min()} to {array.max()}")
    return torch.from_numpy(array.astype("int64"))

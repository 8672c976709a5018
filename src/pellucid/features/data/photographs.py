"""Photographs to train on: any folder of pictures, or those in scikit-image's wheel.

Owns: reading pictures as grey tensors, and the list of bundled photographs.
Must not: download, or hold more than one picture of a folder at a time.
Read next: ``pairs.py``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, final

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.data.decoding import opened
from pellucid.errors import invalid, needs, wrong_type
from pellucid.functional import resize, rgb_to_grayscale

__all__ = ["BUNDLED", "ImageFolder", "bundled_photographs", "read_gray"]

BUNDLED: Final = (
    "astronaut", "brick", "camera", "chelsea", "clock", "coffee", "coins", "grass", "gravel", "hubble_deep_field", "retina",
    "rocket", "text",
)  # fmt: skip
"""Photographs in scikit-image's wheel under CC0 or in the public domain."""

_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp")


@final
class ImageFolder(Sequence[Tensor]):
    """The pictures of a folder and of the folders in it, in the order of their paths, as grey tensors.

    Args:
        folder: the folder; png, jpg, ppm, pgm, bmp, tif and webp files count, in upper or lower case. Hidden files (a name or
            folder that begins with a dot) do not.
        longest: pictures with a longer side are shrunk to this, in pixels; None keeps them.
        exclude: names (paths within the folder) to leave out.

    A picture is read from disk each time it is indexed.

    Errors:
        ``InvalidArgument`` for a path that is no folder, and for a folder without pictures.

    Example:
        >>> len(ImageFolder("photographs"))  # doctest: +SKIP
        240
    """

    def __init__(self, folder: str | os.PathLike[str], *, longest: int | None = None, exclude: Sequence[str] = ()) -> None:
        home = Path(folder)
        if not home.is_dir():
            raise invalid("folder", expected="a folder of pictures", got=str(folder))
        files = sorted(path for path in home.rglob("*") if path.suffix.lower() in _SUFFIXES and path.is_file())
        named = {path.relative_to(home).as_posix(): path for path in files}
        # Files that begin with a dot are no pictures: macOS writes ._a.png beside a.png on foreign disks, editors write others.
        named = {name: path for name, path in named.items() if not any(part.startswith(".") for part in name.split("/"))}
        for name in exclude:
            if name not in named:
                raise invalid("exclude", expected=f"names of pictures in {folder}", got=repr(name))
        kept = {name: path for name, path in named.items() if name not in exclude}
        if not kept:
            raise invalid("folder", expected=f"a folder with pictures ({', '.join(_SUFFIXES)})", got=f"{folder}, which has none")
        self.names, self.paths = tuple(kept), tuple(kept.values())
        self.longest = longest

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def digest(self) -> str:
        """A short hash of names and contents; it reads every file once."""
        seen = hashlib.sha256()
        for name, path in zip(self.names, self.paths, strict=True):
            with path.open("rb") as file:
                seen.update(f"{name}\0".encode() + hashlib.file_digest(file, "sha256").digest())
        return seen.hexdigest()[:16]

    def __getitem__(self, index: Any) -> Any:
        """One picture as (1, H, W) in [0, 1]; a slice gives a list of them."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return _shrunk(read_gray(self.paths[index]), self.longest)


def bundled_photographs(
    names: Sequence[str] = BUNDLED, *, exclude: Sequence[str] = (), longest: int | None = 800
) -> dict[str, Float[Tensor, "1 h w"]]:
    """Return the photographs of scikit-image's wheel that anyone may train on, grey, by name.

    Args:
        names: names among :data:`BUNDLED`.
        exclude: names to hold out.
        longest: a longer side is shrunk to this, in pixels; None keeps the size.

    Errors:
        ``InvalidArgument`` for another name; ImportError without scikit-image.
    """
    for name in (*names, *exclude):
        if name not in BUNDLED:
            raise invalid("photograph", expected=f"one of {', '.join(BUNDLED)}", got=repr(name))
    with needs("Getting the photographs", "'pellucid[train]'"):
        from skimage import data
    kept = [name for name in names if name not in exclude]
    if not kept:
        raise invalid("exclude", expected="names that leave a photograph to train on", got=tuple(exclude))
    return {name: _shrunk(_gray(getattr(data, name)()), longest) for name in kept}


def read_gray(path: str | os.PathLike[str]) -> Float[Tensor, "1 h w"]:
    """Read a picture as (1, H, W) luma in [0, 1], the right way up; grey ones of 16 bits keep their levels.

    Errors:
        ``InvalidArgument`` for a file that is no picture, and for colours of more than 8 bits a channel, which Pillow cannot read.
    """
    import numpy as np

    picture = opened(path, most=32)
    if picture.mode.startswith("I") or picture.mode == "F":  # deeper than 8 bits: converting to L would clip
        values = np.asarray(picture, dtype=np.float32)
        return torch.from_numpy(values / (1.0 if picture.mode == "F" else 65535.0))[None]
    if picture.mode in ("P", "PA", "LA", "RGBA", "CMYK"):
        picture = picture.convert("RGB")
    return _gray(np.array(picture if picture.mode in ("L", "RGB") else picture.convert("RGB")))


def _gray(values: Any) -> Float[Tensor, "1 h w"]:
    picture = torch.from_numpy(values).float() / 255.0
    return picture[None] if picture.dim() == 2 else rgb_to_grayscale(picture.permute(2, 0, 1))


def _shrunk(picture: Tensor, longest: int | None) -> Tensor:
    if longest is None or max(picture.shape[-2:]) <= longest:
        return picture
    if not isinstance(longest, int):
        raise wrong_type("longest", expected="a number of pixels", got=repr(longest))
    factor = longest / max(picture.shape[-2:])
    height, width = (max(1, round(side * factor)) for side in picture.shape[-2:])
    return resize(picture, (height, width))

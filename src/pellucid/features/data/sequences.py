"""Sequences of views of a plane with known homographies: HPatches folders, and photographs warped on purpose.

Owns: the layout of an HPatches folder, and making sequences from photographs.
Must not: detect or match anything.
Read next: ``../evaluation/run.py``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.data.photographs import read_gray
from pellucid.geometry.matrices import inverse
from pellucid.pipeline import Pipeline
from pellucid.random import Key, Normal
from pellucid.transforms import CenterCrop, RandomAffine, RandomGamma, RandomGaussianBlur, RandomGaussianNoise, RandomPerspective

__all__ = ["PlanarSequence", "find_sequences", "read_sequence", "warped_sequences"]

_SEEN = 0.75
_LIGHT = (RandomGamma((0.7, 1.4), gain=(0.75, 1.1)), RandomGaussianBlur(sigma=(0.3, 1.0), p=0.5), RandomGaussianNoise(sigma=0.01))
_SUFFIXES = (".ppm", ".pgm", ".png", ".jpg", ".jpeg")
_NUMBERED = re.compile(rf"H_1_(\d+)|(\d+)(?:{'|'.join(map(re.escape, _SUFFIXES))})")
"""The name of a homography or of a view, with its number."""


@dataclass(frozen=True)
class PlanarSequence:
    """Views of one scene; the first is the reference.

    Args:
        name: the scene's name.
        views: grey pictures (1, H, W) in [0, 1]; sizes may differ.
        view_from_first: for each view the homography (3, 3) from the first view's pixels, float64; the first is the identity.
    """

    name: str
    views: tuple[Float[Tensor, "1 h w"], ...]
    view_from_first: tuple[Float64[Tensor, "3 3"], ...]


def find_sequences(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the sequences in a folder: the folder itself if it holds an ``H_1_k``, or else every folder in it that does.

    Errors:
        ``InvalidArgument`` if there is none.
    """
    home = Path(folder)
    if not home.is_dir():
        raise invalid("DIR", expected="a folder in HPatches layout (1.ppm, 2.ppm, H_1_2, ...)", got=str(folder))
    if any(home.glob("H_1_*")):
        return [home]
    folders = sorted(path for path in home.iterdir() if any(path.glob("H_1_*")))
    if not folders:
        fix = "A sequence has pictures 1.ppm .. 6.ppm and homographies H_1_2 .. H_1_6."
        expected = "a sequence in HPatches layout, or a folder of such"
        raise invalid("DIR", expected=expected, got=f"{folder}, without any H_1_k", fix=fix)
    return folders


def read_sequence(folder: str | os.PathLike[str]) -> PlanarSequence:
    """Read a folder with pictures ``1.ppm`` (or pgm, png, jpg) to ``n.ppm`` and text files ``H_1_2`` to ``H_1_n``.

    Errors:
        ``InvalidArgument`` for a missing picture or homography, also inside the sequence, and for a homography that is not
        nine finite numbers with a finite inverse.
    """
    home = Path(folder)
    views, maps = [read_gray(_picture(home, 1))], [torch.eye(3, dtype=torch.float64)]
    number = 2
    while (home / f"H_1_{number}").exists():
        views.append(read_gray(_picture(home, number)))
        maps.append(_homography(home / f"H_1_{number}"))
        number += 1
    named = [(path.name, _NUMBERED.fullmatch(path.name)) for path in home.iterdir()]
    later = sorted(name for name, match in named if match and int(match[1] or match[2]) >= number)
    if number == 2 or later:
        got = f"none, but {', '.join(later)}" if later else "none"
        raise invalid(str(home), expected=f"a homography H_1_{number}", got=got, fix="Views are numbered without a gap.")
    return PlanarSequence(home.name, tuple(views), tuple(maps))


def warped_sequences(
    photographs: Mapping[str, Float[Tensor, "1 h w"]], *, views: int = 6, strength: float = 1.0, seed: int = 0
) -> list[PlanarSequence]:
    """Make a sequence of each photograph: its middle, and warped views of it, each with its own light, blur and noise.

    Views are drawn by a :class:`~pellucid.Pipeline`, so the homography is the record's matrix, exact. All show three quarters of
    the height and width, so that moved views mostly show the photograph, and not a black border that no camera would see.

    Args:
        photographs: the photographs by name.
        views: number of views of each, including the middle itself.
        strength: strength of the change of viewpoint: corners are pulled in by up to ``strength`` / 4 of the size.
        seed: seed of the draws.
    """
    if views < 2:
        raise invalid("views", expected="at least 2", got=views)
    if not 0 < strength < 2:
        raise invalid("strength", expected="in (0, 2)", got=strength)
    viewpoint = (RandomPerspective(0.5 * strength, p=1.0), RandomAffine(Normal(0.0, 10.0 * strength), scale=(1.0, 1.4)))
    sequences = []
    for number, (name, photograph) in enumerate(photographs.items()):
        crop = CenterCrop((round(_SEEN * photograph.shape[-2]), round(_SEEN * photograph.shape[-1])))
        first, middle = Pipeline([crop])(photograph[None], return_record=True)
        index = number * 1000 + torch.arange(1, views)
        warped, record = Pipeline([*viewpoint, crop, *_LIGHT], canvas="image")(
            photograph.expand(views - 1, -1, -1, -1), key=Key(seed, 0, index), return_record=True
        )
        maps = record.matrix @ inverse(middle.matrix)
        sequences.append(PlanarSequence(name, (first[0], *warped.unbind()), (torch.eye(3, dtype=torch.float64), *maps.unbind())))
    return sequences


def _picture(home: Path, number: int) -> Path:
    for suffix in _SUFFIXES:
        if (home / f"{number}{suffix}").exists():
            return home / f"{number}{suffix}"
    raise invalid(str(home), expected=f"a picture {number}.ppm (or {', '.join(_SUFFIXES[1:])})", got="none")


def _homography(path: Path) -> Float64[Tensor, "3 3"]:
    try:
        numbers = [float(word) for word in path.read_text().split()]
    except ValueError as error:
        raise invalid(str(path), expected="nine numbers", got=str(error)) from error
    if len(numbers) != 9:
        raise invalid(str(path), expected="nine numbers", got=f"{len(numbers)} of them")
    matrix = torch.tensor(numbers, dtype=torch.float64).reshape(3, 3)
    if not bool(torch.isfinite(matrix).all()) or float(torch.linalg.det(matrix)) == 0.0:
        raise invalid(str(path), expected="a homography that has an inverse", got=numbers)
    return matrix

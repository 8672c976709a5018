"""The parameters of each case, stated once for every library.

Owns: ranges, sizes and the test images.
Must not: know any library's names for them.
Read next: ``peers/__init__.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "CASES",
    "CHAIN",
    "MEAN",
    "SINGLES",
    "STD",
    "Blur",
    "Elastic",
    "Flagship",
    "Flips",
    "Geometry",
    "Jitter",
    "Jpeg",
    "Noise",
    "RemapCase",
    "WarpCase",
    "affine_matrices",
    "coordinates",
    "photographs",
]

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Flagship:
    """RandomAffine + RandomHorizontalFlip + ColorJitter + Normalize: zeros outside, bilinear, every op certain but the flip."""

    degrees: float = 15.0
    translate: float = 0.1
    scale: tuple[float, float] = (0.9, 1.1)
    shear: float = 5.0
    flip: float = 0.5
    brightness: float = 0.2
    contrast: float = 0.2
    saturation: float = 0.2
    hue: float = 0.05


@dataclass(frozen=True)
class Geometry:
    """RandomResizedCrop (to the input's own size) + RandomAffine + RandomPerspective: zeros outside, bilinear, always applied."""

    crop: tuple[float, float] = (0.3, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    degrees: float = 15.0
    translate: float = 0.1
    shear: float = 5.0
    distortion: float = 0.3


@dataclass(frozen=True)
class WarpCase:
    """One affine warp with given matrices, a different one per sample: zeros outside, bilinear."""

    seed: int = 0


@dataclass(frozen=True)
class RemapCase:
    """The same maps with a wave on top, as two numbers per pixel that say where to read."""

    wave: float = 3.0


@dataclass(frozen=True)
class Blur:
    """RandomGaussianBlur, always applied."""

    taps: int = 7
    sigma: tuple[float, float] = (0.5, 2.0)


@dataclass(frozen=True)
class Jitter:
    """ColorJitter alone: brightness, contrast, saturation and hue in random order."""

    brightness: float = 0.2
    contrast: float = 0.2
    saturation: float = 0.2
    hue: float = 0.05


@dataclass(frozen=True)
class Noise:
    """RandomGaussianNoise, always applied."""

    sigma: float = 0.05


@dataclass(frozen=True)
class Flips:
    """A horizontal and a vertical flip, each of half the images."""

    p: float = 0.5


@dataclass(frozen=True)
class Jpeg:
    """RandomJPEG, always applied, colour differences halved."""

    quality: tuple[int, int] = (40, 80)


@dataclass(frozen=True)
class Elastic:
    """An elastic deformation before RandomAffine + RandomResizedCrop (to the input's own size) + ColorJitter, always applied.

    ``alpha`` and ``sigma`` are torchvision's.
    """

    alpha: float = 50.0
    sigma: float = 5.0
    degrees: float = 15.0
    crop: tuple[float, float] = (0.5, 1.0)
    brightness: float = 0.2
    contrast: float = 0.2
    saturation: float = 0.2
    hue: float = 0.05


CASES = {
    "flagship": Flagship(),
    "geometry": Geometry(),
    "warp": WarpCase(),
    "remap": RemapCase(),
    "blur": Blur(),
    "jitter": Jitter(),
    "noise": Noise(),
    "flips": Flips(),
    "jpeg": Jpeg(),
    "elastic": Elastic(),
}
SINGLES = ("blur", "jitter", "noise", "flips", "jpeg", "elastic")
"""The cases that are one operation, two of a kind, or one with what usually stands around it."""

CHAIN = ("affine", "brightness", "rotation", "contrast", "flip", "saturation", "translate", "scale", "vertical flip", "normalize")
"""Operations of the chain whose length is varied, in order; each is one resample or one affine colour map."""


def photographs(batch: int, size: int | tuple[int, int], *, seed: int = 0) -> Tensor:
    """Smooth random colour fields with a little noise, (batch, 3, height, width) in [0.1, 0.9].

    Smooth, so that interpolations that round their weights differently still agree closely; coloured, because the cost of a
    hue rotation depends on it.
    """
    height, width = (size, size) if isinstance(size, int) else size
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(batch, 3, max(2, height // 16), max(2, width // 16), generator=generator)
    smooth = F.interpolate(coarse, size=(height, width), mode="bicubic", align_corners=False)
    noise = torch.rand(batch, 3, height, width, generator=generator)
    return (0.5 + 0.7 * (smooth - 0.5) + 0.02 * (noise - 0.5)).clamp(0.1, 0.9)


def affine_matrices(batch: int, size: tuple[int, int], *, seed: int = 0) -> Tensor:
    """(batch, 2, 3) maps from input to output pixels about the centre: rotation to 15 degrees, scale 0.9 to 1.1, shift to 10 %."""
    generator = torch.Generator().manual_seed(seed)
    u = 2.0 * torch.rand(batch, 4, generator=generator, dtype=torch.float64) - 1.0
    angle, scale = torch.deg2rad(15.0 * u[:, 0]), 1.0 + 0.1 * u[:, 1]
    cosine, sine = scale * torch.cos(angle), scale * torch.sin(angle)
    cx, cy = (size[1] - 1) / 2, (size[0] - 1) / 2
    tx = cx - cosine * cx + sine * cy + 0.1 * size[1] * u[:, 2]
    ty = cy - sine * cx - cosine * cy + 0.1 * size[0] * u[:, 3]
    return torch.stack((cosine, -sine, tx, sine, cosine, ty), -1).reshape(batch, 2, 3)


def coordinates(batch: int, size: tuple[int, int], *, seed: int = 0) -> Tensor:
    """(batch, 2, height, width) float32: x and y of the input pixel that each output pixel reads."""
    height, width = size
    y, x = torch.meshgrid(torch.arange(height, dtype=torch.float64), torch.arange(width, dtype=torch.float64), indexing="ij")
    m = affine_matrices(batch, size, seed=seed)[..., None, None]  # b 2 3 1 1
    case = CASES["remap"]
    assert isinstance(case, RemapCase)
    wave = case.wave * torch.stack((torch.sin(y / 9), torch.cos(x / 7)))
    return (m[:, :, 0] * x + m[:, :, 1] * y + m[:, :, 2] + wave).to(torch.float32)

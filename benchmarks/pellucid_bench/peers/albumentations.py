"""albumentations' version of each case: a loop over uint8 arrays.

Owns: its transforms with the settings' ranges.
Must not: convert the results; a list of arrays is what its users get.
Read next: ``fuse_augmentations.py``.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid_bench.settings import CASES, MEAN, STD, Blur, Elastic, Flagship, Flips, Geometry, Jitter, Jpeg, Noise
from pellucid_bench.subject import IMAGE_8BIT, Subject, to_8bit_arrays

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask the network on import
import albumentations as A

__all__ = ["blur", "elastic", "flagship", "flips", "geometry", "jitter", "jpeg", "noise", "one_picture"]


def flagship() -> list[Subject]:
    """``Compose`` image by image; the result is normalised float32."""
    s = CASES["flagship"]
    assert isinstance(s, Flagship)
    around = {
        name: (1 - value, 1 + value)
        for name, value in (("brightness", s.brightness), ("contrast", s.contrast), ("saturation", s.saturation))
    }
    move = (-s.translate, s.translate)
    pipeline = A.Compose(
        [
            A.Affine(
                scale=s.scale,
                translate_percent={"x": move, "y": move},
                rotate=(-s.degrees, s.degrees),
                shear={"x": (-s.shear, s.shear), "y": (0, 0)},
                keep_ratio=True,
                p=1.0,
            ),
            A.HorizontalFlip(p=s.flip),
            A.ColorJitter(**around, hue=(-s.hue, s.hue), p=1.0),
            A.Normalize(MEAN, STD),
        ],
        seed=0,
    )
    return [_looped(lambda _: pipeline)]


def one_picture() -> dict[str, Any]:
    """What takes an array: a flip; crop, flip, jitter, normalise."""
    steps = A.RandomResizedCrop((16, 16)), A.HorizontalFlip(), A.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1), p=1.0)
    made = A.Compose([A.HorizontalFlip()], seed=0), A.Compose([*steps, A.Normalize((0.5,) * 3, (0.2,) * 3)], seed=0)
    return {name: lambda picture, one=one: one(image=picture)["image"] for name, one in zip(("flip", "four"), made, strict=True)}


def geometry() -> list[Subject]:
    """Three resamples; its perspective draws normal displacements of the others' mean size, and zooms in where they zoom out."""
    s = CASES["geometry"]
    assert isinstance(s, Geometry)
    move, deviation = (-s.translate, s.translate), s.distortion / 4 / np.sqrt(2 / np.pi)
    made: dict[tuple[int, int], Any] = {}

    def at(images: list[Any]) -> Any:
        size = images[0].shape[:2]
        if size not in made:
            affine = A.Affine(
                translate_percent={"x": move, "y": move},
                rotate=(-s.degrees, s.degrees),
                shear={"x": (-s.shear, s.shear), "y": (0, 0)},
                p=1.0,
            )
            perspective = A.Perspective(scale=(deviation, deviation), fit_output=False, p=1.0)
            made[size] = A.Compose([A.RandomResizedCrop(size, s.crop, s.ratio), affine, perspective], seed=0)
        return made[size]

    return [_looped(at)]


def blur() -> list[Subject]:
    """``GaussianBlur``."""
    s = CASES["blur"]
    assert isinstance(s, Blur)
    return _single(A.GaussianBlur(blur_limit=(s.taps, s.taps), sigma_limit=s.sigma, p=1.0))


def jitter() -> list[Subject]:
    """``ColorJitter``."""
    s = CASES["jitter"]
    assert isinstance(s, Jitter)
    around = {
        name: (1 - value, 1 + value)
        for name, value in (("brightness", s.brightness), ("contrast", s.contrast), ("saturation", s.saturation))
    }
    return _single(A.ColorJitter(**around, hue=(-s.hue, s.hue), p=1.0))


def noise() -> list[Subject]:
    """``GaussNoise``."""
    s = CASES["noise"]
    assert isinstance(s, Noise)
    return _single(A.GaussNoise(std_range=(s.sigma, s.sigma), p=1.0))


def jpeg() -> list[Subject]:
    """``ImageCompression``."""
    s = CASES["jpeg"]
    assert isinstance(s, Jpeg)
    return _single(A.ImageCompression("jpeg", quality_range=s.quality, p=1.0))


def elastic() -> list[Subject]:
    """Three remaps; its displacements are twice those of torchvision's alpha."""
    s = CASES["elastic"]
    assert isinstance(s, Elastic)
    around = {name: (1 - value, 1 + value) for name, value in (("brightness", s.brightness), ("contrast", s.contrast))}
    made: dict[tuple[int, int], Any] = {}

    def at(images: list[Any]) -> Any:
        size = images[0].shape[:2]
        if size not in made:
            steps = [
                A.ElasticTransform(alpha=s.alpha / 2, sigma=s.sigma, noise_distribution="uniform", p=1.0),
                A.Affine(rotate=(-s.degrees, s.degrees), p=1.0),
                A.RandomResizedCrop(size, s.crop, p=1.0),
                A.ColorJitter(**around, saturation=(1 - s.saturation, 1 + s.saturation), hue=(-s.hue, s.hue), p=1.0),
            ]
            made[size] = A.Compose(steps, seed=0)
        return made[size]

    return [_looped(at)]


def flips() -> list[Subject]:
    """Two flips."""
    s = CASES["flips"]
    assert isinstance(s, Flips)
    return _single(A.HorizontalFlip(p=s.p), A.VerticalFlip(p=s.p))


def _single(*transforms: Any) -> list[Subject]:
    pipeline = A.Compose(list(transforms), seed=0)
    return [_looped(lambda _: pipeline)]


def _looped(at: Any) -> Subject:
    def forward(images: list[Any]) -> list[Any]:
        pipeline = at(images)
        return [pipeline(image=image)["image"] for image in images]

    return Subject("albumentations", IMAGE_8BIT, forward, to_8bit_arrays, _tensor, differentiable=False)


def _tensor(result: list[Any]) -> Tensor:
    stacked = torch.from_numpy(np.stack(result)).permute(0, 3, 1, 2)
    return stacked.float() / 255.0 if stacked.dtype == torch.uint8 else stacked

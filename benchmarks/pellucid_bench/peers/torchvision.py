"""torchvision v2's version of each case.

Owns: importing it beside any build of torch, and its transforms with the settings' ranges.
Must not: change how torchvision runs.
Read next: ``albumentations.py``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pellucid_bench.peers.torchvision_import import torchvision_v2
from pellucid_bench.settings import CASES, MEAN, STD, Blur, Elastic, Flagship, Flips, Geometry, Jitter, Jpeg, Noise
from pellucid_bench.subject import BATCHED_ONE_DRAW, IMAGE_FLOAT, Subject

__all__ = ["blur", "elastic", "flagship", "flips", "geometry", "jitter", "jpeg", "noise", "one_picture"]

v2 = torchvision_v2()


def flagship() -> list[Subject]:
    """On the batch, which shares one draw, and image by image."""
    s = CASES["flagship"]
    assert isinstance(s, Flagship)
    bilinear = v2.InterpolationMode.BILINEAR
    pipeline = v2.Compose(
        [
            v2.RandomAffine(s.degrees, (s.translate, s.translate), s.scale, (-s.shear, s.shear), interpolation=bilinear),
            v2.RandomHorizontalFlip(s.flip),
            v2.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue),
            v2.Normalize(MEAN, STD),
        ]
    )
    return _both(lambda _: pipeline)


def one_picture() -> dict[str, Any]:
    """What takes a tensor: a flip; crop, flip, jitter, normalise."""
    jitter, floats = v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.ToDtype(torch.float32, scale=True)
    four = [v2.RandomResizedCrop(16), v2.RandomHorizontalFlip(), jitter, floats, v2.Normalize((0.5,) * 3, (0.2,) * 3)]
    return {"flip": v2.RandomHorizontalFlip(), "four": v2.Compose(four)}


def geometry() -> list[Subject]:
    """Three resamples."""
    s = CASES["geometry"]
    assert isinstance(s, Geometry)
    bilinear = v2.InterpolationMode.BILINEAR
    made: dict[tuple[int, ...], Any] = {}

    def at(images: Tensor) -> Any:
        size = tuple(images.shape[-2:])
        if size not in made:
            made[size] = v2.Compose(
                [
                    v2.RandomResizedCrop(size, s.crop, s.ratio, antialias=False),
                    v2.RandomAffine(s.degrees, (s.translate, s.translate), shear=(-s.shear, s.shear), interpolation=bilinear),
                    v2.RandomPerspective(s.distortion, p=1.0),
                ]
            )
        return made[size]

    return _both(at)


def blur() -> list[Subject]:
    """``GaussianBlur``."""
    s = CASES["blur"]
    assert isinstance(s, Blur)
    transform = v2.GaussianBlur(s.taps, s.sigma)
    return _both(lambda _: transform)


def jitter() -> list[Subject]:
    """``ColorJitter``."""
    s = CASES["jitter"]
    assert isinstance(s, Jitter)
    transform = v2.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue)
    return _both(lambda _: transform)


def noise() -> list[Subject]:
    """``GaussianNoise``."""
    s = CASES["noise"]
    assert isinstance(s, Noise)
    transform = v2.GaussianNoise(0.0, s.sigma)
    return _both(lambda _: transform)


def jpeg() -> list[Subject]:
    """``JPEG``, which takes bytes, through an encoder and a decoder in memory."""
    s = CASES["jpeg"]
    assert isinstance(s, Jpeg)
    transform = v2.JPEG(s.quality)
    try:
        transform(torch.zeros(3, 8, 8, dtype=torch.uint8))
    except RuntimeError:  # a wheel without codecs
        return []

    def prepare(images: Tensor) -> Tensor:
        return (images * 255.0).round().to(torch.uint8)

    def forward(images: Tensor) -> Tensor:
        return torch.stack([transform(image) for image in images])

    regime = "image by image, uint8, a draw each"
    return [Subject("torchvision v2, loop", regime, forward, prepare, lambda pixels: pixels.float() / 255.0, differentiable=False)]


def elastic() -> list[Subject]:
    """Three resamples: ``ElasticTransform``, with a field in memory, ``RandomAffine`` and a crop."""
    s = CASES["elastic"]
    assert isinstance(s, Elastic)
    bilinear = v2.InterpolationMode.BILINEAR
    made: dict[tuple[int, ...], Any] = {}

    def at(images: Tensor) -> Any:
        size = tuple(images.shape[-2:])
        if size not in made:
            steps = [
                v2.ElasticTransform(s.alpha, s.sigma),
                v2.RandomAffine(s.degrees, interpolation=bilinear),
                v2.RandomResizedCrop(size, s.crop, antialias=False),
                v2.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue),
            ]
            made[size] = v2.Compose(steps)
        return made[size]

    return _both(at)


def flips() -> list[Subject]:
    """Two flips."""
    s = CASES["flips"]
    assert isinstance(s, Flips)
    pipeline = v2.Compose([v2.RandomHorizontalFlip(s.p), v2.RandomVerticalFlip(s.p)])
    return _both(lambda _: pipeline)


def _both(at: Any) -> list[Subject]:
    return [
        Subject("torchvision v2", BATCHED_ONE_DRAW, lambda images: at(images)(images)),
        Subject("torchvision v2, loop", IMAGE_FLOAT, lambda images: torch.stack([at(image)(image) for image in images])),
    ]

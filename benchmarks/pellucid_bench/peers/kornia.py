"""kornia's version of each case.

Owns: its transforms with the settings' ranges, and reading the parameters it drew back into a Pellucid record.
Must not: change how kornia runs.
Read next: ``torchvision.py``.
"""

from __future__ import annotations

from typing import Any

import kornia.augmentation as K
import torch
from kornia.geometry.transform import warp_affine
from torch import Tensor

from pellucid.kernels.warp import pack
from pellucid.kernels.warp import warp as warp_kernel
from pellucid_bench.peers.ours import flagship_pipeline, src_from_dst_of
from pellucid_bench.settings import (
    CASES,
    CHAIN,
    MEAN,
    STD,
    Blur,
    Elastic,
    Flagship,
    Flips,
    Geometry,
    Jitter,
    Jpeg,
    Noise,
    affine_matrices,
)
from pellucid_bench.subject import BATCHED, Subject

__all__ = [
    "blur",
    "chain",
    "elastic",
    "flagship",
    "flagship_transforms",
    "flips",
    "geometry",
    "geometry_transforms",
    "jitter",
    "jpeg",
    "noise",
    "normalize",
    "warp",
]


def flagship_transforms() -> list[Any]:
    """Kornia's transforms with the flagship's ranges."""
    s = CASES["flagship"]
    assert isinstance(s, Flagship)
    return [
        K.RandomAffine(degrees=s.degrees, translate=(s.translate, s.translate), scale=s.scale, shear=s.shear, p=1.0),
        K.RandomHorizontalFlip(p=s.flip),
        K.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue, p=1.0),
        normalize(),
    ]


def normalize() -> Any:
    """Mean and standard deviation as buffers, so that they move with a module."""
    return K.Normalize(torch.tensor(MEAN), torch.tensor(STD))


def flagship() -> list[Subject]:
    """``AugmentationSequential``, which draws per sample."""
    pipeline = K.AugmentationSequential(*flagship_transforms(), data_keys=["input"])
    ours = flagship_pipeline()

    def matched(images: Tensor) -> tuple[Tensor, Tensor]:
        images = 0.25 + 0.5 * images  # where no step clips, kornia's clip after every step and ours at the end are one
        theirs = pipeline(images)
        affine, flip, jitter = (item.data for item in pipeline._params[:3])
        height, width = images.shape[-2:]
        draws = {
            (0, "degrees"): -affine["angle"],  # clockwise there
            (0, "translate_x"): affine["translations"][:, 0] / width,
            (0, "translate_y"): affine["translations"][:, 1] / height,
            (0, "scale"): affine["scale"][:, 0],
            (0, "shear_x"): affine["shear_x"],
            (0, "shear_y"): affine["shear_y"],
            (1, "gate"): flip["batch_prob"],
            **{(2, name): jitter[f"{name}_factor"] for name in ("brightness", "contrast", "saturation", "hue")},
        }
        record = ours.draw(images).with_param(2, "order", jitter["order"].expand(len(images), 4).to(torch.int64))
        for (index, name), value in draws.items():
            record = record.with_param(index, name, value.to(torch.float64))
        scale = torch.tensor(STD)[:, None, None]
        return theirs * scale, ours.apply(images, record) * scale

    # kornia's contrast turns about the mean of the warped image, black corners included; ours about the source's.
    return [Subject("kornia", BATCHED, pipeline, matched=matched, tolerance=0.02)]


def geometry_transforms(size: tuple[int, int]) -> list[Any]:
    """Kornia's transforms with the geometry case's ranges."""
    s = CASES["geometry"]
    assert isinstance(s, Geometry)
    return [
        K.RandomResizedCrop(size, scale=s.crop, ratio=s.ratio, p=1.0),
        K.RandomAffine(degrees=s.degrees, translate=(s.translate, s.translate), shear=s.shear, p=1.0),
        K.RandomPerspective(s.distortion, p=1.0),
    ]


def geometry() -> list[Subject]:
    """Three resamples."""
    made: dict[tuple[int, int], Any] = {}

    def at(images: Tensor) -> Any:
        size = (images.shape[-2], images.shape[-1])
        if size not in made:
            made[size] = K.AugmentationSequential(*geometry_transforms(size), data_keys=["input"])
        return made[size]

    def matched(images: Tensor) -> tuple[Tensor, Tensor]:
        pipeline = at(images)
        theirs = pipeline(images)
        dst_from_src = pipeline.transform_matrix.to(torch.float64)
        size = (images.shape[-2], images.shape[-1])
        ours = warp_kernel(images, pack(torch.linalg.inv(dst_from_src).to(images.dtype), size=size))
        # One resample still sees what the crop cut away; three do not: compare where both show the image.
        shown = theirs.amin(1, keepdim=True) > 0.1
        return theirs * shown, ours * shown

    return [Subject("kornia", BATCHED, lambda images: at(images)(images), matched=matched, tolerance=0.02)]  # three interpolations


def warp() -> list[Subject]:
    """``warp_affine``, which takes the map from input to output."""

    def prepare(images: Tensor) -> tuple[Tensor, Tensor]:
        return images, affine_matrices(images.shape[0], (images.shape[2], images.shape[3])).to(images.device, images.dtype)

    def forward(inputs: tuple[Tensor, Tensor]) -> Tensor:
        images, dst_from_src = inputs
        result: Tensor = warp_affine(images, dst_from_src, (images.shape[2], images.shape[3]), align_corners=True)
        return result

    def matched(images: Tensor) -> tuple[Tensor, Tensor]:
        size = (images.shape[2], images.shape[3])
        return forward(prepare(images)), warp_kernel(images, pack(src_from_dst_of(images), size=size))

    return [Subject("kornia warp_affine", "batch, float32, a matrix per sample", forward, prepare, matched=matched)]


def chain(length: int) -> list[Subject]:
    """The first operations of the chain, one after the other."""
    made = {
        "affine": K.RandomAffine(degrees=10, shear=5, p=1.0),
        "brightness": K.ColorJitter(brightness=0.2, p=1.0),
        "rotation": K.RandomRotation(degrees=10, p=1.0),
        "contrast": K.ColorJitter(contrast=0.2, p=1.0),
        "flip": K.RandomHorizontalFlip(p=0.5),
        "saturation": K.ColorJitter(saturation=0.2, p=1.0),
        "translate": K.RandomAffine(degrees=0, translate=(0.05, 0.05), p=1.0),
        "scale": K.RandomAffine(degrees=0, scale=(0.9, 1.1), p=1.0),
        "vertical flip": K.RandomVerticalFlip(p=0.5),
        "normalize": normalize(),
    }
    pipeline = K.AugmentationSequential(*(made[name] for name in CHAIN[:length]), data_keys=["input"])
    return [Subject("kornia", BATCHED, pipeline)]


def blur() -> list[Subject]:
    """``RandomGaussianBlur``; a width per sample."""
    s = CASES["blur"]
    assert isinstance(s, Blur)
    return [_single(K.RandomGaussianBlur((s.taps, s.taps), s.sigma, p=1.0))]


def jitter() -> list[Subject]:
    """``ColorJitter``; one order for the batch."""
    s = CASES["jitter"]
    assert isinstance(s, Jitter)
    return [_single(K.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue, p=1.0))]


def noise() -> list[Subject]:
    """``RandomGaussianNoise``, which does not clip."""
    s = CASES["noise"]
    assert isinstance(s, Noise)
    return [_single(K.RandomGaussianNoise(mean=0.0, std=s.sigma, p=1.0))]


def jpeg() -> list[Subject]:
    """``RandomJPEG``; a quality per sample."""
    s = CASES["jpeg"]
    assert isinstance(s, Jpeg)
    return [_single(K.RandomJPEG(jpeg_quality=s.quality, p=1.0))]


def elastic() -> list[Subject]:
    """``RandomElasticTransform``, whose alpha is in half widths of the picture, and three more."""
    s = CASES["elastic"]
    assert isinstance(s, Elastic)
    taps = 2 * int(4 * s.sigma) + 1
    made: dict[tuple[int, int], Any] = {}

    def at(images: Tensor) -> Any:
        size = images.shape[-2], images.shape[-1]
        if size not in made:
            made[size] = K.AugmentationSequential(
                K.RandomElasticTransform((taps, taps), (s.sigma, s.sigma), (s.alpha / size[1], s.alpha / size[0]), p=1.0),
                K.RandomAffine(s.degrees, p=1.0),
                K.RandomResizedCrop(size, s.crop, p=1.0),
                K.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue, p=1.0),
                data_keys=["input"],
            )
        return made[size]

    return [Subject("kornia", BATCHED, lambda images: at(images)(images))]


def flips() -> list[Subject]:
    """Two transforms, which take the images drawn out of the batch and put them back."""
    s = CASES["flips"]
    assert isinstance(s, Flips)
    return [_single(K.RandomHorizontalFlip(p=s.p), K.RandomVerticalFlip(p=s.p))]


def _single(*transforms: Any) -> Subject:
    return Subject("kornia", BATCHED, K.AugmentationSequential(*transforms, data_keys=["input"]))

"""Pellucid's own version of each case.

Owns: the pipelines that the peers are held against.
Must not: use anything a user could not.
Read next: ``kornia.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid import functional
from pellucid.geometry.matrices import inverse
from pellucid.kernels.warp import pack
from pellucid.kernels.warp import warp as warp_kernel
from pellucid.pipeline import Pipeline
from pellucid.transforms.affine import RandomAffine, RandomRotation, RandomScale, RandomTranslate
from pellucid.transforms.base import Transform
from pellucid.transforms.blur import RandomGaussianBlur
from pellucid.transforms.codec import RandomJPEG
from pellucid.transforms.color import Normalize
from pellucid.transforms.crop import RandomResizedCrop
from pellucid.transforms.elastic import RandomElastic
from pellucid.transforms.flip import RandomHorizontalFlip, RandomVerticalFlip
from pellucid.transforms.jitter import ColorJitter
from pellucid.transforms.noise import RandomGaussianNoise
from pellucid.transforms.perspective import RandomPerspective
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
    coordinates,
)
from pellucid_bench.subject import BATCHED, Subject, channels_last_8bit

__all__ = [
    "GeometryPipeline",
    "blur",
    "chain",
    "elastic",
    "flagship",
    "flagship_pipeline",
    "flips",
    "geometry",
    "jitter",
    "jpeg",
    "noise",
    "remap",
    "src_from_dst_of",
    "warp",
    "with_parameters",
]


def flagship_pipeline(*, impl: str = "auto", dtype: torch.dtype | None = None) -> Pipeline:
    """The flagship as a user would write it."""
    s = CASES["flagship"]
    assert isinstance(s, Flagship)
    jitter = ColorJitter(brightness=s.brightness, contrast=s.contrast, saturation=s.saturation, hue=s.hue)
    affine = RandomAffine(degrees=s.degrees, translate=(s.translate, s.translate), scale=s.scale, shear=s.shear)
    return Pipeline([affine, RandomHorizontalFlip(p=s.flip), jitter, Normalize(mean=MEAN, std=STD)], impl=impl, dtype=dtype)


def flagship(*, impl: str = "auto") -> list[Subject]:
    """From float32, and from uint8 as a decoder delivers it."""
    pipeline = flagship_pipeline(impl=impl)
    from_8bit = flagship_pipeline(impl=impl, dtype=torch.float32)
    return [
        Subject("pellucid", BATCHED, pipeline, parameters=with_parameters(pipeline)),
        Subject(
            "pellucid, uint8 in",
            "batch, uint8 HWC to float32 CHW, a draw per sample",
            from_8bit,
            channels_last_8bit,
            differentiable=False,
        ),
    ]


class GeometryPipeline:
    """The geometry case; the crop's size is the image's own, so a pipeline is made per size."""

    def __init__(self, *, impl: str = "auto") -> None:
        self.impl = impl
        self._made: dict[tuple[int, ...], Pipeline] = {}

    def at(self, images: Tensor) -> Pipeline:
        """The pipeline for images of this size."""
        size = tuple(images.shape[-2:])
        if size not in self._made:
            s = CASES["geometry"]
            assert isinstance(s, Geometry)
            crop = RandomResizedCrop((size[0], size[1]), scale=s.crop, ratio=s.ratio, antialias=False)
            affine = RandomAffine(degrees=s.degrees, translate=(s.translate, s.translate), shear=s.shear)
            self._made[size] = Pipeline([crop, affine, RandomPerspective(s.distortion, p=1.0)], impl=self.impl)
        return self._made[size]

    def __call__(self, images: Tensor) -> Tensor:
        """Augment."""
        result: Tensor = self.at(images)(images)
        return result


def geometry(*, impl: str = "auto") -> list[Subject]:
    """Three geometric transforms, one resample."""
    pipeline = GeometryPipeline(impl=impl)
    return [Subject("pellucid", BATCHED, pipeline, parameters=lambda images: with_parameters(pipeline.at(images))(images))]


def with_parameters(pipeline: Pipeline) -> Any:
    """A call that draws, makes every continuous draw a leaf, and applies: what learning the parameters needs."""

    def call(images: Tensor) -> tuple[Tensor, list[Tensor]]:
        record = pipeline.draw(images).requires_grad_()
        leaves = [value for values in record.params for value in values.values() if value.requires_grad]
        result: Tensor = pipeline.apply(images, record)
        return result, leaves

    return call


def src_from_dst_of(images: Tensor) -> Tensor:
    """The matrices of the warp case for a batch: (b, 2, 3), output pixel to input pixel."""
    batch, _, height, width = images.shape
    dst_from_src = affine_matrices(batch, (height, width))
    last = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64).expand(batch, 1, 3)
    return inverse(torch.cat((dst_from_src, last), 1))[:, :2].to(images.device, images.dtype)


def warp(*, impl: str = "auto") -> list[Subject]:
    """The kernel alone, with its matrices given, and the public function on bytes as a decoder delivers them."""

    def prepare(images: Tensor) -> tuple[Tensor, Tensor]:
        return images, src_from_dst_of(images)

    def forward(inputs: tuple[Tensor, Tensor]) -> Tensor:
        images, src_from_dst = inputs
        return warp_kernel(images, pack(src_from_dst, size=(images.shape[2], images.shape[3])), impl=impl)

    def parameters(inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, list[Tensor]]:
        leaf = inputs[1].detach().requires_grad_()
        return forward((inputs[0], leaf)), [leaf]

    def from_8bit(images: Tensor) -> tuple[Tensor, Tensor]:
        return channels_last_8bit(images), src_from_dst_of(images)

    def on_8bit(inputs: tuple[Tensor, Tensor]) -> Tensor:
        images, src_from_dst = inputs
        return functional.warp(images, src_from_dst, size=(images.shape[2], images.shape[3]), impl=impl)

    return [
        Subject("pellucid", "batch, float32, a matrix per sample", forward, prepare, parameters=parameters),
        _on_8bit("batch, uint8 HWC to uint8 CHW, a matrix per sample", on_8bit, from_8bit),
    ]


def remap(*, impl: str = "auto") -> list[Subject]:
    """The public function, with its coordinates given."""

    def prepare(images: Tensor) -> tuple[Tensor, Tensor]:
        return images, coordinates(images.shape[0], (images.shape[2], images.shape[3])).to(images.device)

    def forward(inputs: tuple[Tensor, Tensor]) -> Tensor:
        result: Tensor = functional.remap(inputs[0], inputs[1][:, 0], inputs[1][:, 1], impl=impl)
        return result

    def parameters(inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, list[Tensor]]:
        leaf = inputs[1].detach().requires_grad_()
        return forward((inputs[0], leaf)), [leaf]

    def from_8bit(images: Tensor) -> tuple[Tensor, Tensor]:
        return channels_last_8bit(images), prepare(images)[1]

    return [
        Subject("pellucid", "batch, float32, coordinates per pixel", forward, prepare, parameters=parameters),
        _on_8bit("batch, uint8 HWC to uint8 CHW, coordinates per pixel", forward, from_8bit),
    ]


def chain(length: int, *, impl: str = "auto") -> list[Subject]:
    """The first operations of the chain in one pipeline."""
    made: dict[str, Transform] = {
        "affine": RandomAffine(degrees=10, shear=5),
        "brightness": ColorJitter(brightness=0.2, clip="none"),
        "rotation": RandomRotation(degrees=10),
        "contrast": ColorJitter(contrast=0.2, clip="none"),
        "flip": RandomHorizontalFlip(p=0.5),
        "saturation": ColorJitter(saturation=0.2, clip="none"),
        "translate": RandomTranslate((0.05, 0.05)),
        "scale": RandomScale((0.9, 1.1)),
        "vertical flip": RandomVerticalFlip(p=0.5),
        "normalize": Normalize(mean=MEAN, std=STD),
    }
    return [Subject("pellucid", BATCHED, Pipeline([made[name] for name in CHAIN[:length]], impl=impl))]


def blur(*, impl: str = "auto") -> list[Subject]:
    """A width per sample."""
    s = CASES["blur"]
    assert isinstance(s, Blur)
    return [_single("pellucid", Pipeline([RandomGaussianBlur(s.taps, s.sigma)], impl=impl))]


def jitter(*, impl: str = "auto") -> list[Subject]:
    """Clipped once at the end, and after every step as the peers do."""
    s = CASES["jitter"]
    assert isinstance(s, Jitter)
    numbers: dict[str, Any] = {"brightness": s.brightness, "contrast": s.contrast, "saturation": s.saturation, "hue": s.hue}
    return [
        _single("pellucid", Pipeline([ColorJitter(**numbers)], impl=impl)),
        _single("pellucid, clip each", Pipeline([ColorJitter(**numbers, clip="each")], impl=impl)),
    ]


def noise(*, impl: str = "auto") -> list[Subject]:
    """A field per sample that is a function of the key."""
    s = CASES["noise"]
    assert isinstance(s, Noise)
    return [_single("pellucid", Pipeline([RandomGaussianNoise(sigma=s.sigma)], impl=impl))]


def jpeg(*, impl: str = "auto") -> list[Subject]:
    """A quality per sample, which has a gradient."""
    s = CASES["jpeg"]
    assert isinstance(s, Jpeg)
    return [_single("pellucid", Pipeline([RandomJPEG(s.quality, p=1.0)], impl=impl))]


def elastic(*, impl: str = "auto") -> list[Subject]:
    """One resample with the field in it, and the same without."""
    return [_elastic("pellucid", impl, bent=True), _elastic("pellucid, no elastic", impl, bent=False)]


def _elastic(name: str, impl: str, *, bent: bool) -> Subject:
    s = CASES["elastic"]
    assert isinstance(s, Elastic)
    field = [RandomElastic.from_alpha_sigma(s.alpha, s.sigma)] if bent else []
    jitter = ColorJitter(s.brightness, s.contrast, saturation=s.saturation, hue=s.hue)
    made: dict[tuple[int, int], Pipeline] = {}

    def at(images: Tensor) -> Pipeline:
        size = images.shape[-2], images.shape[-1]
        if size not in made:
            crop = RandomResizedCrop(size, scale=s.crop, antialias=False)
            made[size] = Pipeline([*field, RandomAffine(s.degrees), crop, jitter], impl=impl)
        return made[size]

    return Subject(name, BATCHED, lambda images: at(images)(images), parameters=lambda images: with_parameters(at(images))(images))


def flips(*, impl: str = "auto") -> list[Subject]:
    """One copy."""
    s = CASES["flips"]
    assert isinstance(s, Flips)
    pipeline = Pipeline([RandomHorizontalFlip(s.p), RandomVerticalFlip(s.p)], impl=impl)
    return [Subject("pellucid", BATCHED, pipeline)]


def _on_8bit(regime: str, forward: Callable[[Any], Tensor], prepare: Callable[[Tensor], Any]) -> Subject:
    return Subject("pellucid, uint8", regime, forward, prepare, lambda pixels: pixels.float() / 255.0, differentiable=False)


def _single(name: str, pipeline: Pipeline) -> Subject:
    return Subject(name, BATCHED, pipeline, parameters=with_parameters(pipeline))

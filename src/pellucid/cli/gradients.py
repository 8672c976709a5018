"""Gradients of a sensible loss through a pipeline, and finite differences to hold them against.

Owns: the fixed network, the gradient picture's numbers, and the table of comparisons.
Must not: draw or print.
Read next: ``report.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F
import torch

if TYPE_CHECKING:
    from pellucid.pipeline import Pipeline
    from pellucid.record import Record

__all__ = ["STEPS", "Comparison", "FixedNet", "compare_gradients", "count_comparisons", "dithered", "pixel_gradient"]

STEPS = (1e-5, 1e-7)
"""The finite differences' two step sizes, in each value's own unit."""

_ZERO = 1e-12  # gradients below this on both sides agree that nothing flows


class FixedNet:
    """A small convolutional network with fixed weights, smooth so that every kink found is the pipeline's.

    Three strided convolutions and a 4 x 4 average: features that say what is where, as the first layers of a trained network do.
    """

    def __init__(self, channels: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(2024)
        self.weights = []
        for wide_in, wide_out, side in ((channels, 16, 5), (16, 24, 3), (24, 32, 3)):
            weight = torch.randn((wide_out, wide_in, side, side), generator=generator, dtype=torch.float64)
            weight = weight - weight.mean((1, 2, 3), keepdim=True)  # answers to structure, not to brightness
            self.weights.append((weight * (2.0 / (wide_in * side * side)) ** 0.5).to(dtype))

    def __call__(self, image: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 32, 4, 4)."""
        features = 2.0 * image - 1.0
        for weight in self.weights:
            features = F.gelu(F.conv2d(features, weight, stride=2, padding=weight.shape[-1] // 2))
        return F.adaptive_avg_pool2d(features, 4)


@dataclass(frozen=True)
class Comparison:
    """One line of the table.

    Args:
        name: what the gradient is to.
        transform: whose value it is; empty for the image.
        declared: the kind of gradient the transform declares.
        autograd, differences: the first sample's derivative by autograd, and by central differences with the smaller step.
        errors: relative error over the batch at each of `STEPS`.
    """

    name: str
    transform: str
    declared: str
    autograd: float
    differences: float
    errors: tuple[float, ...]


def feature_loss(pipeline: Pipeline, net: FixedNet, images: Tensor, record: Record, wanted: Tensor) -> Tensor:
    """(B,): how far augmentation moves each image's features, as a consistency loss measures it."""
    return (net(pipeline.apply(images, record)) - wanted).square().mean((1, 2, 3)) / wanted.square().mean((1, 2, 3))


def pixel_gradient(pipeline: Pipeline, images: Tensor, record: Record) -> Tensor:
    """(B, H, W): the length of d loss / d pixel over the channels, for every pixel of the photographs."""
    net = FixedNet(images.shape[1], images.dtype)
    leaf = images.detach().clone().requires_grad_()
    loss = feature_loss(pipeline, net, leaf, record, net(images))
    (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    return gradient.square().sum(1).sqrt()


def dithered(images: Tensor) -> Tensor:
    """The images in float64 with the noise below their 8-bit steps put back.

    Rounding to 8 bits leaves many pixels exactly grey or exactly black, right on the kinks of hue and clipping, where a
    derivative does not exist. The check is of gradients, not of kinks.
    """
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return (images.to(torch.float64) * 255.0 + noise) / 256.0


def count_comparisons(record: Record) -> int:
    """How many comparisons :func:`compare_gradients` yields."""
    return 1 + sum(1 for _ in _continuous(record))


def compare_gradients(pipeline: Pipeline, images: Tensor, record: Record) -> Iterator[Comparison]:
    """Compare autograd with central differences, for the image and then for every continuous value the pipeline drew.

    Args:
        pipeline: the pipeline.
        images: float64.
        record: of these images.
    """
    net = FixedNet(images.shape[1], images.dtype)
    wanted = net(images)
    leaf = images.detach().clone().requires_grad_()
    leaves = record.requires_grad_()
    places = list(_continuous(leaves))
    loss = feature_loss(pipeline, net, leaf, leaves, wanted)
    inputs = [leaf, *(leaves.params[i][name] for i, name in places)]
    gradients = torch.autograd.grad(loss.sum(), inputs, materialize_grads=True)
    frozen = record.requires_grad_()
    with torch.no_grad():
        # One random direction per image: the derivative along it involves every pixel.
        direction = torch.randn(images.shape, generator=torch.Generator().manual_seed(2), dtype=images.dtype)

        def along(shift: float) -> Tensor:
            return feature_loss(pipeline, net, images + shift * direction, frozen, wanted)

        image_kind = "exact" if all(t.gradients["image"] == "exact" for t in pipeline.transforms) else "almost_everywhere"
        yield _compare("image, along a random direction", "", image_kind, (gradients[0] * direction).sum((1, 2, 3)), along)
        for (index, name), gradient in zip(places, gradients[1:], strict=True):
            value = record.params[index][name].detach()

            def shifted(shift: float, index: int = index, name: str = name, value: Tensor = value) -> Tensor:
                return feature_loss(pipeline, net, images, frozen.with_param(index, name, value + shift), wanted)

            transform = pipeline.transforms[index]
            yield _compare(name, f"[{index}] {type(transform).__name__}", transform.gradients.get(name, "undeclared"), gradient, shifted)


def _continuous(record: Record) -> Iterator[tuple[int, str]]:
    for index, values in enumerate(record.params):
        for name, value in values.items():
            if value.is_floating_point():
                yield index, name


def _compare(name: str, transform: str, declared: str, autograd: Tensor, loss_at: Callable[[float], Tensor]) -> Comparison:
    differences = [(loss_at(step) - loss_at(-step)) / (2.0 * step) for step in STEPS]
    errors = tuple(_relative_error(autograd, difference) for difference in differences)
    return Comparison(name, transform, declared, float(autograd[0]), float(differences[-1][0]), errors)


def _relative_error(a: Tensor, b: Tensor) -> float:
    size = max(float(a.norm()), float(b.norm()))
    return float((a - b).norm()) / size if size > _ZERO else 0.0


def worst(comparisons: Sequence[Comparison]) -> float:
    """The largest relative error at the smaller step."""
    return max(comparison.errors[-1] for comparison in comparisons)

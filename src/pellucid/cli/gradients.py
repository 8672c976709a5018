"""Gradients of a consistency loss through a pipeline, and finite differences to check them.

Owns: the fixed network, the numbers of the gradient picture, and the table of comparisons.
Must not: draw or print.
Read next: ``report.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from pellucid.pipeline import Pipeline
    from pellucid.pipeline.records import Record

__all__ = [
    "STEPS", "Comparison", "FixedNet", "ajar", "arriving", "compare_gradients", "count_comparisons", "dithered", "pixel_gradient",
    "worst",
]  # fmt: skip

STEPS = (1e-6, 1e-8)
"""The finite differences' two step sizes, in each value's own unit."""

_ZERO = 1e-12  # if both gradients are below this, no gradient flows


class FixedNet:
    """A small convolutional network with fixed weights. It is smooth, so every kink that is found is the pipeline's.

    It resembles the first layers of a trained network: Gabor filters on brightness and on two colour differences, pooled, then
    mixed. Pooling windows overlap evenly, so that no pixel counts more than its neighbour.
    """

    def __init__(self, channels: int, dtype: torch.dtype) -> None:
        self.edges = _gabor_bank(channels).to(dtype)
        generator = torch.Generator().manual_seed(2024)
        mix = torch.randn((16, 2 * self.edges.shape[0], 3, 3), generator=generator, dtype=torch.float64)
        self.mix = (mix / mix[0].numel() ** 0.5).to(dtype)

    def __call__(self, image: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 16, H / 4, W / 4), roughly."""
        answers = F.conv2d(image, self.edges, padding=self.edges.shape[-1] // 2)
        energy = F.softplus(torch.cat((answers, -answers), dim=1), beta=4.0)
        pooled = F.avg_pool2d(energy, 4, stride=2)
        return F.avg_pool2d(F.gelu(F.conv2d(pooled, self.mix)), 4, stride=2)


def arriving(pipeline: Pipeline, image: Tensor, record: Record) -> Tensor:
    """(H, W): the length of the gradient that the network's activity on the result has at each pixel of the first picture."""
    leaf = image.detach().clone().requires_grad_()
    out = pipeline.apply(leaf, record)
    loss = FixedNet(leaf.shape[-3], leaf.dtype)(out.reshape(-1, *out.shape[-3:])).square().sum()
    (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient.reshape(-1, *gradient.shape[-3:])[0].square().sum(0).sqrt()


def _gabor_bank(channels: int, side: int = 7, orientations: int = 4) -> Tensor:
    """(orientations * mixtures, channels, side, side): oriented edge filters on brightness and, for RGB, on colour differences."""
    reach = torch.arange(side, dtype=torch.float64) - side // 2
    y, x = torch.meshgrid(reach, reach, indexing="ij")
    filters = []
    for turn in range(orientations):
        angle = math.pi * turn / orientations
        across = x * math.cos(angle) + y * math.sin(angle)
        wave = torch.sin(2.0 * math.pi * across / 5.0) * torch.exp(-(x * x + y * y) / (2.0 * 1.5**2))
        filters.append(wave / wave.abs().sum() * 4.0)
    mixtures = [torch.full((channels,), 1.0 / channels)]
    if channels == 3:
        mixtures += [torch.tensor([0.5, -0.5, 0.0]), torch.tensor([0.25, 0.25, -0.5])]
    return torch.stack([weights.to(torch.float64)[:, None, None] * wave for weights in mixtures for wave in filters])


@dataclass(frozen=True)
class Comparison:
    """One line of the table.

    Args:
        name: the value that the derivative is taken to.
        transform: the transform that draws this value; empty for the image.
        declared: the kind of gradient the transform declares.
        autograd, differences: the first sample's derivative by autograd, and by the best of the differences.
        errors: relative error over the batch of central differences at each of `STEPS`.
        best: relative error where each sample uses the difference nearest to autograd, which neither a kink nor rounding spoils.
        flows: whether any sample's loss depends on the value at all; behind closed gates it does not.
    """

    name: str
    transform: str
    declared: str
    autograd: float
    differences: float
    errors: tuple[float, ...]
    best: float
    flows: bool


def feature_loss(pipeline: Pipeline, net: FixedNet, images: Tensor, record: Record, wanted: Tensor) -> Tensor:
    """(B,): a consistency loss: how far augmentation moves each image's features from ``wanted``, relative to their size."""
    return (net(pipeline.apply(images, record)) - wanted).square().mean((1, 2, 3)) / wanted.square().mean((1, 2, 3))


def pixel_gradient(pipeline: Pipeline, images: Tensor, record: Record) -> Tensor:
    """(B, H, W): the length over the channels of d loss / d pixel, for every pixel of the photographs."""
    net = FixedNet(images.shape[1], images.dtype)
    leaf = images.detach().clone().requires_grad_()
    loss = feature_loss(pipeline, net, leaf, record, net(images))
    (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    return gradient.square().sum(1).sqrt()


def dithered(images: Tensor) -> Tensor:
    """Return the images in float64 with noise smaller than an 8-bit step.

    Rounding to 8 bits leaves many pixels exactly grey or exactly black, right on the kinks of hue and clipping, where no
    derivative exists. The noise moves them off the kinks, so that the check compares gradients.
    """
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return (images.to(torch.float64) * 255.0 + noise) / 256.0


def ajar(record: Record) -> Record:
    """Return the record with gates at 0.05 and 0.95 instead of 0 and 1.

    Where a warp is the identity, pixels lie exactly on the edge of the canvas before it, which is a kink in every direction, where
    no derivative exists. Moving the gate moves them off the kink, so that the check compares gradients.
    """
    for index, values in enumerate(record.params):
        if "gate" in values and values["gate"].is_floating_point():
            record = record.with_param(index, "gate", 0.05 + 0.9 * values["gate"])
    return record


def count_comparisons(record: Record) -> int:
    """How many comparisons :func:`compare_gradients` yields."""
    return 1 + sum(1 for _ in _continuous(record))


def compare_gradients(pipeline: Pipeline, images: Tensor, record: Record) -> Iterator[Comparison]:
    """Compare autograd with central differences, for the image and then for every continuous value the pipeline drew.

    Args:
        pipeline: the pipeline.
        images: float64.
        record: a record that the pipeline drew for these images.
    """
    net = FixedNet(images.shape[1], images.dtype)
    wanted = net(images)
    leaf = images.detach().clone().requires_grad_()
    leaves = record.requires_grad_()
    places = list(_continuous(leaves))
    loss = feature_loss(pipeline, net, leaf, leaves, wanted)
    inputs = [leaf, *(leaves.params[i][name] for i, name in places)]
    gradients = torch.autograd.grad(loss.sum(), inputs, materialize_grads=True)
    here, frozen = loss.detach(), record
    with torch.no_grad():
        # One random direction for each image; the derivative along it depends on every pixel.
        direction = torch.randn(images.shape, generator=torch.Generator().manual_seed(2), dtype=images.dtype)

        def along(shift: float) -> Tensor:
            return feature_loss(pipeline, net, images + shift * direction, frozen, wanted)

        image_kind = "exact" if all(t.gradients["image"] == "exact" for t in pipeline.transforms) else "almost_everywhere"
        yield _compare("image, along a random direction", "", image_kind, (gradients[0] * direction).sum((1, 2, 3)), here, along)
        for (index, name), gradient in zip(places, gradients[1:], strict=True):
            value = record.params[index][name].detach()

            def shifted(shift: float, index: int = index, name: str = name, value: Tensor = value) -> Tensor:
                return feature_loss(pipeline, net, images, frozen.with_param(index, name, value + shift), wanted)

            transform = pipeline.steps[index].transform
            declared = transform.gradients.get(name, "undeclared")
            yield _compare(name, f"[{index}] {type(transform).__name__}", declared, gradient, here, shifted)


def _continuous(record: Record) -> Iterator[tuple[int, str]]:
    for index, values in enumerate(record.params):
        for name, value in values.items():
            if value.is_floating_point():
                yield index, name


def _compare(
    name: str, transform: str, declared: str, autograd: Tensor, here: Tensor, loss_at: Callable[[float], Tensor]
) -> Comparison:
    central, one_sided = [], []
    for step in STEPS:
        above, below = loss_at(step), loss_at(-step)
        central.append((above - below) / (2.0 * step))
        one_sided += [(above - here) / step, (here - below) / step]
    # A kink between the two points spoils the central difference, but the one-sided difference away from the kink is still right;
    # the small step meets few kinks, and the large step has little rounding. A wrong gradient is near none of them.
    candidates = torch.stack([*central, *one_sided])
    nearest = (candidates - autograd).abs().argmin(0)
    chosen = candidates.gather(0, nearest[None])[0]
    errors = tuple(_relative_error(autograd, difference) for difference in central)
    flows = float(autograd.norm()) > _ZERO
    best = _relative_error(autograd, chosen)
    return Comparison(name, transform, declared, float(autograd[0]), float(chosen[0]), errors, best, flows)


def _relative_error(a: Tensor, b: Tensor) -> float:
    size = max(float(a.norm()), float(b.norm()))
    return float((a - b).norm()) / size if size > _ZERO else 0.0


def worst(comparisons: Sequence[Comparison]) -> float:
    """The largest of the best relative errors."""
    return max(comparison.best for comparison in comparisons)

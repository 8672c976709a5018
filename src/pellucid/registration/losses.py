"""Losses between two pictures: one differentiable number for each pair.

Owns: the losses by name, and the robust weights that least squares needs.
Must not: warp.
Read next: ``newton.py``, ``descent.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pellucid.functional import gaussian_blur, resize
from pellucid.registration.maps import bumps

__all__ = [
    "LOSSES", "RESIDUAL", "blurred", "brightness", "correlation", "distance", "evened", "information_step", "robust", "sampled",
]  # fmt: skip

RESIDUAL: Final = {"ssd": None, "ncc": None, "charbonnier": 1.0, "barron": -2.0}
"""Losses that are a sum over residuals, with the exponent of Barron's family; None is least squares."""

LOSSES: Final = (*RESIDUAL, "local_ncc", "mutual_information")

_BINS, _MOST_SAMPLES = 32, 1 << 15


def robust(exponent: float, width: float) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return a function from a residual to (loss, weight in the normal equations), for an exponent other than 0 and 2.

    Source:
        Barron, A General and Adaptive Robust Loss Function, CVPR 2019; 1 is Charbonnier's, -2 Geman and McClure's.
    """
    far = abs(exponent - 2.0)

    def weigh(residual: Tensor) -> tuple[Tensor, Tensor]:
        inner = (residual / width).square() / far + 1.0
        loss = 2.0 * width**2 * far / exponent * (inner ** (exponent / 2.0) - 1.0)
        return loss, inner ** (exponent / 2.0 - 1.0)

    return weigh


def brightness(value: Tensor, target: Tensor, shares: Tensor) -> tuple[Float[Tensor, "b"], Float[Tensor, "b"], Float[Tensor, "b"]]:
    """Return the gain and offset that bring one picture (b, c, n) nearest to another, and their correlation; shares sum to 1."""
    mean, wanted = (value * shares).sum((1, 2)), (target * shares).sum((1, 2))
    spread, other = value - mean[:, None, None], target - wanted[:, None, None]
    variance, both = (spread.square() * shares).sum((1, 2)), (spread * other * shares).sum((1, 2))
    wanted_variance = (other.square() * shares).sum((1, 2))
    product = variance * wanted_variance
    usable = product > 1e-24
    found = torch.where(usable, both / torch.where(usable, product, 1.0).sqrt(), 0.0)
    gain = both / torch.where(variance > 1e-12, variance, 1e-12)
    least = 0.05 * (wanted_variance / variance.clamp_min(1e-12)).detach().sqrt().clamp_max(1.0)  # in the units of the pictures
    gain = torch.where(gain > least, gain, least)  # a negative of the picture is no match
    return gain, wanted - gain * mean, found


def correlation(value: Tensor, target: Tensor, weight: Tensor) -> Float[Tensor, "b"]:
    """Return the correlation of two pictures (b, c, h, w) under weights (b, 1, h, w)."""
    return brightness(value.flatten(2), target.flatten(2), _shares(weight, value.shape[1]))[2]


def blurred(picture: Float[Tensor, "*b c h w"], sigma: float) -> Float[Tensor, "*b c h w"]:
    """Blur by a Gaussian of this many pixels, with all of its taps within three standard deviations."""
    return gaussian_blur(picture, 2 * math.ceil(3 * sigma) + 1, sigma)


def evened(picture: Float[Tensor, "b c h w"], weight: Float[Tensor, "b 1 h w"] | None) -> Float[Tensor, "b c h w"]:
    """Subtract a picture's local mean and divide by its local spread, both under Gaussians of a tenth of its shorter side."""
    size = (picture.shape[-2], picture.shape[-1])
    sigma = min(size) / 10
    step = max(1, int(sigma / 4))  # so wide a blur may be computed on a smaller picture
    small = (max(4, size[0] // step), max(4, size[1] // step))
    weight = torch.ones_like(picture[:, :1]) if weight is None else weight

    def blur(values: Tensor) -> Tensor:
        return resize(blurred(resize(values, small), sigma / step), size)

    mass = blur(weight).clamp_min(1e-6)
    centred = picture - blur(picture * weight) / mass
    squares = centred.square() * weight
    floor = 1e-3 * squares.mean((1, 2, 3), keepdim=True) / weight.mean((1, 2, 3), keepdim=True).clamp_min(1e-6) + 1e-12
    return centred / (blur(squares) / mass + floor).sqrt()


def distance(name: str, value: Tensor, target: Tensor, weight: Tensor, *, photometric: str, width: float) -> Float[Tensor, "b"]:
    """Return the loss of two pictures (b, c, h, w) under weights (b, 1, h, w).

    Args:
        name: one of `LOSSES`.
        value, target: the warped picture and the fixed one.
        weight: weights, at least 0.
        photometric: unless ``none``, residuals are taken after the best gain and offset.
        width: width of the robust losses, in the fixed picture's units.
    """
    if name == "local_ncc":
        return _local(value, target, weight)
    if name == "mutual_information":
        return _mutual(value, target, weight)
    shares = _shares(weight, value.shape[1])
    flat, wanted = value.flatten(2), target.flatten(2)
    gain, offset, found = brightness(flat, wanted, shares)
    if name == "ncc":
        return 1.0 - found
    if photometric != "none":
        flat = gain[:, None, None] * flat + offset[:, None, None]
    residual, exponent = flat - wanted, RESIDUAL[name]
    loss = residual.square() if exponent is None else robust(exponent, width)(residual)[0]
    return (loss * shares).sum((1, 2))


def _shares(weight: Tensor, channels: int) -> Tensor:
    flat = weight.flatten(2)
    return flat / (channels * flat.sum((1, 2), keepdim=True)).clamp_min(1e-12)


def _local(value: Tensor, target: Tensor, weight: Tensor, side: int = 9) -> Float[Tensor, "b"]:
    """Return 1 minus the weighted mean of the correlations within windows; windows without contrast count as uncorrelated."""
    pool: Callable[..., Tensor] = F.avg_pool2d if value.dim() == 4 else F.avg_pool3d

    def mean(picture: Tensor) -> Tensor:
        return pool(picture, side, 1, side // 2, count_include_pad=False)

    mass = mean(weight).clamp_min(1e-6)
    a, b = mean(value * weight) / mass, mean(target * weight) / mass
    aa, bb, ab = (
        mean(p * q * weight) / mass - m for p, q, m in ((value, value, a * a), (target, target, b * b), (value, target, a * b))
    )
    small = 1e-4 * (target.flatten(1).var(1).reshape(-1, *[1] * (target.dim() - 1)) + 1e-8)
    local = ab / ((aa.clamp_min(0) + small) * (bb.clamp_min(0) + small)).sqrt()
    return 1.0 - (local * weight).flatten(1).sum(1) / (value.shape[1] * weight.flatten(1).sum(1)).clamp_min(1e-12)


def _mutual(value: Tensor, target: Tensor, weight: Tensor) -> Float[Tensor, "b"]:
    """Return minus the mutual information in nats, from a joint histogram with cubic B-spline windows on both pictures.

    Source:
        Mattes and others, PET-CT image registration in the chest using free-form deformations, 2003.
    """
    every = sampled(value)
    one, other = (bumps(_binned(picture.flatten(1), every)[0], _BINS) for picture in (value, target))
    joint = _joint(one, other, weight.expand_as(value).flatten(1)[:, every])
    return -(joint * _information(joint)).sum((1, 2))


def sampled(value: Tensor) -> slice:
    """Return the slice of a picture's values that the histogram counts."""
    return slice(None, None, max(1, value[0].numel() // _MOST_SAMPLES))


def _binned(flat: Float[Tensor, "b n"], every: slice) -> tuple[Float[Tensor, "b m"], Float[Tensor, "b 1"]]:
    """Return the positions of some values among the bins, and the number of bins per unit."""
    low, high = flat.detach().amin(1, keepdim=True), flat.detach().amax(1, keepdim=True)
    unit = (_BINS - 4) / (high - low).clamp_min(1e-12)
    return 1.5 + (flat[:, every] - low) * unit, unit


def _joint(moving: Float[Tensor, "b m k"], fixed: Float[Tensor, "b m k"], mass: Float[Tensor, "b m"]) -> Float[Tensor, "b k k"]:
    joint = (moving * mass[..., None]).transpose(1, 2) @ fixed
    return joint / joint.sum((1, 2), keepdim=True).clamp_min(1e-12)


def _information(joint: Float[Tensor, "b k k"]) -> Float[Tensor, "b k k"]:
    """Return the logarithm of the joint probability divided by that of independent values."""
    independent, usable = joint.sum(2, keepdim=True) * joint.sum(1, keepdim=True), joint > 1e-12
    return (torch.where(usable, joint, 1.0) / torch.where(usable, independent, 1.0)).log()


class InformationStep(NamedTuple):
    """What a step on mutual information needs, of minus the mutual information.

    Args:
        curvature: its second derivative with respect to the map's parameters, without that of the histogram.
        slope: its gradient.
        value: the number itself.
    """

    curvature: Float[Tensor, "b p p"]
    slope: Float[Tensor, "b p"]
    value: Float[Tensor, "b"]


def information_step(
    value: Float[Tensor, "b n"],
    target: Float[Tensor, "b n"],
    columns: Float[Tensor, "b p m"],
    weight: Float[Tensor, "b n"],
    every: slice,
) -> InformationStep:
    """Return an approximate second derivative, the gradient and the value of minus the mutual information.

    Args:
        value, target, weight: the pictures and their weights, with all channels in one axis.
        columns: derivatives of the counted values with respect to the map's parameters.
        every: the slice of values that are counted.

    Source:
        Thevenaz and Unser, Optimization of mutual information for multiresolution image registration, 2000.
    """
    place, unit = _binned(value, every)
    fixed, mass = bumps(_binned(target, every)[0], _BINS), weight[:, every]
    joint = _joint(bumps(place, _BINS), fixed, mass)
    share = unit * mass / mass.sum(1, keepdim=True).clamp_min(1e-12)
    change = _joint_slopes(place, columns * share[:, None], fixed)
    information = _information(joint)
    slope = -(change * information[:, None]).sum((2, 3))
    return InformationStep(_curvature(joint, change), slope, -(joint * information).sum((1, 2)))


def _joint_slopes(
    place: Float[Tensor, "b m"], moves: Float[Tensor, "b p m"], fixed: Float[Tensor, "b m k"]
) -> Float[Tensor, "b p k k"]:
    """Return the derivatives of the joint probabilities; ``moves`` says how far, times its mass, a parameter moves a value."""
    away = place[..., None] - torch.arange(_BINS, dtype=place.dtype, device=place.device)
    far = away.abs()
    steep = torch.where(far < 1, 1.5 * far.square() - 2.0 * far, torch.where(far < 2, -0.5 * (2.0 - far).square(), 0.0))
    lean = away.sign() * steep  # the derivative of `bumps`
    return (moves[..., None] * lean[:, None]).transpose(2, 3) @ fixed[:, None]


def _curvature(joint: Float[Tensor, "b k k"], change: Float[Tensor, "b p k k"]) -> Float[Tensor, "b p p"]:
    """Return the products of derivatives over probabilities: of the joint ones, minus of those of the moving picture alone."""
    alone, own = joint.sum(2), change.sum(3)
    together = (change * _inverse(joint)[:, None]).flatten(2) @ change.flatten(2).mT
    return together - (own * _inverse(alone)[:, None]) @ own.mT


def _inverse(chance: Tensor) -> Tensor:
    """Return 1 over each probability, and 0 for one of 0."""
    usable = chance > 1e-12
    return torch.where(usable, 1.0 / torch.where(usable, chance, 1.0), 0.0)

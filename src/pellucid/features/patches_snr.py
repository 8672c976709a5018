"""Measure how reliably the gradient of a patch comparison points a displaced keypoint back: signal-to-noise over many draws.

Owns: the measurement behind the antialiasing figures.
Must not: be imported by anything else in the package.
Read next: ``../functional/patches.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.features.frames import frames_from_xy
from pellucid.functional.patches import BLUR, extract_patches
from pellucid.nn.standardize import standardize
from pellucid.random import Key, normal_rows, uniform_rows

__all__ = ["GradientSignal", "keypoint_gradient_signal"]


class GradientSignal(NamedTuple):
    """The result of :func:`keypoint_gradient_signal`."""

    snr: float
    """mean / deviation."""
    mean: float
    """The mean component of the gradient along the displacement, per footprint: positive if descent leads back."""
    deviation: float
    """Its standard deviation over the draws."""
    right_way: float
    """The share of draws in which descent leads back."""


def keypoint_gradient_signal(
    images: Sequence[Float[Tensor, "c h w"]],
    footprint: float,
    *,
    size: int = 32,
    antialias: bool = True,
    blur: float = BLUR,
    displacement: float = 1 / 8,
    noise: float = 0.05,
    draws: int = 64,
    key: Key | None = None,
) -> GradientSignal:
    """Displace keypoints, compare patches, and measure whether the gradient to the keypoint leads back.

    Each draw places a keypoint in the image, turns its frame at random, and displaces a copy in a random direction d. The two
    patches come from two copies of the picture with different white noise, and are standardised. The loss is their mean squared
    difference, and its gradient to the displaced keypoint is projected on d. The signal-to-noise ratio is the mean of that
    projection divided by its standard deviation, over all draws and images.

    Args:
        images: pictures in [0, 1], of any sizes larger than the footprint; channels are averaged in the loss.
        footprint: the side of a patch in the image, in pixels.
        size: the side of a patch in samples.
        antialias, blur: as for :func:`extract_patches`.
        displacement: length of the displacement, in footprints.
        noise: standard deviation of the noise of each copy.
        draws: number of draws per image.
        key: decides places, directions and noise; ``Key(0)`` by default.

    Returns:
        A :class:`GradientSignal`.
    Gradient:
        none: the result is numbers.
    Errors:
        ``InvalidArgument`` for an image without room for the displaced patch's centre, or no images.

    Example:
        >>> picture = torch.rand(1, 8, 8).repeat_interleave(12, 1).repeat_interleave(12, 2)
        >>> 0 <= keypoint_gradient_signal([picture], 24.0, size=8, draws=16).right_way <= 1
        True
    """
    if not images:
        raise invalid("images", expected="at least one picture", got="none")
    drawn = Key(0) if key is None else key
    length = displacement * footprint
    margin = footprint / 4 + length  # a patch may stick out by a quarter of its side, as patches of keypoints near borders do

    def projected(number: int, image: Tensor) -> Float[Tensor, "draws"]:
        """Return the gradient's component along the displacement, for every draw of one image."""
        height, width = image.shape[-2:]
        if min(height, width) <= 2 * margin:
            raise invalid("images", expected=f"pictures of more than {2 * margin:g} pixels a side", got=(height, width))
        u = uniform_rows(drawn, _index(number, draws)).to(image.dtype).to(image.device)  # draws 4
        home = margin + u[:, :2] * u.new_tensor([width - 1 - 2 * margin, height - 1 - 2 * margin])
        turn = 2.0 * math.pi * u[:, 2]
        direction = torch.stack((torch.cos(turn), torch.sin(turn)), -1)
        first, second = (image + noise * field for field in _fields(image, number, drawn))
        away = (home + length * direction).requires_grad_()

        def patches(view: Tensor, xy: Tensor) -> Tensor:
            frames = frames_from_xy(xy, footprint / 2, 360.0 * u[:, 3])[None]
            return standardize(extract_patches(view[None], frames, size, antialias=antialias, blur=blur)[0], (-2, -1), eps=1e-6)

        with torch.enable_grad():
            loss = (patches(first, home).detach() - patches(second, away)).square().mean((-1, -2, -3)).sum()
        (gradient,) = torch.autograd.grad(loss, away)
        return (gradient * direction).sum(-1)

    along = torch.cat([projected(number, image) for number, image in enumerate(images)]) * footprint
    mean, deviation = along.mean().item(), along.std().item()
    return GradientSignal(mean / deviation if deviation > 0 else 0.0, mean, deviation, (along > 0).double().mean().item())


def _index(number: int, count: int) -> Tensor:
    """Return row indices that no other image uses."""
    return torch.arange(count, dtype=torch.int64) + (number << 32)


def _fields(image: Tensor, number: int, key: Key) -> tuple[Tensor, Tensor]:
    """Return two independent fields of standard normal noise."""
    normal = normal_rows(key, _index(number, image.numel()), slot=1)[:, ::2]  # Box-Muller pairs are independent too
    return tuple(normal.to(image.dtype).to(image.device).T.reshape(2, *image.shape).unbind(0))  # type: ignore[return-value]

"""Blurs with a width, a direction or a rank.

Owns: RandomBoxBlur, RandomMotionBlur, RandomDefocusBlur, RandomMedianBlur.
Must not: convolve; they build kernels.
Read next: ``noise.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.fields import Chance, Range, interval, symmetric
from pellucid.segments import Convolve, ConvolveSpec, Filter, Median
from pellucid.transforms.base import Names, Params, Transform, as_size, drawn, gated
from pellucid.types import ImageSpec, Size

__all__ = ["RandomBoxBlur", "RandomDefocusBlur", "RandomMedianBlur", "RandomMotionBlur"]

_WIDEST = 63.0
"""The most taps along an axis."""

_POINTS = 64
"""On a line: a power of two, so that a line without length is one pixel exactly."""


@dataclass(frozen=True)
class RandomBoxBlur(Transform):
    """Average over a square of random width.

    Args:
        width: of the square in pixels, 1 to 63, not only whole ones: pixels cut by its edge count by the share inside. A number,
            pair, `Learnable` or distribution.
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image, gate: exact. width: almost everywhere.
    On each target:
        image only.
    Identity at:
        width = 1.
    Errors:
        InvalidArgument for a width outside of [1, 63].
    Source:
        ``cv2.blur`` for odd widths; borders mirror without repeating the edge pixel.

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomBoxBlur(3.0)(torch.tensor([[[[0.0, 3.0, 0.0]]]])).flatten()
        tensor([2., 1., 2.])
    """

    width: Range = field(default=(1.0, 7.0), metadata=drawn(interval, low=1.0, high=_WIDEST))
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Blur"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "width": "almost_everywhere", "gate": "exact"}

    def segment(self, spec: ImageSpec) -> ConvolveSpec:
        return ConvolveSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Convolve:
        reach = distances((self._fixed["width"].span()[1] - 1.0) / 2.0, like)
        kernel = gated(values, box(values["width"], reach), (reach == 0).to(like.dtype))
        return Convolve(kernel, kernel)


def distances(most: float, like: Tensor) -> Float[Tensor, "taps"]:
    """Distances from the middle of a kernel that reaches so far."""
    most = math.ceil(min(most, (_WIDEST - 1.0) / 2.0))
    return torch.arange(-most, most + 1, dtype=like.dtype, device=like.device)


def box(width: Float[Tensor, "b"], reach: Float[Tensor, "k"]) -> Float[Tensor, "b k"]:
    """A box about the middle along one axis, of sum 1 where ``reach`` holds it."""
    return torch.clamp((width[:, None] + 1.0) / 2.0 - reach.abs(), 0.0, 1.0) / width[:, None]


def line(length: Float[Tensor, "b"], degrees: Float[Tensor, "b"], reach: Float[Tensor, "k"]) -> Float[Tensor, "b k k"]:
    """A line through the middle, spread bilinearly over the pixels beside it, of sum 1.

    Args:
        length: in pixels, at most what ``reach`` holds.
        degrees: counter-clockwise from the x axis.
        reach: whole distances from the middle.
    """
    angle = torch.deg2rad(degrees)
    along = (torch.arange(_POINTS, dtype=reach.dtype, device=reach.device) + 0.5) / _POINTS - 0.5
    points = length[:, None] * along  # b points
    y, x = -torch.sin(angle)[:, None] * points, torch.cos(angle)[:, None] * points
    rows, columns = (torch.relu(1.0 - (place[..., None] - reach).abs()) for place in (y, x))  # b points k
    return rows.mT @ columns / _POINTS


def disk(radius: Float[Tensor, "b"], reach: Float[Tensor, "k"]) -> Float[Tensor, "b k k"]:
    """A disk about the middle, its rim a pixel wide, of sum 1."""
    from_middle = torch.hypot(reach[:, None], reach)
    weights = torch.clamp(radius[:, None, None] + 0.5 - from_middle, 0.0, 1.0)
    return weights / weights.sum((-2, -1), keepdim=True)


def _middle(reach: Tensor) -> Float[Tensor, "k k"]:
    still = (reach == 0).to(reach.dtype)
    return still[:, None] * still


@dataclass(frozen=True)
class RandomMotionBlur(Transform):
    """Average along a line of random length and direction, as a camera that moves.

    Args:
        length: of the line in pixels, 0 to 60: a number, pair, `Learnable` or distribution.
        degrees: its direction, counter-clockwise from the x axis: a number d for (-d, d), a pair, a `Learnable` magnitude or a
            distribution.
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image, gate: exact. length, degrees: almost everywhere.
    On each target:
        image only.
    Identity at:
        length = 0.
    Errors:
        InvalidArgument for a length outside of [0, 60].
    Source:
        The mean of the picture shifted along the line in 64 steps (oracle: ``scipy.ndimage.shift(order=1, mode="mirror")``).

    Example:
        >>> import torch, pellucid
        >>> dot = torch.zeros(1, 1, 5, 5)
        >>> dot[..., 2, 2] = 1.0
        >>> blurred = pellucid.RandomMotionBlur(2.0, (0, 0))(dot)[0, 0, 2]
        >>> bool((blurred - torch.tensor([0.0, 0.25, 0.5, 0.25, 0.0])).abs().max() < 1e-3)
        True
    """

    length: Range = field(default=(2.0, 12.0), metadata=drawn(interval, low=0.0, high=_WIDEST - 3.0))
    degrees: Range = field(default=90.0, metadata=drawn(symmetric))
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "MotionBlur"}
    gradients: ClassVar[Mapping[str, str]] = {
        "image": "exact",
        **dict.fromkeys(("length", "degrees"), "almost_everywhere"),
        "gate": "exact",
    }

    def segment(self, spec: ImageSpec) -> ConvolveSpec:
        return ConvolveSpec("dense")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Filter:
        reach = distances(1.0 + self._fixed["length"].span()[1] / 2.0, like)
        return Filter(gated(values, line(values["length"], values["degrees"], reach), _middle(reach)))


@dataclass(frozen=True)
class RandomDefocusBlur(Transform):
    """Average over a disk of random radius, as a lens out of focus.

    Args:
        radius: in pixels, 0 to 30: a number, pair, `Learnable` or distribution. The rim is a pixel wide, so it has a gradient.
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image, gate: exact. radius: almost everywhere.
    On each target:
        image only.
    Identity at:
        radius = 0.
    Errors:
        InvalidArgument for a radius outside of [0, 30].
    Source:
        ``scipy.ndimage.correlate(mode="mirror")`` with the disk.

    Example:
        >>> import torch, pellucid
        >>> dot = torch.zeros(1, 1, 5, 5)
        >>> dot[..., 2, 2] = 1.0
        >>> pellucid.RandomDefocusBlur(1.0)(dot)[0, 0, 2]
        tensor([0.0000, 0.1496, 0.2991, 0.1496, 0.0000])
    """

    radius: Range = field(default=(0.5, 5.0), metadata=drawn(interval, low=0.0, high=30.0))
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Defocus"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "exact", "radius": "almost_everywhere", "gate": "exact"}

    def segment(self, spec: ImageSpec) -> ConvolveSpec:
        return ConvolveSpec("dense")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Filter:
        reach = distances(self._fixed["radius"].span()[1] + 0.5, like)
        return Filter(gated(values, disk(values["radius"], reach), _middle(reach)))


@dataclass(frozen=True)
class RandomMedianBlur(Transform):
    """Replace every value by the median of those around it, each channel for itself.

    Args:
        kernel_size: odd number of rows and columns, or (rows, columns).
        p: probability.
        same_on_batch: one draw for the whole batch.

    Gradient:
        image: almost everywhere (to the pixel that is the median). gate: exact.
    On each target:
        image only.
    Identity at:
        kernel_size = 1.
    Errors:
        InvalidArgument for an even number of rows or columns.
    Source:
        ``cv2.medianBlur``; borders repeat the edge pixel.

    Example:
        >>> import torch, pellucid
        >>> pellucid.RandomMedianBlur((1, 3))(torch.tensor([[[[0.0, 9.0, 1.0, 2.0]]]])).flatten()
        tensor([0., 1., 2., 2.])
    """

    kernel_size: int | Size = 3
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "MedianBlur"}
    gradients: ClassVar[Mapping[str, str]] = {"image": "almost_everywhere", "gate": "exact"}

    def check(self) -> None:
        if not all(taps % 2 for taps in as_size("RandomMedianBlur.kernel_size", self.kernel_size)):
            raise invalid("RandomMedianBlur.kernel_size", expected="odd numbers of rows and columns", got=self.kernel_size)

    def segment(self, spec: ImageSpec) -> ConvolveSpec:
        return ConvolveSpec("median")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Median:
        return Median(as_size("RandomMedianBlur.kernel_size", self.kernel_size), values.get("gate"))

"""Box, motion, defocus, anisotropic, median and glass blur, and lower resolution.

Owns: RandomBoxBlur, RandomMotionBlur, RandomDefocusBlur, RandomAnisotropicBlur, RandomMedianBlur, RandomGlassBlur,
RandomDownscale.
Must not: convolve; they build kernels, and formulas.
Read next: ``noise.py``.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import whole_number
from pellucid.errors import invalid
from pellucid.random.fields import Chance, Range, interval, symmetric
from pellucid.segments import Convolve, ConvolveSpec, Filter, Grain, Median, SegmentSpec
from pellucid.transforms.base import Names, Params, Transform, as_size, drawn, gated, slopes
from pellucid.transforms.blur import gaussian_taps
from pellucid.transforms.noise import Grained
from pellucid.types import ImageSpec, Size

__all__ = [
    "RandomAnisotropicBlur", "RandomBoxBlur", "RandomDefocusBlur", "RandomDownscale", "RandomGlassBlur", "RandomMedianBlur",
    "RandomMotionBlur",
]  # fmt: skip

_WIDEST = 63.0
"""The most taps along an axis."""

_SIGMAS = 4.0
"""Where glass cuts its bell off, as ImageNet-C does."""

_MOST_GLASS = 10.0
"""The largest sigma of glass; a draw without a bound, such as a `Normal`, is cut off where this one is."""

_POINTS = 64
"""Samples along a line: a power of two, so that a line without length is one pixel exactly."""


@dataclass(frozen=True)
class RandomBoxBlur(Transform):
    """Average over a square of random width.

    Args:
        width: side of the square in pixels, 1 to 63, whole or not: pixels cut by its edge count by the share inside. A number,
            pair, `Learnable` or distribution.

    Identity at:
        width = 1.
    Source:
        ``cv2.blur`` for odd widths; borders mirror without repeating the edge pixel.

    Example:
        >>> pellucid.RandomBoxBlur(3.0)(torch.tensor([[[[0.0, 3.0, 0.0]]]])).flatten()
        tensor([2., 1., 2.])
    """

    width: Range = field(default=(1.0, 7.0), metadata=drawn(interval, low=1.0, high=_WIDEST))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Blur"}
    gradients = slopes("exact", gate="exact")
    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec()

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Convolve:
        reach = distances((self._fixed["width"].span()[1] - 1.0) / 2.0, like)
        kernel = gated(values, box(values["width"], reach), (reach == 0).to(like.dtype))
        return Convolve(kernel, kernel)


def distances(most: float, like: Tensor) -> Float[Tensor, "taps"]:
    """The taps' distances from the middle of a kernel that reaches ``most`` pixels to each side, at most 31."""
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
    center = (reach == 0).to(reach.dtype)
    return center[:, None] * center


@dataclass(frozen=True)
class RandomMotionBlur(Transform):
    """Average along a line of random length and direction, as a camera that moves.

    Args:
        length: of the line in pixels, 0 to 60: a number, pair, `Learnable` or distribution.
        degrees: its direction, counter-clockwise from the x axis: a number d for (-d, d), a pair, a `Learnable` magnitude or a
            distribution.

    Identity at:
        length = 0.
    Source:
        The mean of the picture shifted along the line in 64 steps (oracle: ``scipy.ndimage.shift(order=1, mode="mirror")``).

    Example:
        >>> dot = torch.zeros(1, 1, 5, 5)
        >>> dot[..., 2, 2] = 1.0
        >>> blurred = pellucid.RandomMotionBlur(2.0, (0, 0))(dot)[0, 0, 2]
        >>> bool((blurred - torch.tensor([0.0, 0.25, 0.5, 0.25, 0.0])).abs().max() < 1e-3)
        True
    """

    length: Range = field(default=(2.0, 12.0), metadata=drawn(interval, low=0.0, high=_WIDEST - 3.0))
    degrees: Range = field(default=90.0, metadata=drawn(symmetric))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "MotionBlur"}
    gradients = slopes("exact", gate="exact")
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec("dense")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Filter:
        reach = distances(1.0 + self._fixed["length"].span()[1] / 2.0, like)
        return Filter(gated(values, line(values["length"], values["degrees"], reach), _middle(reach)))


@dataclass(frozen=True)
class RandomDefocusBlur(Transform):
    """Average over a disk of random radius, as a lens out of focus.

    Args:
        radius: in pixels, 0 to 30: a number, pair, `Learnable` or distribution. The rim is a pixel wide, so it has a gradient.

    Identity at:
        radius = 0.
    Source:
        ``scipy.ndimage.correlate(mode="mirror")`` with the disk.

    Example:
        >>> dot = torch.zeros(1, 1, 5, 5)
        >>> dot[..., 2, 2] = 1.0
        >>> pellucid.RandomDefocusBlur(1.0)(dot)[0, 0, 2]
        tensor([0.0000, 0.1496, 0.2991, 0.1496, 0.0000])
    """

    radius: Range = field(default=(0.5, 5.0), metadata=drawn(interval, low=0.0, high=30.0))
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Defocus"}
    gradients = slopes("exact", gate="exact")
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec("dense")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Filter:
        reach = distances(self._fixed["radius"].span()[1] + 0.5, like)
        return Filter(gated(values, disk(values["radius"], reach), _middle(reach)))


@dataclass(frozen=True)
class RandomAnisotropicBlur(Transform):
    """Blur by a bell of two widths that lies at an angle, and is flatter or steeper than a Gaussian.

    The weight at a distance d in units of the widths is exp(-d^(2 beta) / 2); beta = 1 is the Gaussian.

    Args:
        along, across: the widths in pixels, 0.2 to 8: a number, pair, `Learnable` or distribution.
        degrees: angle of the first width to the x axis, counter-clockwise: a number d for (-d, d), a pair, or likewise.
        beta: 0.5 to 8, likewise.

    The kernel reaches three times the largest width, at most 12 pixels, to each side.

    Source:
        albumentations' AdvancedBlur without the noise of its kernel; borders mirror without repeating the edge pixel.

    Example:
        >>> dot = torch.zeros(1, 1, 9, 9)
        >>> dot[0, 0, 4, 4] = 1.0
        >>> pellucid.RandomAnisotropicBlur(1.0, 0.2, degrees=0.0, beta=1.0, p=1.0)(dot)[0, 0, 4, 2:7]
        tensor([0.0540, 0.2420, 0.3990, 0.2420, 0.0540])
    """

    along: Range = field(default=(0.2, 2.0), metadata=drawn(interval, low=0.2, high=8.0))
    across: Range = field(default=(0.2, 2.0), metadata=drawn(interval, low=0.2, high=8.0))
    _: KW_ONLY
    degrees: Range = field(default=90.0, metadata=drawn(symmetric))
    beta: Range = field(default=(0.5, 4.0), metadata=drawn(interval, low=0.5, high=8.0))
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "AdvancedBlur"}
    gradients = slopes("exact", gate="exact")
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec(how="dense")

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Filter:
        reach = distances(min(12.0, 3.0 * max(self._fixed[name].span()[1] for name in ("along", "across"))), like)
        angle = torch.deg2rad(values["degrees"])[:, None, None]
        cosine, sine, y, x = torch.cos(angle), torch.sin(angle), reach[:, None], reach
        first = (x * cosine - y * sine) / values["along"][:, None, None]
        second = (x * sine + y * cosine) / values["across"][:, None, None]
        squared = first**2 + second**2
        center = squared == 0
        bell = torch.exp(-0.5 * torch.where(center, 1.0, squared) ** values["beta"][:, None, None])
        weights = torch.where(center, 1.0, bell)
        return Filter(gated(values, weights / weights.sum((-2, -1), keepdim=True), _middle(reach)))


@dataclass(frozen=True)
class RandomGlassBlur(Grained):
    """Look through frosted glass: blur, let every pixel show one near it, and blur again.

    Args:
        sigma: of the blur in pixels, 0.1 to 10: a number, pair, `Learnable` or distribution. The bell ends at four of the largest.
        reach: how many pixels away along each axis the pixel shown may lie, 0 to 16.

    Source:
        albumentations' GlassBlur and ImageNet-C's glass blur, which exchange pixels one after another (`pellucid.corruptions`);
        borders mirror without repeating the edge pixel, as albumentations'.

    Example:
        >>> grey = torch.full((1, 3, 8, 8), 0.5)
        >>> bool(torch.allclose(pellucid.RandomGlassBlur(p=1.0)(grey), grey))
        True
    """

    sigma: Range = field(default=0.7, metadata=drawn(interval, low=0.1, high=_MOST_GLASS))
    reach: int = 4
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "GlassBlur"}
    white: ClassVar[bool] = True
    law: ClassVar[str] = "glass"

    def check(self) -> None:
        object.__setattr__(self, "reach", whole_number("RandomGlassBlur.reach", self.reach, 0, 16))

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Grain:
        taps = 2 * math.ceil(_SIGMAS * min(self._fixed["sigma"].span()[1], _MOST_GLASS)) + 1
        return super().lower(values, spec, like)._replace(numbers=(gaussian_taps(values["sigma"], taps),), most=float(self.reach))


@dataclass(frozen=True)
class RandomDownscale(Grained):
    """Show the picture as at a lower resolution: blocks, each in the mean colour of the pixels that it covers.

    Args:
        scale: blocks per pixel along each axis, 0.01 to 1: a number, pair or distribution.

    Gradient:
        image, gate: almost everywhere. scale: none (a number of blocks).
    Identity at:
        scale = 1.
    Source:
        albumentations' Downscale with ``INTER_AREA`` down and ``INTER_NEAREST`` up.

    Example:
        >>> pellucid.RandomDownscale(0.5, p=1.0)(torch.tensor([[[[0.0, 1.0, 0.5, 0.5]]]])).flatten()
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """

    scale: Range = field(default=(0.25, 0.5), metadata=drawn(interval, low=0.01, high=1.0))
    _: KW_ONLY
    p: Chance = 0.5
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "Downscale"}
    gradients = slopes(scale="none")
    law: ClassVar[str] = "blocks"
    keyed: ClassVar[bool] = False
    white: ClassVar[bool] = True


@dataclass(frozen=True)
class RandomMedianBlur(Transform):
    """Replace every value by the median of those around it, each channel for itself.

    Args:
        kernel_size: odd number of rows and columns, or (rows, columns).

    Gradient:
        image: almost everywhere (to the pixel that is the median). gate: exact.
    Identity at:
        kernel_size = 1.
    Errors:
        InvalidArgument for an even number of rows or columns.
    Source:
        ``cv2.medianBlur``; borders repeat the edge pixel.

    Example:
        >>> pellucid.RandomMedianBlur((1, 3))(torch.tensor([[[[0.0, 9.0, 1.0, 2.0]]]])).flatten()
        tensor([0., 1., 2., 2.])
    """

    kernel_size: int | Size = 3
    _: KW_ONLY
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "MedianBlur"}
    gradients = slopes(gate="exact")
    lowers_to: ClassVar[SegmentSpec | None] = ConvolveSpec("median")

    def check(self) -> None:
        if not all(taps % 2 for taps in as_size("RandomMedianBlur.kernel_size", self.kernel_size)):
            raise invalid("RandomMedianBlur.kernel_size", expected="odd numbers of rows and columns", got=self.kernel_size)

    def lower(self, values: Params, spec: ImageSpec, like: Tensor) -> Median:
        return Median(as_size("RandomMedianBlur.kernel_size", self.kernel_size), values.get("gate"))

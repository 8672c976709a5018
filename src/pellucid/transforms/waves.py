"""Waves and thin plate splines: RandomWave, RandomThinPlateSpline.

Owns: those two, as displacements by formula.
Must not: fit or evaluate B-splines.
Read next: ``warping.py``.
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
from pellucid.random.fields import Chance, Range, interval
from pellucid.random.patterns import uniform_field
from pellucid.transforms.base import Names, Params, drawn
from pellucid.transforms.warping import Fitting, cells_of
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode

__all__ = ["RandomThinPlateSpline", "RandomWave"]

_KNOTS = 12.0  # in a period


@dataclass(frozen=True)
class RandomWave(Fitting):
    """Let waves run over the picture: rows move along x by a sine of their y, columns along y by the same sine of their x.

    Args:
        amplitude: the most that a pixel moves along each axis, as a fraction of the period, 0 to 0.1, within which nothing can
            fold: a number, pair, `Learnable` or distribution.
        period: of the sine, in pixels, at least 16, likewise; a distribution must have a lower end.
        phase: of the sine at the picture's centre, in turns, likewise.

    A cubic B-spline with twelve knots in the shortest period stands for the map. Its error is below 5e-4 of the
    largest displacement.

    On each target:
        as `RandomElastic`.
    Identity at:
        amplitude = 0, bit for bit.
    Errors:
        InvalidArgument for an amplitude out of its range, or a period that may be shorter than 16 pixels.
    Source:
        Its formula in numpy, to the stated error.

    Example:
        >>> pellucid.RandomWave(0.05, period=(32, 64))(torch.rand(2, 3, 64, 64)).shape
        torch.Size([2, 3, 64, 64])
    """

    amplitude: Range = field(default=(0.02, 0.06), metadata=drawn(interval, low=0.0, high=0.1))
    period: Range = field(default=(64.0, 128.0), metadata=drawn(interval, low=16.0))
    _: KW_ONLY
    phase: Range = field(default=(0.0, 1.0), metadata=drawn(interval))
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    def check(self) -> None:
        if not math.isfinite(self._fixed["period"].span()[0]):
            fix = "A distribution needs a lower end: the shortest period decides how far apart the knots lie."
            expected = "periods that are 16 pixels or more for certain"
            raise invalid("RandomWave.period", expected=expected, got=repr(self.period), fix=fix)

    def spacing_of_knots(self) -> float:
        return self._fixed["period"].span()[0] / _KNOTS

    def moves(self, values: Params, x: Tensor, y: Tensor, spec: ImageSpec) -> tuple[Tensor, Tensor]:
        period, phase = values["period"], values["phase"]
        reach = values["amplitude"] * period
        dx, dy = (reach * torch.sin(2.0 * math.pi * (along / period + phase)) for along in (y, x))
        return dx, dy


@dataclass(frozen=True)
class RandomThinPlateSpline(Fitting):
    """Warp by a thin plate spline through a coarse grid of control points that move at random.

    The control points divide the picture evenly, the outer ones on its border; the spline is taken in coordinates in which
    neighbours are 1 apart along both axes. The field is evaluated while the picture is read.

    Args:
        points: along each axis, 2 to 8.
        magnitude: the largest displacement of a point as a fraction of the distance between them, 0 to 0.15, within which nothing
            can fold; uniform along x and along y. A number, pair, `Learnable` or distribution.

    The record keeps two words and the magnitude per sample, not the field. A cubic B-spline with knots every 8 pixels, of which
    each point is one, stands for the map. Its error is below 0.04 px for points 64 pixels apart or more.

    On each target:
        as `RandomElastic`.
    Identity at:
        magnitude = 0, bit for bit.
    Errors:
        InvalidArgument for a magnitude or a number of points out of its range.
    Source:
        ``scipy.interpolate.RBFInterpolator("thin_plate_spline", degree=1)``; Bookstein, 1989.

    Example:
        >>> pellucid.RandomThinPlateSpline(4, magnitude=0.1)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 3, 32, 32])
    """

    points: int = 4
    magnitude: Range = field(default=0.1, metadata=drawn(interval, low=0.0, high=0.15))
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    keyed: ClassVar[bool] = True
    like: ClassVar[Names] = {"albumentations": "ThinPlateSpline"}

    def check(self) -> None:
        object.__setattr__(self, "points", whole_number("RandomThinPlateSpline.points", self.points, 2, 8))

    def cells(self, length: int) -> tuple[int, float]:
        """Every point is a knot: a plate's curvature has no bound there, and between knots the error is five times as large."""
        return cells_of(length, self.spacing_of_knots(), least=3, times=self.points - 1)

    def moves(self, values: Params, x: Tensor, y: Tensor, spec: ImageSpec) -> tuple[Tensor, Tensor]:
        jitter = 2.0 * uniform_field(values["words"], (2, self.points, self.points), x.dtype) - 1.0
        return bent_plate(values["magnitude"][..., None] * jitter, x, y, spacing_of_points(self.points, spec))


def spacing_of_points(points: int, spec: ImageSpec) -> tuple[float, float]:
    """The distance between neighbouring points, along x and along y."""
    across, down = (max(1, int(length) - 1) / (points - 1) for length in (spec.width, spec.height))
    return across, down


def bent_plate(
    moved: Float[Tensor, "b 2 n n"], x: Float[Tensor, "1 #h #w"], y: Float[Tensor, "1 #h #w"], spacing: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """How far a thin plate moves each place, in pixels.

    Args:
        moved: how far its points move, in units of their distance.
        x, y: pixels from the picture's middle.
    """
    u, v = torch.broadcast_tensors(x / spacing[0], y / spacing[1])
    plate = moved.flatten(2) @ _plate(moved.shape[-1], torch.stack((u, v), -1).flatten(0, 2))
    dx, dy = plate.unflatten(2, u.shape[1:]).unbind(1)
    return spacing[0] * dx, spacing[1] * dy


def _plate(points: int, at: Float[Tensor, "q 2"]) -> Float[Tensor, "n q"]:
    """How much of each control point's displacement, row by row, arrives at each place; the same for all draws."""
    line = torch.arange(points, dtype=at.dtype, device=at.device) - (points - 1) / 2
    grid = torch.stack(torch.broadcast_tensors(line[None], line[:, None]), -1).flatten(0, 1)  # n 2
    flat = torch.cat((torch.ones_like(grid[:, :1]), grid), 1)  # n 3
    system = torch.cat((torch.cat((_bent(grid, grid), flat), 1), torch.cat((flat.mT, flat.new_zeros(3, 3)), 1)))  # n+3 n+3
    right = torch.cat((_bent(grid, at), torch.ones_like(at[None, :, 0]), at.mT))  # n+3 q
    return torch.linalg.solve_ex(system, right)[0][: len(grid)]


def _bent(one: Float[Tensor, "n 2"], other: Float[Tensor, "q 2"]) -> Float[Tensor, "n q"]:
    """r^2 log r, 0 at 0."""
    square = ((one[:, None] - other[None]) ** 2).sum(-1)
    return 0.5 * torch.xlogy(square, square)

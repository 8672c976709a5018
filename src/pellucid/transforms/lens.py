"""Distortion by lenses and shutters: LensDistortion, RandomFisheye, RollingShutter.

Owns: those three, as displacements by formula.
Must not: fit or evaluate splines.
Read next: ``warping.py``.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from pellucid.errors import invalid
from pellucid.random.fields import Chance, Range, interval
from pellucid.transforms.base import Names, Params, drawn
from pellucid.transforms.warping import Fitting
from pellucid.types import Fill, ImageSpec, Interpolation, PaddingMode

__all__ = ["LensDistortion", "RandomFisheye", "RollingShutter"]


@dataclass(frozen=True)
class LensDistortion(Fitting):
    """Read the picture through a lens with radial and tangential distortion, the model of Brown and Conrady.

    With x and y from the picture's centre in half diagonals, so that a corner has r = 1, an output pixel reads the point
    x (1 + k1 r^2 + k2 r^4 + k3 r^6) + 2 p1 x y + p2 (r^2 + 2 x^2), and y likewise with p1 and p2 exchanged. Positive k make a
    straight line a barrel, negative ones a pincushion. The field is evaluated while the picture is read.

    Args:
        k1: -0.3 to 1; a number, pair, `Learnable` or distribution.
        k2: -0.1 to 1, likewise.
        k3: -0.08 to 1, likewise.
        p1, p2: -0.1 to 0.1, likewise.

    A cubic B-spline with knots every 8 pixels stands for the map. Its error is below 2e-4 px for a picture of 256 pixels or more
    with coefficients up to a tenth; k1, p1 and p2 alone are a cubic, which it holds exactly.

    On each target:
        as `RandomElastic`.
    Identity at:
        all coefficients 0, bit for bit.
    Errors:
        InvalidArgument for a coefficient out of its range, or for ranges that together could fold the picture. Distributions
        without ends are not checked.
    Source:
        ``cv2.initUndistortRectifyMap``, with half the diagonal as its focal length.

    Example:
        >>> pellucid.LensDistortion(k1=(0.0, 0.2))(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 3, 32, 32])
    """

    k1: Range = field(default=(-0.1, 0.1), metadata=drawn(interval, low=-0.3, high=1.0))
    _: KW_ONLY
    k2: Range = field(default=0.0, metadata=drawn(interval, low=-0.1, high=1.0))
    k3: Range = field(default=0.0, metadata=drawn(interval, low=-0.08, high=1.0))
    p1: Range = field(default=0.0, metadata=drawn(interval, low=-0.1, high=0.1))
    p2: Range = field(default=0.0, metadata=drawn(interval, low=-0.1, high=0.1))
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    like: ClassVar[Names] = {"albumentations": "OpticalDistortion"}

    def check(self) -> None:
        # A lower bound, for r <= 1, of the eigenvalues of the derivative's symmetric part. Where it is positive, nothing folds.
        spans = {name: self._fixed[name].span() for name in ("k1", "k2", "k3", "p1", "p2")}
        ends = {name: [end for end in span if math.isfinite(end)] for name, span in spans.items()}
        radial = sum(power * min(0.0, *ends[name], 0.0) for name, power in (("k1", 3), ("k2", 5), ("k3", 7)))
        tangential = math.hypot(*(max(0.0, *map(abs, ends[name]), 0.0) for name in ("p1", "p2")))
        if not 1.0 + radial - 6.0 * tangential > 0.0:
            fix = "Give smaller ranges, and a Learnable its low= and high=."
            expected = "1 + 3 k1 + 5 k2 + 7 k3 > 6 hypot(p1, p2), where a positive k counts as 0"
            got = ", ".join(f"{name} from {low:g} to {high:g}" for name, (low, high) in spans.items())
            raise invalid("LensDistortion", expected=expected, got=got, fix=fix)

    def moves(self, values: Params, x: Tensor, y: Tensor, spec: ImageSpec) -> tuple[Tensor, Tensor]:
        unit = _half_diagonal(spec)
        x, y = x / unit, y / unit
        square = x * x + y * y
        radial = square * (values["k1"] + square * (values["k2"] + square * values["k3"]))
        p1, p2 = values["p1"], values["p2"]
        dx = x * radial + 2.0 * p1 * x * y + p2 * (square + 2.0 * x * x)
        dy = y * radial + 2.0 * p2 * x * y + p1 * (square + 2.0 * y * y)
        return unit * dx, unit * dy


@dataclass(frozen=True)
class RandomFisheye(Fitting):
    """Show the picture as an equidistant fisheye lens would: distances from the centre grow with the angle, not with its tangent.

    The picture's corners stay. The field is evaluated while the picture is read.

    Args:
        angle: of a corner's ray to the axis, in degrees, 0 to 60: half of the diagonal's angle of view. A number, pair,
            `Learnable` or distribution.

    A cubic B-spline with knots every 8 pixels stands for the map. Its error is below 5e-4 px for a picture of 256 pixels or more.

    Gradient:
        image: exact. angle, gate: almost everywhere, or surrogate under ``nearest``; none at angle = 0, where the map is even.
    On each target:
        as `RandomElastic`.
    Identity at:
        angle = 0, bit for bit.
    Source:
        ``cv2.fisheye.undistortPoints`` with its coefficients at 0: Kannala and Brandt, 2006.

    Example:
        >>> pellucid.RandomFisheye((20.0, 50.0))(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 3, 32, 32])
    """

    angle: Range = field(default=(20.0, 50.0), metadata=drawn(interval, low=0.0, high=60.0))
    _: KW_ONLY
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    def moves(self, values: Params, x: Tensor, y: Tensor, spec: ImageSpec) -> tuple[Tensor, Tensor]:
        angle = torch.deg2rad(values["angle"])
        share = torch.hypot(x, y) / _half_diagonal(spec)
        farther = _tangent_over_angle(share * angle) / _tangent_over_angle(angle) - 1.0
        return x * farther, y * farther


@dataclass(frozen=True)
class RollingShutter(Fitting):
    """Move the camera while rows are read one after another: a pan shears the picture, a tilt stretches or squeezes it.

    With t from -1/2 at the first row to 1/2 at the last, and s = t + acceleration (t^2 - 1/4), a row shows the picture s times the
    pan farther along x, and s times the tilt farther along y. Without acceleration, the middle row stays.

    Args:
        pan: how far the view moves along x during the readout, as a fraction of the width, -1 to 1: a number, pair, `Learnable`
            or distribution.
        tilt: the same along y, as a fraction of the height, -0.4 to 0.4, within which no two rows read the same.
        acceleration: how the speed changes: from 1 - acceleration at the first row to 1 + acceleration at the last; -1 to 1.

    The map is quadratic, which a cubic B-spline holds exactly.

    On each target:
        as `RandomElastic`.
    Identity at:
        pan = 0 and tilt = 0, bit for bit.
    Source:
        ``numpy.interp`` of each row, to 1e-9 in float64.

    Example:
        >>> pellucid.RollingShutter((-0.2, 0.2))(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 3, 32, 32])
    """

    pan: Range = field(default=(-0.1, 0.1), metadata=drawn(interval, low=-1.0, high=1.0))
    tilt: Range = field(default=(-0.05, 0.05), metadata=drawn(interval, low=-0.4, high=0.4))
    _: KW_ONLY
    acceleration: Range = field(default=(-0.5, 0.5), metadata=drawn(interval, low=-1.0, high=1.0))
    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "zeros"
    fill: Fill = 0.0
    mask_fill: float | None = None
    p: Chance = 1.0
    same_on_batch: bool = False

    def spacing_of_knots(self) -> float:
        return math.inf

    def moves(self, values: Params, x: Tensor, y: Tensor, spec: ImageSpec) -> tuple[Tensor, Tensor]:
        height = max(1.0, float(spec.height) - 1.0)
        time = y / height
        path = time + values["acceleration"] * (time * time - 0.25)
        return values["pan"] * float(spec.width) * path, values["tilt"] * height * path


def _half_diagonal(spec: ImageSpec) -> float:
    return max(0.5, math.hypot(spec.height - 1, spec.width - 1) / 2)


def _tangent_over_angle(angle: Tensor) -> Tensor:
    """tan(angle) / angle, 1 at 0, with all its derivatives."""
    return torch.sinc(angle / math.pi) / torch.cos(angle)

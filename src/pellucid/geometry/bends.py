"""Cubic B-spline displacements of points, and invertible maps that contain one.

Owns: `Bend`, `BentMap`, `fitted` with `sampled`, and the solver that inverts a displacement field.
Must not: know images, or where a grid's numbers come from.
Read next: ``points.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from pellucid.core.constants import constant
from pellucid.geometry.matrices import inverse
from pellucid.geometry.points import slopes_of, transform_points

__all__ = ["FOLDS", "Bend", "BentMap", "cells", "displaced", "fitted", "inverted", "sampled"]

FOLDS = 0.48866
"""Displacements below this share of the knots' spacing cannot fold the plane.

Source: Choi and Lee, "Injectivity conditions of 2D and 3D uniform cubic B-spline functions", Graphical Models 62 (2000), have
1 / 2.046392675.
"""

_POLE = math.sqrt(3.0) - 2.0
"""The pole of the filter that turns values at knots into a cubic B-spline's coefficients."""

_STEPS = 6
_LINEAR_STEPS = 24  # slopes jump between cells, so a step may end in the neighbouring cell only
_SOLVED = 1e-6  # pixels, in float64; in float32 a thousand times that


class Bend(NamedTuple):
    """Displacements in pixels at the knots of a cubic B-spline, x then y.

    Args:
        control: the spline's coefficients, including a row of knots beyond either end.
        grid: x and y of the first knot (that of ``control[..., 1, 1]``), and the spacing along x and y.
        linear: a spline of degree one: the coefficients are the displacements at knots, interpolated linearly along each axis. The
            outer rows of ``control`` are not used.
    """

    control: Float[Tensor, "b_or_1 2 gh gw"]
    grid: Float[Tensor, "b_or_1 4"]
    linear: bool = False

    def to(self, dtype: torch.dtype) -> Bend:
        """Return the same displacements in another precision."""
        return self._replace(control=self.control.to(dtype), grid=self.grid.to(dtype))


class _Cells(NamedTuple):
    """Points along one axis: for each the first of its knots, and the weights of its knots and the weights' slopes."""

    first: Int64[Tensor, "b n"]
    weights: tuple[Tensor, ...]
    slopes: tuple[Tensor, ...]


def cells(at: Float[Tensor, "b n"], low: Tensor, spacing: Tensor, count: int, linear: bool = False) -> _Cells:
    """Find the knots and weights of points along one axis. Points beyond the first or last knot are moved to that knot."""
    u = (at - low[:, None]) / spacing[:, None]
    end = float(count - 3)
    inside = (u > 0.0) & (u < end)
    u = torch.where(inside, u, torch.where(u < end, 0.0, end))
    first = torch.floor(u).clamp(max=end - 1.0)
    t = u - first
    s = 1.0 - t
    scale = inside.to(at.dtype) / spacing[:, None]
    if linear:
        return _Cells(first.long() + 1, (s, t), (-scale, scale))
    weights = s**3 / 6.0, (3.0 * t**3 - 6.0 * t**2 + 4.0) / 6.0, (3.0 * s**3 - 6.0 * s**2 + 4.0) / 6.0, t**3 / 6.0
    slopes = -0.5 * s**2, 1.5 * t**2 - 2.0 * t, 2.0 * s - 1.5 * s**2, 0.5 * t**2
    return _Cells(first.long(), weights, tuple(slope * scale for slope in slopes))


def sampled(knots: int, like: Tensor) -> Float[Tensor, "g"]:
    """Return where `fitted` needs values, in units of the spacing: at all knots, and in the middles of the two outer cells."""
    whole = torch.arange(knots, dtype=like.dtype, device=like.device)
    return torch.cat((whole[:1], whole[:1] + 0.5, whole[1:-1], whole[-1:] - 0.5, whole[-1:]))


def fitted(values: Float[Tensor, "b c #gh #gw"]) -> Float[Tensor, "b c #gh #gw"]:
    """Return the coefficients of the cubic B-spline with these values at the places of `sampled`: as many as there are values.

    Each axis has at least three knots, or a single value if the values are constant along it; the coefficients are then, too.
    Cubics are reproduced exactly, and smooth functions to the fourth order of the spacing, at the border as well as inside.
    Conditions on derivatives alone at the border (not-a-knot) would have ten times the error.

    Gradient:
        exact: it is linear.
    Source:
        ``scipy.interpolate.make_interp_spline``, to 1e-12 in float64. Kernel: Unser, Aldroubi, Eden, 1993.
    """
    rows, columns = values.shape[2:]
    if rows > 1:
        values = _filter(rows - 2, values) @ values
    return values if columns == 1 else values @ _filter(columns - 2, values).mT


def _filter(count: int, like: Tensor) -> Float[Tensor, "g g"]:
    """Return the matrix from values at ``count`` knots, and in the middles of the outer cells, to the spline's coefficients.

    On an infinite line the inverse filter is a two-sided exponential. The condition in the two outer cells is met by adding
    multiples of the two sequences whose spline is zero at every knot: the powers of the pole from either end.
    """
    place = torch.arange(-1, count + 1, dtype=like.dtype, device=like.device)  # g
    endless = math.sqrt(3.0) * torch.pow(_POLE, (place[:, None] - place[None, 1:-1]).abs())  # g n
    ends = torch.stack((torch.pow(_POLE, place + 1.0), torch.pow(_POLE, count - place)), 1)  # g 2
    shares = 1.0 / 48.0, 23.0 / 48.0, 23.0 / 48.0, 1.0 / 48.0  # weights of the four coefficients in the middle of a cell
    middle = constant(shares, like.dtype, like.device)[None]
    first, own, last = middle @ endless[:4], middle @ ends[:4], middle @ endless[-4:]
    near, far = own[:, :1], own[:, 1:]  # the two ends are mirror images
    determinant = near * near - far * far
    low, high = (near * ends[:, :1] - far * ends[:, 1:]) / determinant, (near * ends[:, 1:] - far * ends[:, :1]) / determinant
    inside = endless - low * first - high * last
    return torch.cat((inside[:, :1], low, inside[:, 1:-1], high, inside[:, -1:]), 1)


def displaced(x: Float[Tensor, "#b n"], y: Float[Tensor, "#b n"], bend: Bend) -> tuple[Tensor, Tensor]:
    """Return points plus their displacements; points that are not finite stay unchanged.

    Gradient:
        points, control: exact, but for points at the border of the grid, where slopes are taken from outside. Twice differentiable.
    Source:
        ``scipy.interpolate.BSpline`` and ``NdBSpline``, to 1e-12 in float64.
    """
    known = torch.isfinite(x) & torch.isfinite(y)
    a, b = torch.where(known, x, 0.0), torch.where(known, y, 0.0)
    moved = _sums(_along(a, b, bend), bend.control, slopes=False)[0]  # b 2 n
    return torch.where(known, a + moved[:, 0], x), torch.where(known, b + moved[:, 1], y)


def _along(x: Tensor, y: Tensor, bend: Bend) -> tuple[_Cells, _Cells]:
    x0, y0, across, down = bend.grid.unbind(1)
    rows, columns = bend.control.shape[2:]
    return cells(x, x0, across, columns, bend.linear), cells(y, y0, down, rows, bend.linear)


def _sums(cells: tuple[_Cells, _Cells], control: Tensor, *, slopes: bool) -> list[Tensor]:
    """Return the displacements (b, 2, n), and with ``slopes`` also their derivatives along x and along y."""
    across, down = cells
    rows = torch.broadcast_shapes(control.shape[:1], across.first.shape[:1], down.first.shape[:1])[0]
    flat = control.flatten(2).expand(rows, 2, control.shape[2] * control.shape[3])
    kinds = [(across.weights, down.weights)]
    kinds += [(across.slopes, down.weights), (across.weights, down.slopes)] if slopes else []
    lines: list[list[Tensor]] = []
    for j in range(len(down.weights)):
        first = (down.first + j) * control.shape[3] + across.first
        knots = [torch.gather(flat, 2, (first + i)[:, None].expand(rows, 2, -1)) for i in range(len(across.weights))]  # b 2 n
        lines.append([_weighed(knots, horizontal) for horizontal, _ in kinds])
    return [_weighed(parts, vertical) for parts, (_, vertical) in zip(zip(*lines, strict=True), kinds, strict=True)]


def _weighed(parts: Sequence[Float[Tensor, "b 2 n"]], weights: Sequence[Float[Tensor, "#b n"]]) -> Float[Tensor, "b 2 n"]:
    first, *rest = (part * weight[:, None] for part, weight in zip(parts, weights, strict=True))
    return sum(rest, first)


def inverted(points: Float[Tensor, "b n 2"], bend: Bend) -> Float[Tensor, "b n 2"]:
    """Return the points q with q + d(q) = ``points``; NaN if six steps of Newton's method (24 for linear fields) do not converge.

    Gradient:
        points, control: exact first and second derivatives, because two more steps with the last slopes are part of the graph.
    """
    known = torch.isfinite(points).all(-1)
    points = torch.where(known[..., None], points, 0.0)
    with torch.no_grad():
        q = points
        for _ in range(_LINEAR_STEPS if bend.linear else _STEPS):
            q = q - _solved(_slopes(q, bend), _missed(q, points, bend))
        slopes = _slopes(q, bend)
    for _ in range(2):
        q = q - _solved(slopes, _missed(q, points, bend))
    tolerance = _SOLVED if points.dtype == torch.float64 else 1e3 * _SOLVED
    with torch.no_grad():
        good = known & (_missed(q, points, bend).abs().amax(-1) < tolerance)
    return torch.where(good[..., None], q, torch.nan)


def _missed(q: Tensor, points: Tensor, bend: Bend) -> Tensor:
    return torch.stack(displaced(q[..., 0], q[..., 1], bend), -1) - points


def _slopes(q: Tensor, bend: Bend) -> Float[Tensor, "b n 2 2"]:
    """Return the derivative of q + d(q)."""
    _, along_x, along_y = _sums(_along(q[..., 0], q[..., 1], bend), bend.control, slopes=True)
    return torch.stack((along_x, along_y), -1).movedim(1, 2) + torch.eye(2, dtype=q.dtype, device=q.device)


def _solved(slopes: Float[Tensor, "b n 2 2"], missed: Float[Tensor, "b n 2"]) -> Float[Tensor, "b n 2"]:
    (a, b), (c, d) = (row.unbind(-1) for row in slopes.unbind(-2))
    determinant = a * d - b * c
    determinant = torch.where(determinant == 0.0, 1.0, determinant)
    x, y = missed.unbind(-1)
    return torch.stack(((d * x - b * y) / determinant, (a * y - c * x) / determinant), -1)


@dataclass(frozen=True, eq=False)
class BentMap:
    """A map of points with a displacement field: a matrix, the field, a matrix.

    Args:
        first: applied to points before the field.
        bend: the field.
        last: applied after the field.
        solves: apply the inverse of the field.
    """

    first: Float[Tensor, "#b 3 3"]
    bend: Bend
    last: Float[Tensor, "#b 3 3"]
    solves: bool = False

    def __call__(self, points: Float[Tensor, "b n 2"]) -> Float[Tensor, "b n 2"]:
        """Map points; NaN for points without an image."""
        rows = points.shape[0]
        q = transform_points(points, self.first.expand(rows, 3, 3))
        q = inverted(q, self.bend) if self.solves else torch.stack(displaced(q[..., 0], q[..., 1], self.bend), -1)
        return transform_points(q, self.last.expand(rows, 3, 3))

    def linearised(self, points: Float[Tensor, "b n 2"]) -> tuple[Tensor, Float[Tensor, "b n 2 2"]]:
        """Return the mapped points, and the map's derivative at the points."""
        rows = points.shape[0]
        first, last = (matrix.expand(rows, 3, 3) for matrix in (self.first, self.last))
        q, inner = transform_points(points, first), slopes_of(first, points)
        if self.solves:
            q = inverted(q, self.bend)
            (a, b), (c, d) = (row.unbind(-1) for row in _slopes(q, self.bend).unbind(-2))
            adjugate = torch.stack((torch.stack((d, -b), -1), torch.stack((-c, a), -1)), -2)
            slopes = adjugate / (a * d - b * c)[..., None, None]
        else:
            slopes = _slopes(q, self.bend)
            q = torch.stack(displaced(q[..., 0], q[..., 1], self.bend), -1)
        return transform_points(q, last), slopes_of(last, q) @ slopes @ inner

    def turned(self) -> BentMap:
        """Return the inverse map."""
        return BentMap(inverse(self.last), self.bend, inverse(self.first), not self.solves)

    def to(self, dtype: torch.dtype) -> BentMap:
        """Return the same map in another precision."""
        return BentMap(self.first.to(dtype), self.bend.to(dtype), self.last.to(dtype), self.solves)

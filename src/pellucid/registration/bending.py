"""Gauss-Newton on a B-spline's control points, for pictures and volumes, with Levenberg-Marquardt damping.

Owns: the equations of control points, which are never stored as a matrix, and their solution by conjugate gradients.
Must not: know pyramids, or change the matrix.
Read next: ``newton.py``, ``align.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.registration.descent import Run
from pellucid.registration.maps import along, spline_field, spline_near, splines
from pellucid.registration.newton import LEAST_OVERLAP, Pair, residuals

__all__ = ["Bent", "Slopes", "bend", "bend_levels", "slopes_of"]

_MOST_TURNS = 40
"""Largest number of conjugate-gradient iterations in one step."""
_FLAT = 1e-4
"""A step that changes the loss by a smaller share ends a descent: later changes only affect places without details."""
_EXACT = 1e-2
"""Conjugate gradients end when the residual has fallen to this share: a step need not be exact."""


_STIFFER = 20.0
"""Factor on the stiffness in all descents but the last: a soft field would fold along noise from the beginning."""


class Slopes(NamedTuple):
    """A linearised pair of n pixels or voxels: residual + J change, and the products with J that its equations need.

    Args:
        axes: B-splines along the axes; a field is ``along(control, axes)``.
        stiff: matrices of the squared second differences along the axes.
        slopes: derivatives of the moving picture, after gain and offset, with respect to where it is read.
        fitted: the changes that gain and offset can make, orthonormal under the weights; empty if they are not solved for.
        residual, weights: the weights are the robust loss's divided by the loss, so the stiffness does not depend on brightness.
        cost: the logarithm of the loss plus the stiffness, which the steps lower.
        loss: the weighted mean of the squared (or robust) residual.
        overlap: share of the fixed picture's weight that the moving picture covers.
        brightness: gain, offset, 1.
        correlation: correlation of the pictures where they overlap.
    """

    axes: tuple[Float[Tensor, "length m"], ...]
    stiff: tuple[Float[Tensor, "m m"], ...]
    slopes: Float[Tensor, "b c k n"]
    fitted: Float[Tensor, "b j c n"]
    residual: Float[Tensor, "b c n"]
    weights: Float[Tensor, "b c n"]
    cost: Float[Tensor, "b"]
    loss: Float[Tensor, "b"]
    overlap: Float[Tensor, "b"]
    brightness: Float[Tensor, "b 3"]
    correlation: Float[Tensor, "b"]

    def forward(self, change: Float[Tensor, "b k *m"]) -> Float[Tensor, "b c n"]:
        """Return J change: the part of the residual's change that gain and offset cannot undo."""
        moved = (self.slopes * along(change, self.axes).flatten(2)[:, None]).sum(2)
        shares = (self.fitted * (self.weights * moved)[:, None]).sum((2, 3), keepdim=True)
        return moved - (shares * self.fitted).sum(1)

    def back(self, residual: Float[Tensor, "b c n"]) -> Float[Tensor, "b k *m"]:
        """Return J' W residual, for a residual that gain and offset cannot make smaller."""
        return self._gathered((self.slopes * (self.weights * residual)[:, :, None]).sum(1), [axis.T for axis in self.axes])

    def diagonal(self) -> Float[Tensor, "b k *m"]:
        """Return the diagonal of J' W J plus the stiffness, ignoring gain and offset."""
        pixels = (self.slopes.square() * self.weights[:, :, None]).sum(1)
        stiff = self.stiff[0].diagonal()
        for part in self.stiff[1:]:
            stiff = stiff[..., None] + part.diagonal()
        return self._gathered(pixels, [axis.square().T for axis in self.axes]) + stiff

    def _gathered(self, pixels: Float[Tensor, "b k n"], axes: list[Tensor]) -> Float[Tensor, "b k *m"]:
        return along(pixels.unflatten(2, [len(axis) for axis in self.axes]), axes)

    def stiffened(self, control: Float[Tensor, "b k *m"]) -> Float[Tensor, "b k *m"]:
        """Return half the gradient of the stiffness term."""
        still: list[None] = [None] * (len(self.stiff) - 1)
        each = [along(control, [*still[:i], part, *still[i:]]) for i, part in enumerate(self.stiff)]
        return torch.stack(each).sum(0)


def slopes_of(
    pair: Pair,
    matrix: Float[Tensor, "b 3 3"] | Float[Tensor, "b 4 4"],
    control: Float[Tensor, "b k *m"],
    *,
    spacing: float,
    stiffness: float,
    photometric: str = "gain_bias",
    weigh: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
) -> Slopes:
    """Linearise at these control points, with a fixed matrix; other options are those of :func:`equations`.

    Args:
        spacing: pixels between control points.
        stiffness: weight of their mean squared second differences.
    """
    axes = tuple(splines(side, spacing, control) for side in pair.fixed.shape[2:])
    value, slopes, weight = pair.look(matrix, along(control, axes))
    overlap = weight.sum(1) / pair.mask.flatten(1).sum(1).clamp_min(1e-12)
    (gain, offset, correlation), residual, weights, loss = residuals(value, pair.fixed.flatten(2), weight, photometric, weigh)
    weights = weights / loss.clamp_min(1e-20)[:, None, None]
    fitted = _orthonormal(value, weights) if photometric != "none" else value[:, None][:, :0]
    stiff = tuple(_stiff(control, axis, stiffness) for axis in range(2, control.dim()))
    brightened = torch.stack((gain, offset, torch.ones_like(gain)), 1)
    found = Slopes(
        axes, stiff, gain[:, None, None, None] * slopes, fitted, residual, weights, loss, loss, overlap, brightened, correlation
    )
    return found._replace(cost=loss.clamp_min(1e-20).log() + (control * found.stiffened(control)).flatten(1).sum(1))


class Bent(NamedTuple):
    """The end of a descent: control points, the equations there, whether it had settled, and the losses of every step."""

    control: Float[Tensor, "b k *m"]
    slopes: Slopes
    settled: Bool[Tensor, "b"]
    losses: list[Float[Tensor, "b"]]


def bend_levels(
    run: Run,
    level_of: Callable[[int], tuple[Pair, Tensor, Tensor]],
    larger: Callable[[Tensor, Any], Tensor],
    matrix: Tensor,
    levels: int,
) -> tuple[Float[Tensor, "b k *size"], Bent, list[tuple[Sequence[int], Float[Tensor, "b"]]]]:
    """Find the bending from coarse to fine, with less stiffness at the end.

    Args:
        run: the settings of the alignment.
        level_of: maps a level's number to its pair, and to the maps from full pixels to its pixels, for fixed and moving picture.
        larger: maps a field and the size of a finer level to the field there.
        matrix: the matrix of the full pictures, which does not change.
        levels: the number of levels.

    Returns:
        The field in pixels of the moving picture, the end of the last descent, and the size and losses of every step.
    """
    field: Tensor | None = None
    history: list[tuple[Sequence[int], Tensor]] = []
    for level, stiffer in [*((level, _STIFFER) for level in range(levels - 1, -1, -1)), (0, 1.0)]:
        pair, from_full, moving_from_full = level_of(level)
        size = pair.fixed.shape[2:]
        spacing = run.spacing if level == 0 else max(1.0, run.spacing / 2)  # coarse pictures are smooth
        zoom = moving_from_full.diagonal()[:-1].view(-1, *[1] * len(size))
        here = moving_from_full @ matrix @ torch.linalg.inv(from_full)
        begin = zoom * larger(field, tuple(size)) if field is not None else pair.fixed.new_zeros((len(matrix), len(size), *size))
        linearise = partial(
            slopes_of,
            pair,
            here / here[:, -1:, -1:],
            spacing=spacing,
            stiffness=stiffer * run.stiffness / max(1.0, float(zoom.max())) ** 2,
            photometric=run.photometric,
            weigh=run.weigh,
        )
        found = bend(linearise, spline_near(begin, spacing), steps=run.steps, tolerance=run.tolerance)
        history += [(size, loss) for loss in found.losses]
        field = spline_field(found.control, size, spacing) / zoom
    assert field is not None
    return field, found, history


def bend(linearise: Callable[[Tensor], Slopes], control: Float[Tensor, "b k *m"], *, steps: int, tolerance: float) -> Bent:
    """Take damped steps, each pair its own, until all are settled.

    Args:
        linearise: maps control points to slopes.
        control: the control points to begin with.
        steps: the largest number of steps.
        tolerance: mean movement of the field, in pixels, below which a pair is settled.
    """
    damping, settled = control.new_full((len(control),), 1e-2), control.new_zeros(len(control), dtype=torch.bool)
    here = linearise(control)
    losses = [here.loss]
    for _ in range(steps):
        change = _step(here, control, damping)
        there = linearise(control + change)
        better = (there.cost < here.cost) & (there.overlap > LEAST_OVERLAP) & torch.isfinite(there.cost) & ~settled
        moved = along(change, here.axes).norm(dim=1).flatten(1).mean(1)
        flat = (there.cost - here.cost).abs() < _FLAT
        settled = settled | flat | (moved < tolerance) | (~better & (damping > 1e3))
        damping = torch.where(better, damping * 0.3, damping * 5.0).clamp(1e-6, 1e9)
        control = torch.where(_each(better, control), control + change, control)
        rows = (torch.where(_each(better, new), new, old) for new, old in zip(there[2:], here[2:], strict=True))
        here = Slopes(here.axes, here.stiff, *rows)
        losses.append(here.loss)
        if bool(settled.all()):
            break
    return Bent(control, here, settled, losses)


def _step(here: Slopes, control: Tensor, damping: Tensor) -> Float[Tensor, "b k *m"]:
    """Return the damped Gauss-Newton step, by conjugate gradients preconditioned with the diagonal."""
    diagonal = here.diagonal()
    diagonal = diagonal + 1e-3 * _each(diagonal.flatten(1).mean(1), control) + 1e-30
    ridge = _each(damping, control) * diagonal

    def product(change: Tensor) -> Tensor:
        return here.back(here.forward(change)) + here.stiffened(change) + ridge * change

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return _each((a * b).flatten(1).sum(1), control)

    left = -(here.back(here.residual) + here.stiffened(control))
    left = torch.nan_to_num(left, 0.0, 0.0, 0.0)
    change, scaled = torch.zeros_like(left), left / (diagonal + ridge)
    towards, energy = scaled, dot(left, scaled)
    enough = _EXACT**2 * energy
    for _ in range(_MOST_TURNS):
        pushed = product(towards)
        curve = dot(towards, pushed)
        length = torch.where(curve > 0, energy / torch.where(curve > 0, curve, 1.0), 0.0)
        change, left = change + length * towards, left - length * pushed
        scaled = left / (diagonal + ridge)
        before, energy = energy, dot(left, scaled)
        if bool((energy <= enough).all()):
            break
        towards = scaled + torch.where(before > 0, energy / torch.where(before > 0, before, 1.0), 0.0) * towards
    return torch.where(_each(torch.isfinite(change).flatten(1).all(1), control), change, 0.0)


def _stiff(control: Float[Tensor, "b k *m"], axis: int, stiffness: float) -> Float[Tensor, "m m"]:
    """Return the matrix of the mean squared second difference along an axis of control points."""
    count = control.shape[axis]
    second = torch.diff(torch.eye(count, dtype=control.dtype, device=control.device), n=2, dim=0)
    return stiffness * count / (len(second) * control[0].numel()) * second.T @ second


def _each(numbers: Float[Tensor, "b"], like: Tensor) -> Float[Tensor, "b *one"]:
    return numbers.view(-1, *[1] * (like.dim() - 1))


def _orthonormal(value: Float[Tensor, "b c n"], weights: Float[Tensor, "b c n"]) -> Float[Tensor, "b 2 c n"]:
    """Return the two directions in which gain and offset change a picture, orthonormal under the weights."""
    total = weights.sum((1, 2), keepdim=True).clamp_min(1e-12)
    centred = value - (weights * value).sum((1, 2), keepdim=True) / total
    spread = (weights * centred.square()).sum((1, 2), keepdim=True).clamp_min(1e-12)
    return torch.stack((centred / spread.sqrt(), torch.ones_like(value) / total.sqrt()), 1)

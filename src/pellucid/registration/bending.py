"""Gauss-Newton on a B-spline's control points, with Levenberg and Marquardt's damping.

Owns: the equations of control points, which are never written out, and their solution by conjugate gradients.
Must not: know pyramids, or change the matrix.
Read next: ``newton.py``, ``align.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.registration.descent import covered
from pellucid.registration.losses import brightness
from pellucid.registration.maps import splines
from pellucid.registration.newton import Pair, read
from pellucid.registration.verdicts import LEAST_OVERLAP

__all__ = ["Bent", "Slopes", "bend", "slopes_of"]

_MOST_TURNS = 40
"""Of conjugate gradients for one step."""
_FLAT = 1e-4
"""A step that changes the loss by a smaller share ends a descent: what creeps on then is where the pictures show nothing."""
_EXACT = 1e-2
"""They end where what is left of the equations is a smaller share of what there was: a step is a guess anyway."""


class Slopes(NamedTuple):
    """A linearised pair: residual + J change, and the products with J that its equations need.

    Args:
        down, across: B-splines along the axes; a field is ``down @ control @ across.T``.
        slopes: of the brightened moving picture to where it is read.
        fitted: what gain and offset can make, orthonormal under the weights; none where they are not solved for.
        residual, weights: the weights are those of the robust loss, and sum to 1 for least squares.
        stiff: matrices of the squared second differences down and across.
        loss: with the stiffness.
        overlap: share of the fixed picture's weight that the moving picture covers.
        brightness: gain, offset, 1.
        correlation: where the pictures overlap.
    """

    down: Float[Tensor, "h m"]
    across: Float[Tensor, "w n"]
    slopes: Float[Tensor, "b c 2 h w"]
    fitted: Float[Tensor, "b k c h w"]
    residual: Float[Tensor, "b c h w"]
    weights: Float[Tensor, "b c h w"]
    stiff: tuple[Float[Tensor, "m m"], Float[Tensor, "n n"]]
    loss: Float[Tensor, "b"]
    overlap: Float[Tensor, "b"]
    brightness: Float[Tensor, "b 3"]
    correlation: Float[Tensor, "b"]

    def forward(self, change: Float[Tensor, "b 2 m n"]) -> Float[Tensor, "b c h w"]:
        """J change: what of the residual's movement gain and offset do not undo."""
        moved = (self.slopes * (self.down @ change @ self.across.T)[:, None]).sum(2)
        shares = (self.fitted * (self.weights * moved)[:, None]).sum((2, 3, 4), keepdim=True)
        return moved - (shares * self.fitted).sum(1)

    def back(self, residual: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 2 m n"]:
        """J' W residual, of a residual that gain and offset cannot make smaller."""
        return self.down.T @ (self.slopes * (self.weights * residual)[:, :, None]).sum(1) @ self.across

    def stiffened(self, control: Float[Tensor, "b 2 m n"]) -> Float[Tensor, "b 2 m n"]:
        """Half the slope of the stiffness's own loss."""
        return self.stiff[0] @ control + control @ self.stiff[1]

    def diagonal(self) -> Float[Tensor, "b 2 m n"]:
        """Of J' W J, gain and offset apart, and of the stiffness."""
        pixels = (self.slopes.square() * self.weights[:, :, None]).sum(1)
        stiff = self.stiff[0].diagonal()[:, None] + self.stiff[1].diagonal()
        return self.down.square().T @ pixels @ self.across.square() + stiff


def slopes_of(
    pair: Pair,
    matrix: Float[Tensor, "b 3 3"],
    control: Float[Tensor, "b 2 m n"],
    *,
    spacing: float,
    stiffness: float,
    photometric: str = "gain_bias",
    weigh: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
    interpolation: str = "bicubic",
) -> Slopes:
    """Linearise at these control points, beside a matrix that stays; other options as of :func:`equations`.

    Args:
        spacing: pixels between control points.
        stiffness: weight of their mean squared second differences.
    """
    fixed, size = pair.fixed, pair.size
    down, across = splines(size[0], spacing, fixed), splines(size[1], spacing, fixed)
    field = down @ control @ across.T
    weight = covered(pair, matrix, field).flatten(1)
    overlap = weight.sum(1) / pair.mask.sum((1, 2, 3)).clamp_min(1e-12)
    value, slopes = read(pair.moving, matrix, size, interpolation, field)
    target = fixed.flatten(2)
    shares = weight[:, None] / (value.shape[1] * weight.sum(1)).clamp_min(1e-12)[:, None, None]
    gain, offset, correlation = brightness(value, target, shares)
    if photometric == "none":
        gain, offset = torch.ones_like(gain), torch.zeros_like(offset)
    residual = gain[:, None, None] * value + offset[:, None, None] - target
    robust, weights = (residual.square(), torch.ones_like(residual)) if weigh is None else weigh(residual)
    weights = weights * shares
    m, n = control.shape[2:]
    stiff = _stiff(m, n, stiffness, fixed), _stiff(n, m, stiffness, fixed)
    bent = (control * (stiff[0] @ control + control @ stiff[1])).sum((1, 2, 3))
    fitted = _orthonormal(value, weights) if photometric != "none" else value[:, None][:, :0]
    ones = torch.ones_like(gain)
    return Slopes(
        down,
        across,
        (gain[:, None, None, None] * slopes).unflatten(3, size),
        fitted.unflatten(3, size),
        residual.unflatten(2, size),
        weights.unflatten(2, size),
        stiff,
        (robust * shares).sum((1, 2)) + bent,
        overlap,
        torch.stack((gain, offset, ones), 1),
        correlation,
    )


class Bent(NamedTuple):
    """Where a descent ended: control points, the equations there, whether it had settled, and the losses of every step."""

    control: Float[Tensor, "b 2 m n"]
    slopes: Slopes
    settled: Bool[Tensor, "b"]
    losses: list[Float[Tensor, "b"]]


def bend(linearise: Callable[[Tensor], Slopes], control: Float[Tensor, "b 2 m n"], *, steps: int, tolerance: float) -> Bent:
    """Take damped steps, each pair its own, until all are settled.

    Args:
        linearise: control points -> slopes.
        control: where to begin.
        steps: at most.
        tolerance: mean movement of the field, in pixels, below which a pair is settled.
    """
    damping, settled = control.new_full((len(control),), 1e-2), control.new_zeros(len(control), dtype=torch.bool)
    here = linearise(control)
    losses = [here.loss]
    for _ in range(steps):
        change = _step(here, control, damping)
        there = linearise(control + change)
        better = (there.loss < here.loss) & (there.overlap > LEAST_OVERLAP) & torch.isfinite(there.loss) & ~settled
        moved = (here.down @ change @ here.across.T).norm(dim=1).mean((1, 2))
        flat = (there.loss - here.loss).abs() < _FLAT * here.loss
        settled = settled | flat | (moved < tolerance) | (~better & (damping > 1e3))
        damping = torch.where(better, damping * 0.3, damping * 5.0).clamp(1e-6, 1e9)
        control = torch.where(better[:, None, None, None], control + change, control)
        here = _chosen(better, there, here)
        losses.append(here.loss)
        if bool(settled.all()):
            break
    return Bent(control, here, settled, losses)


def _step(here: Slopes, control: Tensor, damping: Tensor) -> Float[Tensor, "b 2 m n"]:
    """The damped Gauss-Newton step, by conjugate gradients scaled by the diagonal."""
    diagonal = here.diagonal()
    diagonal = diagonal + 1e-3 * diagonal.mean((1, 2, 3), keepdim=True) + 1e-30
    ridge = damping[:, None, None, None] * diagonal

    def product(change: Tensor) -> Tensor:
        return here.back(here.forward(change)) + here.stiffened(change) + ridge * change

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum((1, 2, 3), keepdim=True)

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
    return torch.where(torch.isfinite(change).flatten(1).all(1)[:, None, None, None], change, 0.0)


def _stiff(count: int, other: int, stiffness: float, like: Tensor) -> Float[Tensor, "k k"]:
    """The matrix of the mean squared second difference along one axis of so many control points."""
    second = torch.diff(torch.eye(count, dtype=like.dtype, device=like.device), n=2, dim=0)
    return stiffness / (2 * len(second) * other) * second.T @ second


def _orthonormal(value: Float[Tensor, "b c n"], weights: Float[Tensor, "b c n"]) -> Float[Tensor, "b 2 c n"]:
    """What gain and offset change of a picture, as two planes whose weighted products are 0 and 1."""
    total = weights.sum((1, 2), keepdim=True).clamp_min(1e-12)
    centred = value - (weights * value).sum((1, 2), keepdim=True) / total
    spread = (weights * centred.square()).sum((1, 2), keepdim=True).clamp_min(1e-12)
    return torch.stack((centred / spread.sqrt(), torch.ones_like(value) / total.sqrt()), 1)


def _chosen(better: Tensor, there: Slopes, here: Slopes) -> Slopes:
    """Row by row; what both share is the latter's."""
    mixed: dict[str, Any] = {}
    for name in ("slopes", "fitted", "residual", "weights", "loss", "overlap", "brightness", "correlation"):
        new, old = getattr(there, name), getattr(here, name)
        mixed[name] = torch.where(better.reshape(-1, *[1] * (new.dim() - 1)), new, old)
    return here._replace(**mixed)

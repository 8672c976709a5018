"""Descent by Adam through the warp, for losses that are no sum of residuals and for B-splines of displacements.

Owns: its parameters, the schedule of the slopes' scale, and when it is settled.
Must not: know pyramids.
Read next: ``align.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.functional import anneal, warp
from pellucid.registration.maps import basis, changed, frame, spline_field
from pellucid.registration.newton import Pair

__all__ = ["Descended", "covered", "descend"]


class Descended(NamedTuple):
    """Where a descent ended: the matrix, the control points, whether the loss had become flat, and the losses of every step."""

    matrix: Float[Tensor, "b 3 3"]
    control: Float[Tensor, "b 2 m n"] | None
    settled: Bool[Tensor, "b"]
    losses: list[Float[Tensor, "b"]]


def covered(pair: Pair, matrix: Tensor, field: Tensor | None) -> Float[Tensor, "b 1 h w"]:
    """What counts of the fixed picture: where the moving one is read inside of it."""
    size = (pair.fixed.shape[-2], pair.fixed.shape[-1])
    ones = torch.ones_like(pair.moving[:, :1]) if pair.moving_mask is None else pair.moving_mask
    with torch.no_grad():
        return pair.mask * warp(ones, matrix.detach(), size=size, displacement=None if field is None else field.detach())


def descend(
    pair: Pair,
    matrix: Float[Tensor, "b 3 3"],
    control: Float[Tensor, "b 2 m n"] | None,
    loss: Callable[[Tensor, Tensor, Tensor], Float[Tensor, "b"]],
    *,
    model: str | None,
    spacing: float,
    stiffness: float,
    steps: int,
    scale: float,
    rate: float,
    interpolation: str = "bilinear",
) -> Descended:
    """Change the matrix (``model``) or the control points (``model`` None) against the gradient, all pairs at once.

    Args:
        pair: the pictures of a level.
        matrix, control: where to begin; control points are displacements in this level's pixels.
        loss: (warped, fixed, weight) -> one number for each pair.
        model: what of the matrix may change.
        spacing: pixels between control points.
        stiffness: weight of the squared second differences of the control points.
        steps: exactly so many.
        scale: `gradient_scale` to begin with; 0 keeps the exact slopes.
        rate: pixels that the first steps move by.
        interpolation: as in `warp`.
    """
    size = (pair.fixed.shape[-2], pair.fixed.shape[-1])
    pixels = frame(size, matrix)
    spanned = basis(model or "translation", matrix)
    change = matrix.new_zeros((len(matrix), len(spanned)))
    moving = change if model else control
    assert moving is not None
    parameter = moving.detach().clone().requires_grad_()
    optimiser = torch.optim.Adam([parameter], lr=rate / (max(size) / 2 if model else 1.0))
    slowing = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.02 ** max(0.0, 2.0 * step / steps - 1.0))
    scales = anneal(scale, steps) if scale > 0 else torch.zeros(steps)
    losses: list[Tensor] = []
    for sigma in scales if scale > 0 else [0.0] * steps:
        with torch.enable_grad():
            here = changed(matrix, parameter, spanned, pixels) if model else matrix
            points = control if model else parameter
            field = None if points is None else spline_field(points, size, spacing)
            options = {"size": size, "interpolation": interpolation, "padding_mode": "border", "gradient_scale": sigma}
            out = warp(pair.moving, here, displacement=field, **options)  # type: ignore[arg-type]
            each = loss(out, pair.fixed, covered(pair, here, field))
            if points is not None and stiffness > 0:
                bends = [torch.diff(points, n=2, dim=dim).square().mean((1, 2, 3)) for dim in (-1, -2) if points.shape[dim] > 2]
                each = each + stiffness * torch.stack(bends).sum(0)
            usable = torch.isfinite(each)
            total = torch.where(usable, each, 0.0).sum()
        losses.append(torch.where(usable, each, torch.nan).detach())
        (slope,) = torch.autograd.grad(total, parameter)
        parameter.grad = torch.nan_to_num(slope, 0.0, 0.0, 0.0)
        optimiser.step()
        slowing.step()
    tail = max(1, steps // 10)
    first, last, start = torch.stack(losses[-2 * tail : -tail or None]).mean(0), torch.stack(losses[-tail:]).mean(0), losses[0]
    settled = (first - last).abs() <= 1e-2 * (start - last).abs() + 1e-6
    final = parameter.detach()
    return Descended(changed(matrix, final, spanned, pixels) if model else matrix, control if model else final, settled, losses)

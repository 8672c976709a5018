"""Descent by Adam through the warp, for losses that are not a sum over residuals, and for lenses and B-splines.

Owns: its parameters, the schedule of the gradient scale, and the test for convergence.
Must not: know pyramids.
Read next: ``align.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.functional import anneal, warp
from pellucid.registration.losses import RESIDUAL, distance, robust
from pellucid.registration.maps import basis, changed, frame, lens_field, spline_field
from pellucid.registration.newton import Pair
from pellucid.types import Size

__all__ = ["Bends", "Descended", "Run", "adam", "descend", "flat_at_the_end", "roughness"]


class Bends(NamedTuple):
    """The parts of a map that a matrix cannot express.

    Args:
        control: a B-spline's control points, displacements in pixels of the moving picture.
        lens: k1, k2: before the matrix, radius r from the centre, in units of half the longer side, becomes
            r (1 + k1 r^2 + k2 r^4).
    """

    control: Float[Tensor, "b 2 m n"] | None = None
    lens: Float[Tensor, "b 2"] | None = None

    def field(self, matrix: Float[Tensor, "b 3 3"], size: Size, spacing: float) -> Float[Tensor, "b 2 h w"] | None:
        """Return the displacements that are added to the matrix's map, in pixels of the moving picture."""
        parts = [] if self.control is None else [spline_field(self.control, size, spacing)]
        if self.lens is not None:
            parts.append(lens_field(self.lens, matrix, size))
        return torch.stack(parts).sum(0) if parts else None


class Descended(NamedTuple):
    """The end of a descent: the matrix, the bends, whether the loss had become flat, and the losses of every step."""

    matrix: Float[Tensor, "b 3 3"]
    bends: Bends
    settled: Bool[Tensor, "b"]
    losses: list[Float[Tensor, "b"]]


def flat_at_the_end(losses: list[Float[Tensor, "b"]]) -> Bool[Tensor, "b"]:
    """Whether the last tenth of the steps lowered a loss by less than a hundredth of the whole fall; False after a single step."""
    tail = max(1, len(losses) // 10)
    if len(losses) < 2 * tail:
        return torch.zeros_like(losses[0], dtype=torch.bool)
    before, after = torch.stack(losses[-2 * tail : -tail]).mean(0), torch.stack(losses[-tail:]).mean(0)
    return (before - after).abs() <= 1e-2 * (losses[0] - after).abs() + 1e-6


@dataclass(frozen=True)
class Run:
    """The settings of an alignment: the pair, the model, and the numbers of its descents."""

    pair: Pair
    model: str | None
    bends: tuple[str, ...]
    loss: str
    photometric: str
    width: float
    spacing: float
    stiffness: float
    steps: int
    tolerance: float

    @property
    def weigh(self) -> Callable[[Tensor], tuple[Tensor, Tensor]] | None:
        """A function from a residual to (robust loss, weight); None is least squares."""
        exponent = RESIDUAL[self.loss]
        return None if exponent is None else robust(exponent, self.width)

    @property
    def measure(self) -> Callable[[Tensor, Tensor, Tensor], Float[Tensor, "b"]]:
        """A function from (warped, fixed, weight) to one loss for each pair."""
        return partial(distance, self.loss, photometric=self.photometric, width=self.width)


def adam(
    leaves: Sequence[tuple[Tensor, float]], loss: Callable[[int], Float[Tensor, "b"]], *, steps: int
) -> list[Float[Tensor, "b"]]:
    """Change leaves by ``steps`` steps of Adam, each at its own rate, which falls in the second half.

    Args:
        leaves: pairs (leaf, rate).
        loss: maps a step's number to one loss for each pair; losses that are not finite are left out.
        steps: the number of steps.

    Returns:
        The losses of every step.
    """
    optimiser = torch.optim.Adam([{"params": [leaf], "lr": rate} for leaf, rate in leaves])
    slowing = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.02 ** max(0.0, 2.0 * step / steps - 1.0))
    losses: list[Tensor] = []
    for step in range(steps):
        with torch.enable_grad():
            each = loss(step)
            usable = torch.isfinite(each)
            slopes = torch.autograd.grad(torch.where(usable, each, 0.0).sum(), [leaf for leaf, _ in leaves])
        losses.append(torch.where(usable, each, torch.nan).detach())
        for (leaf, _), slope in zip(leaves, slopes, strict=True):
            leaf.grad = torch.nan_to_num(slope, 0.0, 0.0, 0.0)
        optimiser.step()
        slowing.step()
    return losses


def roughness(control: Float[Tensor, "b k *counts"], axes: Sequence[int]) -> Float[Tensor, "b"]:
    """Return the sum over axes of the control points' mean squared second differences; axes with fewer than three are skipped."""
    bent = [torch.diff(control, n=2, dim=axis) for axis in axes if control.shape[axis] > 2]
    return torch.stack([part.square().flatten(1).mean(1) for part in bent]).sum(0)


def descend(
    pair: Pair,
    matrix: Float[Tensor, "b 3 3"],
    bends: Bends,
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
    """Optimise the matrix (by ``model``) and all bends by Adam, for all pairs at once.

    Args:
        pair: the pictures of a level.
        matrix, bends: the start, in this level's pixels.
        loss: maps (warped, fixed, weight) to one loss for each pair.
        model: the model of the matrix's changes; None keeps the matrix.
        spacing: pixels between control points.
        stiffness: weight of the squared second differences of the control points.
        steps: the number of steps.
        scale: `gradient_scale` to begin with; 0 keeps exact gradients.
        rate: pixels by which the first steps move.
        interpolation: as in `warp`.
    """
    size = pair.size
    pixels, spanned, half = frame(size, matrix), basis(model or "translation", matrix), max(size) / 2
    change = matrix.new_zeros((len(matrix), len(spanned))) if model else None
    given = {"change": (change, half), "control": (bends.control, 1.0), "lens": (bends.lens, half)}
    leaves = {name: start.detach().clone().requires_grad_() for name, (start, _) in given.items() if start is not None}
    scales = list(anneal(scale, steps)) if scale > 0 else [0.0] * steps

    def placed() -> tuple[Tensor, Bends]:
        here = changed(matrix, leaves["change"], spanned, pixels) if model else matrix
        return here, Bends(leaves.get("control"), leaves.get("lens"))

    def each(step: int) -> Tensor:
        here, bent = placed()
        field = bent.field(here, size, spacing)
        options = {"size": size, "interpolation": interpolation, "padding_mode": "border", "gradient_scale": scales[step]}
        out = warp(pair.moving, here, displacement=field, **options)  # type: ignore[arg-type]
        found = loss(out, pair.fixed, pair.covered(here, field))
        return found if bent.control is None else found + stiffness * found.detach().abs() * roughness(bent.control, (3, 2))

    losses = adam([(leaf, rate / given[name][1]) for name, leaf in leaves.items()], each, steps=steps)
    with torch.no_grad():
        here, bent = placed()
    return Descended(here, Bends(*(None if part is None else part.detach() for part in bent)), flat_at_the_end(losses), losses)

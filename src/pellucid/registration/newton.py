"""Gauss-Newton with Levenberg-Marquardt damping, for a batch of pairs at once.

Owns: the normal equations from the warp's own derivatives, brightness as further unknowns, and the damping of each pair.
Must not: know pyramids.
Read next: ``align.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.functional import warp
from pellucid.registration.losses import brightness, information_step, sampled
from pellucid.registration.maps import basis, changed, corner_distance, frame, grid
from pellucid.types import Size

__all__ = [
    *("LEAST_OVERLAP", "_FLAT", "Equations", "Moves", "Pair", "equations", "minimise", "noise_covariance", "normal_equations"),
    *("plane_moves", "read", "residuals"),
]

LEAST_OVERLAP: Final = 0.2
"""The least share of the fixed picture's weight in the overlap: a pair with less is not aligned, and a step to less is refused."""
_FLAT = 1e-5
"""A step that changes the loss by a smaller share ends a descent."""
_PIECE = 1 << 14
"""Pixels whose columns are computed at once, so that they stay in the processor's cache."""


class Pair(NamedTuple):
    """Pictures or volumes of one level, and their weights.

    Args:
        fixed, moving: pictures or volumes, floating point.
        mask: weights of the fixed one, at least 0.
        moving_mask: weights of the moving one; None counts all.
    """

    fixed: Float[Tensor, "b c *size"]
    moving: Float[Tensor, "b c *size2"]
    mask: Float[Tensor, "b 1 *size"]
    moving_mask: Float[Tensor, "b 1 *size2"] | None = None

    @property
    def size(self) -> Size:
        """The size of the fixed picture."""
        return self.fixed.shape[-2], self.fixed.shape[-1]

    def covered(self, matrix: Tensor, field: Tensor | None) -> Float[Tensor, "b 1 *size"]:
        """Return the weight of each pixel of the fixed picture; 0 where the map leaves the moving picture."""
        ones = torch.ones_like(self.moving[:, :1]) if self.moving_mask is None else self.moving_mask
        with torch.no_grad():
            return self.mask * warp(ones, matrix.detach(), size=self.size, displacement=None if field is None else field.detach())

    def look(
        self, matrix: Tensor, field: Tensor | None
    ) -> tuple[Float[Tensor, "b c n"], Float[Tensor, "b c k n"], Float[Tensor, "b n"]]:
        """Return the warped moving picture, its derivatives with respect to where it is read, and the weights."""
        return *read(self.moving, matrix, self.size, "bicubic", field), self.covered(matrix, field).flatten(1)

    def repeated(self, times: int) -> Self:
        """Return a batch with these pairs repeated several times."""
        return type(self)(*(None if part is None else part.repeat(times, *[1] * (part.dim() - 1)) for part in self))  # type: ignore[arg-type]


class Equations(NamedTuple):
    """The normal equations of a least-squares step, and values computed with them.

    Args:
        left: J' W J, first the model's parameters, then brightness (gain, offset) and gamma if they are solved for.
        right: J' W r.
        loss: the weighted mean of the squared (or robust) residual.
        overlap: share of the fixed picture's weight that the moving picture covers.
        brightness: gain, offset and exponent.
        correlation: correlation of the two pictures where they overlap.
    """

    left: Float[Tensor, "b n n"]
    right: Float[Tensor, "b n"]
    loss: Float[Tensor, "b"]
    overlap: Float[Tensor, "b"]
    brightness: Float[Tensor, "b 3"]
    correlation: Float[Tensor, "b"]


def read(
    moving: Float[Tensor, "b c h w"], matrix: Tensor, size: Size, interpolation: str, field: Float[Tensor, "b 2 h w"] | None = None
) -> tuple[Float[Tensor, "b c n"], Float[Tensor, "b c 2 n"]]:
    """Return the warped moving picture, and its derivatives with respect to where it is read, from one backward pass with ones."""
    batch, channels = moving.shape[:2]
    planes, each = moving.flatten(0, 1)[:, None], matrix.repeat_interleave(channels, 0)
    with torch.enable_grad():
        still = moving.new_zeros((batch * channels, 2, *size)) if field is None else field.repeat_interleave(channels, 0)
        still.requires_grad_()
        out = warp(planes, each, size=size, interpolation=interpolation, padding_mode="border", displacement=still)
        (slopes,) = torch.autograd.grad(out, still, torch.ones_like(out))
    return out.detach().unflatten(0, (batch, channels)).flatten(2), slopes.unflatten(0, (batch, channels)).flatten(3)


def equations(
    pair: Pair,
    matrix: Float[Tensor, "b 3 3"],
    model: str,
    *,
    photometric: str = "gain_bias",
    exponent: Float[Tensor, "b"] | None = None,
    weigh: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
    interpolation: str = "bicubic",
) -> Equations:
    """Linearise at this matrix: return the normal equations, with the best gain and offset.

    Args:
        pair: the pictures.
        matrix: moving pixel from fixed pixel.
        model: one of ``MODELS``; a change acts before the matrix, in the fixed picture's normalised frame.
        photometric: ``none``, ``gain_bias`` or ``gain_bias_gamma``.
        exponent: exponent of the moving picture, for ``gain_bias_gamma``.
        weigh: maps a residual to (robust loss, weight); None is least squares.
        interpolation: as in `warp`.
    """
    fixed, size = pair.fixed, pair.size
    pixels, spanned = frame(size, fixed), basis(model, fixed)
    x, y = grid(size, fixed)
    place = torch.stack((x, y, torch.ones_like(x))).flatten(1)  # 3 n
    ends = matrix @ place  # b 3 n
    depth = torch.where(ends[:, 2].abs() > 1e-9, ends[:, 2], 1e-9)
    to_x, to_y = ends[:, 0] / depth, ends[:, 1] / depth
    inside = (to_x >= 0) & (to_x <= pair.moving.shape[-1] - 1) & (to_y >= 0) & (to_y <= pair.moving.shape[-2] - 1) & (depth > 0)
    mask = pair.mask.flatten(1)
    weight = mask * inside  # b n
    if pair.moving_mask is not None:
        weight = weight * warp(pair.moving_mask, matrix, size=size).flatten(1)
    overlap = weight.sum(1) / mask.sum(1).clamp_min(1e-12)
    value, slopes = read(pair.moving, matrix, size, interpolation)
    power, gamma_slope = torch.ones_like(overlap), None
    if photometric == "gain_bias_gamma" and exponent is not None:
        power = exponent
        safe = value.clamp_min(1e-3)
        slopes = slopes * (power[:, None, None] * safe ** (power[:, None, None] - 1))[:, :, None]
        value = safe ** power[:, None, None]
        gamma_slope = value * safe.log()
    # The chain rule: a change moves the normalised place and so, through the matrix and the division, where the picture is read.
    lead = torch.stack((slopes[:, :, 0], slopes[:, :, 1], -(slopes[:, :, 0] * to_x[:, None] + slopes[:, :, 1] * to_y[:, None])), 2)
    lead = (matrix @ pixels).transpose(1, 2)[:, None] @ (lead / depth[:, None, None])  # b c 3 n
    normal = torch.linalg.inv(pixels) @ place  # 3 n

    def columns(part: slice) -> Tensor:
        return spanned @ (lead[:, :, :, None, part] * normal[:, part]).flatten(2, 3)

    found = normal_equations(
        value, fixed.flatten(2), columns, weight, gamma_slope=gamma_slope, photometric=photometric, weigh=weigh
    )
    return found._replace(overlap=overlap, brightness=torch.cat((found.brightness[:, :2], power[:, None]), 1))


def normal_equations(
    value: Float[Tensor, "b c n"],
    target: Float[Tensor, "b c n"],
    columns: Callable[[slice], Float[Tensor, "b c p m"]],
    weight: Float[Tensor, "b n"],
    *,
    photometric: str = "gain_bias",
    weigh: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
    gamma_slope: Float[Tensor, "b c n"] | None = None,
) -> Equations:
    """Sum the normal equations over pixels or voxels; gain and offset are further unknowns beside the map's parameters.

    Args:
        value: the warped moving picture.
        target: the fixed picture.
        columns: maps a slice of pixels to the derivatives of their values with respect to the map's parameters.
        weight: weights, at least 0.
        photometric: as in :func:`equations`.
        weigh: maps a residual to (loss, weight of its square); None is least squares.
        gamma_slope: derivative of the value with respect to the exponent.

    Returns:
        The equations, with overlap and exponent set to 1.
    """
    (gain, offset, correlation), residual, weights, loss = residuals(value, target, weight, photometric, weigh)
    left, right = [], []
    for first in range(0, value.shape[2], _PIECE):
        part = slice(first, first + _PIECE)
        parts = [gain[:, None, None, None] * columns(part)]
        if photometric != "none":
            parts += [value[:, :, None, part], torch.ones_like(value)[:, :, None, part]]
        if gamma_slope is not None:
            parts.append((gain[:, None, None] * gamma_slope)[:, :, None, part])
        jacobian = torch.cat(parts, 2)  # b c n_parameters m
        weighed = jacobian * weights[:, :, None, part]
        left.append((weighed @ jacobian.transpose(2, 3)).sum(1))
        right.append((weighed @ residual[..., part, None]).sum(1)[..., 0])
    ones = torch.ones_like(gain)
    products, sides = torch.stack(left).sum(0), torch.stack(right).sum(0)
    return Equations(products, sides, loss, ones, torch.stack((gain, offset, ones), 1), correlation)


def information_equations(
    value: Float[Tensor, "b c n"],
    target: Float[Tensor, "b c n"],
    columns: Callable[[slice], Float[Tensor, "b c p m"]],
    weight: Float[Tensor, "b n"],
) -> Equations:
    """Return the equations of a step on mutual information, which has no brightness."""
    every = sampled(value)
    each = columns(every).transpose(1, 2).flatten(2)
    wide = weight[:, None].expand_as(value).flatten(1)
    step = information_step(value.flatten(1), target.flatten(1), each, wide, every)
    ones = torch.ones_like(step.value)
    return Equations(*step, ones, torch.stack((ones, 0.0 * ones, ones), 1), ones)


def residuals(
    value: Float[Tensor, "b c n"],
    target: Float[Tensor, "b c n"],
    weight: Float[Tensor, "b n"],
    photometric: str,
    weigh: Callable[[Tensor], tuple[Tensor, Tensor]] | None,
) -> tuple[tuple[Tensor, Tensor, Tensor], Float[Tensor, "b c n"], Float[Tensor, "b c n"], Float[Tensor, "b"]]:
    """Return (gain, offset, correlation), the residual, the weights of its squares (sum 1 for least squares), and the loss."""
    shares = weight[:, None] / (value.shape[1] * weight.sum(1)).clamp_min(1e-12)[:, None, None]  # b 1 n
    gain, offset, correlation = brightness(value, target, shares)
    if photometric == "none":
        gain, offset = torch.ones_like(gain), torch.zeros_like(offset)
    residual = gain[:, None, None] * value + offset[:, None, None] - target  # b c n
    robust, weights = (residual.square(), torch.ones_like(residual)) if weigh is None else weigh(residual)
    return (gain, offset, correlation), residual, weights * shares, (robust * shares).sum((1, 2))


def noise_covariance(found: Equations, used: Float[Tensor, "*b"], count: int) -> Float[Tensor, "b n n"]:
    """Return the covariance of the first ``count`` parameters if the ``used`` residuals are independent noise."""
    inverse = torch.linalg.pinv(torch.nan_to_num(found.left, 0.0, 0.0, 0.0), hermitian=True)
    spread = found.loss / (used - found.left.shape[1]).clamp_min(1.0)
    return (spread[:, None, None] * inverse)[:, :count, :count]


class Moves(NamedTuple):
    """The changes that the steps of a descent can make.

    Args:
        parameters: the number of parameters of a small change.
        changed: maps (matrix, parameters of a small change) to a matrix.
        distance: the mean distance between the corners mapped by two matrices.
    """

    parameters: int
    changed: Callable[[Tensor, Tensor], Tensor]
    distance: Callable[[Tensor, Tensor], Float[Tensor, "b"]]


def plane_moves(model: str, size: Size, like: Tensor) -> Moves:
    """Return the changes of a picture's model."""
    spanned, pixels = basis(model, like), frame(size, like)
    return Moves(len(spanned), partial(changed, spanned=spanned, pixels=pixels), partial(corner_distance, size=size))


class Found(NamedTuple):
    """The end of a descent.

    Args:
        matrix: moving pixel from fixed pixel, of this level.
        equations: the normal equations at this matrix.
        settled: whether the last step moved the corners by less than the tolerance, or no step lowered the loss further.
        losses: the losses of every step.
    """

    matrix: Float[Tensor, "b 3 3"] | Float[Tensor, "b 4 4"]
    equations: Equations
    settled: Bool[Tensor, "b"]
    losses: list[Float[Tensor, "b"]]


def minimise(
    linearise: Callable[[Tensor, Tensor], Equations],
    matrix: Float[Tensor, "b 3 3"] | Float[Tensor, "b 4 4"],
    moves: Moves,
    *,
    steps: int,
    tolerance: float,
    exponent: Float[Tensor, "b"],
) -> Found:
    """Take damped steps, each pair its own, until all are settled.

    Args:
        linearise: maps (matrix, exponent of gamma) to normal equations.
        matrix: the matrix to begin with.
        moves: the changes that steps can make.
        steps: the largest number of steps.
        tolerance: mean movement of the corners, in pixels, below which a pair is settled.
        exponent: the gamma to begin with.
    """
    count, damping = moves.parameters, matrix.new_full((len(matrix),), 1e-3)
    settled = matrix.new_zeros(len(matrix), dtype=torch.bool)
    here = linearise(matrix, exponent)
    losses = [here.loss]
    for _ in range(steps):
        left, right = here.left, here.right
        diagonal = torch.diagonal(left, dim1=1, dim2=2)
        ridge = damping[:, None] * diagonal + 1e-9 * diagonal.mean(1, keepdim=True) + 1e-30
        change = -torch.linalg.solve_ex(left + torch.diag_embed(ridge), right)[0]
        change = torch.where(torch.isfinite(change).all(1, keepdim=True), change, 0.0)
        candidate = moves.changed(matrix, change[:, :count])
        power = exponent + change[:, count + 2] if change.shape[1] > count + 2 else exponent
        power = power.clamp(0.2, 5.0)
        there = linearise(candidate, power)
        better = (there.loss < here.loss) & (there.overlap > LEAST_OVERLAP) & torch.isfinite(there.loss) & ~settled
        moved = moves.distance(candidate, matrix)
        flat = (there.loss - here.loss).abs() < _FLAT * here.loss.abs()
        settled = settled | flat | (moved < tolerance) | (~better & (damping > 1e3))
        damping = torch.where(better, damping * 0.2, (damping * 6.0).clamp_min(1e-4)).clamp(1e-9, 1e9)
        matrix = torch.where(better[:, None, None], candidate, matrix)
        exponent = torch.where(better, power, exponent)
        here = Equations(
            *(torch.where(better.reshape(-1, *[1] * (new.dim() - 1)), new, old) for new, old in zip(there, here, strict=True))
        )
        losses.append(here.loss)
        if bool(settled.all()):
            break
    return Found(matrix, here, settled, losses)

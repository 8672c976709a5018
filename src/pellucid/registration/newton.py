"""Gauss-Newton with Levenberg and Marquardt's damping, for a batch of pairs at once.

Owns: the normal equations from the warp's own slopes, the brightness that is solved for with them, and the damping of each pair.
Must not: know pyramids.
Read next: ``align.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.functional import warp
from pellucid.registration.losses import brightness
from pellucid.registration.maps import basis, changed, corner_distance, frame
from pellucid.registration.verdicts import LEAST_OVERLAP

__all__ = ["Equations", "Pair", "equations", "minimise", "noise_covariance"]


class Pair(NamedTuple):
    """Pictures of one level, and what of them counts.

    Args:
        fixed, moving: floating point.
        mask: of the fixed picture, weights from 0.
        moving_mask: of the moving one.
    """

    fixed: Float[Tensor, "b c h w"]
    moving: Float[Tensor, "b c h2 w2"]
    mask: Float[Tensor, "b 1 h w"]
    moving_mask: Float[Tensor, "b 1 h2 w2"] | None = None


class Equations(NamedTuple):
    """The normal equations of a least-squares step, and what is measured with them.

    Args:
        left: J' W J, first the model's parameters, then brightness (gain, offset) and gamma where they are solved for.
        right: J' W r.
        loss: the weighted mean of the squared (or robust) residual.
        overlap: share of the fixed picture's weight that the moving picture covers.
        brightness: gain, offset and exponent.
        correlation: of the two pictures where they overlap.
    """

    left: Float[Tensor, "b n n"]
    right: Float[Tensor, "b n"]
    loss: Float[Tensor, "b"]
    overlap: Float[Tensor, "b"]
    brightness: Float[Tensor, "b 3"]
    correlation: Float[Tensor, "b"]


def read(
    moving: Float[Tensor, "b c h w"], matrix: Tensor, size: tuple[int, int], interpolation: str
) -> tuple[Float[Tensor, "b c n"], Float[Tensor, "b c 2 n"]]:
    """The moving picture where the matrix leads, and the warp's slopes to where it is read: one backward pass with ones."""
    batch, channels = moving.shape[:2]
    planes, each = moving.flatten(0, 1)[:, None], matrix.repeat_interleave(channels, 0)
    with torch.enable_grad():
        still = moving.new_zeros((batch * channels, 2, *size), requires_grad=True)
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
    """Linearise: residual and slopes at this matrix, with the gain and offset that suit it best.

    Args:
        pair: the pictures.
        matrix: moving pixel from fixed pixel.
        model: one of ``MODELS``; a change acts before the matrix, in the fixed picture's normalised frame.
        photometric: ``none``, ``gain_bias`` or ``gain_bias_gamma``.
        exponent: of the moving picture; where ``photometric`` has one.
        weigh: residual -> (robust loss, weight); None is least squares.
        interpolation: as in `warp`.
    """
    fixed, size = pair.fixed, (pair.fixed.shape[-2], pair.fixed.shape[-1])
    channels = fixed.shape[1]
    pixels, spanned = frame(size, fixed), basis(model, fixed)
    y, x = torch.meshgrid(*(torch.arange(n, dtype=fixed.dtype) for n in size), indexing="ij")
    place = torch.stack((x.flatten(), y.flatten(), torch.ones(x.numel(), dtype=fixed.dtype)))  # 3 n
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
    shares = weight[:, None] / (channels * weight.sum(1)).clamp_min(1e-12)[:, None, None]  # b 1 n, sums to 1 over channels
    target = fixed.flatten(2)
    gain, offset, correlation = brightness(value, target, shares)
    if photometric == "none":
        gain, offset = torch.ones_like(gain), torch.zeros_like(offset)
    residual = gain[:, None, None] * value + offset[:, None, None] - target  # b c n
    robust, weights = (residual.square(), 1.0) if weigh is None else weigh(residual)
    weights = weights * shares
    # A change moves the normalised place; through the matrix and the division it moves where the moving picture is read.
    lead = torch.stack((slopes[:, :, 0], slopes[:, :, 1], -(slopes[:, :, 0] * to_x[:, None] + slopes[:, :, 1] * to_y[:, None])), 2)
    lead = (matrix @ pixels).transpose(1, 2)[:, None] @ (lead * (gain[:, None, None] / depth[:, None])[:, :, None])  # b c 3 n
    normal = torch.linalg.inv(pixels) @ place  # 3 n
    products = (lead[:, :, :, None] * normal).flatten(2, 3)  # b c 9 n
    columns = [spanned @ products]
    if photometric != "none":
        columns += [value[:, :, None], torch.ones_like(value)[:, :, None]]
    if gamma_slope is not None:
        columns.append((gain[:, None, None] * gamma_slope)[:, :, None])
    jacobian = torch.cat(columns, 2)  # b c n_parameters n
    weighed = jacobian * weights[:, :, None]
    left = (weighed @ jacobian.transpose(2, 3)).sum(1)
    right = (weighed @ residual[..., None]).sum(1)[..., 0]
    loss = (robust * shares).sum((1, 2))
    return Equations(left, right, loss, overlap, torch.stack((gain, offset, power), 1), correlation)


def noise_covariance(found: Equations, used: Float[Tensor, "*b"], model: str) -> Float[Tensor, "b n n"]:
    """Of the model's parameters, were the residuals of so many numbers independent noise; brightness is solved for beside them."""
    count = len(basis(model, found.left))
    inverse = torch.linalg.pinv(torch.nan_to_num(found.left, 0.0, 0.0, 0.0), hermitian=True)
    spread = found.loss / (used - found.left.shape[1]).clamp_min(1.0)
    return (spread[:, None, None] * inverse)[:, :count, :count]


class Found(NamedTuple):
    """Where a descent ended.

    Args:
        matrix: moving pixel from fixed pixel, of this level.
        equations: there.
        settled: whether the last step moved the corners by less than the tolerance, or no step lowered the loss further.
        losses: of every step.
    """

    matrix: Float[Tensor, "b 3 3"]
    equations: Equations
    settled: Bool[Tensor, "b"]
    losses: list[Float[Tensor, "b"]]


def minimise(
    linearise: Callable[[Tensor, Tensor], Equations],
    matrix: Float[Tensor, "b 3 3"],
    model: str,
    size: tuple[int, int],
    *,
    steps: int,
    tolerance: float,
    exponent: Float[Tensor, "b"],
) -> Found:
    """Take damped steps, each pair its own, until all are settled.

    Args:
        linearise: (matrix, exponent of gamma) -> normal equations.
        matrix: where to begin.
        model: what the steps may change.
        size: of the fixed picture.
        steps: at most.
        tolerance: mean movement of the corners, in pixels, below which a pair is settled.
        exponent: gamma to begin with.
    """
    pixels, spanned = frame(size, matrix), basis(model, matrix)
    count, damping = len(spanned), matrix.new_full((len(matrix),), 1e-3)
    settled = torch.zeros(len(matrix), dtype=torch.bool)
    here = linearise(matrix, exponent)
    losses = [here.loss]
    for _ in range(steps):
        left, right = here.left, here.right
        diagonal = torch.diagonal(left, dim1=1, dim2=2)
        ridge = damping[:, None] * diagonal + 1e-9 * diagonal.mean(1, keepdim=True) + 1e-30
        change = -torch.linalg.solve_ex(left + torch.diag_embed(ridge), right)[0]
        change = torch.where(torch.isfinite(change).all(1, keepdim=True), change, 0.0)
        candidate = changed(matrix, change[:, :count], spanned, pixels)
        power = exponent + change[:, count + 2] if change.shape[1] > count + 2 else exponent
        power = power.clamp(0.2, 5.0)
        there = linearise(candidate, power)
        better = (there.loss < here.loss) & (there.overlap > LEAST_OVERLAP) & torch.isfinite(there.loss) & ~settled
        moved = corner_distance(candidate, matrix, size)
        settled = settled | (moved < tolerance) | (~better & (damping > 1e3))
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

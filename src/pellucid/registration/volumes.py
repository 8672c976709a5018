"""Align volumes by descent, from coarse to fine.

Owns: `align_volumes`, its checks, the pyramid, and the descent by Adam.
Must not: judge pairs; ``verdicts.py`` does.
Read next: ``voxels.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.core.constants import pinned
from pellucid.core.recording import check_recording
from pellucid.errors import invalid, wrong_type
from pellucid.registration.bending import bend_levels
from pellucid.registration.descent import Run, adam, flat_at_the_end, roughness
from pellucid.registration.losses import LOSSES, RESIDUAL, correlation
from pellucid.registration.maps import parts_of, spline_field, spline_near
from pellucid.registration.newton import LEAST_OVERLAP, Equations, minimise, noise_covariance
from pellucid.registration.verdicts import check_numbers, flags_of, reasons_of, start_of, weighed_pair
from pellucid.registration.voxels import (
    BLUR,
    SHARP,
    Blocks,
    doubled,
    grown,
    kept_noise,
    level_from_full,
    lower,
    moved_by,
    parameters_of,
    places,
    read_voxels,
    shrunk,
    volume_equations,
    volume_moves,
)

__all__ = ["VOLUME_MODELS", "VolumeAlignment", "align_volumes"]

VOLUME_MODELS: Final = ("translation", "rigid", "affine", "bspline")
_COARSEST = 8
_TURN = math.radians(15.0)
"""Gauss-Newton's coarsest level tries no rotation, and a rotation by this angle about each axis in both directions."""


@dataclass(frozen=True)
class VolumeAlignment:
    """The result of `align_volumes`.

    Args:
        matrix: moving voxel (x, y, z) from fixed voxel, homogeneous.
        field: displacements (x, y, z) in voxels of the moving volume, added to the matrix's map; None without a ``bspline``.
        converged: whether each pair converged.
        reason: ``converged`` or why not, for each pair.
        loss, overlap, correlation: values at the end, for the full volumes.
        history: the losses of every step, level after level.
        brightness: gain and offset that make the moving volume look like the fixed one; 1 and 0 if not solved for.
        covariance: covariance of the matrix's parameters (shifts in units of half the longest side, then rotations about x, y, z or
            an affine map's nine entries, about the centre), if residuals are independent noise; None for Adam and with a
            ``bspline``.

    Example:
        >>> import torch
        >>> from pellucid.registration import align_volumes
        >>> align_volumes(torch.zeros(1, 8, 8, 8), torch.rand(1, 8, 8, 8), steps=1).reason
        ('the fixed volume is constant',)
    """

    matrix: Float[Tensor, "b 4 4"]
    field: Float[Tensor, "b 3 d h w"] | None
    converged: Bool[Tensor, "b"]
    reason: tuple[str, ...]
    loss: Float[Tensor, "b"]
    overlap: Float[Tensor, "b"]
    correlation: Float[Tensor, "b"]
    history: tuple[Float[Tensor, "b"], ...]
    brightness: Float[Tensor, "b 2"]
    covariance: Float[Tensor, "b n n"] | None

    def warped(self, moving: Float[Tensor, "*b c d h w"], size: tuple[int, int, int]) -> Float[Tensor, "b c d2 h2 w2"]:
        """Return the moving volume in the fixed one's frame, zeros outside.

        Args:
            moving: the volume that was aligned, or another of its size.
            size: (depth, height, width) of the fixed volume.

        Returns:
            The volume, with trilinear interpolation.

        Gradient:
            moving: exact. The alignment's matrix and field: almost everywhere.

        Errors:
            As ``torch.nn.functional.grid_sample``.

        Example:
            >>> import torch
            >>> from pellucid.registration import align_volumes
            >>> volume = torch.rand(1, 8, 8, 8)
            >>> align_volumes(torch.zeros(1, 8, 8, 8), volume, steps=1).warped(volume, (8, 8, 8)).shape
            torch.Size([1, 1, 8, 8, 8])
        """
        given = moving if moving.dim() == 5 else moving[None]
        where = places(self.matrix.to(given), size, None if self.field is None else self.field.to(given))
        return read_voxels(given, where, "zeros")


@pinned
def align_volumes(
    fixed: Float[Tensor, "*b c d h w"],
    moving: Float[Tensor, "*b c d2 h2 w2"],
    *,
    model: str = "affine",
    loss: str = "ssd",
    method: str = "auto",
    photometric: str = "gain_bias",
    start: Float[Tensor, "*b 4 4"] | None = None,
    mask: Float[Tensor, "*b 1 d h w"] | None = None,
    moving_mask: Float[Tensor, "*b 1 d2 h2 w2"] | None = None,
    width: float = 0.1,
    spacing: float = 8.0,
    stiffness: float = 5e-4,
    levels: int | None = None,
    steps: int = 100,
    tolerance: float = 1e-3,
) -> VolumeAlignment:
    """Find the map that makes the moving volume look like the fixed one, through a trilinear warp.

    The methods are Gauss-Newton with Levenberg-Marquardt damping, and Adam. Under Gauss-Newton, coarse levels find simpler maps,
    and the coarsest level tries seven rotations and keeps the best.

    Args:
        fixed, moving: (C, D, H, W) or (B, C, D, H, W), floating point. Their sizes may differ; voxels are cubes.
        model: ``translation``, ``rigid`` (rotations and shifts), ``affine``, ``bspline``, or a matrix and a B-spline together:
            ``rigid+bspline``.
        loss: as for :func:`align`.
        method: ``gauss_newton`` (the first four losses, and ``mutual_information`` for matrices), ``adam`` (all), or ``auto``:
            Gauss-Newton where possible.
        photometric: ``none`` or ``gain_bias``.
        start: moving voxel from fixed voxel, one matrix or one for each pair; default the identity.
        mask, moving_mask: the weight of each voxel, at least 0.
        width: width of the robust losses, in the volumes' units.
        spacing: voxels between a B-spline's control points.
        stiffness: as for :func:`align`, in square voxels.
        levels: levels of the pyramid, each half the size, with at least 4 voxels a side; None: down to 8.
        steps: number of steps on each level; for Gauss-Newton the largest number.
        tolerance: voxels; a pair is done when a step of Gauss-Newton moves its corners by less.

    Returns:
        See :class:`VolumeAlignment`. A pair that cannot be aligned does not disturb the others, and its ``reason`` says why.

    Gradient:
        none; the result is detached.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes and options that do not fit.

    Source:
        Rueckert and others 1999 for the B-spline; rotations are exponentials of skew-symmetric matrices.

    Example:
        >>> import torch
        >>> from pellucid.registration import align_volumes
        >>> z, y, x = torch.meshgrid(*[torch.arange(16.0)] * 3, indexing="ij")
        >>> blob = lambda at: torch.exp(-((x - at) ** 2 + (y - 7) ** 2 + (z - 8) ** 2) / 18)[None]
        >>> found = align_volumes(blob(7.0), blob(8.5), model="translation")
        >>> found.matrix[0, :3, 3].round(decimals=1).abs(), found.reason
        (tensor([1.5000, 0.0000, 0.0000]), ('converged',))
    """
    matrix_model, bends = parts_of(model, VOLUME_MODELS[:-1], VOLUME_MODELS[-1:])
    check_choice("loss", loss, LOSSES)
    check_choice("photometric", photometric, ("none", "gain_bias"))
    steps_of_newton = loss in RESIDUAL or (loss == "mutual_information" and not bends)
    check_choice("method", method, ("auto", "gauss_newton", "adam") if steps_of_newton else ("auto", "adam"))
    exact = method != "adam" and steps_of_newton
    check_numbers(width=width, spacing=spacing, stiffness=stiffness, levels=levels, steps=steps, tolerance=tolerance)
    check_recording("align_volumes")
    pair, problems = _read(fixed, moving, mask, moving_mask)
    still = torch.eye(4, dtype=pair.fixed.dtype, device=pair.fixed.device)
    matrix = begin = start_of(still if start is None else start, pair.fixed)
    sides = (*pair.fixed.shape[2:], *pair.moving.shape[2:])
    wanted = max(0, round(math.log2(min(sides) / _COARSEST))) if levels is None else levels - 1
    levels = 1 + min(wanted, int(math.log2(min(sides) / 4)))
    photometric = "gain_bias" if loss == "ncc" else photometric
    run = _Run(pair, matrix_model, bends, loss, photometric, width, spacing, stiffness, steps, tolerance)
    field, settled, covariance = None, matrix.new_ones(len(matrix), dtype=torch.bool), None
    brightness = matrix.new_tensor([[1.0, 0.0]]).expand(len(matrix), 2)
    history: list[Tensor] = []
    if exact:
        with torch.no_grad():
            if matrix_model:
                matrix, last, settled = run.newton(matrix, levels, history)
                used = last.overlap * pair.mask.flatten(1).sum(1) * pair.fixed.shape[1]
                brightness = last.brightness[:, :2]
                covariance = None if bends else noise_covariance(last, used, parameters_of(matrix_model)) / kept_noise()
            if bends:
                field, bent, steps_of = bend_levels(run, run._sharp, grown, matrix, levels)
                settled, brightness = bent.settled, bent.slopes.brightness[:, :2]
                history += [loss for _, loss in steps_of]
    else:
        matrix, field, settled = run.adam(matrix, levels, history)
    with torch.no_grad():
        where = places(matrix, pair.sides, field)
        seen, out = pair.weight(where), read_voxels(pair.moving, where)
        agreed = torch.ones_like(brightness[:, 0]) if loss == "mutual_information" else correlation(out, pair.fixed, seen)
        value = run.measure(out, pair.fixed, seen)
        overlap = seen.flatten(1).sum(1) / pair.mask.flatten(1).sum(1).clamp_min(1e-12)
    reason = reasons_of(problems, matrix, value, overlap, agreed, settled, what="volume")
    done, usable = flags_of(problems, reason, matrix)
    matrix = torch.where(usable[:, None, None], matrix, begin)
    field = None if field is None else torch.where(usable[:, None, None, None, None], field, 0.0)
    return VolumeAlignment(matrix, field, done, reason, value, overlap, agreed, tuple(history), brightness, covariance)


@dataclass(frozen=True)
class _Run(Run):
    pair: Blocks

    def newton(self, matrix: Tensor, levels: int, history: list[Tensor]) -> tuple[Tensor, Equations, Tensor]:
        """Return the matrix, the equations there, and which pairs are settled."""
        assert self.model is not None
        chain = VOLUME_MODELS[: VOLUME_MODELS.index(self.model) + 1]
        for level in range(levels - 1, -1, -1):
            pair, from_full, moving_from_full = self._sharp(level)
            model = chain[max(0, len(chain) - 1 - level)]
            turns = matrix.new_zeros(1, 6)
            if level == levels - 1 and levels > 1 and self.model != "translation":
                model = "rigid" if model == "translation" else model
                about = _TURN * torch.eye(6, dtype=matrix.dtype, device=matrix.device)[3:]
                turns = torch.cat((turns, about, -about))
            begin = moving_from_full @ matrix @ torch.linalg.inv(from_full)
            first = (begin @ moved_by(turns, pair.sides)[:, None]).flatten(0, 1)
            found = minimise(
                partial(self._equations, pair.repeated(len(turns)), model),
                first,
                volume_moves(model, pair.sides),
                steps=self.steps,
                tolerance=self.tolerance,
                exponent=first.new_ones(len(first)),
            )
            history += [loss.unflatten(0, (len(turns), -1)).amin(0) for loss in found.losses]
            best = torch.where(found.equations.overlap > LEAST_OVERLAP, found.equations.loss, torch.inf)
            rows = best.unflatten(0, (len(turns), -1)).argmin(0) * len(matrix) + torch.arange(len(matrix), device=matrix.device)
            matrix = torch.linalg.inv(moving_from_full) @ found.matrix[rows] @ from_full
        return matrix, Equations(*(part[rows] for part in found.equations)), found.settled[rows]

    def _equations(self, pair: Blocks, model: str, matrix: Tensor, _exponent: Tensor) -> Equations:
        informed = self.loss == "mutual_information"
        weigh = None if informed else self.weigh
        return volume_equations(pair, matrix, model, photometric=self.photometric, weigh=weigh, informed=informed)

    def _sharp(self, level: int) -> tuple[Blocks, Tensor, Tensor]:
        """Return a level for Gauss-Newton, and the maps from full voxels; on the finest, the moving volume has twice the size."""
        pair, from_full = self._level(level, SHARP)
        if level:
            return pair, from_full, from_full
        mask = None if pair.moving_mask is None else F.interpolate(pair.moving_mask, scale_factor=2.0)
        return Blocks(pair.fixed, doubled(pair.moving), pair.mask, mask), from_full, level_from_full(-1, from_full)

    def adam(self, matrix: Tensor, levels: int, history: list[Tensor]) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return the matrix, the field, and which pairs are settled."""
        field, settled = None, matrix.new_ones(len(matrix), dtype=torch.bool)
        for level in range(levels - 1, -1, -1):
            pair, from_full = self._level(level, BLUR)
            here, field, settled, losses = _descend(
                pair,
                from_full @ matrix @ torch.linalg.inv(from_full),
                None if field is None else 2.0 * grown(field, pair.sides),
                self.measure,
                matrix_model=self.model,
                bends=bool(self.bends),
                spacing=self.spacing,
                stiffness=self.stiffness,
                steps=self.steps,
                rate=0.3 if level == levels - 1 else 0.1,
            )
            matrix = torch.linalg.inv(from_full) @ here @ from_full
            history += losses
        return matrix, field, settled

    def _level(self, level: int, blur: float) -> tuple[Blocks, Tensor]:
        """Return the pair at half the size ``level`` times, and the map from full voxels to its voxels."""
        full, moving_mask = self.pair, self.pair.moving_mask
        pair = Blocks(
            lower(full.fixed, level, full.mask, blur),
            lower(full.moving, level, moving_mask, blur),
            shrunk(full.mask, level),
            None if moving_mask is None else shrunk(moving_mask, level),
        )
        return pair, level_from_full(level, full.fixed)


def _descend(
    pair: Blocks,
    matrix: Tensor,
    field: Tensor | None,
    loss: Callable[[Tensor, Tensor, Tensor], Tensor],
    *,
    matrix_model: str | None,
    bends: bool,
    spacing: float,
    stiffness: float,
    steps: int,
    rate: float,
) -> tuple[Tensor, Tensor | None, Tensor, list[Tensor]]:
    """Descend on one level; return the matrix, the field, which pairs are settled, and the losses."""
    size, half = pair.sides, max(pair.sides) / 2
    change = matrix.new_zeros(len(matrix), parameters_of(matrix_model))
    control = spline_near(matrix.new_zeros(len(matrix), 3, *size) if field is None else field, spacing)
    leaves = [part.detach().clone().requires_grad_() for part in (change, control)]

    def placed() -> tuple[Tensor, Tensor | None]:
        moved = spline_field(leaves[1], size, spacing) if bends else None
        return matrix @ moved_by(leaves[0], size) if matrix_model else matrix, moved

    def each(_step: int) -> Tensor:
        here, moved = placed()
        where = places(here, size, moved)
        found = loss(read_voxels(pair.moving, where), pair.fixed, pair.weight(where.detach()))
        return found + stiffness * found.detach().abs() * roughness(leaves[1], (2, 3, 4)) if bends else found

    used = zip(leaves, (rate / half, rate), (matrix_model, bends), strict=True)
    losses = adam([(leaf, pace) for leaf, pace, changes in used if changes], each, steps=steps)
    settled = flat_at_the_end(losses)
    with torch.no_grad():
        return *placed(), settled, losses


def _read(fixed: object, moving: object, mask: object, moving_mask: object) -> tuple[Blocks, list[str]]:
    """Return the volumes with a batch axis and weights, and the problem of each pair, if any."""
    a, b = _volumes("fixed", fixed), _volumes("moving", moving)
    dtype = torch.promote_types(a.dtype, b.dtype)
    found, problems = weighed_pair(a.to(dtype), b.to(dtype), mask, moving_mask, "volume")
    return Blocks(*found), problems


def _volumes(name: str, volume: object) -> Float[Tensor, "b c d h w"]:
    if not isinstance(volume, Tensor) or not volume.is_floating_point():
        got = volume.dtype if isinstance(volume, Tensor) else type(volume).__name__
        raise wrong_type(name, expected="a tensor of floating-point voxels", got=got)
    if volume.dim() not in (4, 5) or min(volume.shape[-3:]) < 4:
        raise invalid(
            name, expected="(C, D, H, W) or (B, C, D, H, W), at least 4 voxels a side", got=f"shape {tuple(volume.shape)}"
        )
    batch = volume if volume.dim() == 5 else volume[None]
    return batch.detach().to(torch.promote_types(volume.dtype, torch.float32))

"""Aligning volumes by descent, from coarse to fine.

Owns: `align_volumes`, the maps of volumes, and how a volume is read.
Must not: judge pairs; ``verdicts.py`` does.
Read next: ``losses.py``.
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

from pellucid.errors import invalid, wrong_type
from pellucid.random.arguments import check_choice
from pellucid.registration.descent import flat_at_the_end
from pellucid.registration.losses import LOSSES, correlation, distance
from pellucid.registration.maps import splines
from pellucid.registration.verdicts import problems_of, reasons_of

__all__ = ["VOLUME_MODELS", "VolumeAlignment", "align_volumes"]

VOLUME_MODELS: Final = ("translation", "rigid", "affine", "bspline")
_COARSEST = 8


@dataclass(frozen=True)
class VolumeAlignment:
    """What `align_volumes` found.

    Args:
        matrix: moving voxel (x, y, z) from fixed voxel, homogeneous.
        field: displacements (x, y, z) in voxels of the moving volume, beside the matrix; None unless the model has a ``bspline``.
        converged: of each pair.
        reason: why, in words.
        loss, overlap, correlation: at the end, of the full volumes.
        history: the losses of every step, level after level.

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

    def warped(self, moving: Float[Tensor, "*b c d h w"], size: tuple[int, int, int]) -> Float[Tensor, "b c d2 h2 w2"]:
        """Return the moving volume in the fixed one's frame, zeros outside.

        Args:
            moving: the volume that was aligned, or another of its size.
            size: (depth, height, width) of the fixed volume.

        Returns:
            Read trilinearly.

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
        return _read(given, _places(self.matrix.to(given), size, None if self.field is None else self.field.to(given)), "zeros")


def align_volumes(
    fixed: Float[Tensor, "*b c d h w"],
    moving: Float[Tensor, "*b c d2 h2 w2"],
    *,
    model: str = "affine",
    loss: str = "ssd",
    photometric: str = "gain_bias",
    start: Float[Tensor, "*b 4 4"] | None = None,
    mask: Float[Tensor, "*b 1 d h w"] | None = None,
    width: float = 0.1,
    spacing: float = 8.0,
    stiffness: float = 1e-5,
    levels: int | None = None,
    steps: int = 100,
) -> VolumeAlignment:
    """Find the map that makes the moving volume look like the fixed one, by Adam through a trilinear warp.

    Args:
        fixed, moving: (C, D, H, W) or (B, C, D, H, W), floating point. Their sizes may differ; voxels are cubes.
        model: ``translation``, ``rigid`` (turns and shifts), ``affine``, ``bspline``, or a matrix and a B-spline together:
            ``rigid+bspline``.
        loss: as of :func:`align`.
        photometric: ``none`` or ``gain_bias``.
        start: moving voxel from fixed voxel, one or one for each pair; default the identity.
        mask: weights from 0 of what counts of the fixed volume.
        width: of the robust losses, in the volumes' units.
        spacing: voxels between a B-spline's control points.
        stiffness: weight of their squared second differences, in square voxels.
        levels: of the pyramid, each half the size; None: down to 8 voxels.
        steps: on each level.

    Returns:
        See :class:`VolumeAlignment`. A pair that cannot be aligned does not disturb the others and is told so.

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
    parts = model.split("+") if isinstance(model, str) else [model]
    matrices = [part for part in parts if part != "bspline"]
    for part in parts:
        check_choice("model", part, VOLUME_MODELS)
    if len(matrices) > 1 or len(parts) > len(matrices) + 1:
        raise invalid("model", expected="one matrix and one bspline at most", got=model)
    check_choice("loss", loss, LOSSES)
    check_choice("photometric", photometric, ("none", "gain_bias"))
    a, b = (_volumes(name, volume) for name, volume in (("fixed", fixed), ("moving", moving)))
    if a.shape[:2] != b.shape[:2]:
        raise invalid("moving", expected=f"{a.shape[0]} volumes of {a.shape[1]} channels, as fixed", got=f"shape {tuple(b.shape)}")
    weight = torch.ones_like(a[:, :1]) if mask is None else mask.to(a).expand(len(a), 1, *a.shape[2:])
    begin = torch.eye(4, dtype=a.dtype) if start is None else torch.as_tensor(start, dtype=a.dtype)
    matrix = (begin if begin.dim() == 3 else begin[None]).expand(len(a), 4, 4)
    problems = problems_of(a, b, weight, None, "volume")
    a, b = (torch.nan_to_num(volume, 0.0, 0.0, 0.0) for volume in (a, b))
    sides = (*a.shape[2:], *b.shape[2:])
    levels = 1 + max(0, round(math.log2(min(sides) / _COARSEST))) if levels is None else levels
    measure = partial(distance, loss, photometric=photometric, width=width)
    field, settled = None, torch.ones(len(a), dtype=torch.bool)
    history: list[Tensor] = []
    for level in range(levels - 1, -1, -1):
        small = _lower(a, level), _lower(b, level)
        maps = [_level_from_full(volume, shrunk) for volume, shrunk in zip((a, b), small, strict=True)]
        here, field, settled, losses = _descend(
            *small,
            _lower(weight, level),
            maps[1] @ matrix @ torch.linalg.inv(maps[0]),
            None if field is None else _grown(field, small[0]),
            measure,
            matrix_model=matrices[0] if matrices else None,
            bends="bspline" in parts,
            spacing=spacing,
            stiffness=stiffness,
            steps=steps,
            rate=0.3 if level == levels - 1 else 0.1,
        )
        matrix = torch.linalg.inv(maps[1]) @ here @ maps[0]
        history += losses
    size = (a.shape[2], a.shape[3], a.shape[4])
    with torch.no_grad():
        places = _places(matrix, size, field)
        seen = weight * _inside(places, b)
        out, agreed = _read(b, places), torch.ones(len(a), dtype=a.dtype)
        if loss != "mutual_information":
            agreed = correlation(out, a, seen)
        value, overlap = measure(out, a, seen), seen.flatten(1).sum(1) / weight.flatten(1).sum(1).clamp_min(1e-12)
    reason = reasons_of(problems, matrix, value, overlap, agreed, settled, "volume")
    usable = torch.tensor([not problem for problem in problems], dtype=torch.bool) & torch.isfinite(matrix).flatten(1).all(1)
    matrix = torch.where(usable[:, None, None], matrix, begin)
    field = None if field is None else torch.where(usable[:, None, None, None, None], field, 0.0)
    done = torch.tensor([word == "converged" for word in reason], dtype=torch.bool)
    return VolumeAlignment(matrix, field, done, reason, value, overlap, agreed, tuple(history))


def _descend(
    fixed: Tensor,
    moving: Tensor,
    mask: Tensor,
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
    """One level: (matrix, field, which are settled, losses)."""
    size = (fixed.shape[2], fixed.shape[3], fixed.shape[4])
    half = max(size) / 2
    weights = [splines(side, spacing, fixed) for side in size]
    change = matrix.new_zeros(len(matrix), {None: 0, "translation": 3, "rigid": 6, "affine": 12}[matrix_model])
    control = matrix.new_zeros(len(matrix), 3, *(part.shape[1] for part in weights))
    if field is not None:
        down = [torch.linalg.pinv(part) for part in weights]
        control = torch.einsum("bkdhw,zd,yh,xw->bkzyx", field, *down)
    leaves = [part.detach().clone().requires_grad_() for part in (change, control)]
    groups = [{"params": leaves[:1], "lr": rate / half}, {"params": leaves[1:], "lr": rate}]
    optimiser = torch.optim.Adam([group for group, used in zip(groups, (matrix_model, bends), strict=True) if used])
    slowing = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 0.02 ** max(0.0, 2.0 * step / steps - 1.0))
    losses: list[Tensor] = []

    def placed() -> tuple[Tensor, Tensor | None]:
        moved = torch.einsum("bkzyx,dz,hy,wx->bkdhw", leaves[1], *weights) if bends else None
        return matrix @ _small(leaves[0], size) if matrix_model else matrix, moved

    for _ in range(steps):
        with torch.enable_grad():
            places = _places(*placed()[:1], size, placed()[1])
            each = loss(_read(moving, places), fixed, mask * _inside(places.detach(), moving))
            if bends and stiffness > 0:
                bent = [torch.diff(leaves[1], n=2, dim=dim).square().flatten(1).mean(1) for dim in (2, 3, 4)]
                each = each + stiffness * torch.stack(bent).sum(0)
            usable = torch.isfinite(each)
            total = torch.where(usable, each, 0.0).sum()
        losses.append(torch.where(usable, each, torch.nan).detach())
        optimiser.zero_grad()
        total.backward()
        for leaf in leaves:
            leaf.grad = None if leaf.grad is None else torch.nan_to_num(leaf.grad, 0.0, 0.0, 0.0)
        optimiser.step()
        slowing.step()
    settled = flat_at_the_end(losses)
    with torch.no_grad():
        return *placed(), settled, losses


def _small(change: Float[Tensor, "b n"], size: tuple[int, int, int]) -> Float[Tensor, "b 4 4"]:
    """A map near the identity about the middle; lengths in units of half the longest side. Six numbers are a rigid motion."""
    half, count = max(size) / 2, change.shape[1]
    flat = change.new_zeros(len(change), 3, 3)
    if count == 6:
        x, y, z = change[:, 3:].unbind(1)
        zero = torch.zeros_like(x)
        rows = [torch.stack(row, 1) for row in ((zero, -z, y), (z, zero, -x), (-y, x, zero))]
        flat = torch.stack(rows, 1)
    elif count == 12:
        flat = change[:, 3:].unflatten(1, (3, 3))
    turn = torch.linalg.matrix_exp(flat)
    middle = torch.tensor([(side - 1) / 2 for side in reversed(size)], dtype=change.dtype)
    shift = half * change[:, :3] + middle - turn @ middle
    last = torch.tensor([[[0.0, 0.0, 0.0, 1.0]]], dtype=change.dtype).expand(len(change), 1, 4)
    return torch.cat((torch.cat((turn, shift[..., None]), 2), last), 1)


def _places(matrix: Tensor, size: tuple[int, int, int], field: Tensor | None) -> Float[Tensor, "b 3 d h w"]:
    """Where every voxel is read, (x, y, z)."""
    axes = torch.meshgrid(*(torch.arange(side, dtype=matrix.dtype) for side in size), indexing="ij")
    grid = torch.stack(axes[::-1]).flatten(1)
    places = (matrix[:, :3, :3] @ grid + matrix[:, :3, 3:]).unflatten(2, size)
    return places if field is None else places + field


def _inside(places: Tensor, volume: Tensor) -> Float[Tensor, "b 1 d h w"]:
    last = torch.tensor([side - 1 for side in reversed(volume.shape[2:])], dtype=places.dtype)[:, None, None, None]
    return ((places >= 0) & (places <= last)).all(1, keepdim=True).to(places.dtype)


def _read(volume: Tensor, places: Tensor, padding_mode: str = "border") -> Tensor:
    """Trilinear; places (b, 3, d, h, w) are voxels, NaN and infinity lie outside."""
    sides = torch.tensor(list(reversed(volume.shape[2:])), dtype=places.dtype)[:, None, None, None]
    grid = torch.nan_to_num((2 * places + 1) / sides - 1, 2.0, 2.0, -2.0).clamp(-1e4, 1e4).permute(0, 2, 3, 4, 1)
    return F.grid_sample(volume, grid, padding_mode=padding_mode, align_corners=False)


def _lower(volume: Tensor, level: int) -> Tensor:
    """Half the size so many times, by means of boxes."""
    depth, height, width = (max(4, round(side / 2**level)) for side in volume.shape[2:])
    return F.adaptive_avg_pool3d(volume, (depth, height, width)) if level else volume


def _level_from_full(full: Tensor, level: Tensor) -> Float[Tensor, "4 4"]:
    shares = torch.tensor([b / a for a, b in zip(full.shape[:1:-1], level.shape[:1:-1], strict=True)], dtype=full.dtype)
    found = torch.diag(torch.cat((shares, shares.new_ones(1))))
    found[:3, 3] = 0.5 * shares - 0.5
    return found


def _grown(field: Tensor, like: Tensor) -> Tensor:
    """A coarser level's displacements, in this one's voxels."""
    scale = torch.tensor([b / a for a, b in zip(field.shape[:1:-1], like.shape[:1:-1], strict=True)], dtype=field.dtype)
    return F.interpolate(field, like.shape[2:], mode="trilinear", align_corners=False) * scale[:, None, None, None]


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

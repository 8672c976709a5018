"""Maps of volumes, reading a volume through a map, and its normal equations.

Owns: the parameters of translations, rigid motions and affine maps, reading, and the sizes of a pyramid's levels.
Must not: descend.
Read next: ``volumes.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pellucid.functional import gaussian_blur
from pellucid.registration.maps import bumps, corner_distance, grid
from pellucid.registration.newton import Equations, Moves, Pair, information_equations, normal_equations

__all__ = [
    "BLUR", "SHARP", "Blocks", "Sides", "doubled", "grown", "inside", "kept_noise", "level_from_full", "lower", "moved_by",
    "parameters_of", "places", "read_voxels", "shrunk", "volume_equations", "volume_moves",
]  # fmt: skip

BLUR, SHARP = 0.5, 0.4
"""Blur of a level in voxels, for Adam and for Gauss-Newton, whose finest level is smoother by its splines."""
_AROUND = 12  # mirrored voxels beyond a border, for splines: farther ones have weights below 1e-7

Sides: TypeAlias = tuple[int, int, int]
"""Depth, height, width."""


class Blocks(Pair):
    """Volumes of one level, and their weights."""

    @property
    def sides(self) -> Sides:
        """The size of the fixed volume."""
        return self.fixed.shape[2], self.fixed.shape[3], self.fixed.shape[4]

    def weight(self, where: Float[Tensor, "b 3 d h w"]) -> Float[Tensor, "b 1 d h w"]:
        """Return the weight of each fixed voxel when the moving volume is read at these places."""
        seen = self.mask * inside(where, self.moving)
        return seen if self.moving_mask is None else seen * read_voxels(self.moving_mask, where, "zeros")

    def look(self, matrix: Tensor, field: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same as for pictures, with trilinear interpolation."""
        where, values, slopes = places(matrix, self.sides, field), [], []
        for channel in self.moving.split(1, 1):  # one backward pass with ones gives a channel's derivatives
            with torch.enable_grad():
                leaf = where.detach().requires_grad_()
                out = read_voxels(channel, leaf)
                (slope,) = torch.autograd.grad(out, leaf, torch.ones_like(out))
            values.append(out.detach().flatten(2))
            slopes.append(slope.flatten(2))
        return torch.cat(values, 1), torch.stack(slopes, 1), self.weight(where).flatten(1)


def volume_equations(
    pair: Blocks,
    matrix: Float[Tensor, "b 4 4"],
    model: str,
    *,
    photometric: str = "gain_bias",
    weigh: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None,
    informed: bool = False,
) -> Equations:
    """Linearise as :func:`equations` does, or mutual information if ``informed``; a change acts before the matrix by `moved_by`."""
    size, half = pair.sides, max(pair.sides) / 2
    value, slopes, weight = pair.look(matrix, None)
    lead = matrix[:, None, :3, :3].mT @ slopes  # b c 3 n, derivatives by the place in the fixed volume
    middle = matrix.new_tensor([(side - 1) / 2 for side in reversed(size)])
    centred = (
        places(torch.eye(4, dtype=matrix.dtype, device=matrix.device)[None], size, None)[0].flatten(1) - middle[:, None]
    )  # 3 n

    def columns(part: slice) -> Tensor:
        slope, place = lead[..., part], centred[:, part]
        found = [half * slope]
        if model == "rigid":  # derivatives by a rotation about each axis
            found.append(torch.linalg.cross(place.expand_as(slope), slope, dim=2))
        elif model == "affine":
            found.append((slope[:, :, :, None] * place).flatten(2, 3))
        return torch.cat(found, 2)

    target = pair.fixed.flatten(2)
    if informed:
        found = information_equations(value, target, columns, weight)
    else:
        found = normal_equations(value, target, columns, weight, photometric=photometric, weigh=weigh)
    return found._replace(overlap=weight.sum(1) / pair.mask.flatten(1).sum(1).clamp_min(1e-12))


def volume_moves(model: str, size: Sides) -> Moves:
    """Return the changes of a volume's model."""

    def changed(matrix: Tensor, change: Tensor) -> Tensor:
        return matrix @ moved_by(change, size)

    return Moves(parameters_of(model), changed, partial(corner_distance, size=size))


def parameters_of(model: str | None) -> int:
    """Return the number of parameters of a model's small maps; 0 for None."""
    return {None: 0, "translation": 3, "rigid": 6, "affine": 12}[model]


def moved_by(change: Float[Tensor, "b n"], size: Sides) -> Float[Tensor, "b 4 4"]:
    """Return a map near the identity about the centre, with lengths in units of half the longest side; six numbers are rigid."""
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
    middle = change.new_tensor([(side - 1) / 2 for side in reversed(size)])
    shift = half * change[:, :3] + middle - turn @ middle
    last = change.new_tensor([[[0.0, 0.0, 0.0, 1.0]]]).expand(len(change), 1, 4)
    return torch.cat((torch.cat((turn, shift[..., None]), 2), last), 1)


def places(matrix: Tensor, size: Sides, field: Tensor | None) -> Float[Tensor, "b 3 d h w"]:
    """Return the place (x, y, z) at which each voxel is read."""
    still = torch.stack(grid(size, matrix)).flatten(1)
    places = (matrix[:, :3, :3] @ still + matrix[:, :3, 3:]).unflatten(2, size)
    return places if field is None else places + field


def inside(where: Float[Tensor, "b 3 d h w"], volume: Tensor) -> Float[Tensor, "b 1 d h w"]:
    """Return 1 where a place lies between the volume's outermost voxel centres, else 0."""
    last = where.new_tensor([side - 1 for side in reversed(volume.shape[2:])])[:, None, None, None]
    return ((where >= 0) & (where <= last)).all(1, keepdim=True).to(where.dtype)


def read_voxels(volume: Tensor, places: Tensor, padding_mode: str = "border") -> Tensor:
    """Read a volume by trilinear interpolation at places (b, 3, d, h, w) in voxels; NaN and infinity count as outside."""
    sides = places.new_tensor(list(reversed(volume.shape[2:])))[:, None, None, None]
    where = torch.nan_to_num((2 * places + 1) / sides - 1, 2.0, 2.0, -2.0).clamp(-1e4, 1e4).permute(0, 2, 3, 4, 1)
    return F.grid_sample(volume, where, padding_mode=padding_mode, align_corners=False)


def shrunk(volume: Tensor, level: int) -> Tensor:
    """Halve the size ``level`` times by box means, along all axes equally, so that rigid motions stay rigid."""
    return F.avg_pool3d(volume, 2**level)


def doubled(volume: Tensor) -> Tensor:
    """Double the size by cubic splines through the voxels: linear interpolation of the result is then more accurate."""
    for axis, side in enumerate(volume.shape[2:], 2):
        near = torch.arange(-_AROUND, side + _AROUND, device=volume.device) % (2 * side - 2)
        near = torch.minimum(near, 2 * side - 2 - near)  # mirrored about the outermost voxels
        knots = torch.linalg.pinv(bumps(torch.arange(len(near), dtype=volume.dtype, device=volume.device) + 1, len(near) + 2))
        fine = torch.arange(2 * side, dtype=volume.dtype, device=volume.device) / 2 - 0.25 + _AROUND + 1
        finer = bumps(fine, len(near) + 2) @ knots
        volume = (volume.index_select(axis, near).movedim(axis, -1) @ finer.mT).movedim(-1, axis)
    return volume.contiguous()


def lower(volume: Tensor, level: int, mask: Tensor | None, blur: float) -> Tensor:
    """Return a level's volume, blurred by so many voxels; masked voxels do not blur into others."""
    if mask is None:
        return _blurred(shrunk(volume, level), blur)
    return _blurred(shrunk(volume * mask, level), blur) / _blurred(shrunk(mask, level), blur).clamp_min(1e-6)


def _blurred(volume: Tensor, blur: float) -> Tensor:
    """Blur along every axis; noise would cost more accuracy than the blur does."""
    channels, height = volume.shape[1], volume.shape[3]
    flat = gaussian_blur(volume.flatten(1, 2), 5, blur).unflatten(1, (channels, -1))
    upright = flat.transpose(2, 3).flatten(1, 2)  # depth where the height was
    return gaussian_blur(upright, (5, 1), (blur, 1.0)).unflatten(1, (channels, height)).transpose(2, 3)


def kept_noise() -> float:
    """Return the share of independent noise's variance that remains after the blur, which must not make covariances smaller."""
    point = F.pad(torch.ones(1, 1, 1, 1, 1, device="cpu"), [4] * 6)
    return float(_blurred(point, SHARP).square().sum())


def level_from_full(level: int, like: Tensor) -> Float[Tensor, "4 4"]:
    """Return the matrix from a volume's voxels to those of the volume halved ``level`` times; -1 is twice the size."""
    share, shift = 0.5**level, 0.5 ** (level + 1) - 0.5
    return like.new_tensor([[share, 0.0, 0.0, shift], [0.0, share, 0.0, shift], [0.0, 0.0, share, shift], [0.0, 0.0, 0.0, 1.0]])


def grown(field: Tensor, size: Sides) -> Tensor:
    """Enlarge displacements to a volume of about twice the size; voxels that box means left out move like their neighbours."""
    if field.shape[2:] == size:
        return field
    fine = F.interpolate(field, scale_factor=2.0, mode="trilinear", align_corners=False)
    lacks = [part for axis in (-1, -2, -3) for part in (0, size[axis] - fine.shape[axis])]
    return F.pad(fine, lacks, mode="replicate")

"""Maps of volumes, as 4 x 4 matrices on voxels (x, y, z), and points mapped by them.

Owns: the matrices' conventions (x along the width, z along the depth), and mapping points along paths.
Must not: know of records or plans.
Read next: ``paths.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.geometry.bends import cells
from pellucid.geometry.matrices import cos_sin_degrees, inverse
from pellucid.types import Size3

__all__ = [
    "FOLDS3", "Bent3", "centre_of", "follow3", "inside3", "inverse4", "mirrors3", "placed", "rotation3", "spread",
    "transform_points3", "turned", "voxel_centres",
]  # fmt: skip


def spread(linear: Float[Tensor, "*b 3 3"], shift: Float[Tensor, "*b 3"]) -> Float[Tensor, "*b 4 4"]:
    """Return the matrix of p -> linear p + shift."""
    top = torch.cat((linear, shift[..., None]), -1)
    last = torch.zeros_like(top[..., :1, :]) + torch.eye(4, dtype=top.dtype, device=top.device)[3]
    return torch.cat((top, last), -2)


def placed(linear: Float[Tensor, "*b 3 3"], dst: Float[Tensor, "*b 3"], src: Float[Tensor, "*b 3"]) -> Float[Tensor, "*b 4 4"]:
    """Return the map with this linear part that takes the point ``dst`` to the point ``src``."""
    return spread(linear, src - (linear @ dst[..., None])[..., 0])


def centre_of(size: Size3, like: Tensor) -> Float[Tensor, "3"]:
    """Return the middle (x, y, z) of a volume of (depth, height, width)."""
    ends = torch.eye(3, dtype=like.dtype, device=like.device)
    return sum((0.5 * (length - 1.0) * end for length, end in zip(reversed(size), ends, strict=True)), torch.zeros_like(ends[0]))


def rotation3(degrees: Float[Tensor, "*b 3"]) -> Float[Tensor, "*b 3 3"]:
    """Return rotations about x, then y, then z, exact at quarter turns. Each goes in the direction in which pictures turn: about z
    from y to x, which is counter-clockwise seen along z; likewise about x from z to y, and about y from x to z.
    """
    cosine, sine = (part.unbind(-1) for part in cos_sin_degrees(degrees))
    zero, one = torch.zeros_like(cosine[0]), torch.ones_like(cosine[0])
    about_x = (one, zero, zero, zero, cosine[0], sine[0], zero, -sine[0], cosine[0])
    about_y = (cosine[1], zero, -sine[1], zero, one, zero, sine[1], zero, cosine[1])
    about_z = (cosine[2], sine[2], zero, -sine[2], cosine[2], zero, zero, zero, one)
    x, y, z = (torch.stack(entries, -1).unflatten(-1, (3, 3)) for entries in (about_x, about_y, about_z))
    return z @ y @ x


def inverse4(matrix: Float[Tensor, "*b 4 4"]) -> Float[Tensor, "*b 4 4"]:
    """Return the inverse of an affine map; its entries are not finite if the map is singular."""
    linear = matrix[..., :3, :3]
    a, b, c = linear.unbind(-1)  # columns
    rows = torch.stack((torch.linalg.cross(b, c), torch.linalg.cross(c, a), torch.linalg.cross(a, b)), -2)
    determinant = (rows[..., 0, :] * a).sum(-1)
    back = rows / determinant[..., None, None]
    return spread(back, -(back @ matrix[..., :3, 3:])[..., 0])


def mirrors3(matrix: Float[Tensor, "*b 4 4"]) -> Bool[Tensor, "*b"]:
    """Return whether a map mirrors, that is, swaps left and right."""
    a, b, c = matrix[..., :3, :3].unbind(-1)
    return (a * torch.linalg.cross(b, c)).sum(-1) < 0.0


def turned(matrix: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b n n"]:
    """Return the inverse of a map of pictures (3 x 3) or of volumes (4 x 4)."""
    return inverse(matrix) if matrix.shape[-1] == 3 else inverse4(matrix)


def transform_points3(points: Float[Tensor, "b n 3"], dst_from_src: Float[Tensor, "b 4 4"]) -> Float[Tensor, "b n 3"]:
    """Send points (x, y, z), in voxel-centre coordinates, through a map; points that are not finite give NaN with zero gradient."""
    whole = torch.isfinite(dst_from_src).all(-1).all(-1)[..., None, None]
    known = torch.isfinite(points).all(-1, keepdim=True) & whole
    matrix = torch.where(whole, dst_from_src, torch.eye(4, dtype=dst_from_src.dtype, device=dst_from_src.device))
    moved = torch.where(known, points, 0.0) @ matrix[..., :3, :3].mT + matrix[..., None, :3, 3]
    return torch.where(known, moved, torch.nan)


def inside3(points: Float[Tensor, "b n 3"], size: Size3 | None) -> Bool[Tensor, "b n"]:
    """Return which points are finite and, given a volume (depth, height, width), lie in it."""
    here = torch.isfinite(points).all(-1)
    if size is None:
        return here
    for at, length in zip(points.unbind(-1), reversed(size), strict=True):
        here = here & (at >= -0.5) & (at < length - 0.5)
    return here


FOLDS3 = 0.40331
"""Displacements below this share of the knots' spacing cannot fold space: 1 / 2.479472335.

Source: Choi and Lee, "Injectivity conditions of 2D and 3D uniform cubic B-spline functions", Graphical Models 62 (2000).
"""

_STEPS = 6
_SOLVED = 1e-6  # voxels


@dataclass(frozen=True, eq=False)
class Bent3:
    """A map with a displacement field before its matrix: p to matrix (p + d(p)).

    Args:
        matrix: of voxels (x, y, z).
        control: coefficients of the cubic B-spline d, along x, y and z in voxels. The second knot lies at the first voxel, the last
            but one at the last voxel.
        size: (depth, height, width) of the volume that the field lies on.
        solves: map in reverse: q to the p with p + d(p) = matrix q.
    """

    matrix: Float[Tensor, "b 4 4"]
    control: Float[Tensor, "b 3 gd gh gw"]
    size: Size3
    solves: bool = False

    def __call__(self, points: Float[Tensor, "b n 3"]) -> Float[Tensor, "b n 3"]:
        """Map points; NaN for points without an image, or for which Newton's method does not converge."""
        if not self.solves:
            return transform_points3(points + self._field(points)[0], self.matrix)
        wanted = transform_points3(points, self.matrix)
        known = torch.isfinite(wanted).all(-1, keepdim=True)
        wanted = torch.where(known, wanted, 0.0)
        with torch.no_grad():
            q = wanted
            for _ in range(_STEPS):
                moved, slopes = self._field(q)
                q = q - torch.linalg.solve(slopes, q + moved - wanted)
            slopes = self._field(q)[1]
        for _ in range(2):  # part of the graph, for first and second derivatives
            q = q - torch.linalg.solve(slopes, q + self._field(q)[0] - wanted)
        with torch.no_grad():
            missed = (q + self._field(q)[0] - wanted).abs().amax(-1, keepdim=True)
        return torch.where(known & (missed < _SOLVED), q, torch.nan)

    def _field(self, points: Float[Tensor, "b n 3"]) -> tuple[Float[Tensor, "b n 3"], Float[Tensor, "b n 3 3"]]:
        """Return displacements d(p), and the derivative of p + d(p); beyond the volume, d is constant from its border on."""
        rows, numbers = len(points), self.control.shape[2:]
        flat = self.control.flatten(2).expand(rows, 3, -1)
        axes = []
        for at, length, count in zip(points.unbind(-1), reversed(self.size), reversed(numbers), strict=True):
            spacing = torch.full_like(at[:, 0], max(1, length - 1) / (count - 3))
            axes.append(cells(at, torch.zeros_like(spacing), spacing, count))
        parts = []
        for k, j, i in product(range(4), repeat=3):
            place = ((axes[2].first + k) * numbers[1] + axes[1].first + j) * numbers[2] + axes[0].first + i
            number = flat.gather(2, place[:, None].expand(rows, 3, -1)).mT[..., None]  # b n 3 1
            x, y, z = ((axis.weights[n], axis.slopes[n]) for axis, n in zip(axes, (i, j, k), strict=True))
            shares = x[0] * y[0] * z[0], x[1] * y[0] * z[0], x[0] * y[1] * z[0], x[0] * y[0] * z[1]
            parts.append(number * torch.stack(shares, -1)[:, :, None])
        total = sum(parts[1:], parts[0])  # b n 3 4: the displacement, and its slopes along x, y and z
        return total[..., 0], total[..., 1:] + torch.eye(3, dtype=points.dtype, device=points.device)

    def turned(self) -> Bent3:
        """Return the inverse map."""
        return Bent3(inverse4(self.matrix), self.control, self.size, not self.solves)

    def to(self, dtype: torch.dtype) -> Bent3:
        """Return the same map in another precision."""
        return Bent3(self.matrix.to(dtype), self.control.to(dtype), self.size, self.solves)


def follow3(
    points: Float[Tensor, "b n 3"], path: Sequence[tuple[Tensor | Bent3, Size3 | None]]
) -> tuple[Tensor, Bool[Tensor, "b n"]]:
    """Map points from volume to volume along a path; also return which of them lay inside of every volume on the way."""
    seen = torch.isfinite(points).all(-1)
    for step, size in path:
        points = transform_points3(points, step) if isinstance(step, Tensor) else step(points)
        seen = seen & inside3(points, size)
    return points, seen


def voxel_centres(size: Sequence[int], like: Tensor) -> Float[Tensor, "1 n 3"]:
    """Return the coordinates (x, y, z) of the voxels of a volume (depth, height, width), slice by slice and row by row."""
    z, y, x = (torch.arange(length, dtype=like.dtype, device=like.device) for length in size)
    return torch.stack(torch.broadcast_tensors(x, y[:, None], z[:, None, None]), -1).reshape(1, -1, 3)

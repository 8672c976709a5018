"""The maps that alignment looks for, as small changes of a matrix or as a B-spline of displacements.

Owns: the models' bases, the frames they are written in, and the B-spline's values on pixels.
Must not: see a picture.
Read next: ``newton.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.arguments import check_choice
from pellucid.errors import invalid
from pellucid.types import Size

__all__ = [
    "BENDS", "MODELS", "along", "basis", "bumps", "changed", "corner_distance", "corners", "frame", "grid", "lens_field",
    "level_from_full", "parts_of", "spline_field", "spline_near", "splines",
]  # fmt: skip

_ENTRIES: Final = {
    "translation": (((0, 2, 1.0),), ((1, 2, 1.0),)),
    "similarity": (((0, 2, 1.0),), ((1, 2, 1.0),), ((0, 0, 1.0), (1, 1, 1.0)), ((0, 1, -1.0), (1, 0, 1.0))),
    "affine": tuple(((row, column, 1.0),) for row in (0, 1) for column in (2, 0, 1)),
    "homography": tuple(((row, column, 1.0),) for row in (0, 1, 2) for column in (2, 0, 1) if (row, column) != (2, 2)),
}
"""For each model, the small changes of the identity that span it, as (row, column, value) of their entries."""

MODELS: Final = tuple(_ENTRIES)

BENDS: Final = ("lens", "bspline")
"""Models of displacements that are added to a matrix's map."""


def parts_of(model: str, known: tuple[str, ...] = MODELS, bending: tuple[str, ...] = BENDS) -> tuple[str | None, tuple[str, ...]]:
    """Split a composition into its matrix model, if any, and its bends: ``"affine+lens"`` is an affine map after a lens."""
    parts = model.split("+") if isinstance(model, str) else [model]
    for part in parts:
        check_choice("model", part, (*known, *bending))
    matrices, bends = [part for part in parts if part in known], tuple(part for part in parts if part in bending)
    if len(matrices) > 1 or len(set(bends)) < len(bends):
        words = [f"one {word}" for word in ("matrix", *bending)]
        raise invalid("model", expected=f"{', '.join(words[:-1])} and {words[-1]} at most", got=model)
    return matrices[0] if matrices else None, bends


def basis(model: str, like: Tensor) -> Float[Tensor, "n 9"]:
    """Return the changes that span a model, flattened."""
    entries = _ENTRIES[model]
    rows = like.new_zeros((len(entries), 9))
    for row, changes in zip(rows, entries, strict=True):
        for y, x, value in changes:
            row[3 * y + x] = value
    return rows


def frame(size: Size, like: Tensor) -> Float[Tensor, "3 3"]:
    """Return the matrix from normalised coordinates to pixels: 0 is the centre, and 1 is half the longer side away."""
    half = max(size) / 2
    return like.new_tensor([[half, 0.0, (size[1] - 1) / 2], [0.0, half, (size[0] - 1) / 2], [0.0, 0.0, 1.0]])


def level_from_full(full: Size, level: Size, like: Tensor) -> Float[Tensor, "3 3"]:
    """Return the matrix from a picture's pixels to those of its shrunk copy."""
    y, x = level[0] / full[0], level[1] / full[1]
    return like.new_tensor([[x, 0.0, 0.5 * x - 0.5], [0.0, y, 0.5 * y - 0.5], [0.0, 0.0, 1.0]])


def changed(
    matrix: Float[Tensor, "b 3 3"], change: Float[Tensor, "b n"], spanned: Float[Tensor, "n 9"], pixels: Float[Tensor, "3 3"]
) -> Float[Tensor, "b 3 3"]:
    """Return the matrix after a small change in the normalised frame; its last entry is 1."""
    small = torch.eye(3, dtype=matrix.dtype, device=matrix.device) + (change @ spanned).unflatten(1, (3, 3))
    found = matrix @ pixels @ small @ torch.linalg.inv(pixels)
    return found / found[:, 2:, 2:]


def corners(size: tuple[int, ...], like: Tensor) -> Float[Tensor, "n k"]:
    """Return the centres of a picture's or volume's corner pixels, homogeneous, (x, y) or (x, y, z), one in each column."""
    return torch.cartesian_prod(*(like.new_tensor([0.0, side - 1.0]) for side in reversed(size)), like.new_ones(1)).T


def corner_distance(one: Float[Tensor, "b n n"], other: Float[Tensor, "b n n"], size: tuple[int, ...]) -> Float[Tensor, "b"]:
    """Return the mean distance in pixels between the corners mapped by two maps."""
    a, b = (end[:, :-1] / end[:, -1:] for end in (matrix @ corners(size, one) for matrix in (one, other)))
    return (a - b).norm(dim=1).mean(1)


def grid(size: Sequence[int], like: Tensor) -> tuple[Float[Tensor, "*size"], ...]:
    """Return the coordinates of each pixel or voxel of a picture or volume: x and y, or x, y and z."""
    axes = (torch.arange(side, dtype=like.dtype, device=like.device) for side in size)
    return torch.meshgrid(*axes, indexing="ij")[::-1]


def splines(length: int, spacing: float, like: Tensor) -> Float[Tensor, "length n"]:
    """Return the values of uniform cubic B-splines along an axis of pixels; each row sums to 1."""
    count = int((length - 1) / spacing) + 4
    return bumps(torch.arange(length, dtype=like.dtype, device=like.device) / spacing + 1, count)


def bumps(place: Float[Tensor, "*n"], count: int) -> Float[Tensor, "*n count"]:
    """Return the values at these places of cubic B-splines centred at 0, 1, 2, ..."""
    far = (place[..., None] - torch.arange(count, dtype=place.dtype, device=place.device)).abs()
    near = (4.0 - 6.0 * far**2 + 3.0 * far**3) / 6.0
    return torch.where(far < 1, near, torch.where(far < 2, (2.0 - far) ** 3 / 6.0, 0.0))


def along(values: Float[Tensor, "b k *n"], matrices: Sequence[Float[Tensor, "l n"] | None]) -> Float[Tensor, "b k *l"]:
    """Multiply by one matrix along each of the last axes; None leaves an axis alone."""
    for axis, matrix in reversed(list(enumerate(matrices, values.dim() - len(matrices)))):
        if matrix is not None and axis == values.dim() - 1:
            values = values @ matrix.T
        elif matrix is not None:
            values = (matrix @ values.flatten(axis + 1)).unflatten(axis + 1, values.shape[axis + 1 :])
    return values


def spline_field(control: Float[Tensor, "b k *m"], size: Sequence[int], spacing: float) -> Float[Tensor, "b k *size"]:
    """Return displacements in pixels from control points ``spacing`` pixels apart; linear in the control points."""
    return along(control, [splines(side, spacing, control) for side in size])


def spline_near(field: Float[Tensor, "b k *size"], spacing: float) -> Float[Tensor, "b k *m"]:
    """Return the control points whose field is nearest to this one; those beyond the borders are extrapolated linearly."""
    found = []
    for side in field.shape[2:]:
        weights = splines(side, spacing, field)
        second = torch.diff(torch.eye(weights.shape[1], dtype=field.dtype, device=field.device), n=2, dim=0)
        found.append(torch.linalg.solve(weights.T @ weights + 1e-3 * second.T @ second, weights.T))
    return along(field, found)


def lens_field(lens: Float[Tensor, "b 2"], matrix: Float[Tensor, "b 3 3"], size: Size) -> Float[Tensor, "b 2 h w"]:
    """Return the displacements, in pixels after the matrix, of a lens before it: radius r becomes r (1 + k1 r^2 + k2 r^4).

    Source:
        Brown, Decentering Distortion of Lenses, 1966, without the tangential terms.
    """
    half = max(size) / 2
    middle = lens.new_tensor([[(size[1] - 1) / 2], [(size[0] - 1) / 2]])
    centred = torch.stack(grid(size, lens)).flatten(1) - middle  # 2 n
    far = (centred / half).square().sum(0)
    grown = centred * (1 + lens[:, :1] * far + lens[:, 1:] * far.square())[:, None]  # b 2 n
    ends = [matrix[:, :, :2] @ (place + middle) + matrix[:, :, 2:] for place in (grown, centred)]
    bent, straight = (end[:, :2] / torch.where(end[:, 2:].abs() > 1e-9, end[:, 2:], 1e-9) for end in ends)
    return (bent - straight).unflatten(2, size)

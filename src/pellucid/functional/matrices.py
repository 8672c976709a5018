"""Matrices as users hold them: lists, arrays or tensors, 2x3 or 3x3, one for all images or one for each.

Owns: reading them in full precision, and inverting without an error or a NaN gradient.
Must not: sample.
Read next: ``opencv.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.errors import invalid
from pellucid.functional.fills import read_numbers
from pellucid.geometry.matrices import inverse

__all__ = ["MatrixLike", "full", "guarded", "guarded_inverse", "read_matrix"]

MatrixLike: TypeAlias = Tensor | np.ndarray[Any, Any] | Sequence[Any]


def read_matrix(
    name: str, value: MatrixLike, *, rows: tuple[int, ...], device: torch.device
) -> tuple[Float[Tensor, "b r 3"], bool]:
    """A batch of matrices in float64, connected to the caller's, and whether the caller gave a batch."""
    shapes = " or ".join([f"({row}, 3)" for row in rows])
    expected = f"numbers of shape {shapes}, or {shapes.replace('(', '(B, ')}"
    matrix = read_numbers(name, value, device=device, expected=expected)
    if matrix.dim() not in (2, 3) or matrix.shape[-1] != 3 or matrix.shape[-2] not in rows:
        raise invalid(name, expected=expected, got=f"shape {tuple(matrix.shape)}", fix=_hint(tuple(matrix.shape), rows))
    matrix = matrix.to(wide_dtype(device))
    return (matrix, True) if matrix.dim() == 3 else (matrix[None], False)


def _hint(shape: tuple[int, ...], rows: tuple[int, ...]) -> str:
    if shape[-2:] == (2, 3) and rows == (3,):
        return "For a 2x3 matrix use warp_affine, or append the row (0, 0, 1)."
    return ""


def full(matrix: Float[Tensor, "b r 3"]) -> Float[Tensor, "b 3 3"]:
    """Append the row (0, 0, 1) to 2x3 matrices."""
    if matrix.shape[-2] == 3:
        return matrix
    unit = (torch.arange(3, device=matrix.device) == 2).to(matrix.dtype)
    return torch.cat((matrix, unit.expand(*matrix.shape[:-2], 1, 3)), dim=-2)


def guarded(matrix: Float[Tensor, "b r 3"], dtype: torch.dtype) -> Float[Tensor, "b r 3"]:
    """The matrix in another dtype; all NaN, with zero gradient, where an entry is not finite there.

    Under a NaN matrix every pixel shows the fill value; the entry that was NaN must not make the others' gradient NaN.
    """
    usable = torch.isfinite(matrix.to(dtype)).all(-1, keepdim=True).all(-2, keepdim=True)
    identity = torch.eye(3, dtype=matrix.dtype, device=matrix.device)[: matrix.shape[-2]]
    return torch.where(usable, torch.where(usable, matrix, identity).to(dtype), torch.nan)


def guarded_inverse(matrix: Float[Tensor, "b r 3"], dtype: torch.dtype) -> Float[Tensor, "b r 3"]:
    """The inverse in another dtype, with as many rows; all NaN, with zero gradient, for singular or non-finite matrices."""
    square = full(matrix)
    identity = torch.eye(3, dtype=matrix.dtype, device=matrix.device)
    # The inverse is taken twice: once to see where it exists, once of matrices that all have one.
    usable = torch.isfinite(inverse(square).to(dtype)).all(-1, keepdim=True).all(-2, keepdim=True)
    usable = usable & torch.isfinite(square).all(-1, keepdim=True).all(-2, keepdim=True)
    inverted = inverse(torch.where(usable, square, identity)).to(dtype)
    return torch.where(usable, inverted, torch.nan)[:, : matrix.shape[-2]]

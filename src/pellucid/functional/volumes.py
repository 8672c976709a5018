"""Volumes in space: affine maps and elastic fields.

Owns: `warp3`.
Must not: interpolate; the kernel does.
Read next: ``../kernels/volume/reference.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.arguments import check_choice, whole_number
from pellucid.core.constants import compute_dtype, wide_dtype
from pellucid.errors import invalid, wrong_type
from pellucid.functional.fills import read_numbers
from pellucid.functional.matrices import MatrixLike
from pellucid.kernels.volume import volume as kernel
from pellucid.types import FLOATING

__all__ = ["warp3"]


def warp3(
    volume: Shaped[Tensor, "*b c d h w"],
    src_from_dst: Float[Tensor, "*b 4 4"] | MatrixLike,
    *,
    size: tuple[int, int, int] | None = None,
    control: Float[Tensor, "*b 3 gd gh gw"] | None = None,
    interpolation: Literal["trilinear", "nearest"] = "trilinear",
    padding_mode: Literal["zeros", "border"] = "zeros",
    impl: str = "auto",
) -> Shaped[Tensor, "*b c d2 h2 w2"]:
    """Resample volumes through an affine map in space and an elastic field, with one interpolation.

    Output voxel p takes the value of the input at ``src_from_dst @ (p + d(p))``. The field d is a cubic B-spline that is evaluated
    while the volume is read; no field of the output's size is kept.

    Args:
        volume: (C, D, H, W) or (B, C, D, H, W). 8-bit ones are computed in float32 and rounded; other integers need ``nearest``.
        src_from_dst: output voxel to input voxel, on (x, y, z, 1) with x along the width and z along the depth, voxel centres at
            whole numbers: a tensor, array or nested list, 4x4 (the last row is not read) or 3x4, one for all or one for each.
        size: (depth, height, width) of the result; default that of the volume.
        control: numbers of the spline, along x, y and z in voxels of the output: (3, gd, gh, gw) for all volumes or (B, 3, gd, gh,
            gw), at least 4 along each axis. Along an axis of g numbers, knots lie at the first voxel, at the last, and evenly
            between: the second number to the last but one. Numbers up to 0.40 times the distance of knots do not fold space.
        interpolation: ``trilinear``, or ``nearest`` (floor(x + 0.5)), for labels.
        padding_mode: outside there are ``zeros``, or the nearest voxel (``border``).
        impl: ``auto``, ``reference`` or ``cpu``.

    Returns:
        The warped volume, in the dtype of ``volume``; unbatched when nothing has a batch axis.

    Gradient:
        volume: exact (the adjoint of the forward map). src_from_dst, control: almost everywhere; one-sided where a sampling point
        lies on a voxel's centre; none for ``nearest``. Second order: yes. Deterministic: yes, for any number of threads.
        A matrix with a NaN or infinite entry shows zeros everywhere and has zero gradient.

    Source:
        ``scipy.ndimage.affine_transform`` and ``map_coordinates`` with ``scipy.interpolate.BSpline``, to 1e-12 in float64. Bound:
        Choi and Lee, "Injectivity conditions of 2D and 3D uniform cubic B-spline functions", 2000.

    Example:
        >>> shift = [[1.0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]
        >>> warp3(torch.arange(8.0).reshape(1, 2, 2, 2), shift).flatten()
        tensor([1., 0., 3., 0., 5., 0., 7., 0.])
    """
    check_choice("interpolation", interpolation, ("trilinear", "nearest"))
    check_choice("padding_mode", padding_mode, ("zeros", "border"))
    voxels, batched = _open(volume, interpolation == "nearest")
    maps, many = _read("src_from_dst", src_from_dst, voxels, (2, ((3, 4), (4, 4))), "numbers of shape (4, 4) or (3, 4), or a batch")
    batched |= many
    labels = interpolation == "nearest" and not voxels.is_floating_point()
    work, wide = compute_dtype(voxels.dtype), wide_dtype(voxels.device)
    field: Tensor | None = None
    if control is not None:
        field, many = _read(
            "control", control, voxels, (4, ()), "displacements (3, gd, gh, gw), or a batch, at least 4 along each axis"
        )
        batched |= many
        field = field.to(wide)
    counts = {"src_from_dst": len(maps), "control": 1 if field is None else len(field)}
    rows = len(voxels) if len(voxels) != 1 else max(counts.values())
    for name, count in counts.items():
        if count not in (1, rows):
            raise invalid(name, expected=f"1 or {rows} of them", got=count)
    usable = torch.isfinite(maps).all(-1, keepdim=True).all(-2, keepdim=True)
    maps = torch.where(usable, maps, torch.eye(4, dtype=maps.dtype, device=maps.device)[:3])
    maps = torch.cat((maps[..., :3], torch.where(usable, maps[..., 3:], torch.nan)), -1).to(wide)
    wanted = tuple(voxels.shape[2:]) if size is None else _read_size(size)
    pixels = (voxels if labels else voxels.to(work)).expand(rows, *voxels.shape[1:])
    options: dict[str, Any] = {"border": padding_mode == "border", "nearest": interpolation == "nearest"}
    out = kernel(pixels, maps, field, size=(wanted[0], wanted[1], wanted[2]), impl=impl, **options)
    out = (torch.round(out) if volume.dtype == torch.uint8 and not labels else out).to(volume.dtype)
    return out if batched else out[0]


def _open(volume: object, nearest: bool) -> tuple[Tensor, bool]:
    if not isinstance(volume, Tensor):
        raise wrong_type("volume", expected="a tensor", got=type(volume).__name__)
    if volume.dim() not in (4, 5) or min(volume.shape[-4:]) < 1:
        raise invalid("volume", expected="(C, D, H, W) or (B, C, D, H, W)", got=f"shape {tuple(volume.shape)}")
    if not (volume.dtype in FLOATING or volume.dtype == torch.uint8 or (nearest and not volume.dtype.is_floating_point)):
        fix = "Labels must not be averaged: interpolation='nearest'."
        raise wrong_type("volume", expected="floating-point or uint8 voxels", got=volume.dtype, fix=fix)
    return (volume, True) if volume.dim() == 5 else (volume[None], False)


def _read(
    name: str, value: MatrixLike, like: Tensor, shape: tuple[int, tuple[tuple[int, int], ...]], expected: str
) -> tuple[Tensor, bool]:
    """Numbers with a batch axis, and whether they came with one."""
    axes, ends = shape
    found = read_numbers(name, value, device=like.device, expected=expected)
    inner = tuple(found.shape[found.dim() - axes :])
    fits = inner in ends if ends else len(inner) == axes and inner[0] == 3 and min(inner[1:]) >= 4
    if found.dim() not in (axes, axes + 1) or not fits or not found.numel():
        raise invalid(name, expected=expected, got=f"shape {tuple(found.shape)}")
    found = found[..., :3, :] if ends else found
    return (found, True) if found.dim() == axes + 1 else (found[None], False)


def _read_size(size: object) -> tuple[int, ...]:
    if not isinstance(size, Sequence) or isinstance(size, str) or len(size) != 3:
        raise invalid("size", expected="(depth, height, width)", got=repr(size))
    return tuple(whole_number("size", length, 1, 1 << 24) for length in size)

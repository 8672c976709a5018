"""Thin plate splines and grid distortion by control points or lengths that the caller gives.

Owns: `thin_plate_spline`, `grid_distortion`.
Must not: have a formula; the transforms of the same effects do.
Read next: ``remap.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.errors import invalid
from pellucid.functional.fills import read_numbers
from pellucid.functional.images import CHANNELS_LAST, spec_of
from pellucid.functional.remap import remap
from pellucid.functional.warps import CvOptions
from pellucid.geometry.bends import displaced
from pellucid.transforms.grid import stretched
from pellucid.transforms.waves import bent_plate, spacing_of_points

__all__ = ["grid_distortion", "thin_plate_spline"]


def thin_plate_spline(
    image: Shaped[Tensor, "..."], displacement: Float[Tensor, "*b 2 n n"], **options: Unpack[CvOptions]
) -> Shaped[Tensor, "..."]:
    """Warp the image by a thin plate spline through displaced control points.

    The control points form an even grid, the outer ones on the image's border; the spline is taken in coordinates in which
    neighbours are 1 apart along both axes.

    Args:
        image: as in :func:`remap`.
        displacement: (2, n, n) or (B, 2, n, n), x then y, in pixels: each control point shows the pixel that lies so far from it; n
            from 2 to 8.

    Gradient:
        image: exact. displacement: almost everywhere; surrogate where the options say so, as in :func:`remap`.

    Errors:
        ``InvalidArgument`` and ``InvalidType`` for shapes, dtypes and options that do not fit. A map that folds raises nothing.

    Source:
        ``scipy.interpolate.RBFInterpolator("thin_plate_spline", degree=1)``; Bookstein, 1989.

    Example:
        >>> image = torch.rand(3, 16, 20)
        >>> torch.equal(thin_plate_spline(image, torch.zeros(2, 3, 3)), image)
        True
    """
    spec, device = spec_of(image, options.get("channels_last"), CHANNELS_LAST), image.device
    expected = "numbers of shape (2, n, n) or (B, 2, n, n), n from 2 to 8"
    moved = read_numbers("displacement", displacement, device=device, expected=expected)
    points = moved.shape[-1] if moved.dim() else 0
    if moved.dim() not in (3, 4) or moved.shape[-3:] != (2, points, points) or not 2 <= points <= 8:
        raise invalid("displacement", expected=expected, got=f"shape {tuple(moved.shape)}")
    moved = moved.to(wide_dtype(device))
    x, y = (torch.arange(int(length), dtype=moved.dtype, device=device) - (int(length) - 1) / 2 for length in spec.size[::-1])
    spacing = spacing_of_points(points, spec)
    shares = moved / torch.tensor(spacing, dtype=moved.dtype, device=device)[:, None, None]
    found = bent_plate(shares if moved.dim() == 4 else shares[None], x[None, None], y[None, :, None], spacing)
    return remap(image, *(part if moved.dim() == 4 else part[0] for part in found), relative=True, **options)


def grid_distortion(
    image: Shaped[Tensor, "..."],
    rows: Float[Tensor, "*b n"] | Sequence[float],
    columns: Float[Tensor, "*b m"] | Sequence[float],
    **options: Unpack[CvOptions],
) -> Shaped[Tensor, "..."]:
    """Divide the canvas into equal cells; each row and each column of cells shows a strip of the image of its own length.

    Args:
        image: as in :func:`remap`.
        rows: (n,) or (B, n), above 0: the lengths, relative to one another, of the strips that rows of cells show; n at least 2.
        columns: (m,) or (B, m), likewise.

    The map is linear within a cell, along each axis for itself. The image's border stays.

    Gradient:
        image: exact. rows, columns: almost everywhere; surrogate where the options say so, as in :func:`remap`.

    Source:
        ``numpy.interp`` along each axis.

    Example:
        >>> row = torch.tensor([[[0.0, 1.0, 2.0, 3.0, 4.0]]])
        >>> grid_distortion(row, [1.0, 1.0], [3.0, 1.0])
        tensor([[[0.0000, 1.5000, 3.0000, 3.5000, 4.0000]]])
    """
    spec, device = spec_of(image, options.get("channels_last"), CHANNELS_LAST), image.device
    lengths = []
    for name, value in (("rows", rows), ("columns", columns)):
        expected = "numbers of shape (n,) or (B, n), n at least 2"
        read = read_numbers(name, value, device=device, expected=expected)
        if read.dim() not in (1, 2) or read.shape[-1] < 2:
            raise invalid(name, expected=expected, got=f"shape {tuple(read.shape)}")
        if not isinstance(value, Tensor) and not bool((read > 0).all()):
            raise invalid(name, expected="lengths above 0", got=repr(value))
        lengths.append(read.to(wide_dtype(device)))
    batched = any(length.dim() == 2 for length in lengths)
    count = max(len(length) if length.dim() == 2 else 1 for length in lengths)
    down, across = (length.expand(count, -1) if length.dim() < 2 or len(length) == 1 else length for length in lengths)
    if len(down) != len(across):
        raise invalid("rows, columns", expected="as many of both", got=f"{len(down)} and {len(across)}")
    bend = stretched(down, across, spec)
    height, width = (int(length) for length in spec.size)
    x, y = (torch.arange(length, dtype=down.dtype, device=device)[None] for length in (width, height))
    # Along either axis the map is the same on every line: one row of points, and one column.
    map_x = displaced(x, torch.zeros_like(x), bend)[0][:, None].expand(-1, height, -1)
    map_y = displaced(torch.zeros_like(y), y, bend)[1][:, :, None].expand(-1, -1, width)
    return remap(image, *(part if batched else part[0] for part in (map_x, map_y)), **options)

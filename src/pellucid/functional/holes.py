"""Several rectangles painted over: anywhere, or in a grid.

Owns: `coarse_dropout`, `grid_dropout`.
Must not: touch pixels; `erase` does.
Read next: ``filters.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pellucid.core.formerly import formerly
from pellucid.errors import invalid
from pellucid.functional.fills import Factor, FillValue, read_factor, read_numbers
from pellucid.functional.filters import erase
from pellucid.functional.images import spec_of
from pellucid.transforms.holes import CoarseDropout, GridDropout

__all__ = ["coarse_dropout", "grid_dropout"]


@formerly("height", "width", value="fill")
def coarse_dropout(
    image: Shaped[Tensor, "*b c h w"],
    x: Float[Tensor, "*b n"] | Sequence[float],
    y: Float[Tensor, "*b n"] | Sequence[float],
    *,
    height: Factor = 0.2,
    width: Factor = 0.2,
    fill: FillValue = 0.0,
    inside: bool = True,
) -> Shaped[Tensor, "*b c h w"]:
    """Paint several rectangles of one size over: Cutout where there is one.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        x, y: where they lie, (N,) or (B, N), from 0 to 1: from touching the left (top) edge to touching the right (bottom) one.
        height, width: of each, as fractions of the image's, 0 to 1: a number or a tensor () or (B,).
        fill: as in :func:`erase`.
        inside: whole holes lie in the image; False: x and y are their centres, as fractions of the image, whose border cuts them.

    Gradient:
        image, fill: exact. x, y, height, width: almost everywhere.

    Source:
        An assignment in numpy, for rectangles of whole pixels. DeVries and Taylor, 2017, with ``inside=False``.

    Example:
        >>> coarse_dropout(torch.ones(1, 1, 5), [0.0, 0.75], [0.0, 0.0], height=1.0, width=0.2)
        tensor([[[0., 1., 1., 0., 1.]]])
    """
    spec, device = spec_of(image), image.device
    places = []
    for name, given in (("x", x), ("y", y)):
        expected = "numbers of shape (N,) or (B, N)"
        read = read_numbers(name, given, device=device, expected=expected)
        if read.dim() not in (1, 2):
            raise invalid(name, expected=expected, got=f"shape {tuple(read.shape)}")
        places.append(read)
    if places[0].shape != places[1].shape:
        raise invalid("x, y", expected="one shape", got=f"{tuple(places[0].shape)} and {tuple(places[1].shape)}")
    limits = {"height": (height, 0.0, 1.0), "width": (width, 0.0, 1.0)}
    numbers, batched = _numbers(limits, device, x=places[0], y=places[1])
    numbers["count"] = torch.full((1,), places[0].shape[-1], device=device)
    return _erased(image, CoarseDropout(inside=inside).boxes(numbers, spec), batched, fill)


@formerly("x", "y", value="fill")
def grid_dropout(
    image: Shaped[Tensor, "*b c h w"],
    cells: Factor = 5.0,
    ratio: Factor = 0.5,
    *,
    x: Factor = 0.0,
    y: Factor = 0.0,
    fill: FillValue = 0.0,
) -> Shaped[Tensor, "*b c h w"]:
    """Paint a regular grid of rectangles over.

    Args:
        image: (C, H, W) or (B, C, H, W), floating point or uint8.
        cells: how many fit across the image, along each axis, 1 to 32: a number or a tensor () or (B,). Cells have the image's own
            proportions.
        ratio: side of a hole relative to its cell's, 0 to 1, likewise.
        x, y: where the grid begins, in cells from 0 to 1, likewise.
        fill: as in :func:`erase`.

    Returns:
        The image with holes, in the dtype of ``image``. Pixels cut by an edge are mixed by the share covered.

    Gradient:
        image, fill: exact. cells, ratio, x, y: almost everywhere.

    Source:
        An assignment in numpy, for holes of whole pixels. Chen et al., "GridMask data augmentation", 2020, without its rotation.

    Example:
        >>> grid_dropout(torch.ones(1, 1, 4), 2.0, 0.5)
        tensor([[[0.5000, 1.0000, 0.5000, 1.0000]]])
    """
    spec, device = spec_of(image), image.device
    limits = {"cells": (cells, 1.0, 32.0), "ratio": (ratio, 0.0, 1.0), "x": (x, 0.0, 1.0), "y": (y, 0.0, 1.0)}
    numbers, batched = _numbers(limits, device)
    most = (float(cells), float(cells)) if isinstance(cells, int | float) else (1.0, 32.0)
    boxes = GridDropout(cells=most).boxes(numbers, spec)
    return _erased(image, boxes, batched, fill)


def _erased(image: Tensor, boxes: Float[Tensor, "b n 4"], batched: bool, fill: FillValue) -> Tensor:
    """Erase the holes; the result has a batch axis if the image, the holes (``batched``) or the fill has one."""
    found = erase(image, boxes, fill=fill)
    several = batched or len(found) > 1 or (isinstance(fill, Tensor) and fill.dim() in (2, 4))
    return found if image.dim() == 4 or several else found[0]


def _numbers(
    limits: dict[str, tuple[Factor, float, float]], device: torch.device, **places: Tensor
) -> tuple[dict[str, Tensor], bool]:
    """Each named number (value, least, most) and the places (N,) or (B, N) as rows per image, and whether any has a batch axis."""
    found, some = dict(places), any(place.dim() == 2 for place in places.values())
    for name, (given, low, high) in limits.items():
        if isinstance(given, int | float) and not low <= given <= high:
            raise invalid(name, expected=f"a number from {low:g} to {high:g}", got=given)
        found[name], batched = read_factor(name, given, device=device)
        some |= batched
    rows = {name: read[None] if name in places and read.dim() == 1 else read for name, read in found.items()}
    count = max(len(read) for read in rows.values())
    for name, read in rows.items():
        if len(read) not in (1, count):
            raise invalid(name, expected=f"1 or {count} of them, as there are {count} of others", got=len(read))
    return {name: read.expand(count, *read.shape[1:]) for name, read in rows.items()}, some

"""How much of each pixel polygons cover, in plain PyTorch: the specification.

Owns: the pieces that pixels cut edges into, what each adds, and which windings count as covered.
Must not: know holes from parts; a hole runs against its part.
Read next: ``../../geometry/polygons.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.core.constants import wide_dtype
from pellucid.geometry.polygons import edges, signed_areas
from pellucid.types import Size

__all__ = ["coverage", "winding"]

_ROUNDING = 1e-6  # windings of the wrong sign up to this size are rounding, and count as 0


def coverage(points: Float[Tensor, "b v 2"], *, size: Size) -> Float[Tensor, "b h w"]:
    """How often polygons wind around each pixel in the mean, in either direction, at most 1.

    Args:
        points: corners in pixel edges, anywhere; a row that is not finite ends a ring.
        size: (height, width) of the picture.

    Gradient:
        points: almost everywhere; one-sided where an edge lies on the border of pixels. Twice differentiable.
    Source:
        Areas of intersections with each pixel, by shapely; signed areas as in FreeType's smooth rasteriser.
    """
    wide = points.to(wide_dtype(points.device))
    way = torch.where(signed_areas(wide) > 0, -1.0, 1.0).to(wide.dtype)[:, None, None]
    wound = winding(wide, size=size) * way
    # There is a slope at 0, as an edge on the border of a pixel may grow into it, but none where rounding fell below 0.
    wound = torch.where(wound < -_ROUNDING, -wound, torch.where(wound < 0, 0.0, wound))
    return torch.where(wound > 1.0, 1.0, wound).to(points.dtype)


def winding(points: Float[Tensor, "b v 2"], *, size: Size) -> Float[Tensor, "b h w"]:
    """The mean winding number of each pixel: an edge adds to the pixels it crosses, and its height to all to the right."""
    height, width = size
    start, end, _ = edges(points)
    share = torch.cat([_crossings(start[..., i], end[..., i], length) for i, length in ((0, width), (1, height))], -1)
    share = torch.sort(torch.nn.functional.pad(share, (0, 1), value=1.0), -1).values  # b v k, the first is 0
    x, y = (start[..., i, None] + share * (end - start)[..., i, None] for i in (0, 1))
    x, y = x.clamp(0.0, float(width)), y.clamp(0.0, float(height))  # edges beside the picture count as on its border
    fall = y.diff(dim=-1)  # b v k-1
    across, down = (x[..., 1:] + x[..., :-1]) / 2.0, (y[..., 1:] + y[..., :-1]) / 2.0
    column, row = (torch.floor(part).long().clamp(0, n - 1) for part, n in ((across, width), (down, height)))
    right = (across - column) * fall
    place = row * (width + 1) + column
    sums = x.new_zeros((len(points), height * (width + 1)))
    sums = sums.scatter_add(1, place.flatten(1), (fall - right).flatten(1)).scatter_add(1, place.flatten(1) + 1, right.flatten(1))
    return sums.unflatten(1, (height, width + 1)).cumsum(-1)[..., :-1]


def _crossings(start: Float[Tensor, "b v"], end: Float[Tensor, "b v"], length: int) -> Float[Tensor, "b v n"]:
    """At which shares of its length an edge crosses the lines between pixels; 0 or 1 for those that it does not."""
    lines = torch.arange(length + 1, dtype=start.dtype, device=start.device)
    along = end - start
    flat = along == 0.0
    share = (lines - start[..., None]) / torch.where(flat, 1.0, along)[..., None]
    return torch.where(flat[..., None], 0.0, share.clamp(0.0, 1.0))

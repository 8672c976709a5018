"""Polygons as masks, boxes and areas.

Owns: `rasterize`, `polygon_areas`, `polygon_boxes`.
Must not: move polygons; `Pipeline` does.
Read next: ``../geometry/polygons.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.boxes import BoxFormat, convert_boxes
from pellucid.boxes.outlines import least
from pellucid.errors import invalid, wrong_type
from pellucid.geometry.polygons import as_rows, edges, hulls, signed_areas
from pellucid.kernels.polygons import coverage
from pellucid.transforms.base import as_size
from pellucid.types import Size

__all__ = ["polygon_areas", "polygon_boxes", "rasterize"]

Polygons: TypeAlias = Tensor | Sequence[Any]


def rasterize(polygons: Polygons, size: Size, *, impl: str = "auto") -> Float[Tensor, "*b h w"]:
    """Say how much of each pixel polygons cover, exactly: areas of intersections, not samples.

    Args:
        polygons: (..., V, 2), corners (x, y) in pixel edges, anywhere, the first pixel from (0, 0) to (1, 1); a row of NaN ends a
            ring. Or a list of the polygons of one picture, each a tensor or array (V, 2), ``[x, y, x, y, ...]``, a list of such
            rings (COCO's parts), or a list of parts ``[outer, hole, ...]``.
        size: (height, width).

    Returns:
        A mask of each polygon in [0, 1], (..., H, W) or (N, H, W), in the dtype of ``polygons``; 16-bit floats give float32.
        A pixel counts as covered where the rings wind around it, in either direction. A hole must run against its part; in lists,
        rings are turned so. Parts that overlap count once; pixels that edges of two parts share hold the sum of both, at most 1.

    Gradient:
        polygons: almost everywhere; one-sided where an edge lies on the border of pixels. Second order: through
        ``impl="reference"``. Deterministic: yes, on the CPU.

    Source:
        Areas of intersections by shapely, to 1e-12. Signed areas of edges, as in FreeType's smooth rasteriser; the gradient is the
        incoming one integrated along the edges (the derivative of an area with its border).

    Example:
        >>> rasterize(torch.tensor([[0.5, 0.0], [3.0, 0.0], [3.0, 1.0], [0.5, 1.0]]), (1, 4))
        tensor([[0.5000, 1.0000, 1.0000, 0.0000]])
        >>> square, hole = [0, 0, 3, 0, 3, 3, 0, 3], [1, 1, 2, 1, 2, 2, 1, 2]
        >>> rasterize([[[square, hole]]], (3, 3))
        tensor([[[1., 1., 1.],
                 [1., 0., 1.],
                 [1., 1., 1.]]])
    """
    points = _read(polygons)
    height, width = as_size("size", size)
    covered = coverage(points[None].flatten(0, -3), size=(height, width), impl=impl)
    return covered.reshape(*points.shape[:-2], height, width)


def polygon_areas(polygons: Polygons) -> Float[Tensor, "*b"]:
    """Square pixels inside of polygons, their holes left out.

    Args:
        polygons: as in `rasterize`.

    Returns:
        One number each; parts that overlap count twice.

    Gradient:
        polygons: exact, but where the area is 0.

    Source:
        Green's theorem.

    Example:
        >>> polygon_areas([[0, 0, 4, 0, 0, 3]])
        tensor([6.])
    """
    return signed_areas(_read(polygons)).abs()


def polygon_boxes(
    polygons: Polygons,
    *,
    format: BoxFormat = "xyxy",  # noqa: A002 - the word users know
    reading: bool = False,
) -> Float[Tensor, "*b k"]:
    """The least boxes around polygons, in pixel edges.

    Args:
        polygons: as in `rasterize`.
        format: ``xyxy``, ``xywh`` or ``cxcywh`` for upright boxes; ``cxcywhr`` for boxes of the least area, whose angle (radians,
            counter-clockwise) is an eighth of a turn at most.
        reading: of ``cxcywhr``: the width lies along the first edge, from the first corner on, as text does; any angle.

    Returns:
        One box each; zeros for a polygon without corners.

    Gradient:
        polygons: almost everywhere (which corner is leftmost can change).

    Source:
        The least and the greatest coordinates; ``shapely.minimum_rotated_rectangle``.

    Example:
        >>> polygon_boxes([[1, 0, 4, 0, 2, 3]])
        tensor([[1., 0., 4., 3.]])
        >>> polygon_boxes([[2, 9, 2, 1, 4, 1, 4, 9]], format="cxcywhr", reading=True)  # a word that is read upwards
        tensor([[3.0000, 5.0000, 8.0000, 2.0000, 1.5708]])
    """
    points = _read(polygons)
    if format != "cxcywhr":
        return convert_boxes(hulls(points), "xyxy", format)
    corners, _, real = edges(points)
    if points.shape[-2] == 0:
        return points.new_zeros((*points.shape[:-2], 5))
    first = torch.take_along_dim(corners, real.long().argmax(-1)[..., None, None], -2)
    full = torch.where(real[..., None], corners, first)[None].flatten(0, -3)
    boxes = least(full[None])[0].reshape(*points.shape[:-2], 5)
    return _along_first(boxes, points) if reading else boxes


def _along_first(boxes: Float[Tensor, "*b 5"], points: Float[Tensor, "*b v 2"]) -> Float[Tensor, "*b 5"]:
    """The same boxes, turned by quarters until the width lies along the first edge."""
    start, end, _ = edges(points)
    x, y = (end - start)[..., 0, :].detach().unbind(-1)
    turns = ((torch.atan2(-y, x) - boxes[..., 4].detach()) / (torch.pi / 2)).round()
    width, height = (torch.where(turns % 2 == 1, boxes[..., b], boxes[..., a]) for a, b in ((2, 3), (3, 2)))
    return torch.stack((boxes[..., 0], boxes[..., 1], width, height, boxes[..., 4] + turns * (torch.pi / 2)), -1)


def _read(polygons: Polygons) -> Float[Tensor, "*b v 2"]:
    """Polygons as one tensor in float32 or float64."""
    name = "polygons"
    if isinstance(polygons, list | tuple):
        points = as_rows(name, polygons)
    elif isinstance(polygons, Tensor | np.ndarray):
        points = polygons if isinstance(polygons, Tensor) else torch.as_tensor(polygons, device="cpu")
    else:
        raise wrong_type(name, expected="a tensor (..., V, 2), or a list of polygons", got=type(polygons).__name__)
    if points.dim() < 2 or points.shape[-1] != 2:
        raise invalid(name, expected="shape (..., V, 2): corners (x, y)", got=f"shape {tuple(points.shape)}")
    return points if points.dtype in (torch.float32, torch.float64) else points.to(torch.float32)

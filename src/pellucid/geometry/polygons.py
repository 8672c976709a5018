"""Polygons and lines as rows of corners (..., v, 2) in which a row of NaN ends a ring, or a line.

Owns: the order of corners in rings, areas, lengths and hulls, and reading polygons from lists.
Must not: know pictures or targets.
Read next: ``clipping.py``, ``../kernels/polygons/reference.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from pellucid.core.arguments import is_number
from pellucid.errors import invalid, wrong_type

__all__ = [
    "as_rows", "edges", "extents", "following", "hulls", "lengths", "of_one_length", "polygon_of", "rings_of", "signed_areas",
    "stacked",
]  # fmt: skip


def edges(
    points: Float[Tensor, "*b v 2"], *, closed: bool = True
) -> tuple[Float[Tensor, "*b v 2"], Float[Tensor, "*b v 2"], Bool[Tensor, "*b v"]]:
    """Return each corner, the next corner of its ring, and whether the row is a corner; rows that are not finite give zeros.

    In a line (not ``closed``), the next corner of the last one is itself.

    Gradient:
        points: exact.
    """
    present = torch.isfinite(points).all(-1)
    corners = torch.where(present[..., None], points, 0.0)
    ahead = torch.take_along_dim(corners, following(present, closed=closed)[..., None], -2)
    return corners, torch.where(present[..., None], ahead, 0.0), present


def following(present: Bool[Tensor, "*b v"], *, closed: bool = True) -> Int64[Tensor, "*b v"]:
    """Return for each row the row of the next corner of its ring, given which rows are corners."""
    place = torch.arange(present.shape[-1], device=present.device).expand(present.shape)
    if not closed:
        return torch.where(F.pad(present, (0, 1))[..., 1:], place + 1, place)
    begins = present & ~F.pad(present, (1, 0))[..., :-1]
    first = torch.cummax(torch.where(begins, place, 0), -1).values
    return torch.where(F.pad(present, (0, 1))[..., 1:], place + 1, first)


def signed_areas(points: Float[Tensor, "*b v 2"]) -> Float[Tensor, "*b"]:
    """Return areas in square pixels; negative for polygons whose parts run counter-clockwise on screen.

    Gradient:
        points: exact.
    """
    start, end, _ = edges(points)
    middle = start[..., :1, :]  # as the origin: far from (0, 0) the products would cancel badly
    (x0, y0), (x1, y1) = ((one - middle).unbind(-1) for one in (start, end))
    return (x0 * y1 - x1 * y0).sum(-1) / 2.0


def lengths(lines: Float[Tensor, "*b v 2"]) -> Float[Tensor, "*b"]:
    """Return the lengths of lines in pixels.

    Gradient:
        lines: exact; zero for a segment of length 0.
    """
    start, end, _ = edges(lines, closed=False)
    return torch.linalg.vector_norm(end - start, dim=-1).sum(-1)


def extents(points: Float[Tensor, "*b v 2"], *, closed: bool = True) -> Float[Tensor, "*b"]:
    """Return the areas of polygons in square pixels, or the lengths of lines in pixels."""
    return signed_areas(points).abs() if closed else lengths(points)


def hulls(points: Float[Tensor, "*b v 2"]) -> Float[Tensor, "*b 4"]:
    """Return the upright boxes (x0, y0, x1, y1) around polygons; zeros for polygons without corners.

    Gradient:
        points: almost everywhere (which corner is leftmost can change).
    """
    present = torch.isfinite(points).all(-1, keepdim=True)
    low, high = (torch.where(present, points, end).movedim(-2, 0) for end in (torch.inf, -torch.inf))
    some = present.any(-2)
    return torch.cat([torch.where(some, one, 0.0) for one in (low.amin(0), high.amax(0))], -1)


def rings_of(polygon: Float[Tensor, "v 2"]) -> list[Float[Tensor, "_ 2"]]:
    """Split one polygon into its rings, without rows of NaN."""
    present = torch.isfinite(polygon).all(-1)
    number = (present & ~F.pad(present, (1, 0))[..., :-1]).cumsum(-1)
    return [polygon[present & (number == k)] for k in range(1, int(number[-1]) + 1)] if len(polygon) else []


def as_rows(name: str, value: Any, form: str = "polygon") -> Float[Tensor, "n v 2"]:
    """Turn the polygons, lines or quadrilaterals of one picture into a tensor; each may have any form that `polygon_of` reads."""
    if isinstance(value, Tensor):
        return value
    rows = stacked([polygon_of(f"{name}[{i}]", one, form) for i, one in enumerate(value)])
    return rows.new_zeros((0, 4, 2)) if form == "quad" and not len(rows) else rows


def stacked(polygons: Sequence[Float[Tensor, "_ 2"]]) -> Float[Tensor, "n v 2"]:
    """Stack polygons with different numbers of corners into one tensor."""
    return torch.stack(of_one_length(polygons)) if polygons else torch.zeros((0, 0, 2), device="cpu")


def of_one_length(parts: Sequence[Float[Tensor, "..."]]) -> list[Float[Tensor, "..."]]:
    """Pad polygons (..., v, 2) with rows of NaN to the length of the longest."""
    most = max((part.shape[-2] for part in parts), default=0)
    return [F.pad(part, (0, 0, 0, most - part.shape[-2]), value=torch.nan) for part in parts]


_FORMS = "a tensor (V, 2), [x, y, x, y, ...], a list of such rings (COCO), or a list of parts [outer, hole, ...]"
_LEAST = {
    "polygon": (3, "rings of at least three corners"),
    "line": (2, "lines of at least two points"),
    "quad": (4, "four corners"),
}


def polygon_of(name: str, value: Any, form: str = "polygon") -> Float[Tensor, "v 2"]:
    """Read one polygon, line or quadrilateral from a tensor, an array or a list, as rows of corners.

    Args:
        name: of the argument, for errors.
        value: a tensor (V, 2); a ring as x, y, x, y, ... or as rows; a list of rings, each a part; or a list of parts, each a list
            of an outer ring and its holes. Rings are reversed if needed: parts run in the direction of the first part, holes
            against it.
        form: ``polygon``, ``line`` or ``quad``; the pieces of a line keep their direction.
    """
    if isinstance(value, Tensor | np.ndarray) or _is_ring(value):
        return _ring(name, value, form)
    if not isinstance(value, list | tuple):
        fix = "Run lengths are masks: decode them, and pass them as such." if hasattr(value, "keys") else ""
        raise wrong_type(name, expected=_FORMS, got=f"{value!r:.60}", fix=fix)
    parts = [[part] if isinstance(part, Tensor | np.ndarray) or _is_ring(part) else part for part in value]
    rings, holes = [], []
    for part in parts:
        if not isinstance(part, list | tuple):
            raise wrong_type(name, expected=_FORMS, got=f"{value!r:.60}")
        rings += [_ring(name, ring, form) for ring in part]
        holes += [k > 0 for k in range(len(part))]
    if not rings and form == "polygon":  # an empty polygon
        return torch.zeros((0, 2), device="cpu")
    if len(rings) < 2 or form == "quad":
        return rings[0] if len(rings) == 1 else _ring(name, torch.cat(rings or [torch.zeros((0, 2), device="cpu")]), form)
    if form == "polygon":
        sense = signed_areas(rings[0]) > 0
        rings = [_running(ring, sense != hole) for ring, hole in zip(rings, holes, strict=True)]
    return torch.cat([row for ring in rings for row in (ring, ring.new_full((1, 2), torch.nan))][:-1])


def _is_ring(value: object) -> bool:
    """Return whether this is a list of numbers or of pairs of numbers; [[x, y, x, y, ...]] is a list of one ring."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(map(is_number, value)) or all(
        isinstance(row, list | tuple) and len(row) == 2 and all(map(is_number, row)) for row in value
    )


def _ring(name: str, value: Any, form: str) -> Float[Tensor, "v 2"]:
    if not (isinstance(value, Tensor | np.ndarray) or _is_ring(value)):
        raise wrong_type(name, expected=_FORMS, got=f"{value!r:.60}")
    if not isinstance(value, Tensor):
        value = torch.as_tensor(np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value, device="cpu")
    points: Tensor = value
    points = points if points.is_floating_point() else points.to(torch.float32)
    if points.dim() == 1 and len(points) % 2 == 0:
        points = points.reshape(-1, 2)
    least, words = _LEAST[form]
    if points.dim() != 2 or points.shape[-1] != 2 or len(points) < least or (form == "quad" and len(points) > least):
        forms = _FORMS if form == "polygon" else "a tensor (V, 2), or [x, y, x, y, ...]"
        raise invalid(name, expected=f"{words}: {forms}", got=f"numbers of shape {tuple(points.shape)}")
    return points


def _running(ring: Float[Tensor, "v 2"], clockwise: Tensor) -> Float[Tensor, "v 2"]:
    """Reverse the ring if it does not run in this direction; its first corner stays."""
    turned = torch.cat((ring[:1], ring[1:].flip(0)))
    return torch.where((signed_areas(ring) > 0) == clockwise, ring, turned)

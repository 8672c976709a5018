"""Outlines of objects: cut to the picture, measured, and as run lengths.

Owns: plain geometry of polygons and masks on NumPy arrays.
Must not: know of files.
Read next: ``annotations.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.rows import numbers
from pellucid.errors import invalid
from pellucid.types import Size

__all__ = ["area", "clipped", "outline", "rle_of", "unpacked_rle"]


def clipped(points: NDArray[Any], size: Size) -> NDArray[Any]:
    """A polygon (n, 2) of edges' coordinates, cut to the picture of this (height, width); no points where nothing is left.

    Errors:
        InvalidArgument for corners that a homography sent beyond the horizon: what is left has no outline.
    Source:
        Sutherland and Hodgman, Reentrant polygon clipping, 1974: one half-plane after the other.
    """
    if not np.isfinite(points).all():
        raise invalid("an outline", expected="corners that the pipeline leaves finite", got="one beyond the horizon")
    for axis, bound, sign in ((0, 0.0, 1.0), (1, 0.0, 1.0), (0, float(size[1]), -1.0), (1, float(size[0]), -1.0)):
        if not len(points):
            break
        inside = sign * (points[:, axis] - bound)
        corners = []
        for i in range(len(points)):
            before, here = inside[i - 1], inside[i]
            if (before < 0.0) != (here < 0.0):
                crossing = points[i - 1] + (points[i] - points[i - 1]) * (before / (before - here))
                crossing[axis] = bound  # not a rounding beside it
                corners.append(crossing)
            if here >= 0.0:
                corners.append(points[i])
        points = np.array(corners).reshape(-1, 2)
    return points


def outline(name: str, value: object) -> NDArray[Any]:
    """A polygon (n, 2) of a list x1, y1, x2, y2, ..."""
    expected = "polygons [x1, y1, x2, y2, x3, y3, ...] of at least three corners"
    flat = numbers(name, value, expected)
    if len(flat) < 6 or len(flat) % 2:
        raise invalid(name, expected=expected, got=f"{len(flat)} numbers")
    return np.array(flat).reshape(-1, 2)


def area(polygon: NDArray[Any]) -> float:
    """Square pixels inside of a polygon (n, 2)."""
    x, y = polygon.T
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2.0)


def rle_of(mask: NDArray[Any]) -> dict[str, Any]:
    """Run lengths of a mask (H, W) column by column, zeros first, as COCO stores crowds."""
    flat = np.concatenate(([0], (mask.T.reshape(-1) != 0).astype(np.int8), [2]))
    ends = np.flatnonzero(np.diff(flat))
    return {"counts": np.diff(np.concatenate(([0], ends))).tolist(), "size": list(mask.shape)}


def unpacked_rle(value: Mapping[str, Any], size: Size, name: str) -> NDArray[np.uint8]:
    """The mask (H, W) of such run lengths."""
    counts, said = value.get("counts"), value.get("size")
    right = isinstance(counts, list) and all(type(count) is int and count >= 0 for count in counts)
    if not right or sum(counts) != size[0] * size[1]:  # type: ignore[arg-type]  # a list, as checked
        got = "a compressed text" if isinstance(counts, str) else f"{counts!r:.60}"
        raise invalid(f"{name}: counts", expected=f"uncompressed run lengths of {size[0]}x{size[1]} pixels", got=got)
    if said != list(size):
        raise invalid(f"{name}: size", expected=f"that of its picture, {list(size)}", got=f"{said!r:.60}")
    assert isinstance(counts, list)
    return np.repeat(np.arange(len(counts)) % 2, counts).astype(np.uint8).reshape(size[::-1]).T

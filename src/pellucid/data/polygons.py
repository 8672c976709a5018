"""Outlines and run lengths of objects, as files have them.

Owns: reading both, on NumPy arrays.
Must not: know of files.
Read next: ``../geometry/polygons.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.data.rows import numbers
from pellucid.errors import invalid
from pellucid.types import Size

__all__ = ["outline", "rle_of", "unpacked_rle"]


def outline(name: str, value: object) -> NDArray[Any]:
    """A polygon (n, 2) of a list x1, y1, x2, y2, ..."""
    expected = "polygons [x1, y1, x2, y2, x3, y3, ...] of at least three corners"
    flat = numbers(name, value, expected)
    if len(flat) < 6 or len(flat) % 2:
        raise invalid(name, expected=expected, got=f"{len(flat)} numbers")
    return np.array(flat).reshape(-1, 2)


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

"""The contract between lowering and the compiled operations on bytes: their numbers.

Owns: kinds, how many numbers each has, and the memory of a thread.
Must not: import a compiler.
Read next: ``sweep.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pellucid.kernels.curve.layout import AUTOCONTRAST, EQUALIZE, KINDS

__all__ = ["AUTOCONTRAST", "BILINEAR", "COLOR", "CURVES", "EQUALIZE", "NEAREST", "SHARPEN", "Room", "count_of"]

CURVES = KINDS
"""The first kinds are those of curves, by name; each has the numbers of ``../curve/layout.py``: amount, gain, gate."""

NEAREST, BILINEAR, COLOR, SHARPEN = range(5, 9)
"""Two interpolations of an affine map (6 numbers) over zeros; matrix, offset and share of the mean luma; a filter of 3 x 3."""


def count_of(kind: int, channels: int) -> int:
    """How many numbers an operation has."""
    return {NEAREST: 6, BILINEAR: 6, COLOR: channels * (channels + 1) + 1, SHARPEN: 9}.get(kind, 3)


class Room(NamedTuple):
    """A thread's memory.

    Args:
        spare: two pictures, between operations.
        plane: a picture with a frame.
        values, p, m: six tables before they are rounded; the numbers of a colour or a filter; those of a map.
        ramp: 0, 1, 2 and so on, a number for each column.
        lines: rows of pixels that are not rounded yet.
        cells: places in a picture.
        tables, counts: of each channel, a byte for each level and how often that occurs in the picture.
        parts: scratch for counting.
    """

    spare: Any
    plane: Any
    values: Any
    p: Any
    m: Any
    ramp: Any
    lines: Any
    cells: Any
    tables: Any
    counts: Any
    parts: Any

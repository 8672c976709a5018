"""The pyramid's layout: which pixels each level holds, and where.

Owns: the geometry both implementations share; integers only.
Must not: see a tensor.
Read next: ``reference.py``.

Pixel i of level l lies at pixel i * 2^l of the image, so a coordinate of the image is divided by 2^l and nothing is shifted. The
image is thought to go on for ever, repeating its border. Each level holds the pixels outside which its value no longer changes, up
to two on each side beyond the image; clamping a coordinate to them is therefore exact, not an approximation.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BINOMIAL", "Level", "levels_of", "most_levels"]

BINOMIAL = (0.0625, 0.25, 0.375, 0.25, 0.0625)
"""1 4 6 4 1 over 16: a variance of one pixel, and sums that are exact in binary, so that a flat image stays flat."""


class Level(NamedTuple):
    """One level."""

    low_y: int  # the first row and column it holds, in its own pixels
    low_x: int
    height: int
    width: int
    start: int  # of its first pixel in the packed pyramid


def _next(low: int, length: int) -> tuple[int, int]:
    """The range of the next level along one axis: beyond it, all five taps read one value."""
    first, last = (low - 2) // 2, -((-(low + length - 1 + 2)) // 2)
    return first, last - first + 1


def levels_of(height: int, width: int, count: int) -> list[Level]:
    """The first ``count`` levels, the image itself first; the packed pyramid ends where the last one does."""
    levels = [Level(0, 0, height, width, 0)]
    for _ in range(count - 1):
        above = levels[-1]
        low_y, rows = _next(above.low_y, above.height)
        low_x, columns = _next(above.low_x, above.width)
        levels.append(Level(low_y, low_x, rows, columns, above.start + above.height * above.width))
    return levels


def most_levels(height: int, width: int) -> int:
    """Enough levels for one pixel of the last to span the whole image."""
    count, reach = 1, 1
    while reach < max(height, width):
        count, reach = count + 1, 2 * reach
    return count

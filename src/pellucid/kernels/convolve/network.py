"""Networks of comparisons that put the median of so many numbers in the middle.

Owns: `median_network`.
Must not: compare anything.
Read next: ``cpu/ranks.py``.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

__all__ = ["BOTH", "LESSER", "median_network"]

BOTH, LESSER, GREATER = range(3)


@lru_cache(16)
def median_network(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Rows (i, j, what is kept): of the numbers at i < j the lesser goes to i and the greater to j, as far as either is needed.

    After the last one the median of an odd ``count`` of numbers lies in its middle, ``count // 2``.

    Source:
        D. Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M, without comparisons that the middle does not need.
    """
    needed, rows = {count // 2}, []
    for i, j in reversed([*_merges(count)]):
        if i in needed or j in needed:
            rows.append((i, j, BOTH if i in needed and j in needed else LESSER if i in needed else GREATER))
            needed |= {i, j}
    return np.array(rows[::-1], np.int64).reshape(-1, 3)


def _merges(count: int) -> Iterator[tuple[int, int]]:
    """The comparisons (i, j) that sort all numbers."""
    most = 1 << max((count - 1).bit_length() - 1, 0)
    p = most
    while p > 0:
        q, r, d = most, 0, p
        while True:
            yield from ((i, i + d) for i in range(count - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1

"""The rows of a strip of pixels in a thread's scratch memory, by name.

Owns: `laid`, which says where the rows of each name begin, and how many there are in all.
Must not: allocate.
Read next: ``../warp/cpu/layout.py``, ``../resize/cpu/layout.py``.
"""

from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import TypeVar

__all__ = ["laid"]

_Rows = TypeVar("_Rows")


@cache
def laid(kind: Callable[..., _Rows], *counts: int, after: int = 0) -> _Rows:
    """Lay out rows name by name, so many for each: where each name's rows begin; the last name says where all of them end."""
    return kind(*accumulate(counts, initial=after))

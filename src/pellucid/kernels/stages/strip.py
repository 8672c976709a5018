"""The rows of a strip of pixels in a thread's scratch memory, by name.

Owns: `laid`, which says where the rows of each name begin, and how many there are in all.
Must not: allocate.
Read next: ``../warp/cpu/layout.py``, ``../resize/cpu/layout.py``.
"""

from collections.abc import Callable
from itertools import accumulate
from typing import TypeVar

__all__ = ["laid"]

_Rows = TypeVar("_Rows")


def laid(kind: Callable[..., _Rows], *counts: int, after: int = 0) -> _Rows:
    """Where each name's rows begin, of which it has so many, one name after the other; the last name is where all of them end."""
    return kind(*accumulate(counts, initial=after))

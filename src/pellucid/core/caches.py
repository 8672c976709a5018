"""A cache that lives between calls and forgets its oldest entries.

Owns: `Recent`, a cache with a bound.
Must not: know what its values are.
Read next: ``../engine/plan/make.py``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Recent"]

_Key = TypeVar("_Key", bound=Hashable)
_Made = TypeVar("_Made")


class Recent(Generic[_Key, _Made]):
    """A cache of the most recently used keys, whose values are never None.

    Threads may share it: each step is one call of the dictionary, and a race can at worst make a value twice.

    Args:
        most: how many values stay; the one not used for longest goes first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[_Key, _Made] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: _Key) -> bool:
        return key in self._kept

    def get(self, key: _Key, make: Callable[[], _Made]) -> _Made:
        """Return the value for this key; make and keep it if it is not there."""
        kept = self._kept.pop(key, None)
        self._kept[key] = made = make() if kept is None else kept
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return made

"""Drawn values that are unpacked when somebody looks.

Owns: `Replayed`, the draw of a call as its random words.
Must not: draw, or differ from the values it stands for.
Read next: ``tapes.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import overload

from torch import Tensor

from pellucid.tape import Rows

__all__ = ["Replayed"]

Values = Mapping[str, Tensor]


class Replayed(Sequence[Values]):
    """For each transform its drawn values by name, computed on first sight.

    A pass without gradients goes from words to the kernel's numbers in one tape and never needs them.

    Args:
        words: (b, n) float64.
        unpack: what turns words into values, as ordinary tensor code; the same for every call of a plan.
        play: the same, played from a tape.
    """

    def __init__(self, words: Rows, unpack: Callable[[Tensor], Sequence[Values]], play: Callable[[Rows], Sequence[Values]]) -> None:
        self.words, self.unpack, self._play = words, unpack, play

    @cached_property
    def values(self) -> Sequence[Values]:
        """What is drawn."""
        return self._play(self.words)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Values: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Values]: ...
    def __getitem__(self, at: int | slice) -> Values | Sequence[Values]:
        return self.values[at]

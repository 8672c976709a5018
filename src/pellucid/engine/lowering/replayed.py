"""Drawn values that are computed from their random words on first access.

Owns: `Replayed`, the draw of a call as random words; `together`, which joins draws, and `joined`, which joins lowered values.
Must not: draw, or give other values than the tensor code.
Read next: ``tapes.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from pellucid.core.tape import Rows, TapeError
from pellucid.engine.plan import Plan

__all__ = ["Replayed", "joined", "together"]

Values = Mapping[str, Tensor]


def together(draws: Sequence[Sequence[Values]], places: Sequence[Sequence[int]]) -> Sequence[Values]:
    """Join the draws of a list's parts into one, in the list's order.

    Args:
        draws: of each part.
        places: for each part, the places of its samples in the list.
    """
    order = [place for where in places for place in where]
    replayed = [draw for draw in draws if isinstance(draw, Replayed) and draw._among is None]
    if len(replayed) == len(draws):
        rows = np.empty((len(order), replayed[0].rows.shape[1]))
        rows[order] = np.concatenate([draw.rows for draw in replayed])
        return Replayed(rows, replayed[0].unpack, replayed[0]._play)
    back = torch.tensor(order, device="cpu").argsort()
    return tuple({name: torch.cat([step[name] for step in steps])[back] for name in steps[0]} for steps in zip(*draws, strict=True))


def joined(parts: Sequence[Any], places: Sequence[Sequence[int]]) -> Any:
    """Join the rows of a list's parts, in any nesting of tuples, in the list's order.

    TapeError if the parts differ in anything but their rows.
    """
    first = parts[0]
    if isinstance(first, Tensor):
        if any(not isinstance(part, Tensor) or part.shape[1:] != first.shape[1:] for part in parts):
            raise TapeError("samples that go different ways")
        rows = [part.expand(len(where), *part.shape[1:]) for part, where in zip(parts, places, strict=True)]
        return torch.cat(rows)[torch.tensor([place for where in places for place in where], device="cpu").argsort()]
    if isinstance(first, tuple) and all(type(part) is type(first) and len(part) == len(first) for part in parts):
        made = [joined(each, places) for each in zip(*parts, strict=True)]
        return first._make(made) if hasattr(first, "_make") else tuple(made)
    if any(part != first for part in parts):
        raise TapeError("samples that go different ways")
    return first


class Replayed(Sequence[Values]):
    """For each transform its drawn values by name, computed on first access.

    A pass without gradients computes the kernel's numbers from the words in one tape, and never needs these values.

    Args:
        rows: (b, n) float64: words, then the image's height and width.
        unpack: turns a plan and words into values, in ordinary tensor code.
        play: turns rows into the same values by a tape.
        among: the draw of the whole batch, and which of its samples these are.
    """

    def __init__(
        self,
        rows: Rows,
        unpack: Callable[[Plan, Tensor], Sequence[Values]],
        play: Callable[[Rows], Sequence[Values]],
        among: tuple[Replayed, Tensor] | None = None,
    ) -> None:
        self.rows, self.unpack, self._play, self._among = rows, unpack, play, among

    @property
    def words(self) -> int:
        """The number of words in a row."""
        return int(self.rows.shape[1]) - 2

    def of(self, rows: Tensor) -> Replayed:
        """Return this draw for some of its samples."""
        return Replayed(self.rows[rows.numpy()], self.unpack, self._play, (self, rows))

    @cached_property
    def values(self) -> Sequence[Values]:
        """The drawn values."""
        return self._play(self.rows)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Values: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Values]: ...
    def __getitem__(self, at: int | slice) -> Values | Sequence[Values]:
        if self._among is None or isinstance(at, slice):
            return self.values[at]
        whole, rows = self._among
        return {name: value[rows] for name, value in whole[at].items()}

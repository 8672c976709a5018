"""Drawn values that are unpacked when somebody looks.

Owns: `Replayed`, the draw of a call as its random words; `together`, of several calls, and `joined`, what these lower to.
Must not: draw, or differ from the values it stands for.
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
    """The draws of a list's parts as one, in the list's order.

    Args:
        places: of each part, where its samples stand in the list.
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
    """Rows of samples in a nesting of tuples, of a list's parts as one, in the list's order.

    TapeError where more than rows differs.
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
    """For each transform its drawn values by name, computed on first sight.

    A pass without gradients goes from words to the kernel's numbers in one tape and never needs them.

    Args:
        rows: (b, n) float64: words, then the image's height and width.
        unpack: what turns a plan and words into values, as ordinary tensor code.
        play: the same, played from a tape.
        among: the draw of a whole batch, and which of its samples these are.
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
        """How many."""
        return int(self.rows.shape[1]) - 2

    def of(self, rows: Tensor) -> Replayed:
        """This draw for some of its samples."""
        return Replayed(self.rows[rows.numpy()], self.unpack, self._play, (self, rows))

    @cached_property
    def values(self) -> Sequence[Values]:
        """What is drawn."""
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

"""Recorded functions that return nested structures, and the cache of such recordings.

Owns: the place of each tensor of the result in a tape's outputs, and the lifetime of recordings.
Must not: decide what is recorded.
Read next: ``../../engine/lowering/tapes.py``.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from pellucid.core.tape.machine import player
from pellucid.core.tape.number import Number
from pellucid.core.tape.recorder import Rows, TapeError, record

__all__ = ["NumbersOf", "Recording", "cached_recording", "plain"]

NumbersOf: TypeAlias = Callable[[Sequence[int | None]], Callable[[Rows], list[Any]]]
"""From the numbers of some tensors to a function from rows of inputs to these tensors, as arrays."""

_NUMBERS = (torch.float64, torch.int64, torch.bool)
_Made = TypeVar("_Made")


class _Leaf(NamedTuple):
    """A tensor of the result: its shape for one sample, and its dtype, or None if it has the dtype that `play` is asked for."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None


class _Assembly:
    """Rebuilds a nested structure of tuples, dicts and dataclasses with other tensors and sizes in it.

    Args:
        value: the structure. Tensors inside of dataclasses (a transform's own parameters) are kept, as plain numbers are.
    """

    def __init__(self, value: Any) -> None:
        self.tensors: list[Tensor] = []
        self.numbers: list[Number] = []
        self._places: list[Any] = []  # each part's value if it is the same in every result; None if `build` fills it in
        self._of_tensors: list[int] = []
        self._of_numbers: list[int] = []
        self._steps: list[tuple[int, Callable[[Any], Any], Callable[[list[Any]], Any]]] = []
        self._known: dict[Any, int] = {}
        self._variable: set[int] = set()
        self._root = self._take(value, tensors=True)

    def _put(self, key: Any, held: Any = None) -> int:
        if key not in self._known:
            self._known[key] = len(self._places)
            self._places.append(held)
        return self._known[key]

    def _take(self, value: Any, *, tensors: bool) -> int:
        """Register a part of the structure, and return its place in the list of places."""
        if isinstance(value, Tensor) and tensors:
            self.tensors.append(value)
            self._of_tensors.append(self._put(object()))
            self._variable.add(self._of_tensors[-1])
            return self._of_tensors[-1]
        if isinstance(value, Number):
            place = self._put((value.register, type(value.value)))
            if place not in self._variable:
                self.numbers.append(value)
                self._of_numbers.append(place)
                self._variable.add(place)
            return place
        if isinstance(value, dict) and tensors:
            names = list(value)
            parts = [self._take(part, tensors=True) for part in value.values()]
            return self._step(object(), lambda found: dict(zip(names, found, strict=True)), parts)
        if isinstance(value, tuple):
            parts = [self._take(part, tensors=tensors) for part in value]
            together: Callable[[list[Any]], Any] = type(value)._make if hasattr(value, "_make") else tuple
            return self._step_or(value, parts, together)
        if is_dataclass(value) and not isinstance(value, type):
            held = {field.name: getattr(value, field.name) for field in fields(value)}
            parts = [self._take(part, tensors=False) for part in held.values()]
            if "__slots__" in type(value).__dict__:
                return self._step_or(value, parts, lambda values: type(value)(*values))
            varying = [(name, part) for name, part in zip(held, parts, strict=True) if part in self._variable]
            same = {name: part for name, part in held.items() if name not in dict(varying)}
            make = _filler(type(value), same, [name for name, _ in varying])
            return self._step_or(value, parts, make, [part for _, part in varying])
        return self._put(("held", id(value)), value)

    def _step_or(self, value: Any, parts: list[int], make: Callable[[list[Any]], Any], needed: list[int] | None = None) -> int:
        """Return the place of a part that is made anew of the needed parts, or kept as it is if none of its parts vary."""
        if self._variable.isdisjoint(parts):
            return self._put(("held", id(value)), value)
        return self._step((type(value), *parts), make, parts if needed is None else needed)

    def _step(self, key: Any, make: Callable[[list[Any]], Any], parts: list[int]) -> int:
        known = key in self._known
        place = self._put(key)
        if not known:
            taken = itemgetter(*parts) if len(parts) > 1 else itemgetter(slice(sum(parts), sum(parts) + len(parts)))  # a list, too
            self._steps.append((place, make, taken))
            self._variable.add(place)
        return place

    def build(self, tensors: list[Any], sizes: list[Any]) -> Any:
        """Build the recorded structure with other tensors and sizes."""
        places = self._places.copy()
        for place, value in zip(self._of_tensors + self._of_numbers, tensors + sizes, strict=True):
            places[place] = value
        for place, make, parts in self._steps:
            places[place] = make(parts(places))
        return places[self._root]


def _filler(kind: type, same: dict[str, Any], varying: list[str]) -> Callable[[list[Any]], Any]:
    """Return a function that makes a dataclass from its varying fields, without its checks, which passed while recording."""

    def make(values: list[Any]) -> Any:
        made: Any = object.__new__(kind)
        held = made.__dict__
        held.update(same)
        held.update(zip(varying, values, strict=True))
        return made

    return make


class _Branch:
    """One recorded run of a function: its tape, and the structure of its result."""

    def __init__(self, function: Callable[..., Any], given: Sequence[tuple[int, ...] | int], *, exact: bool, plainly: bool) -> None:
        self._leaves: list[_Leaf] = []
        self._tape = record(lambda *inputs: self._flat(function(*inputs)), given, exact=exact, plainly=plainly)
        self._sizes_alone = self._tape.sizes_do and not self._leaves and all(isinstance(one, int) for one in given)

    def _flat(self, result: Any) -> list[Tensor | list[Number]]:
        self._assembly = assembly = _Assembly(result)
        tensors, numbers = assembly.tensors, assembly.numbers
        assembly.tensors, assembly.numbers = [], []  # not needed after the recording
        self._leaves = [_Leaf(tuple(leaf.shape[1:]), None if leaf.is_floating_point() else leaf.dtype) for leaf in tensors]
        self._kinds = [type(number.value) for number in numbers]
        return [*tensors, numbers]

    def play(self, rows: Rows, dtype: torch.dtype, *, mixed: bool = False) -> tuple[Any] | None:
        """Return the result in a tuple of one; None if the function would have taken another branch."""
        if self._sizes_alone and not mixed:
            sizes = self._tape.of_sizes(*rows[0].tolist())
            return None if sizes is None else (self._assembly.build([], self._typed(sizes)),)
        played = self.leaves(dtype, rows)
        if played is None:
            return None
        *found, numbers = played
        if mixed and (numbers != numbers[0]).any():
            return None
        return (self._assembly.build(found, self._typed(numbers[0].tolist()) if self._kinds else []),)

    def leaves(self, dtype: torch.dtype, rows: Rows) -> list[Any] | None:
        """Return the tensors of the result, and a row of sizes for each sample; None as for `play`."""
        found: list[Any] | None = self._tape.play(rows)
        if found is None:
            return None
        narrow = dtype == torch.float32
        for k, leaf in enumerate(self._leaves):
            part = found[k]
            rounded = part.astype(np.float32) if narrow and leaf.dtype is None else part
            value = torch.from_numpy(rounded if len(leaf.shape) == 1 else rounded.reshape(len(part), *leaf.shape))
            found[k] = value if leaf.dtype is None or leaf.dtype == value.dtype else value.to(leaf.dtype)
        return found

    def fixed(self, dtype: torch.dtype, rows: Rows) -> tuple[Any, NumbersOf]:
        """As :meth:`Recording.pinned`."""
        samples = len(rows)
        narrow, play, (given, count, places) = dtype == torch.float32, player(), self._tape.fixed(samples)
        kinds = [torch.empty(0, dtype=leaf.dtype, device="cpu").numpy().dtype if leaf.dtype else None for leaf in self._leaves]
        leaves = [(place, (samples, *leaf.shape), kind) for place, leaf, kind in zip(places, self._leaves, kinds, strict=False)]

        def numbers_of(chosen: Sequence[int | None]) -> Callable[[Rows], list[Any]]:
            parts = [(None, None, None) if number is None else leaves[number] for number in chosen]

            def numbers(rows: Rows) -> list[Any]:
                flat, found = np.empty(count), []
                play(rows, *given, flat)
                floats = flat.astype(np.float32) if narrow else flat
                for place, shape, kind in parts:
                    part = None if place is None else floats[place] if kind is None else flat[place].astype(kind)
                    found.append(None if part is None else part.reshape(shape))
                return found

            return numbers

        sizes = self.leaves(dtype, rows)
        assert sizes is not None
        return self._assembly.build(list(range(len(self._leaves))), self._typed(sizes[-1][0].tolist())), numbers_of

    def _typed(self, sizes: Sequence[float]) -> list[Any]:
        return [kind(size) for kind, size in zip(self._kinds, sizes, strict=True)]


class Recording:
    """A recorded function of tensors and sizes that returns any nesting of tuples, dicts and dataclasses of these.

    Args:
        function: as :func:`pellucid.core.tape.record` takes it, but with a structured result. If it branches on a size, each branch
            is recorded when a size first leads there.
        given: for each argument the shape of a tensor, or a whole number for a size.
        exact: as :func:`pellucid.core.tape.record` takes it.
        most: how many branches are kept; the least recently used one goes first.
    """

    def __init__(
        self, function: Callable[..., Any], given: Sequence[tuple[int, ...] | int], *, exact: bool = False, most: int = 64
    ) -> None:
        self._function, self._given, self._exact, self._most = function, given, exact, most
        self._plainly = False
        self._branches = [self._recorded(given)]

    def _recorded(self, given: Sequence[tuple[int, ...] | int]) -> _Branch:
        if not self._plainly:
            try:
                return _Branch(self._function, given, exact=self._exact, plainly=False)
            except Exception:
                if not any(isinstance(one, int) for one in given):
                    raise
        # The code needs plain ints as sizes, or it raises for these sizes anyway.
        branch = _Branch(self._function, given, exact=self._exact, plainly=True)
        self._plainly = True
        return branch

    def play(self, rows: Rows, dtype: torch.dtype = torch.float64, *, mixed: bool = False) -> Any:
        """Return the function's result for rows (b, n) of float64 inputs; contiguous.

        Args:
            rows: the inputs, all of one size.
            dtype: of the result, which is computed in float64 and rounded at the end.
            mixed: allow rows of different sizes, as long as the sizes in the result are the same for all; record no new branch.

        Errors:
            TapeError if the code for these sizes cannot be taped.
        """
        for branch in self._branches:
            played = branch.play(rows, dtype, mixed=mixed)
            if played is not None:
                if branch is not self._branches[0]:
                    self._keep(branch)
                return played[0]
        branch = self._branches[0] if mixed else self._recorded(self._given_by(rows[0]))
        played = None if mixed else branch.play(rows, dtype)
        if played is None:
            raise TapeError("samples of sizes that go different ways")
        self._keep(branch)
        return played[0]

    def pinned(self, rows: Rows, dtype: torch.dtype) -> tuple[Any, NumbersOf]:
        """Fix the number and the size of all later rows; ``rows`` and ``dtype`` are as :meth:`play` takes them.

        Returns:
            The result with numbers 0, 1, ... in place of its tensors; and a function that takes some of these numbers, or None, and
            gives a function from rows to the arrays of these tensors, or None.
        """
        self.play(rows, dtype)  # records the branch if it is new
        return next(branch for branch in self._branches if branch.leaves(dtype, rows) is not None).fixed(dtype, rows)

    def _given_by(self, row: Rows) -> list[tuple[int, ...] | int]:
        counts = [1 if isinstance(one, int) else math.prod(one) for one in self._given]
        starts = accumulate(counts, initial=0)
        return [int(row[at]) if isinstance(one, int) else one for one, at in zip(self._given, starts, strict=False)]

    def _keep(self, branch: _Branch) -> None:
        self._branches = [branch, *(other for other in self._branches if other is not branch)][: self._most]


def plain(values: Iterable[Tensor]) -> bool:
    """Return whether a tape can take these tensors: plain CPU tensors of usual dtypes that need no gradient."""
    grad = torch.is_grad_enabled()
    for value in values:
        if type(value) is not Tensor or not value.is_cpu or value.dtype not in _NUMBERS or (grad and value.requires_grad):
            return False
    return True


_recordings: dict[int, dict[Any, Any]] = {}  # by identity of the owner


def cached_recording(owner: Any, key: Any, make: Callable[[], _Made]) -> _Made | None:
    """Return the owner's recording for this key, made by ``make`` at the first call; None if it cannot be taped.

    It is kept as long as the owner lives.
    """
    at = id(owner)
    if at not in _recordings:
        _recordings[at] = {}
        weakref.finalize(owner, _recordings.pop, at, None)
    made = _recordings[at]
    if key not in made:
        try:
            made[key] = make()
        except TapeError:
            made[key] = None
    found: _Made | None = made[key]
    return found

"""Make two runs of a subject see the same random numbers.

Owns: finding the generators a callable holds, rewinding all of them and the global ones, and telling whether they moved.
Must not: change a random state that it does not put back.
Read next: ``subject.py``.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Any

import numpy as np
import torch

__all__ = ["Replay", "find_generators"]

_KINDS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
_DEPTH = 5
_LIMIT = 4000


class Replay:
    """Rewinds the global generators and those found inside a callable to one fixed state."""

    def __init__(self, fn: Any, seed: int) -> None:
        self.seed = seed
        self.generators = find_generators(fn)
        self._start = [_get(g) for g in self.generators]

    def rewind(self) -> None:
        """Set every generator to its starting state."""
        torch.manual_seed(self.seed)
        np.random.seed(self.seed)
        random.seed(self.seed)
        for generator, state in zip(self.generators, self._start, strict=True):
            _set(generator, state)

    def states(self) -> dict[str, str]:
        """Return a fingerprint of every generator, by name."""
        legacy: Any = np.random.get_state(legacy=True)
        found = {
            "torch": str(hash(torch.get_rng_state().numpy().tobytes())),
            "numpy": f"{hash(legacy[1].tobytes())}:{legacy[2]}",
            "random": str(hash(random.getstate())),
        }
        for index, generator in enumerate(self.generators):
            found[f"{type(generator).__name__} #{index}"] = _fingerprint(generator)
        return found

    @contextmanager
    def preserved(self) -> Iterator[None]:
        """Put all generators back where they were, whatever happens inside."""
        kept = torch.get_rng_state(), np.random.get_state(), random.getstate()
        own = [_get(g) for g in self.generators]
        try:
            yield
        finally:
            torch.set_rng_state(kept[0])
            np.random.set_state(kept[1])
            random.setstate(kept[2])
            for generator, state in zip(self.generators, own, strict=True):
                _set(generator, state)


def find_generators(fn: Any) -> list[Any]:
    """Return the generator objects reachable from a callable: closure, attributes, partials, the globals it names."""
    found: list[Any] = []
    seen: set[int] = set()
    queue: list[tuple[Any, int]] = [(fn, 0)]
    while queue and len(seen) < _LIMIT:
        value, depth = queue.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _KINDS):
            found.append(value)
        elif depth < _DEPTH:
            queue.extend((child, depth + 1) for child in _children(value))
    return found


def _children(value: Any) -> list[Any]:
    """Return what a value holds, as far as a generator may hide there."""
    if isinstance(value, torch.Tensor | np.ndarray | str | bytes | int | float | type(None) | ModuleType):
        return []
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set):
        return list(value)
    held: list[Any] = []
    code = getattr(value, "__code__", None)
    if code is not None:
        held += [c.cell_contents for c in (getattr(value, "__closure__", None) or ()) if _filled(c)]
        scope = getattr(value, "__globals__", {})
        held += [scope[name] for name in _names(code) if name in scope and not isinstance(scope[name], type)]
    owner = getattr(value, "__self__", None)
    if owner is not None:
        held.append(owner)
    held += list(getattr(value, "__dict__", {}).values())
    return held


def _names(code: CodeType) -> set[str]:
    """Return the global names a function may read, those of the functions defined inside it included."""
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, CodeType)))


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell raises
    except ValueError:
        return False
    return True


def _get(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.getstate()


def _set(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


def _fingerprint(generator: Any) -> str:
    state = _get(generator)
    return str(hash(state.numpy().tobytes())) if isinstance(state, torch.Tensor) else str(hash(repr(state)))

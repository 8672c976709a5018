"""Make two runs of a subject see the same random numbers.

Owns: finding the generators a callable holds, rewinding them and the global ones, and detecting that they were used.
Must not: leave a random state changed.
Read next: ``subject.py``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from pellucid.audit.reach import held

__all__ = ["Replay", "find_generators"]

_KINDS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


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
        fingerprints = {
            "torch": str(hash(torch.get_rng_state().numpy().tobytes())),
            "numpy": f"{hash(legacy[1].tobytes())}:{legacy[2]}",
            "random": str(hash(random.getstate())),
        }
        for index, generator in enumerate(self.generators):
            fingerprints[f"{type(generator).__name__} #{index}"] = _fingerprint(generator)
        return fingerprints

    @contextmanager
    def preserved(self) -> Iterator[None]:
        """Restore all generators afterwards, even after an error."""
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
    return [value for _, value in held(fn) if isinstance(value, _KINDS)]


def _get(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if isinstance(generator, random.Random) else generator.get_state()


def _set(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)


def _fingerprint(generator: Any) -> str:
    state = _get(generator)
    return str(hash(state.numpy().tobytes())) if isinstance(state, torch.Tensor) else str(hash(repr(state)))

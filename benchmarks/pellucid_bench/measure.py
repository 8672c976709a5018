"""Timing: subjects take turns in one process, so that whatever slows the machine slows them all.

Owns: `Timing`, `interleave` and the copy limit, and the number of threads meanwhile.
Must not: know what it times.
Read next: ``calls.py``.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Say", "Timing", "interleave", "on_threads", "quiet", "synchronize"]

Say = Callable[[str], None]
"""Told what is being measured."""

_FEWEST_ROUNDS = 3


def quiet(text: str) -> None:
    """Say nothing."""
    del text


@dataclass(frozen=True)
class Timing:
    """Median, quartiles and least time of one call, in seconds."""

    median: float
    low: float
    high: float
    rounds: int
    least: float

    @classmethod
    def of(cls, seconds: list[float]) -> Timing:
        """Summarise single measurements."""
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0], 1, seconds[0])
        low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
        return cls(median, low, high, len(seconds), min(seconds))


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """With so many of torch's threads; 0 leaves their number as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def synchronize() -> None:
    """Wait for the GPU, where one is in use."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def interleave(
    calls: Mapping[str, Callable[[], Any]],
    *,
    budget: float = 2.0,
    rounds: int = 50,
    warmup: int = 2,
    between: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time several calls in turns, after warming each up; every timed call follows an untimed one of the same.

    So each finds its own memory in the caches and its own threads awake. Otherwise it would pay for its predecessor: torch's OpenMP
    threads spin for milliseconds after they were used, on cores that others want, and idle cores take long to wake.

    Args:
        calls: by name.
        budget: seconds per call name, after which no new round starts (but at least three are made).
        rounds: the most rounds.
        warmup: calls of each before the first round; compiled kernels are ready then.
        between: runs before every timed call and the one it follows, outside the clock.
        clock: ``time.process_time`` counts the CPU time of all threads, which other programs hardly change.

    Returns:
        The timing of each call. The order within a round rotates, so that none always runs in another's wake.
    """
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        for _ in range(warmup):
            calls[name]()
    synchronize()
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for turn in range(rounds):
            if turn >= _FEWEST_ROUNDS and time.perf_counter() - start > budget * len(names):
                break
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                seconds[name].append(_once(calls[name], between, clock))
    finally:
        if collecting:
            gc.enable()
    return {name: Timing.of(values) for name, values in seconds.items()}


def _once(call: Callable[[], Any], between: Callable[[], None] | None, clock: Callable[[], float]) -> float:
    if between is not None:
        between()
    call()
    synchronize()
    start = clock()
    result = call()
    synchronize()
    end = clock()
    del result  # freeing it is not part of the call
    return end - start

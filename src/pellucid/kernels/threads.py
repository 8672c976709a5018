"""Rows and samples split over a pool of Python threads, and the memory each of them works in.

Owns: the pool: one per process, made on first use, safe in forked workers and from several threads; `run_loop`; `scratch`;
`memory`, `elements` and `written`, which show tensors as arrays.
Must not: use OpenMP or any other native pool; those die in forked data-loading workers.
Read next: ``warp/cpu/op.py``.
"""

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import torch

__all__ = ["elements", "memory", "run_loop", "run_split", "scratch", "written"]

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}  # by process and size
_lock = threading.Lock()


class _Own(threading.local):
    """What belongs to one thread."""

    def __init__(self) -> None:
        self.arrays: dict[tuple[str, Any], np.ndarray[Any, Any]] = {}


_own = _Own()
_MOST = 1 << 22  # bytes of one array that a thread keeps
_LINE = 64  # bytes of a cache line


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it at the moment of the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def _pool(workers: int) -> ThreadPoolExecutor:
    key = (os.getpid(), workers)
    with _lock:
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(workers, thread_name_prefix="pellucid")
        return _pools[key]


def run_split(task: Callable[[int, int], None], total: int, grain: int) -> None:
    """Call ``task(start, stop)`` on parts of range(total), which must be independent, on torch's number of threads.

    Args:
        task: releases the interpreter lock for its work.
        total: how many items.
        grain: the fewest items worth handing to another thread: some 0.15 ms of work, as waking one takes half of that.
    """
    grain = max(grain, 1)
    threads = min(torch.get_num_threads(), total // grain)
    if threads <= 1:
        task(0, total)
        return
    # More parts than threads, taken as they come: a core that is busy elsewhere does not hold up the others.
    parts = min(4 * threads, 2 * total // grain, total)
    counter = itertools.count()

    def work() -> None:
        while (part := next(counter)) < parts:
            task(part * total // parts, (part + 1) * total // parts)

    futures: list[Future[None]] = []
    try:
        for _ in range(threads - 1):
            futures.append(_pool(threads - 1).submit(work))  # noqa: PERF401 - those made before one fails count
    except RuntimeError:  # no further thread can be started: the running ones do all the work
        _dissolve(threads - 1)
    try:
        work()
    finally:
        for future in futures:
            if not future.cancel():  # nobody waits for a thread that has not woken up, as all is done
                with suppress(CancelledError):
                    future.result()


def run_loop(loop: Callable[..., None], total: int, grain: int, *given: Any, room: Callable[[], tuple[Any, ...]] = tuple) -> None:
    """Call ``loop(*given, *room(), start, stop)``, a compiled one, on parts of range(total) as `run_split` does."""
    if total < 2 * max(grain, 1):  # a small picture's call has as few frames as it can
        loop(*given, *room(), 0, total)
        return
    run_split(lambda start, stop: loop(*given, *room(), start, stop), total, grain)


def _dissolve(workers: int) -> None:
    """Forget a pool that lacks threads, with what waits in its queue, which might wait for ever."""
    with _lock:
        pool = _pools.pop((os.getpid(), workers), None)
    if pool is not None:
        pool.shutdown(wait=False, cancel_futures=True)


def scratch(name: str, size: int, dtype: Any) -> np.ndarray[Any, Any]:
    """A flat array for this thread's use until its next call of this name; its contents are undefined.

    Arrays are kept, up to a few megabytes: fresh memory comes page by page from the system, which for a small image costs more
    than the work done in it. They begin where a cache line does: a vector as long as a line would otherwise lie in two.
    """
    kept = _own.arrays
    buffer = kept.get((name, dtype))
    if buffer is None or len(buffer) < size:
        whole = np.empty(size + _LINE // np.dtype(dtype).itemsize, dtype)
        first = -whole.__array_interface__["data"][0] % _LINE // whole.itemsize
        buffer = whole[first : first + size]
        if buffer.nbytes <= _MOST:
            kept[name, dtype] = buffer
    return buffer[:size]


_BITS = {torch.float16: torch.uint16, torch.bfloat16: torch.int16}  # as ``narrow.py`` tells them apart


def memory(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """A tensor's memory as an array; NumPy has no bfloat16 and Numba no 16-bit floats, so these show their bits."""
    bits = _BITS.get(tensor.dtype)
    buffer: np.ndarray[Any, Any] = (tensor if bits is None else tensor.view(bits)).numpy()
    return buffer


def written(tensor: torch.Tensor, *, levels: bool) -> np.ndarray[Any, Any]:
    """A result's memory as an array; bytes for levels, not fractions, come as int8, by which ``narrow.py`` distinguishes them."""
    buffer = memory(tensor)
    return buffer.view(np.int8) if levels and tensor.dtype == torch.uint8 else buffer


def elements(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Every element that a tensor's strides reach, from the first to the last, as a flat array without a copy."""
    if tensor.is_contiguous():
        return (memory(tensor) if tensor.dtype in _BITS else tensor.numpy()).reshape(-1)
    span = min(tensor.numel(), 1)
    for n, step in zip(tensor.shape, tensor.stride(), strict=True) if span else ():
        span += (n - 1) * step
    return memory(torch.as_strided(tensor, (span,), (1,)))

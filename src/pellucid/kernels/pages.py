"""Put large results into large memory pages, or into memory that processes share.

Owns: `in_large_pages`, `in_shared_memory`.
Must not: change what is computed.
Read next: ``threads.py``.
"""

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

__all__ = ["in_large_pages", "in_shared_memory"]

_LARGE = 1 << 22  # bytes: glibc gives blocks of this size back to the system when they are freed, or soon after
_PAGE = 1 << 21
_USE_LARGE_PAGES, _MAKE_PAGES = 14, 23  # MADV_HUGEPAGE, MADV_POPULATE_WRITE


class _Own(threading.local):
    """What belongs to one thread."""

    shares = False


_own = _Own()


@contextmanager
def in_shared_memory() -> Iterator[None]:
    """Inside, large results of this thread lie in shared memory, so that a worker hands them to its parent without a copy.

    Linux makes all of its pages at once, in half the time; if it refuses (an old one, or no room), results lie in usual memory.
    """
    before, _own.shares = _own.shares, True
    try:
        yield
    finally:
        _own.shares = before


@cache
def _advise() -> Any:
    """The system's madvise, or None."""
    try:
        return ctypes.CDLL(None).madvise if sys.platform == "linux" else None
    except (OSError, AttributeError):
        return None


def in_large_pages(tensor: Tensor) -> Tensor:
    """Ask Linux to back a large tensor, which nobody has written to yet, by pages of 2 MB; returns it, or one in shared memory.

    Otherwise its memory comes in pages of 4 kB while it is written for the first time, which takes longer than an affine warp.
    """
    size = tensor.numel() * tensor.element_size()
    if size >= _LARGE and tensor.is_cpu and type(tensor) is Tensor and _advise() is not None:  # others may have no memory
        if _own.shares:
            return _shared(tensor, size)
        start = -(-tensor.data_ptr() // _PAGE) * _PAGE
        length = (tensor.data_ptr() + size - start) // _PAGE * _PAGE
        _advise()(ctypes.c_void_p(start), ctypes.c_size_t(length), _USE_LARGE_PAGES)  # where it refuses, all is as before
    return tensor


def _shared(tensor: Tensor, size: int) -> Tensor:
    """A tensor like it in shared memory, or itself if the system refuses."""
    memory = torch.UntypedStorage._new_shared(size)
    refused = _advise()(ctypes.c_void_p(memory.data_ptr()), ctypes.c_size_t(size), _MAKE_PAGES)
    return tensor if refused else tensor.new_empty(0).set_(memory, 0, tensor.shape, tensor.stride())

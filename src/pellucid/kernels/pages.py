"""Large results in large pages.

Owns: `in_large_pages`.
Must not: allocate, or change what is computed.
Read next: ``threads.py``.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from torch import Tensor

__all__ = ["in_large_pages"]

_LARGE = 1 << 22  # bytes: glibc gives so many back to the system when they are freed, or soon after
_PAGE = 1 << 21
_USE_LARGE_PAGES = 14  # MADV_HUGEPAGE


@cache
def _advise() -> Any:
    """The system's madvise, or None."""
    try:
        return ctypes.CDLL(None).madvise if sys.platform == "linux" else None
    except (OSError, AttributeError):
        return None


def in_large_pages(tensor: Tensor) -> Tensor:
    """The same tensor, which nobody has written to yet; Linux is asked to back it by pages of 2 MB where it is large.

    Otherwise its memory comes in pages of 4 kB while it is written for the first time, which takes longer than an affine warp.
    """
    size = tensor.numel() * tensor.element_size()
    if size >= _LARGE and tensor.is_cpu and type(tensor) is Tensor and _advise() is not None:  # others may have no memory
        start = -(-tensor.data_ptr() // _PAGE) * _PAGE
        length = (tensor.data_ptr() + size - start) // _PAGE * _PAGE
        _advise()(ctypes.c_void_p(start), ctypes.c_size_t(length), _USE_LARGE_PAGES)  # where it refuses, all is as before
    return tensor

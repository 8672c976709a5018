"""Compute large pictures and volumes a few rows at a time, so that intermediate results fit into the second-level cache.

Owns: `by_slabs`.
Must not: change what is computed.
Read next: ``tape/recorder.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pellucid.core.tape import is_plain_eager

__all__ = ["by_slabs"]

_VALUES = 1 << 16


def by_slabs(make: Callable[[slice], Tensor], like: Tensor, *reads: Tensor, into: Tensor | None = None) -> Tensor:
    """Return what ``make`` computes for all rows (the third axis), a few rows at a time in plain eager mode on the CPU.

    Intermediate results then stay in the processor's cache, and need little memory.

    Args:
        make: computes the rows in a slice. It reads the same rows of ``like``, or more.
        like: a tensor with as many rows and values as the result.
        reads: other tensors that ``make`` reads; if one of them or ``like`` requires a gradient, all rows are made at once.
        into: memory for the result, which may be a tensor that ``make`` reads; unused if all rows are made at once.
    """
    rows, few = like.shape[2], max(1, _VALUES // max(1, like[:, :, :1].numel()))
    asked = torch.is_grad_enabled() and any(one.requires_grad for one in (like, *reads))
    if few >= rows or asked or not like.is_cpu or not is_plain_eager():
        return make(slice(None))
    found = into
    for first in range(0, rows, few):
        part = slice(first, first + few)
        made = make(part)
        found = made.new_empty((*made.shape[:2], rows, *made.shape[3:])) if found is None else found
        found[:, :, part] = made
    assert found is not None
    return found

"""Large pictures and volumes a few rows at a time, as many as the second cache holds.

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
    """What ``make`` returns for all rows, the third axis; where nothing listens, for some rows at a time.

    What is made on the way then stays in the cache, and neither fresh memory nor more of it is needed.

    Args:
        make: rows of the result, of which rows they are. It reads those rows of ``like``, or more.
        like: has as many rows and values as the result.
        reads: what else is read; where a gradient to it or to ``like`` may be asked for, all rows are made at once.
        into: the caller's own memory for the result, which may be what is read; used where rows are made apart.
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

"""Loops over planes of bytes.

Owns: counting and looking up.
Must not: know of tensors.
Read next: ``../tables.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, without_refcount

__all__ = ["count", "look_up"]


@entry
def count(planes, out, start, stop):  # type: ignore[no-untyped-def]
    """Histograms (planes, 256) of planes [start, stop)."""
    planes, out = without_refcount((planes, out))
    parts = np.zeros((4, 256), np.int64)  # by turns: a count that has just been written is not read at once
    for p in range(start, stop):
        parts[:] = 0
        row = planes[p]
        whole = len(row) - len(row) % 4
        for u in range(0, whole, 4):
            for k in range(4):
                parts[k, row[u + k]] += 1
        for u in range(whole, len(row)):
            parts[0, row[u]] += 1
        for k in range(256):
            out[p, k] = parts[0, k] + parts[1, k] + parts[2, k] + parts[3, k]


@entry
def look_up(planes, tables, out, start, stop):  # type: ignore[no-untyped-def]
    """Fill planes [start, stop) from their tables (planes, 256)."""
    planes, tables, out = without_refcount((planes, tables, out))
    for p in range(start, stop):
        row, table, into = planes[p], tables[p], out[p]
        for u in range(len(row)):
            into[u] = table[row[u]]

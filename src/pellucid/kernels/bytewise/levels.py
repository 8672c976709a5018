"""Loops over the bytes of one picture: look up, count, mix, sharpen, blend.

Owns: each of these, written so that the compiler vectorises.
Must not: move pixels.
Read next: ``moves.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.color.cpu.rows import mix_whole
from pellucid.kernels.convolve.cpu.sweep import interior_of_bytes
from pellucid.kernels.curve.cpu.rows import counted, looked_up
from pellucid.kernels.jit import exact, fused
from pellucid.kernels.levels import rounded

__all__ = ["blended", "colored", "count_ends", "histograms", "sharpened", "through", "total_of"]

_STRIP = 1024


@fused
def through(source, tables, target):  # type: ignore[no-untyped-def]
    """Look every channel up in its table."""
    for c in range(len(source)):
        looked_up(source[c], tables[c], target[c])


@fused
def histograms(source, counts, parts):  # type: ignore[no-untyped-def]
    """How often each level occurs in each channel."""
    for c in range(len(source)):
        counted(source[c], 0, 1, parts, counts[c])


@fused.noinline
def total_of(x):  # type: ignore[no-untyped-def]
    """The sum of a row."""
    total, whole = np.int64(0), len(x) - len(x) % 65536
    for first in range(0, whole + 1, 65536):
        some = x[first : first + 65536]
        part = np.uint32(0)
        for u in range(len(some)):
            part += np.uint32(some[u])
        total += np.int64(part)
    return total


@fused.noinline
def count_ends(x, counts):  # type: ignore[no-untyped-def]
    """Set the counts of a row's darkest and brightest level to 1, and all others to 0."""
    low, high = np.uint8(255), np.uint8(0)
    for u in range(len(x)):
        low, high = min(low, x[u]), max(high, x[u])
    counts[:] = 0
    counts[low] = counts[high] = 1


@fused.noinline
def colored(source, p, unit, lines, target):  # type: ignore[no-untyped-def]
    """Map three channels by the matrix and the offset at the beginning of ``p``."""
    made = lines[: 3 * _STRIP].reshape(3, _STRIP)
    for first in range(0, source.shape[1], _STRIP):
        end = min(first + _STRIP, source.shape[1])
        mix_whole(p, 0, 9, unit, source[0][first:end], source[1][first:end], source[2][first:end], made)
        for c in range(3):
            rounded(made[c], target[c][first:end])


@fused
def sharpened(source, kernel, shape, lines, target):  # type: ignore[no-untyped-def]
    """Filter the interior by the 3 x 3 kernel; the border stays."""
    for c in range(len(source)):
        interior_of_bytes(source[c].reshape(shape), kernel, lines[: 4 * shape[1]].reshape(4, shape[1]), target[c].reshape(shape))


@exact
def _add_share(x, share, unit, total):  # type: ignore[no-untyped-def]
    cast = type(unit)
    for u in range(len(total)):
        total[u] = total[u] + share * (cast(x[u]) * unit)


@fused.noinline
def blended(source, made, shares, unit, lines, target):  # type: ignore[no-untyped-def]
    """Mix the picture and its results in ``made`` by their shares; products and sums are rounded each, as in tensor operations."""
    for c in range(len(source)):
        for first in range(0, source.shape[1], _STRIP):
            end = min(first + _STRIP, source.shape[1])
            total = lines[: end - first]
            total[:] = lines.dtype.type(0.0)
            _add_share(source[c][first:end], shares[0], unit, total)
            for k in range(len(shares) - 1):
                _add_share(made[k, c][first:end], shares[k + 1], unit, total)
            rounded(total, target[c][first:end])

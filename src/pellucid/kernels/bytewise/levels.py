"""Bytes of one picture changed in place of one another: looked up, counted, mixed, sharpened, blended.

Owns: each of these, written so that the compiler vectorises.
Must not: move pixels.
Read next: ``moves.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.color.cpu.rows import mix_whole
from pellucid.kernels.convolve.cpu.rows import add_nine, clip_row
from pellucid.kernels.curve.cpu.rows import counted, looked_up
from pellucid.kernels.jit import exact, fused, noinline
from pellucid.kernels.levels import rounded, units

__all__ = [
    "blended",
    "colored",
    "extremes_of",
    "histograms",
    "sharpened",
    "through",
    "total_of",
]

_STRIP = 1024


@fused
def through(source, tables, target):  # type: ignore[no-untyped-def]
    """Every channel through its table."""
    for c in range(len(source)):
        looked_up(source[c], tables[c], target[c])


@fused
def histograms(source, counts, parts):  # type: ignore[no-untyped-def]
    """How often each level occurs in each channel."""
    for c in range(len(source)):
        counted(source[c], 0, 1, parts, counts[c])


@fused
def total_of(x):  # type: ignore[no-untyped-def]
    """The sum of a row."""
    noinline()
    total, whole = np.int64(0), len(x) - len(x) % 65536
    for first in range(0, whole + 1, 65536):
        some = x[first : first + 65536]
        part = np.uint32(0)
        for u in range(len(some)):
            part += np.uint32(some[u])
        total += np.int64(part)
    return total


@fused
def extremes_of(x, table, counts, known):  # type: ignore[no-untyped-def]
    """The darkest and the brightest level that a table makes of a row; of those counted where they are, else the row's own."""
    noinline()
    low, high = np.uint8(255), np.uint8(0)
    if known:
        for k in range(256):
            if counts[k] > 0:
                low, high = min(low, table[k]), max(high, table[k])
        return low, high
    for u in range(len(x)):
        low, high = min(low, x[u]), max(high, x[u])
    return low, high


@fused
def colored(source, p, unit, lines, target):  # type: ignore[no-untyped-def]
    """Three channels through the matrix and the offset at the beginning of ``p``."""
    noinline()
    made = lines[: 3 * _STRIP].reshape(3, _STRIP)
    for first in range(0, source.shape[1], _STRIP):
        end = min(first + _STRIP, source.shape[1])
        mix_whole(p, 0, 9, unit, source[0][first:end], source[1][first:end], source[2][first:end], made)
        for c in range(3):
            rounded(made[c], target[c][first:end])


@fused
def sharpened(source, kernel, shape, unit, lines, target):  # type: ignore[no-untyped-def]
    """The filter of 3 x 3 on the interior; the border stays."""
    noinline()
    height, width = shape
    window, middle = lines[: 3 * width].reshape(3, width), lines[3 * width : 4 * width]
    for c in range(len(source)):
        x, y = source[c], target[c]
        for v in range(height):
            row, into = x[v * width : (v + 1) * width], y[v * width : (v + 1) * width]
            if v == 0 and height > 1:
                units(row, unit, window[0])
            if v + 1 < height:
                units(x[(v + 1) * width : (v + 2) * width], unit, window[(v + 1) % 3])
            for u in range(width):
                into[u] = row[u]
            if v > 0 and v + 1 < height and width > 2:
                some = middle[: width - 2]
                some[:] = lines.dtype.type(0.0)
                add_nine(window[(v - 1) % 3], window[v % 3], window[(v + 1) % 3], kernel, some)
                clip_row(some)
                rounded(some, into[1 : width - 1])


@exact
def _add_share(x, share, unit, total):  # type: ignore[no-untyped-def]
    cast = type(unit)
    for u in range(len(total)):
        total[u] = total[u] + share * (cast(x[u]) * unit)


@fused
def blended(source, made, shares, unit, lines, target):  # type: ignore[no-untyped-def]
    """The picture and what was made of it, by their shares; each product and each sum is rounded, as tensor operations do."""
    noinline()
    for c in range(len(source)):
        for first in range(0, source.shape[1], _STRIP):
            end = min(first + _STRIP, source.shape[1])
            total = lines[: end - first]
            total[:] = lines.dtype.type(0.0)
            _add_share(source[c][first:end], shares[0], unit, total)
            for k in range(len(shares) - 1):
                _add_share(made[k, c][first:end], shares[k + 1], unit, total)
            rounded(total, target[c][first:end])

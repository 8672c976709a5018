"""Bytes of one picture changed in place of one another: looked up, counted, mixed, sharpened, blended.

Owns: each of these, written so that the compiler vectorises.
Must not: move pixels.
Read next: ``moves.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.color.cpu.rows import mix_whole
from pellucid.kernels.convolve.cpu.rows import add_nine, clip_row
from pellucid.kernels.jit import exact, fused, noinline

__all__ = [
    "blended",
    "colored",
    "copied",
    "counted",
    "extremes_of",
    "looked_up",
    "rounded",
    "sharpened",
    "total_of",
]

_STRIP = 1024


@exact
def rounded(x, out):  # type: ignore[no-untyped-def]
    """The nearest levels, as ``../levels.py`` rounds."""
    noinline()
    cast = x.dtype.type
    zero, one, most = cast(0.0), cast(1.0), cast(255.0)
    for u in range(len(out)):
        y = x[u]
        y = y if y > zero else zero
        y = y if y < one else one
        out[u] = np.uint8(np.int32(np.rint(y * most)))


@exact
def _units(x, unit, out):  # type: ignore[no-untyped-def]
    cast = type(unit)
    for u in range(len(out)):
        out[u] = cast(x[u]) * unit


@fused
def copied(source, target):  # type: ignore[no-untyped-def]
    """As it is."""
    noinline()
    for c in range(len(source)):
        x, y = source[c], target[c]
        for u in range(len(x)):
            y[u] = x[u]


@fused
def looked_up(source, tables, target):  # type: ignore[no-untyped-def]
    """Every channel through its table."""
    noinline()
    for c in range(len(source)):
        x, y, table = source[c], target[c], tables[c]
        for u in range(len(x)):
            y[u] = table[x[u]]


@fused
def counted(source, counts, parts):  # type: ignore[no-untyped-def]
    """How often each level occurs in each channel; by turns in four counts, as ``../curve/cpu/sweep.py`` counts."""
    noinline()
    for c in range(len(source)):
        x = source[c]
        parts[:4] = 0
        whole = len(x) - len(x) % 4
        for u in range(0, whole, 4):
            for k in range(4):
                parts[k, x[u + k]] += 1
        for u in range(whole, len(x)):
            parts[0, x[u]] += 1
        for k in range(256):
            counts[c, k] = parts[0, k] + parts[1, k] + parts[2, k] + parts[3, k]


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
                _units(row, unit, window[0])
            if v + 1 < height:
                _units(x[(v + 1) * width : (v + 2) * width], unit, window[(v + 1) % 3])
            for u in range(width):
                into[u] = row[u]
            if v > 0 and v + 1 < height and width > 2:
                some = middle[: width - 2]
                some[:] = lines.dtype.type(0.0)
                add_nine(window[(v - 1) % 3], window[v % 3], window[(v + 1) % 3], kernel, some)
                clip_row(some)
                rounded(some, into[1 : width - 1])


@exact
def _first_share(x, share, unit, total):  # type: ignore[no-untyped-def]
    cast = type(unit)
    for u in range(len(total)):
        total[u] = share * (cast(x[u]) * unit)


@exact
def _next_share(x, share, unit, total):  # type: ignore[no-untyped-def]
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
            _first_share(source[c][first:end], shares[0], unit, total)
            for k in range(len(shares) - 1):
                _next_share(made[k, c][first:end], shares[k + 1], unit, total)
            rounded(total, target[c][first:end])

"""Replace each block of a picture by its mean, in one pass.

Owns: `blocks`.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.jit import entry, fused
from pellucid.kernels.levels import rounded, units
from pellucid.kernels.stages.sums import copy

__all__ = ["blocks"]


@fused
def _shared(k, count, length):  # type: ignore[no-untyped-def]
    """Where block k of ``count`` begins and ends, in pixels, and the range of whole pixels that it touches."""
    low, high = type(count)(k) * length / count, type(count)(k + 1) * length / count
    return low, high, int(np.floor(low)), min(int(np.ceil(high)), int(length))


@fused
def _covered(p, low, high):  # type: ignore[no-untyped-def]
    """The share of a block that lies in pixel p."""
    one = type(low)(1.0)
    return max(min(type(low)(p) + one, high) - max(type(low)(p), low), type(low)(0.0)) / (high - low)


@fused
def _add(share, x, total):  # type: ignore[no-untyped-def]
    for u in range(len(total)):
        total[u] += share * x[u]


@fused.noinline
def _tables(count, length, first, weights, block):  # type: ignore[no-untyped-def]
    """Write each block's first pixel across, the shares of ``len(weights)`` pixels from there on, and each pixel's block."""
    blocks, half = len(first), type(count)(0.5)
    for j in range(blocks):
        low, high, first[j], _ = _shared(j, count, length)
        for t in range(len(weights)):
            weights[t, j] = _covered(first[j] + t, low, high)
    for u in range(len(block)):
        block[u] = int(np.floor((type(count)(u) + half) * count / length))


@fused.noinline
def _across(total, first, weights, means):  # type: ignore[no-untyped-def]
    """Means of blocks across, all of equally many pixels: loops of different lengths cost more than pixels of weight 0."""
    last = np.int32(len(total) - 1)
    means[:] = total.dtype.type(0.0)
    for t in range(len(weights)):
        shares = weights[t]
        for j in range(len(means)):
            means[j] += shares[j] * total[min(first[j] + np.int32(t), last)]


@fused.noinline
def _spread(values, block, row):  # type: ignore[no-untyped-def]
    for u in range(len(row)):
        row[u] = values[block[u]]


@entry
def blocks(images, counts, channels, unit, out, floats, places, levels, start, stop):  # type: ignore[no-untyped-def]
    """Average blocks of planes [start, stop), which hold bytes or numbers in this unit.

    Args:
        counts: (samples or 1, 2): how many blocks there are down and across, in the precision of numbers.
        floats, places, levels: scratch (6 w + 3,), (2, w) and (w,) bytes; the last is None for numbers.
    """
    (_, height, width), cast = images.shape, floats.dtype.type
    total, row, averages, weights = floats[:width], floats[width : 2 * width], floats[2 * width : 3 * width], floats[3 * width :]
    for p in range(start, stop):
        down, across = counts[p // channels % len(counts)]
        n = int(across)
        most, means, first = (width + n - 1) // n + 1, averages[:n], places[0][:n]
        shares = weights[: most * n].reshape(most, n)
        if p == start or p % channels == 0:
            _tables(across, cast(width), first, shares, places[1])
        r = 0
        for k in range(int(down)):
            low, high, top, bottom = _shared(k, down, cast(height))
            total[:] = cast(0.0)
            for v in range(top, bottom):
                units(images[p, v], unit, row)
                _add(_covered(v, low, high), row, total)
            _across(total, first, shares, means)
            shown = r
            while r < height and int(np.floor((cast(r) + cast(0.5)) * down / cast(height))) == k:
                if r > shown:
                    copy(out[p, shown], out[p, r])
                elif levels is None:
                    _spread(means, places[1], out[p, r])
                else:
                    step = levels[:n]
                    rounded(means, step)
                    _spread(step, places[1], out[p, r])
                r += 1

"""Apply one curve to a strip of one channel, forward and backward.

Owns: each curve forward and backward, written so that the compiler vectorises; `bent` and `bent_backward`, for pointwise curves.
Must not: loop over an image.
Read next: ``../reference.py``.
"""

import math

import numpy as np

from pellucid.kernels.curve.cpu.powers import parts_of_power, slope_through_power
from pellucid.kernels.curve.layout import AMOUNT, GAIN, GATE, POSTERIZE, POWER, SLACK, SOLARIZE
from pellucid.kernels.interleaving import apart, together
from pellucid.kernels.jit import exact, fused, number, rank, summing
from pellucid.kernels.lookups import through_registers
from pellucid.kernels.stages.sums import copy, dot, row_sum

__all__ = [
    *("STRIP", "bent", "bent_backward", "counted", "curved", "extremes", "flattened", "levels_of", "looked_up"),
    *("looked_up_by_turns", "mixed", "mixed_slope", "pulled", "pulls", "slope_of", "sum_of_differences", "sum_of_three"),
]

_TURNS = 96  # pixels whose lines are computed together
STRIP = 2048  # numbers that go through all phases together, in a close cache


@exact
def _level(x, scale):  # type: ignore[no-untyped-def]
    """The grey level that equalising takes a number for; 0 for NaN."""
    cast = type(x)
    y = x * cast(255.999) if scale == cast(1.0) else x * scale + cast(0.5)
    y = y if y > cast(0.0) else cast(0.0)
    return np.uint8(np.int32(y if y < cast(255.0) else cast(255.0)))


@exact.noinline
def levels_of(x, scale, out):  # type: ignore[no-untyped-def]
    """The grey levels that equalising counts."""
    for u in range(len(out)):
        out[u] = _level(x[u], scale)


@exact.noinline
def counted(row, first, step, parts, out):  # type: ignore[no-untyped-def]
    """Count how often each level occurs among bytes ``step`` apart, from ``first`` on. Four histograms take turns, so that a count
    is not read right after it was written.
    """
    parts[:4] = 0
    count = len(row) // step
    whole = count - count % 4
    for u in range(0, whole, 4):
        for k in range(4):
            parts[k, row[np.uint64(first + (u + k) * step)]] += 1
    for u in range(whole, count):
        parts[0, row[np.uint64(first + u * step)]] += 1
    for k in range(256):
        out[k] = parts[0, k] + parts[1, k] + parts[2, k] + parts[3, k]


@exact.noinline
def extremes(row, weights):  # type: ignore[no-untyped-def]
    """The least and the greatest number that counts; NaN if one of them is NaN."""
    cast = row.dtype.type
    least, most = rank(cast(-np.inf)), rank(cast(np.inf))
    low, high = most, least
    for u in range(len(row)):
        k = rank(row[u])
        counts = weights is None or weights[u] != 0
        low = min(low, k if counts else low)
        high = max(high, k if counts else high)
    return (cast(np.nan), cast(np.nan)) if low < least or high > most else (number(low), number(high))


@exact.noinline
def flattened(counts, below, table, rise):  # type: ignore[no-untyped-def]
    """Write the curve that flattens a histogram, and its slopes over one level to either side; returns whether it stays as it is.

    Args:
        below: scratch (256,).
        table, rise: (256,), in [0, 1].
    """
    total = brightest = np.int64(0)
    for k in range(256):
        below[k] = total  # before this level: the curve is one level late
        total += counts[k]
        brightest = counts[k] if counts[k] > 0 else brightest
    step = (total - brightest) // 255
    least = max(step, 1)
    cast = table.dtype.type
    for k in range(256):
        level = min((below[k] + step // 2) // least, 255) if k > 0 else np.int64(0)
        below[k] = level
        table[k] = cast(level) / cast(255.0)
    for k in range(256):
        rise[k] = cast(below[min(k + 1, 255)] - below[max(k - 1, 0)]) / cast(2.0)
    return step == 0


@exact
def mixed(gate, x, y):  # type: ignore[no-untyped-def]
    """Mix the result y, in place, with the input x by the gate."""
    rest = type(gate)(1.0) - gate
    for u in range(len(y)):
        y[u] = gate * y[u] + rest * x[u]


@exact.noinline
def _line_of(table):  # type: ignore[no-untyped-def]
    """Whether a table's numbers are exactly those of a line, computed as `_along_line` does; and its slope."""
    cast, start = table.dtype.type, table[0]
    unit, steep = cast(1.0 / 255.0), cast(np.float64(table[255]) - np.float64(start))
    for way in (0.0, -0.75, 0.75):  # where the line's end is larger than its slope, the difference has lost a bit
        slope = cast(steep + cast(way) * abs(steep) * cast(2.0**-23 if table.itemsize == 4 else 2.0**-52))
        same = table.itemsize > 2
        for k in range(256):
            same &= table[k] == slope * (cast(k) * unit) + start
        if same:
            return True, slope
    return False, start


@exact.noinline
def _along_line(levels, slopes, starts, y):  # type: ignore[no-untyped-def]
    """Evaluate a line for each interleaved channel; ``slopes`` and ``starts`` repeat in the channels' order."""
    cast, n = y.dtype.type, len(slopes)
    unit = cast(1.0 / 255.0)
    for first in range(0, len(y), n):
        some, into = levels[first : first + n], y[first : first + n]
        for u in range(len(into)):
            into[u] = slopes[u] * (cast(some[u]) * unit) + starts[u]


@exact.noinline
def looked_up(levels, table, y):  # type: ignore[no-untyped-def]
    """Look each level up in a table."""
    for u in range(through_registers(levels, table, y, len(y)), len(y)):
        y[u] = table[levels[u]]


@exact
def _alike(tables):  # type: ignore[no-untyped-def]
    same = True
    for c in range(1, len(tables)):
        for k in range(256):
            same &= tables[c, k] == tables[0, k]
    return same


@exact
def looked_up_by_turns(levels, tables, cells, room, y):  # type: ignore[no-untyped-def]
    """Look up interleaved channels, one for each of ``cells``, each in its own table; ``room``: scratch, `STRIP` levels and results
    per channel.

    Tables that are straight lines are computed instead, which is several times faster than looking numbers up.
    """
    n, lines = len(cells), y.itemsize > 2
    slopes, starts = room[1][: n * _TURNS], room[1][n * _TURNS : 2 * n * _TURNS]
    for c in range(n if lines else 0):
        found, slope = _line_of(tables[c])
        lines &= found
        slopes[c::n] = slope
        starts[c::n] = tables[c, 0]
    if lines:
        _along_line(levels, slopes, starts, y)
        return
    if n == 1 or _alike(tables):
        looked_up(levels, tables[0], y)
        return
    for first in range(0, len(y), n * STRIP):
        some, into = levels[first : first + n * STRIP], y[first : first + n * STRIP]
        count = len(into) // n
        apart(some, cells, room[0], 0, STRIP, count)
        for c in range(n):
            looked_up(room[0][c * STRIP : c * STRIP + count], tables[c], room[1][c * STRIP : c * STRIP + count])
        together(room[1], 0, STRIP, count, cells, into)


@exact.noinline
def curved(kind, x, a, b, scale, y):  # type: ignore[no-untyped-def]
    """Compute any curve but equalising, which is looked up, with the reference's bits.

    Args:
        a, b: bits, or threshold; or the least and the greatest number.
    """
    one, zero = type(scale)(1.0), type(scale)(0.0)
    if kind == POSTERIZE:
        _posterized(x, np.floor(a + type(scale)(0.5)), type(scale), y)
    elif kind == SOLARIZE:
        slack = zero if scale == one else type(scale)(SLACK / scale)
        for u in range(len(y)):
            y[u] = one - x[u] if x[u] + slack >= a else x[u]
    elif a == b:
        copy(x, y)
    else:
        span = b - a
        for u in range(len(y)):
            y[u] = (x[u] - a) / span


@exact
def _posterized(x, bits, cast, y):  # type: ignore[no-untyped-def]
    step, slack, zero, most = cast(np.exp2(cast(8.0) - bits)), cast(SLACK), cast(0.0), cast(255.0)
    for u in range(len(y)):
        z = x[u] * most + slack
        z = zero if z < zero else z
        y[u] = np.floor((most if z > most else z) / step) * step / most


@fused.noinline
def slope_of(kind, slope, x, a, scale, out):  # type: ignore[no-untyped-def]
    """The declared slope to the image, of posterising and solarising."""
    cast = type(scale)
    one, zero = cast(1.0), cast(0.0)
    if kind == SOLARIZE:
        slack = zero if scale == one else cast(SLACK / scale)
        for u in range(len(out)):
            out[u] = -one if x[u] + slack >= a else one
    elif slope < 2:
        out[:] = one if slope == 1 else zero
    else:
        turns = cast(2.0 * math.pi * 255.0 / np.exp2(cast(8.0) - np.floor(a + cast(0.5))))
        for u in range(len(out)):
            out[u] = one + cast(math.cos(turns * x[u]))


@fused
def mixed_slope(gate, g, slopes, out):  # type: ignore[no-untyped-def]
    """The gradient of the image: the gate's share through the curve, the rest past it."""
    rest = type(gate)(1.0) - gate
    for u in range(len(out)):
        out[u] = g[u] * (gate * slopes[u] + rest)


@summing
def pulls(x, g, a, b):  # type: ignore[no-untyped-def]
    """Over a strip, the sums of g (x - a) and of g, and how many numbers equal a and b."""
    product, whole, low, high = x.dtype.type(0.0), x.dtype.type(0.0), np.int32(0), np.int32(0)
    for u in range(len(x)):
        product += g[u] * (x[u] - a)
        whole += g[u]
        low = np.int32(low + (x[u] == a))
        high = np.int32(high + (x[u] == b))
    return np.float64(product), np.float64(whole), low, high


@fused.noinline
def pulled(x, g, slope, a, down, b, up, into):  # type: ignore[no-untyped-def]
    """The gradient through a slope; numbers that equal a or b get ``down`` or ``up`` in addition."""
    zero = type(slope)(0.0)
    for u in range(len(x)):
        into[u] = g[u] * slope + (down if x[u] == a else zero) + (up if x[u] == b else zero)


@summing
def sum_of_three(x, y, z):  # type: ignore[no-untyped-def]
    """The sum of x y z."""
    total = x.dtype.type(0.0)
    for u in range(len(x)):
        total += x[u] * y[u] * z[u]
    return np.float64(total)


@summing
def sum_of_differences(g, y, x):  # type: ignore[no-untyped-def]
    """The sum of g (y - x)."""
    total = x.dtype.type(0.0)
    for u in range(len(x)):
        total += g[u] * (y[u] - x[u])
    return np.float64(total)


@fused.noinline
def bent(kind, clip, scale, own, x, y):  # type: ignore[no-untyped-def]
    """Y = the curve of x, by a sample's ``own`` numbers; a power may be clipped to [0, 1]."""
    cast = type(scale)
    if kind == POWER:
        parts_of_power(x, own[AMOUNT], own[GAIN], clip != 0, y, x[:0])
    elif own[GATE] == cast(0.0):
        copy(x, y)
    else:
        curved(kind, x, own[AMOUNT], cast(0.0), scale, y)
        if own[GATE] != cast(1.0):
            mixed(own[GATE], x, y)


@fused.noinline
def bent_backward(options, scale, reach, own, x, g, target, scratch, along, wanted):  # type: ignore[no-untyped-def]
    """Write the gradient of x to ``target``; if ``wanted``, add the gradients of the numbers to ``along``.

    Args:
        options: kind, slope, magnitude, whether to clip.
        reach: of the secant.
        scratch: four rows, at least as long as x.
    """
    kind, slope, magnitude, clip = options
    cast, n = type(scale), len(x)
    y, other, slopes, inside = scratch[0][:n], scratch[1][:n], scratch[2][:n], scratch[3][:n]
    if kind == POWER:
        exponent, gain = own[AMOUNT], own[GAIN]
        parts_of_power(x, exponent, cast(1.0), False, y, other if wanted else other[:0])  # and log x
        slope_through_power(clip != 0, exponent, gain, x, y, g, inside if wanted else inside[:0], target)
        if wanted:
            along[AMOUNT] += sum_of_three(inside, y, other) * gain
            along[GAIN] += dot(inside, y)
        return
    gate, zero = own[GATE], cast(0.0)
    slope_of(kind, slope, x, own[AMOUNT], scale, slopes)
    mixed_slope(gate, g, slopes, target)
    if not wanted:
        return
    curved(kind, x, own[AMOUNT], zero, scale, y)
    along[GATE] += sum_of_differences(g, y, x)
    if magnitude == 1:
        along[AMOUNT] += np.float64(row_sum(g)) * gate
    elif magnitude == 2:
        curved(kind, x, own[AMOUNT] + reach, zero, scale, y)
        curved(kind, x, own[AMOUNT] - reach, zero, scale, other)
        along[AMOUNT] += sum_of_differences(g, y, other) / (2.0 * reach) * gate

"""A strip of one channel under one curve, and what its gradients need.

Owns: each curve forward and backward, written so that the compiler vectorises.
Must not: loop over an image.
Read next: ``../reference.py``.
"""

from __future__ import annotations

import math

import numpy as np

from pellucid.kernels.curve.layout import AUTOCONTRAST, POSTERIZE, SLACK, SOLARIZE
from pellucid.kernels.jit import exact, fused, noinline, summing

__all__ = [
    "curved",
    "extremes",
    "flattened",
    "inside_of_clip",
    "kept",
    "levels_of",
    "mixed",
    "mixed_slope",
    "pulled",
    "slope_of",
    "sum_of_differences",
    "sum_of_products",
    "sum_of_three",
    "total_of",
]


@exact
def _level(x, scale):  # type: ignore[no-untyped-def]
    """The grey level that equalising sees; 0 of what is not a number."""
    cast = type(x)
    y = np.floor(x * cast(255.999)) if scale == cast(1.0) else np.floor(x * scale + cast(0.5))
    y = y if y > cast(0.0) else cast(0.0)
    return np.uint8(np.int32(y if y < cast(255.0) else cast(255.0)))


@exact
def levels_of(x, scale, out):  # type: ignore[no-untyped-def]
    """The grey levels that equalising counts."""
    noinline()
    for u in range(len(out)):
        out[u] = _level(x[u], scale)


@exact
def extremes(row, weights):  # type: ignore[no-untyped-def]
    """The least and the greatest number that counts; no number where one is none."""
    noinline()
    cast = row.dtype.type
    low, high, strange = cast(np.inf), cast(-np.inf), False
    for u in range(len(row)):
        x = row[u]
        if weights is not None and weights[u] == 0:
            continue
        low = x if x < low else low
        high = x if x > high else high
        strange |= x != x
    return (cast(np.nan), cast(np.nan)) if strange else (low, high)


@exact
def flattened(counts, below, table, rise):  # type: ignore[no-untyped-def]
    """Write the curve that flattens a histogram, and its slopes over one level to either side; whether it stays as it is.

    Args:
        below: scratch (256,).
        table, rise: (256,), in [0, 1].
    """
    noinline()
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
def kept(x, y):  # type: ignore[no-untyped-def]
    """A copy."""
    for u in range(len(x)):
        y[u] = x[u]


@exact
def mixed(gate, x, y):  # type: ignore[no-untyped-def]
    """The result y, as far as the gate is open."""
    rest = type(gate)(1.0) - gate
    for u in range(len(y)):
        y[u] = gate * y[u] + rest * x[u]


@exact
def curved(kind, x, a, b, scale, table, y):  # type: ignore[no-untyped-def]
    """The reference's numbers.

    Args:
        a, b: bits, or threshold; or the least and the greatest number; or whether equalising leaves the channel alone.
        table: of equalising.
    """
    noinline()
    one, zero = type(scale)(1.0), type(scale)(0.0)
    if kind == POSTERIZE:
        _posterized(x, np.floor(a + type(scale)(0.5)), scale, y)
    elif kind == SOLARIZE:
        slack = zero if scale == one else type(scale)(SLACK / scale)
        for u in range(len(y)):
            y[u] = one - x[u] if x[u] + slack >= a else x[u]
    elif kind == AUTOCONTRAST:
        if a == b:
            kept(x, y)
            return
        span = b - a
        for u in range(len(y)):
            y[u] = (x[u] - a) / span
    elif a == one:
        kept(x, y)
    else:
        for u in range(len(y)):
            y[u] = table[_level(x[u], scale)]


@exact
def _posterized(x, bits, scale, y):  # type: ignore[no-untyped-def]
    cast = type(scale)
    if scale == cast(1.0):
        levels = cast(np.exp2(bits))
        most = levels - cast(1.0)
        for u in range(len(y)):
            z = np.floor(x[u] * levels)
            z = cast(0.0) if z < cast(0.0) else z
            y[u] = (most if z > most else z) / levels
        return
    step, slack = cast(np.exp2(cast(8.0) - bits)), cast(SLACK)
    for u in range(len(y)):
        y[u] = np.floor((x[u] * scale + slack) / step) * step / scale


@fused
def slope_of(kind, slope, x, a, b, scale, rise, out):  # type: ignore[no-untyped-def]
    """The declared slope to the image, the extremes held."""
    noinline()
    cast = type(scale)
    one, zero = cast(1.0), cast(0.0)
    if kind == SOLARIZE:
        slack = zero if scale == one else cast(SLACK / scale)
        for u in range(len(out)):
            out[u] = -one if x[u] + slack >= a else one
    elif kind == AUTOCONTRAST:
        out[:] = one if a == b else one / (b - a)
    elif slope < 2:
        out[:] = one if slope == 1 else zero
    elif kind == POSTERIZE:
        turns = cast(2.0 * math.pi * np.exp2(np.floor(a + cast(0.5))))
        for u in range(len(out)):
            out[u] = one + cast(math.cos(turns * x[u]))
    else:
        for u in range(len(out)):
            out[u] = one if a == one else rise[_level(x[u], scale)]


@fused
def mixed_slope(gate, g, slopes, out):  # type: ignore[no-untyped-def]
    """The gradient of the image, as far as the gate is open through the curve, beyond it past it."""
    rest = type(gate)(1.0) - gate
    for u in range(len(out)):
        out[u] = g[u] * (gate * slopes[u] + rest)


@exact
def pulled(row, level, share, into):  # type: ignore[no-untyped-def]
    """Share a gradient equally among the pixels of one level."""
    noinline()
    ties = 0
    for u in range(len(row)):
        ties += 1 if row[u] == level else 0
    each = type(share)(share / max(ties, 1))
    for u in range(len(row)):
        into[u] += each if row[u] == level else type(share)(0.0)


@fused
def inside_of_clip(clip, gain, y, g, out):  # type: ignore[no-untyped-def]
    """The gradient where gain * y lies in [0, 1] (the ends count) or is not clipped."""
    zero, one = g.dtype.type(0.0), g.dtype.type(1.0)
    for u in range(len(out)):
        z = gain * y[u]
        out[u] = g[u] if (not clip) | ((z >= zero) & (z <= one)) else zero


@summing
def total_of(x):  # type: ignore[no-untyped-def]
    """The sum over a strip."""
    total = x.dtype.type(0.0)
    for u in range(len(x)):
        total += x[u]
    return np.float64(total)


@summing
def sum_of_products(x, y):  # type: ignore[no-untyped-def]
    """The sum of x y."""
    total = x.dtype.type(0.0)
    for u in range(len(x)):
        total += x[u] * y[u]
    return np.float64(total)


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

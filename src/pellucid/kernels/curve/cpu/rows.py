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
    "parts_of_power",
    "pulled",
    "slope_of",
    "sum_of_differences",
    "sum_of_products",
    "sum_of_three",
    "total_of",
]

_LN2 = math.log(2.0)
_EXP2 = tuple(_LN2**k / math.factorial(k) for k in range(1, 8))


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


@fused
def _log2(x):  # type: ignore[no-untyped-def]
    """Of a float64 that came as a float32 above 0, to 1e-9: by 2 atanh((m - 1) / (m + 1)) of its mantissa m in [0.7, 1.42]."""
    bits = np.float64(x).view(np.int64)
    whole = (bits - np.int64(0x3FE6A09E00000000)) >> np.int64(52)
    m = np.int64(bits - (whole << np.int64(52))).view(np.float64)
    d = m + 1.0
    r = np.float64(np.float32(1.0) / np.float32(d))
    s = (m - 1.0) * r * (2.0 - d * r)  # one step of Newton's takes less than a division
    q = s * s
    series = 1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9))))
    return np.float64(whole) + (2.0 / _LN2) * s * series


@fused
def _exp2(t):  # type: ignore[no-untyped-def]
    """Of a float64, to 5e-9 of it; what float32 cannot hold becomes infinite or 0."""
    t = t if t < 1000.0 else 1000.0
    t = t if t > -1000.0 else -1000.0
    whole = np.floor(t + 0.5)
    f = t - whole
    a, b, c, d, e, g, h = _EXP2
    series = ((((((h * f + g) * f + e) * f + d) * f + c) * f + b) * f + a) * f + 1.0
    return series * np.int64((np.int64(whole) + np.int64(1023)) << np.int64(52)).view(np.float64)


@fused
def parts_of_power(x, exponent, gain, clip, y, logarithm, slope):  # type: ignore[no-untyped-def]
    """The result y = gain * x ** exponent, 0 where x is not positive; where there is room for them, log x and the slope dy / dx.

    In float32 the power is the nearest number but for one in a few hundred, so an exponent of 1 changes nothing.
    """
    noinline()
    cast = x.dtype.type
    zero, one = cast(0.0), cast(1.0)
    for u in range(len(y) if exponent == one else 0):
        y[u] = gain * x[u] if x[u] > zero else zero
    for u in range(len(y) if exponent != one else 0):
        positive = x[u] > zero
        safe = x[u] if positive else one
        z = _exp2(np.float64(exponent) * _log2(np.float64(safe))) if x.itemsize == 4 else np.float64(safe**exponent)
        y[u] = gain * cast(z) if positive else zero
    for u in range(len(logarithm)):
        safe = x[u] if x[u] > zero else one
        logarithm[u] = cast(_LN2 * _log2(np.float64(safe))) if x.itemsize == 4 else cast(math.log(safe))
    for u in range(len(slope)):
        safe = x[u] if x[u] > zero else one
        slope[u] = exponent * y[u] / safe
    if clip:
        for u in range(len(y)):
            z = zero if y[u] < zero else y[u]
            y[u] = one if z > one else z

"""A strip of numbers raised to a power, and its logarithms, written so that the compiler vectorises.

Owns: `parts_of_power`, exponents of a usual size in float32 alone, others in float64, and `slope_through_power`.
Must not: loop over an image.
Read next: ``rows.py``.
"""

import math

import numpy as np

from pellucid.kernels.jit import fused

__all__ = ["parts_of_power", "slope_through_power"]

_LN2 = math.log(2.0)
_EXP2 = tuple(_LN2**k / math.factorial(k) for k in range(1, 8))

# In float32: 2 ** f = 1 + f * (these, from f ** 0 on) for |f| <= 0.6, to 2 ** -27 of it, and log2(1 + r) = r * (these) for
# 1 + r between the roots of 1/2 and 2, to 2 ** -27: polynomials of least error.
_RISE = (
    0.6931472444541142, 0.2402264241231448, 0.055502509496738676, 0.009618769855635022, 0.0013427091042481373,
    0.0001533057921616478,
)  # fmt: skip
_FALL = (
    1.4426948701220643, -0.7213471289266417, 0.48092242259300694, -0.36072113655465055, 0.28765875657283024,
    -0.23852120053772663, 0.2173657564659668, -0.21028968013429322, 0.12542770192973932,
)  # fmt: skip
_ROOT = 0x3F3504F3  # the bits of the root of 1/2, of a float32 as below
_MIDDLE = 126.957  # bits / 2 ** 23 less this is the logarithm to .043
_WHOLE = 12582912.0  # adding and subtracting it rounds to an integer, which the last bits of the sum hold
_MOST = 3.0  # the greatest exponent, and numbers from 2 ** -41 to 2, a picture's: neither they nor their powers leave the range
_LOW, _HIGH = (127 - 41) << 23, (127 + 1) << 23


@fused
def _log2(x):  # type: ignore[no-untyped-def]
    """Log2 of a float64 that was a float32 above 0, to 1e-9: by 2 atanh((m - 1) / (m + 1)) of its mantissa m in [0.7, 1.42]."""
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
    """2 ** t of a float64, to 5e-9 of it; results that float32 cannot hold become infinite or 0."""
    t = t if t < 1000.0 else 1000.0
    t = t if t > -1000.0 else -1000.0
    whole = np.floor(t + 0.5)
    f = t - whole
    a, b, c, d, e, g, h = _EXP2
    series = ((((((h * f + g) * f + e) * f + d) * f + c) * f + b) * f + a) * f + 1.0
    return series * np.int64((np.int64(whole) + np.int64(1023)) << np.int64(52)).view(np.float64)


@fused
def _bits(x):  # type: ignore[no-untyped-def]
    return np.float32(x).view(np.int32)


@fused
def _number(bits):  # type: ignore[no-untyped-def]
    return np.int32(bits).view(np.float32)


@fused.wide
def _quickly(x, exponent, gain, y):  # type: ignore[no-untyped-def]
    """Y = gain * x ** exponent in float32 alone, to 2 units in the last place; returns whether all numbers above 0 are usual.

    With x = (1 + r) * 2 ** e the power is 2 ** (n + f), f = exponent * (e + log2(1 + r)) - n, and no term of f is rounded before
    it is small: the exponent is split, so that the first part times e is exact, and the first coefficient of the logarithm, which
    an fma adds before it rounds. The whole number n is guessed from the bits of x, so that the rest need not wait; polynomials are
    computed in halves, as waiting for results takes the time.
    """
    zero, one, shift, middle = np.float32(0.0), np.float32(1.0), np.int32(23), np.float32(_WHOLE)
    p = np.float64(exponent)
    coarse = _number(_bits(exponent) & np.int32(-4096))
    fine = np.float32(exponent) - coarse
    a, d, e, g, h, i, j, k, m = _FALL
    first = np.float32(p * a)
    rest = np.float32(p * a - np.float64(first))
    a1, a2, a3, a4 = np.float32(p * d), np.float32(p * e), np.float32(p * g), np.float32(p * h)
    a5, a6, a7, a8 = np.float32(p * i), np.float32(p * j), np.float32(p * k), np.float32(p * m)
    c0, c1, c2, c3, c4, c5 = _RISE
    b0, b1, b2, b3, b4, b5 = np.float32(c0), np.float32(c1), np.float32(c2), np.float32(c3), np.float32(c4), np.float32(c5)
    slope, start = np.float32(p / (1 << 23)), np.float32(-_MIDDLE * p)
    least, most = np.int32(_HIGH), np.int32(_LOW)
    for u in range(len(y)):
        positive = x[u] > zero
        bits = _bits(x[u] if positive else one)
        least, most = np.int32(min(least, bits)), np.int32(max(most, bits))
        sum_of = (np.float32(bits) * slope + start) + middle
        n = sum_of - middle
        whole = np.int32(np.int32(bits - np.int32(_ROOT)) >> shift)
        r = _number(bits - np.int32(whole << shift)) - one
        power = np.float32(whole)
        rr = r * r
        series = ((a1 + r * a2) + rr * (a3 + r * a4)) + (rr * rr) * ((a5 + r * a6) + rr * (a7 + r * a8))
        f = ((coarse * power - n) + first * r) + (fine * power + r * (rest + r * series))
        ff = f * f
        z = one + f * ((b0 + f * b1) + ff * ((b2 + f * b3) + ff * (b4 + f * b5)))
        y[u] = gain * _number(_bits(z) + np.int32(_bits(sum_of) << shift)) if positive else zero
    return (least >= np.int32(_LOW)) & (most < np.int32(_HIGH))


@fused.wide
def _logarithms(x, out):  # type: ignore[no-untyped-def]
    """Log x in float32 alone, for usual numbers; 0 where x is not above 0."""
    zero, one, shift = np.float32(0.0), np.float32(1.0), np.int32(23)
    a, d, e, g, h, i, j, k, m = _FALL
    a0, a1, a2, a3, a4 = np.float32(a), np.float32(d), np.float32(e), np.float32(g), np.float32(h)
    a5, a6, a7, a8 = np.float32(i), np.float32(j), np.float32(k), np.float32(m)
    for u in range(len(out)):
        bits = _bits(x[u] if x[u] > zero else one)
        whole = np.int32(np.int32(bits - np.int32(_ROOT)) >> shift)
        r = _number(bits - np.int32(whole << shift)) - one
        rr = r * r
        series = ((a1 + r * a2) + rr * (a3 + r * a4)) + (rr * rr) * ((a5 + r * a6) + rr * (a7 + r * a8))
        out[u] = np.float32(_LN2) * (np.float32(whole) + r * (a0 + r * series))


@fused.noinline.wide
def parts_of_power(x, exponent, gain, clip, y, logarithm):  # type: ignore[no-untyped-def]
    """Write y = gain * x ** exponent, 0 where x is not positive; and log x, unless ``logarithm`` is empty.

    An exponent of 1 leaves x exactly as it is.
    """
    cast = x.dtype.type
    zero, one = cast(0.0), cast(1.0)
    quick = x.itemsize == 4 and abs(exponent) <= cast(_MOST)
    if quick and (exponent != one or len(logarithm) > 0):
        quick = _quickly(x, exponent, gain, y)  # if a number is not usual, all are written again below
    for u in range(len(y) if exponent == one else 0):
        y[u] = gain * x[u] if x[u] > zero else zero
    for u in range(len(y) if not quick and exponent != one else 0):
        positive = x[u] > zero
        safe = x[u] if positive else one
        z = _exp2(np.float64(exponent) * _log2(np.float64(safe))) if x.itemsize == 4 else np.float64(safe**exponent)
        y[u] = gain * cast(z) if positive else zero
    if quick and len(logarithm) > 0:
        _logarithms(x, logarithm)
    for u in range(len(logarithm) if not quick else 0):
        safe = x[u] if x[u] > zero else one
        logarithm[u] = cast(_LN2 * _log2(np.float64(safe))) if x.itemsize == 4 else cast(math.log(safe))
    if clip:
        for u in range(len(y)):
            z = zero if y[u] < zero else y[u]
            y[u] = one if z > one else z


@fused.noinline.wide
def slope_through_power(clip, exponent, gain, x, y, g, inside, target):  # type: ignore[no-untyped-def]
    """The gradient of x from that of gain * y, y = x ** exponent, where that lies in [0, 1] (the ends count) or is not clipped.

    ``inside``, unless empty, gets the gradient that the clip lets through.
    """
    zero, one = g.dtype.type(0.0), g.dtype.type(1.0)
    for u in range(len(target)):
        z = gain * y[u]
        let = g[u] if (not clip) | ((z >= zero) & (z <= one)) else zero
        safe = x[u] if x[u] > zero else one
        target[u] = let * gain * (exponent * y[u] / safe)
    for u in range(len(inside)):
        z = gain * y[u]
        inside[u] = g[u] if (not clip) | ((z >= zero) & (z <= one)) else zero

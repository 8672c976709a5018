"""Compute a run of a sample's normal numbers, from its key and the position alone.

Owns: the compiled hash and the compiled Box-Muller map, bit for bit those of ``random/philox.py`` and ``random/normals.py``.
Must not: see an image.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.interleaving import together
from pellucid.kernels.jit import exact
from pellucid.random.normals import HALF_PI, LOG_2, ROOT_HALF

__all__ = ["normals"]

_MASK, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_LOW, _WEYL_HIGH = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@exact.noinline
def _hash(key, block, words):  # type: ignore[no-untyped-def]
    """Philox 4x32-10 of the counters (block + i, 0, 0, 0): rows 0 to 3 of ``words``, upper 24 bits of each."""
    low, high = np.uint64(key[0]) & _MASK, np.uint64(key[1]) & _MASK
    a, b, c, d = words[0], words[1], words[2], words[3]
    eight, zero = np.uint64(8), np.uint64(0)
    for i in range(len(a)):
        c0, c1, c2, c3 = np.uint64(block + i) & _MASK, zero, zero, zero
        k0, k1 = low, high
        for _ in range(10):
            right, left = _FIRST * c0, _SECOND * c2
            c0, c1, c2, c3 = (left >> _HALF) ^ c1 ^ k0, left & _MASK, (right >> _HALF) ^ c3 ^ k1, right & _MASK
            k0, k1 = (k0 + _WEYL_LOW) & _MASK, (k1 + _WEYL_HIGH) & _MASK
        a[i], b[i] = np.int32(c0 >> eight), np.int32(c1 >> eight)
        c[i], d[i] = np.int32(c2 >> eight), np.int32(c3 >> eight)


@exact
def _horner(x, coefficients, total):  # type: ignore[no-untyped-def]
    first = coefficients[0]
    for i in range(len(x)):
        total[i] = first
    for k in range(1, len(coefficients)):
        coefficient = coefficients[k]
        for i in range(len(x)):
            total[i] = total[i] * x[i] + coefficient


@exact.noinline
def _radius(words, artanh, power, s, square, out):  # type: ignore[no-untyped-def]
    """The square root of -2 log u."""
    cast = out.dtype.type
    half, one, two, log_2 = cast(0.5), cast(1.0), cast(2.0), cast(LOG_2)
    unit, root_half = cast(2.0**-24), cast(ROOT_HALF)
    for i in range(len(out)):
        u, e = (cast(words[i]) + half) * unit, cast(0.0)
        for shift in (16, 8, 4, 2, 1):
            small = u < one / cast(1 << shift)
            u = u * cast(1 << shift) if small else u
            e = e - cast(shift) if small else e
        small = u < root_half
        u = u * two if small else u
        power[i] = (e - one if small else e) * log_2
        s[i] = (u - one) / (u + one)
        square[i] = s[i] * s[i]
    _horner(square, artanh, out)
    for i in range(len(out)):
        out[i] = np.sqrt(-two * (power[i] + s[i] * out[i]))


@exact.noinline
def _turned(words, sine, cosine, x, square, cos, sin):  # type: ignore[no-untyped-def]
    """Cosine and sine of u turns."""
    cast = x.dtype.type
    half, four, unit, half_pi = cast(0.5), cast(4.0), cast(2.0**-24), cast(HALF_PI)
    for i in range(len(x)):
        t = four * ((cast(words[i]) + half) * unit)
        x[i] = (t - np.floor(t + half)) * half_pi
        square[i] = x[i] * x[i]
    _horner(square, cosine, cos)
    _horner(square, sine, sin)
    for i in range(len(x)):
        t = four * ((cast(words[i]) + half) * unit)
        quarter = np.floor(t + half)
        s, c = x[i] * sin[i], cos[i]
        odd = (quarter == cast(1.0)) | (quarter == cast(3.0))
        left = (quarter == cast(1.0)) | (quarter == cast(2.0))
        low = (quarter == cast(2.0)) | (quarter == cast(3.0))
        a, b = (s if odd else c), (c if odd else s)
        cos[i], sin[i] = (-a if left else a), (-b if low else b)


@exact
def _pair(words, artanh, sine, cosine, rows, first, second):  # type: ignore[no-untyped-def]
    radius, cos, sin = rows[0], rows[1], rows[2]
    _radius(words[0], artanh, rows[3], rows[4], rows[5], radius)
    _turned(words[1], sine, cosine, rows[3], rows[4], cos, sin)
    for i in range(len(radius)):
        first[i], second[i] = radius[i] * cos[i], radius[i] * sin[i]


@exact.noinline
def normals(key, block, artanh, sine, cosine, words, rows, out):  # type: ignore[no-untyped-def]
    """Numbers 4 * block to 4 * (block + n) of the field with this key; words (4, n) int32 and rows (10, n) are scratch."""
    n = rows.shape[1]
    _hash(key, block, words)
    _pair(words[:2], artanh, sine, cosine, rows, rows[6], rows[7])
    _pair(words[2:], artanh, sine, cosine, rows, rows[8], rows[9])
    together(rows.reshape(rows.size), 6 * n, n, n, (0, 0, 0, 0), out)

"""Where output pixels read: coordinates, taps, weights and border rules, as functions inlined into the kernels.

Owns: the same arithmetic as the reference's ``coordinates`` and ``axis_taps``, for a block of pixels in registers.
Must not: read an image.
Read next: ``sampling.py``.
"""

# Coordinates must equal the reference's bit for bit, so that hard edges (nearest, windows) fall on the same pixel. Kernels are
# therefore compiled without contraction; where a fused multiply-add does no harm it is written out.

import triton
import triton.language as tl

__all__ = [
    *("BORDER", "FILLED", "bump", "displace", "fold", "half_up", "load_map", "locate", "settle", "slope", "tile_pixels", "weight"),
    "within",
]

FILLED, BORDER, REFLECTION, REFLECT_101 = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)  # and 4: wrap
FAR = tl.constexpr(4194304.0)  # as in taps.py


@triton.jit
def tile_pixels(tile_x, tile_y, BW: tl.constexpr, WW: tl.constexpr, P: tl.constexpr):  # type: ignore[no-untyped-def]
    """Column and row of each pixel of a tile of BW columns; every 32 in a row are a patch of WW columns, which a warp reads."""
    lane = tl.arange(0, P)
    patch, place = lane // 32, lane % 32
    column = (patch % (BW // WW)) * WW + place % WW
    row = (patch // (BW // WW)) * (32 // WW) + place // WW
    return tile_x * BW + column, tile_y * (P // BW) + row


@triton.jit
def load_map(mapping, PROJECTIVE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The nine numbers of a sample's map; the last row is never used where it is not projective."""
    m0, m1, m2 = tl.load(mapping), tl.load(mapping + 1), tl.load(mapping + 2)
    m3, m4, m5 = tl.load(mapping + 3), tl.load(mapping + 4), tl.load(mapping + 5)
    m6, m7, m8 = m0, m0, m0
    if PROJECTIVE:
        m6, m7, m8 = tl.load(mapping + 6), tl.load(mapping + 7), tl.load(mapping + 8)
    return m0, m1, m2, m3, m4, m5, m6, m7, m8


@triton.jit
def divide(a, b, F: tl.constexpr):  # type: ignore[no-untyped-def]
    """A quotient rounded to nearest; `/` alone is approximate in single precision."""
    if F == tl.float32:
        quotient = tl.div_rn(a, b)
    else:
        quotient = a / b
    return quotient


@triton.jit
def locate(  # type: ignore[no-untyped-def]
    u, v, m0, m1, m2, m3, m4, m5, m6, m7, m8, PROJECTIVE: tl.constexpr, F: tl.constexpr, RAW: tl.constexpr = False
):
    """(x, y, w, usable) of output pixels; w is the denominator (x where affine). Unless RAW, x and y are 0 where not usable."""
    column, row = u.to(F), v.to(F)
    x = m0 * column + (m1 * row + m2)
    y = m3 * column + (m4 * row + m5)
    w = x
    if PROJECTIVE:
        w = m6 * column + (m7 * row + m8)
        x, y = divide(x, w, F), divide(y, w, F)
        # On the horizon, and where a slope overflows, the point is nowhere.
        usable = (tl.abs(divide(x, w, F)) < float("inf")) & (tl.abs(divide(y, w, F)) < float("inf"))
    else:
        usable = (tl.abs(x) < float("inf")) & (tl.abs(y) < float("inf"))
    if not RAW:
        x, y = tl.where(usable, x, 0.0), tl.where(usable, y, 0.0)
    return x, y, w, usable


@triton.jit
def displace(  # type: ignore[no-untyped-def]
    x, y, usable, field, u, v, stride_c, stride_y, stride_x, FIELD: tl.constexpr, INDEX: tl.constexpr
):
    """(x, y, usable) of output pixels with a sample's displacement added, in the order of the reference's sum."""
    if FIELD:
        at = v.to(INDEX) * stride_y + u.to(INDEX) * stride_x
        x = x + tl.load(field + at, mask=usable, other=0.0)
        y = y + tl.load(field + at + stride_c, mask=usable, other=0.0)
        usable = usable & (tl.abs(x) < float("inf")) & (tl.abs(y) < float("inf"))
        x, y = tl.where(usable, x, 0.0), tl.where(usable, y, 0.0)
    return x, y, usable


@triton.jit
def half_up(x, length):  # type: ignore[no-untyped-def]
    """What is added to x before nearest rounds down, as in ``taps.py``."""
    return tl.full(x.shape, 0.5, x.dtype) + (2.0**-51 if x.dtype == tl.float64 else 2.0**-22) * length


@triton.jit
def settle(x, low, high, length, TAPS: tl.constexpr, EDGE: tl.constexpr, WINDOW: tl.constexpr):  # type: ignore[no-untyped-def]
    """Window and limits applied to a coordinate: (index of the first tap, position between taps, whether the limits held it)."""
    if WINDOW:
        x = tl.minimum(tl.maximum(x, low), high)
    held = x
    # Beyond these bounds the taps no longer change, so neither may the gradient; and conversion to an integer stays defined. NaN
    # ends outside of the image: a GPU's maximum takes the number, and what the interpreter's NaN converts to is negative.
    if EDGE <= BORDER:
        x = tl.minimum(tl.maximum(x, -3.0), length + 2.0)
    else:
        x = tl.minimum(tl.maximum(x, -FAR), FAR)
    base = tl.floor(x + half_up(x, length)) if TAPS == 1 else tl.floor(x)
    first = base.to(tl.int32)
    if TAPS == 4:
        first -= 1
    return first, x - base, held != x


@triton.jit
def within(i, length):  # type: ignore[no-untyped-def]
    """Whether 0 <= i < length, by one comparison: as unsigned numbers, negative ones are the largest."""
    return i.to(tl.uint32, bitcast=True) < length.to(tl.uint32)


@triton.jit
def fold(i, length, EDGE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Map any integer position to the pixel the border rule puts there."""
    if EDGE <= BORDER:
        i = tl.minimum(tl.maximum(i, 0), length - 1)
    else:
        if EDGE == REFLECTION:
            period = 2 * length
        elif EDGE == REFLECT_101:
            period = tl.maximum(2 * (length - 1), 1)
        else:
            period = length
        i = i % period
        i = tl.where(i < 0, i + period, i)
        if EDGE == REFLECTION:
            i = tl.where(i < length, i, period - 1 - i)
        elif EDGE == REFLECT_101:
            i = tl.where(i < length, i, period - i)
    return i


@triton.jit
def weight(t, CUBIC: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Weight of tap K for the position t in [0, 1) between the taps."""
    s = 1.0 - t
    if TAPS == 1:
        value = tl.full(t.shape, 1.0, t.dtype)
    elif TAPS == 2:
        value = s if K == 0 else t
    elif K == 0:
        value = CUBIC * t * s * s
    elif K == 1:
        value = 1.0 + t * t * ((CUBIC + 2.0) * t - (CUBIC + 3.0))
    elif K == 2:
        value = 1.0 + s * s * ((CUBIC + 2.0) * s - (CUBIC + 3.0))
    else:
        value = CUBIC * s * t * t
    return value


@triton.jit
def bump(d, CUBIC: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weight of what lies d >= 0 pixels away, under a tent or a cubic kernel."""
    if TAPS == 2:
        value = tl.clamp(1.0 - d, 0.0, 1.0)
    else:
        inner = 1.0 + d * d * ((CUBIC + 2.0) * d - (CUBIC + 3.0))
        outer = CUBIC * (d - 1.0) * (d - 2.0) * (d - 2.0)
        value = tl.where(d < 1.0, inner, tl.where(d < 2.0, outer, 0.0))
    return value


@triton.jit
def slope(t, CUBIC: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The derivative of `weight` by t."""
    s = 1.0 - t
    if TAPS == 1:
        value = tl.full(t.shape, 0.0, t.dtype)
    elif TAPS == 2:
        value = tl.full(t.shape, -1.0 if K == 0 else 1.0, t.dtype)
    elif K == 0:
        value = CUBIC * s * (s - 2.0 * t)
    elif K == 1:
        value = t * (3.0 * (CUBIC + 2.0) * t - 2.0 * (CUBIC + 3.0))
    elif K == 2:
        value = -s * (3.0 * (CUBIC + 2.0) * s - 2.0 * (CUBIC + 3.0))
    else:
        value = CUBIC * t * (2.0 * s - t)
    return value

"""Where a strip of output pixels reads: coordinates, which of them need no border rule, and single pixels that do.

Owns: the same arithmetic as the reference's ``coordinates`` and ``axis_taps``, a strip at a time.
Must not: read an image.
Read next: ``gather.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import apart, exact, fused

__all__ = ["FILLED", "classify", "displace", "fractions", "locate", "resolve"]

FILLED, BORDER, REFLECTION, REFLECT_101 = 0, 1, 2, 3  # and 4: wrap
_FAR = float(1 << 22)  # as in taps.py


@exact
def locate(m, v, projective, us, vs, x, y, w):  # type: ignore[no-untyped-def]
    """Input coordinates x, y of the output pixels (us, v + vs) under the 3x3 map m (flat); w is the denominator if projective."""
    apart()
    top = us.dtype.type(v)
    m0, m1, m2, m3, m4, m5 = m[0], m[1], m[2], m[3], m[4], m[5]
    if projective:
        m6, m7, m8, far = m[6], m[7], m[8], us.dtype.type(np.inf)
        for u in range(len(us)):
            row = vs[u] + top
            z = m6 * us[u] + (m7 * row + m8)
            here_x = (m0 * us[u] + (m1 * row + m2)) / z
            here_y = (m3 * us[u] + (m4 * row + m5)) / z
            # On the horizon, and where a slope overflows, the point is nowhere; resolve() asks whether x is finite.
            slope = abs(here_x / z) + abs(here_y / z)
            w[u], y[u] = z, here_y
            x[u] = here_x if slope < far else far
    else:
        for u in range(len(us)):
            row = vs[u] + top
            x[u] = m0 * us[u] + (m1 * row + m2)
            y[u] = m3 * us[u] + (m4 * row + m5)


@exact
def displace(fields, row, at, x, y):  # type: ignore[no-untyped-def]
    """Add a field, whose rows ``row`` and the next hold the displacements along x and y, from pixel ``at`` on."""
    apart()
    along_x, along_y = fields[row][at:], fields[row + 1][at:]
    for u in range(len(x)):
        x[u] += along_x[u]
        y[u] += along_y[u]


@fused
def classify(x, y, inner, outer, kind):  # type: ignore[no-untyped-def]
    """What each pixel needs: 2, all four bilinear taps without a border rule; 1, anything else; 0, it sees nothing.

    Args:
        inner: (low x, high x, low y, high y): the half-open box of coordinates of kind 2.
        outer: the open box of coordinates that may see anything.

    Returns:
        How many are of kind 2 and of kind 1.
    """
    apart()
    low_x, high_x, low_y, high_y = inner
    left, right, top, bottom = outer
    inside = edge = np.int32(0)
    for u in range(len(x)):
        a, b = x[u], y[u]
        fast = (a >= low_x) & (a < high_x) & (b >= low_y) & (b < high_y)
        seen = (a > left) & (a < right) & (b > top) & (b < bottom)
        k = np.int32(2) if fast else (np.int32(1) if seen else np.int32(0))
        kind[u] = k
        inside += k >> 1
        edge += k & 1
    return inside, edge


@fused
def fractions(x, y, kind, stride_x, stride_y, index, tx, ty):  # type: ignore[no-untyped-def]
    """Split the coordinates of pixels of kind 2 into the first tap's element offset and the position between taps."""
    apart()
    cast = tx.dtype.type
    zero = cast(0.0)
    for u in range(len(x)):
        fast = kind[u] == 2
        a, b = x[u] if fast else zero, y[u] if fast else zero
        column, row = np.int32(a), np.int32(b)
        tx[u] = a - cast(column)
        ty[u] = b - cast(row)
        index[u] = np.uint64(np.int64(row) * stride_y + np.int64(column) * stride_x)


@exact
def _fold(i, length, mode):  # type: ignore[no-untyped-def]
    """Map any integer position to the pixel the border rule puts there."""
    if mode <= BORDER:
        return min(max(i, 0), length - 1)
    if mode == REFLECTION:
        i %= 2 * length
        return i if i < length else 2 * length - 1 - i
    if mode == REFLECT_101:
        period = max(2 * (length - 1), 1)
        i %= period
        return i if i < length else period - i
    return i % length


@exact
def _axis(x, length, taps, cubic, mode, index, weight, slope):  # type: ignore[no-untyped-def]
    """The neighbours of a finite coordinate on one axis: positions, weights and the weights' derivatives."""
    cast = weight.dtype.type
    one = cast(1.0)
    low, high = (-3.0, length + 2.0) if mode <= BORDER else (-_FAR, _FAR)
    held = x < cast(low) or x > cast(high)  # where nothing changes any more, in particular not with x
    x = min(max(x, cast(low)), cast(high))
    base = np.floor(x + cast(0.5)) if taps == 1 else np.floor(x)
    t = x - base
    first = np.int64(base)
    if taps == 1:
        weight[0], slope[0] = one, cast(0.0)
    elif taps == 2:
        weight[0], weight[1] = one - t, t
        slope[0], slope[1] = -one, one
    else:
        first -= 1
        a, s = cast(cubic), one - t
        two, three = cast(2.0), cast(3.0)
        weight[0] = a * t * s * s
        weight[3] = a * s * t * t
        weight[1] = one + t * t * ((a + two) * t - (a + three))
        weight[2] = one + s * s * ((a + two) * s - (a + three))
        slope[0] = a * s * (s - two * t)
        slope[3] = a * t * (two * s - t)
        slope[1] = t * (three * (a + two) * t - two * (a + three))
        slope[2] = -s * (three * (a + two) * s - two * (a + three))
    for k in range(taps):
        i = first + k
        if mode == FILLED and (i < 0 or i >= length):
            weight[k] = slope[k] = cast(0.0)
        if held:
            slope[k] = cast(0.0)
        index[k] = _fold(i, length, mode)


@exact
def resolve(x, y, shape, taps, cubic, mode, window, index, weight, slope):  # type: ignore[no-untyped-def]
    """The taps of one pixel on both axes (rows 0: x, 1: y); False where nothing of the image is seen.

    ``window`` is empty or (x0, y0, x1, y1): coordinates are clamped to it, and in the filled modes what lies more than half
    a pixel outside is not seen.
    """
    if not (np.isfinite(x) and np.isfinite(y)):
        return False
    height, width = shape
    if len(window) == 4:
        half = window.dtype.type(0.5)
        if mode == FILLED and not (
            x >= window[0] - half and x < window[2] + half and y >= window[1] - half and y < window[3] + half
        ):
            return False
        x, y = min(max(x, window[0]), window[2]), min(max(y, window[1]), window[3])
        mode = BORDER
    elif mode == FILLED:
        reach = max(taps // 2, 1)
        if not (x > -reach and x < width - 1 + reach and y > -reach and y < height - 1 + reach):
            return False
    _axis(x, width, taps, cubic, mode, index[0], weight[0], slope[0])
    _axis(y, height, taps, cubic, mode, index[1], weight[1], slope[1])
    return True

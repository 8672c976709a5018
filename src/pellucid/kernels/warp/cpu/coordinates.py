"""Where a row of output pixels reads: coordinates, the span that needs no border rule, and single pixels that do.

Owns: the same arithmetic as the reference's ``coordinates`` and ``axis_taps``, a row at a time.
Must not: read an image.
Read next: ``gather.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import exact, fused

__all__ = ["FILLED", "fractions", "interior", "locate", "resolve"]

FILLED, BORDER, REFLECTION, REFLECT_101 = 0, 1, 2, 3  # and 4: wrap
_FAR = float(1 << 22)  # as in taps.py


@exact
def locate(m, v, projective, ramp, x, y, w):  # type: ignore[no-untyped-def]
    """Input coordinates x, y of output row v under the 3x3 map m (flat); w is the denominator, written if projective."""
    row = ramp.dtype.type(v)
    c0, c1 = m[1] * row + m[2], m[4] * row + m[5]
    m0, m3 = m[0], m[3]
    if projective:
        m6, c2, far = m[6], m[7] * row + m[8], ramp.dtype.type(np.inf)
        for u in range(len(ramp)):
            w[u] = m6 * ramp[u] + c2
            x[u] = (m0 * ramp[u] + c0) / w[u]
            y[u] = (m3 * ramp[u] + c1) / w[u]
            # On the horizon, and where a slope overflows, the point is nowhere; resolve() asks whether x is finite.
            slope = abs(x[u] / w[u]) + abs(y[u] / w[u])
            x[u] = x[u] if slope < far else far
    else:
        for u in range(len(ramp)):
            x[u] = m0 * ramp[u] + c0
            y[u] = m3 * ramp[u] + c1


@exact
def interior(x, y, low_x, high_x, low_y, high_y):  # type: ignore[no-untyped-def]
    """A span [a, b) of the row with low <= coordinate < high throughout; found from both ends, then verified."""
    a, b = 0, len(x)
    while a < b and not (x[a] >= low_x and x[a] < high_x and y[a] >= low_y and y[a] < high_y):
        a += 1
    while b > a and not (x[b - 1] >= low_x and x[b - 1] < high_x and y[b - 1] >= low_y and y[b - 1] < high_y):
        b -= 1
    middle_x, middle_y = x[a:b], y[a:b]
    inside = 0
    for u in range(b - a):
        inside += (middle_x[u] >= low_x) & (middle_x[u] < high_x) & (middle_y[u] >= low_y) & (middle_y[u] < high_y)
    # An affine row is monotone, so its ends decide; a projective one may leave through the horizon and come back.
    if inside != b - a:
        return 0, 0
    return a, b


@fused
def fractions(x, y, stride_x, stride_y, index, tx, ty):  # type: ignore[no-untyped-def]
    """Split coordinates >= 0 into the first tap's element offset and the position between taps."""
    cast = tx.dtype.type
    for u in range(len(x)):
        column, row = np.int32(x[u]), np.int32(y[u])
        tx[u] = x[u] - cast(column)
        ty[u] = y[u] - cast(row)
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

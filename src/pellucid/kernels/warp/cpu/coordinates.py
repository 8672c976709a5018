"""Where a strip of output pixels reads: coordinates, which of them need no border rule, and single pixels that do.

Owns: the same arithmetic as the reference's ``coordinates`` and ``axis_taps``, a strip at a time.
Must not: read an image.
Read next: ``gather.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import exact, fused, inlined, noinline, wide
from pellucid.kernels.warp.cpu.layout import ACROSS, COLUMNS, DOWN, LEFT, LINES, RING, STAGED, TOP, US, VS, X, Y

__all__ = ["BORDER", "FILLED", "boxes", "cover_of", "displace", "fold", "half_up", "locate", "resolve", "settle"]

FILLED, BORDER, REFLECTION, REFLECT_101 = 0, 1, 2, 3  # and 4: wrap
_FAR = float(1 << 22)  # as in taps.py


@exact
def locate(m, v, projective, us, vs, x, y, w):  # type: ignore[no-untyped-def]
    """Input coordinates x, y of the output pixels (us, v + vs) under the 3x3 map m (flat); w is the denominator if projective."""
    noinline()
    wide()
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
def displace(fields, row, at, width, step, x, y):  # type: ignore[no-untyped-def]
    """Add a field, whose rows ``row`` and the next hold the displacements along x and y.

    Args:
        at: the first pixel's place; lines of ``width`` pixels follow, ``step`` apart, to the field's end.
    """
    noinline()
    across = fields[row]
    down = fields[row + 1]
    for first in range(0, len(x), width):
        here = at + first // width * step
        for u in range(max(min(width, len(across) - here), 0)):
            x[first + u] += across[here + u]
            y[first + u] += down[here + u]


@fused
def boxes(shape, taps, mode, window, cast):  # type: ignore[no-untyped-def]
    """Open boxes of coordinates (low x, high x, low y, high y): those with pixels that can be laid out; seen at all; and what is
    clamped to before it is read.
    """
    zero, far = cast(0.0), cast(np.inf)
    high_x, high_y = cast(shape[1] - 1), cast(shape[0] - 1)
    everything = (-far, far, -far, far)
    # How far outside of the edge pixels' centres a clamped coordinate still makes a difference.
    before, after = (cast(-2.0), cast(1.0)) if taps == 4 else (zero, zero)
    first, last_x, last_y = before, high_x + after, high_y + after
    if len(window) == 4:
        seen, half = everything, cast(0.5)
        if mode == FILLED:  # closed below
            low_x, low_y = np.nextafter(window[0] - half, -far), np.nextafter(window[1] - half, -far)
            seen = (low_x, window[2] + half, low_y, window[3] + half)
        left, right = min(max(window[0], first), last_x), min(max(window[2], first), last_x)
        top, bottom = min(max(window[1], first), last_y), min(max(window[3], first), last_y)
        return seen, seen, (left, right, top, bottom)
    if mode == FILLED:
        reach = cast(max(taps // 2, 1))
        low = np.nextafter(-reach, -far)  # closed below: slopes are taken from the right
        seen = (low, high_x + reach, low, high_y + reach)
        return seen, seen, (-reach, high_x + reach, -reach, high_y + reach)
    if mode == BORDER:
        return everything, everything, (first, last_x, first, last_y)
    # What folds back in is staged as it will be seen, as far out as an image's size or two.
    held = (-cast(shape[1]), cast(2 * shape[1]), -cast(shape[0]), cast(2 * shape[0]))
    return held, everything, held


@exact
def half_up(length, cast):  # type: ignore[no-untyped-def]
    """What is added before nearest rounds down, as in ``taps.py``."""
    one, two = cast(1.0), cast(2.0)
    return cast(0.5) + two * (np.nextafter(one, two) - one) * cast(length)


@fused
def settle(call, m, v, window, strip):  # type: ignore[no-untyped-def]
    """What each pixel needs: 2, pixels that are laid out; 1, anything else; 0, it sees nothing. And which pixels of the stage.

    Args:
        m: an affine map, which is then done here as :func:`locate` does; None where the coordinates are known.
    """
    inlined()
    rows, frame, taps, shape = strip.rows, strip.frame, call.taps, (call.height, call.width)
    corner, lines = (frame[LEFT] - frame[RING], frame[TOP] - frame[RING]), (frame[LINES], frame[COLUMNS])
    limits = boxes(shape, taps, call.mode, window, rows.dtype.type)
    _settle(
        m, v, rows[US], rows[VS], rows[X], rows[Y], taps, limits, shape, corner, lines, strip.kind, strip.index, rows[ACROSS],
        rows[DOWN],
    )  # fmt: skip
    if frame[STAGED] == 0:
        for u in range(len(strip.index)):
            strip.index[u] = u * 4 * taps * taps


@exact
def _settle(m, v, us, vs, x, y, taps, limits, whole, corner, shape, kind, index, tx, ty):  # type: ignore[no-untyped-def]
    """The same of rows: as arguments they are compared before a loop that then is vectorised.

    Args:
        limits: as :func:`boxes` gives them, of kind 2, of what may see anything, and what the former are held to.
        whole: (height, width) of the image.
        corner: x and y of the stage's first pixel, its ring included.
        shape: (lines, columns) of the stage, its ring included; pixels of other kinds read the empty lines below.
        index, tx, ty: the first staged pixel, and the position between it and the next.
    """
    noinline()
    wide()
    cast = tx.dtype.type
    inner, outer, held = limits
    low_x, high_x, low_y, high_y = inner
    left, right, top, bottom = outer
    first_x, last_x, first_y, last_y = held
    zero = cast(0.0)
    corner_x, corner_y = cast(corner[0]), cast(corner[1])
    last_i, last_j = cast(shape[1] - taps), cast(shape[0] - taps)
    # The nearest pixel is a position on it; of four, the first lies one further back.
    half_x, half_y, share = zero, zero, cast(1.0)
    if taps == 1:
        half_x, half_y, share = half_up(whole[1], cast), half_up(whole[0], cast), zero
    if taps == 4:
        corner_x, corner_y = corner_x + cast(1.0), corner_y + cast(1.0)
    # Offsets are small enough to be exact in this type, and one conversion is cheaper than integer products.
    four, line, nowhere = cast(4.0), cast(4 * shape[1]), cast(4 * shape[0] * shape[1])
    if m is not None:
        top_row = cast(v)
        m0, m1, m2, m3, m4, m5 = m[0], m[1], m[2], m[3], m[4], m[5]
    for u in range(len(x)):
        if m is not None:
            a, b = m0 * us[u] + (m1 * (vs[u] + top_row) + m2), m3 * us[u] + (m4 * (vs[u] + top_row) + m5)
            x[u], y[u] = a, b
        else:
            a, b = x[u], y[u]
        fast = (a > low_x) & (a < high_x) & (b > low_y) & (b < high_y)
        seen = fast
        if m is None:  # an affine map that comes here has a border rule that does not fold
            seen = (a > left) & (a < right) & (b > top) & (b < bottom)
        kind[u] = np.int32(2) if fast else (np.int32(1) if seen else np.int32(0))
        a, b = min(max(a if fast else zero, first_x), last_x), min(max(b if fast else zero, first_y), last_y)
        column, row = np.floor(a + half_x), np.floor(b + half_y)
        # The band was chosen so that these are inside; the limits only keep a mistake from leaving the memory.
        i, j = min(max(column - corner_x, zero), last_i), min(max(row - corner_y, zero), last_j)
        tx[u], ty[u] = (a - column) * share, (b - row) * share
        index[u] = np.int32(j * line + i * four if fast else nowhere)


@exact
def fold(i, length, mode):  # type: ignore[no-untyped-def]
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
    base = np.floor(x + half_up(length, cast)) if taps == 1 else np.floor(x)
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
        index[k] = fold(i, length, mode)


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


@fused
def cover_of(weight, slope, taps):  # type: ignore[no-untyped-def]
    """What the taps that :func:`resolve` found cover, and how that changes with x and y."""
    cover_x = cover_y = along_x = along_y = weight.dtype.type(0.0)
    for k in range(taps):
        cover_x += weight[0, k]
        cover_y += weight[1, k]
        along_x += slope[0, k]
        along_y += slope[1, k]
    return cover_x * cover_y, along_x * cover_y, cover_x * along_y

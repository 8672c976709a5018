"""Where a strip of output pixels reads: coordinates, which of them see anything, and which pixel is the first that each reads.

Owns: the same arithmetic as the reference's ``coordinates`` and ``axis_taps``, a strip at a time.
Must not: read an image.
Read next: ``gather.py``.
"""

import numpy as np

from pellucid.kernels.jit import exact, fused
from pellucid.kernels.warp.cpu.layout import ACROSS, COLUMNS, DOWN, LEFT, LINES, QUADS, RING, STAGED, TOP, X, Y

__all__ = ["BORDER", "FILLED", "boxes", "displace", "fold", "half_up", "held_beyond", "locate", "nearer", "rule_of", "settle"]

FILLED, BORDER, REFLECTION, REFLECT_101 = 0, 1, 2, 3  # and 4: wrap
_FAR = float(1 << 22)  # as in taps.py


@exact.noinline.wide
def locate(m, v, projective, us, vs, x, y, w):  # type: ignore[no-untyped-def]
    """Input coordinates x, y of the output pixels (us, v + vs) under the 3x3 map m (flat); w is the denominator if projective."""
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


@exact.noinline
def _shift(across, down, x, y):  # type: ignore[no-untyped-def]
    for u in range(len(x)):
        x[u], y[u] = x[u] + across[u], y[u] + down[u]


@exact.noinline
def displace(fields, row, at, width, step, x, y):  # type: ignore[no-untyped-def]
    """Add a field, whose rows ``row`` and the next hold the displacements along x and y.

    Args:
        at: the first pixel's place; lines of ``width`` pixels follow, ``step`` apart, to the field's end.
    """
    for first in range(0, len(x), width):
        here = at + first // width * step
        n = max(min(width, fields.shape[1] - here), 0)
        _shift(fields[row, here : here + n], fields[row + 1, here : here + n], x[first : first + n], y[first : first + n])


@fused
def rule_of(call, window):  # type: ignore[no-untyped-def]
    """The border rule; a window clamps, whatever it is."""
    return BORDER if len(window) == 4 else call.mode


@fused
def boxes(call, window, cast):  # type: ignore[no-untyped-def]
    """Open boxes of coordinates (low x, high x, low y, high y): those that see anything, and the box that reads are clamped to.

    Where the rule folds, the second is the box that can be staged; coordinates further outside are brought :func:`nearer` first.
    """
    zero, half, far, taps = cast(0.0), cast(0.5), cast(np.inf), call.taps
    width, height, high_x, high_y = cast(call.width), cast(call.height), cast(call.width - 1), cast(call.height - 1)
    everything = (-far, far, -far, far)
    # How far outside of the edge pixels' centres a clamped coordinate still makes a difference.
    first, after = (cast(-2.0), cast(1.0)) if taps == 4 else (zero, zero)
    last_x, last_y = high_x + after, high_y + after
    if len(window) == 4:
        seen = everything
        if call.mode == FILLED:  # closed below
            low_x, low_y = np.nextafter(window[0] - half, -far), np.nextafter(window[1] - half, -far)
            seen = (low_x, window[2] + half, low_y, window[3] + half)
        left, right = min(max(window[0], first), last_x), min(max(window[2], first), last_x)
        top, bottom = min(max(window[1], first), last_y), min(max(window[3], first), last_y)
        return seen, (left, right, top, bottom)
    if call.mode == FILLED:
        reach = cast(max(taps // 2, 1))
        low = np.nextafter(-reach, -far)  # closed below: slopes are taken from the right
        return (low, high_x + reach, low, high_y + reach), (-reach, high_x + reach, -reach, high_y + reach)
    if call.mode == BORDER:
        return everything, (first, last_x, first, last_y)
    # What folds back in is staged as it will be seen, as far out as an image's size or two.
    return everything, (-width, width + width, -height, height + height)


@fused
def held_beyond(call, window, cast):  # type: ignore[no-untyped-def]
    """(first x, last x, first y, last y): before the first and from the last on, moving a point changes nothing."""
    rule, far = rule_of(call, window), cast(np.inf)
    if rule == BORDER and call.taps == 2:
        return cast(0.0), cast(call.width - 1), cast(0.0), cast(call.height - 1)
    if rule > BORDER:
        last = np.nextafter(cast(_FAR), far)
        return -cast(_FAR), last, -cast(_FAR), last
    return -far, far, -far, far


@exact.noinline
def nearer(x, length, mode):  # type: ignore[no-untyped-def]
    """Move a coordinate an image's size or two outside by whole periods of the border rule, to where it reads the same pixels."""
    cast = type(x)
    size, far = cast(length), cast(_FAR)
    if mode <= BORDER or (x > -size and x < size + size) or not abs(x) < cast(np.inf):
        return x
    x = min(max(x, -far), far)
    period = size + size if mode == REFLECTION else (max(size + size - cast(2.0), cast(1.0)) if mode == REFLECT_101 else size)
    return x - np.floor(x / period) * period


@fused.noinline
def _strays(x, y, box):  # type: ignore[no-untyped-def]
    """Whether any point lies outside of a box, or nowhere."""
    found, (low_x, high_x, low_y, high_y) = False, box
    for u in range(len(x)):
        found |= not ((x[u] > low_x) & (x[u] < high_x) & (y[u] > low_y) & (y[u] < high_y))
    return found


@fused.noinline
def _bring_nearer(x, y, shape, mode, near_x, near_y):  # type: ignore[no-untyped-def]
    for u in range(len(x)):
        near_x[u], near_y[u] = nearer(x[u], shape[1], mode), nearer(y[u], shape[0], mode)


@exact
def half_up(length, cast):  # type: ignore[no-untyped-def]
    """The number added before nearest rounds down, as in ``taps.py``."""
    one, two = cast(1.0), cast(2.0)
    return cast(0.5) + two * (np.nextafter(one, two) - one) * cast(length)


@fused.inlined
def settle(call, window, strip):  # type: ignore[no-untyped-def]
    """Write which pixels of a strip see anything, and which staged pixel each reads."""
    rows, frame, taps, shape = strip.rows, strip.frame, call.taps, (call.height, call.width)
    corner, lines = (frame[LEFT] - frame[RING], frame[TOP] - frame[RING]), (frame[LINES], frame[COLUMNS])
    limits, x, y = boxes(call, window, rows.dtype.type), rows[X], rows[Y]
    if rule_of(call, window) > BORDER and _strays(x, y, limits[1]):
        x, y = rows[QUADS], rows[QUADS + 1]
        _bring_nearer(rows[X], rows[Y], shape, call.mode, x, y)
    _settle(x, y, taps, limits, shape, corner, lines, strip.seen, strip.index, (rows[ACROSS], rows[DOWN]))
    if frame[STAGED] == 0:
        for u in range(len(strip.index)):
            strip.index[u] = u * 4 * taps * taps


@exact.noinline.wide
def _settle(x, y, taps, limits, whole, corner, shape, seen, index, shares):  # type: ignore[no-untyped-def]
    """The loop of `settle`: rows that are arguments are checked for overlap before a loop, which is then vectorised.

    Args:
        limits: as :func:`boxes` gives them.
        whole: (height, width) of the image.
        corner: x and y of the stage's first pixel, its ring included.
        shape: (lines, columns) of the stage, its ring included; pixels that see nothing read the empty lines below.
        index, shares: the first staged pixel, and the position between it and the next along x and y.
    """
    tx, ty = shares
    cast = tx.dtype.type
    (low_x, high_x, low_y, high_y), (first_x, last_x, first_y, last_y) = limits
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
    for u in range(len(x)):
        a, b = x[u], y[u]
        sees = (a > low_x) & (a < high_x) & (b > low_y) & (b < high_y)
        seen[u] = np.int32(1) if sees else np.int32(0)
        a, b = min(max(a if sees else zero, first_x), last_x), min(max(b if sees else zero, first_y), last_y)
        column, row = np.floor(a + half_x), np.floor(b + half_y)
        # The band was chosen so that these are inside; the limits only keep a mistake from leaving the memory.
        i, j = min(max(column - corner_x, zero), last_i), min(max(row - corner_y, zero), last_j)
        tx[u], ty[u] = (a - column) * share, (b - row) * share
        index[u] = np.int32(j * line + i * four if sees else nowhere)


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

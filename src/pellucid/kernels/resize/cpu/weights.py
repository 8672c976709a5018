"""The weights of one axis: which pixels an output pixel integrates over, how much each counts, and their gradients.

Owns: the same arithmetic as the reference's ``_axis``, without its zeros.
Must not: read an image.
Read next: ``lines.py``.

A table of weights lies tap by tap: the weight of tap k of output u is ``weights[k * outputs + u]`` and belongs to pixel
``first[u] + k``.
"""

import numpy as np

from pellucid.kernels.jit import exact

__all__ = ["round_up", "spread", "spread_backward", "spread_moved", "turn"]


@exact
def round_up(taps):  # type: ignore[no-untyped-def]
    """The number of taps a table has room for: two at least, and beyond four a multiple of four."""
    return max(taps, 2) if taps <= 4 else (taps + 3) // 4 * 4


@exact
def _kernel(t, cubic):  # type: ignore[no-untyped-def]
    cast = type(t)
    one, two = cast(1.0), cast(2.0)
    t = abs(t)
    if not cubic:
        return max(one - t, cast(0.0))
    if t < one:
        return one + t * t * (cast(1.5) * t - cast(2.5))
    if t < two:
        return two + t * (cast(-4.0) + t * (cast(2.5) - cast(0.5) * t))
    return cast(0.0)


@exact
def _slope(t, cubic):  # type: ignore[no-untyped-def]
    """The kernel's derivative; 0 at its kinks."""
    size = abs(t)
    if not cubic:
        rise = -1.0 if size < 1.0 else 0.0
    elif size < 1.0:
        rise = size * (4.5 * size - 5.0)
    elif size < 2.0:
        rise = -4.0 + size * (5.0 - 1.5 * size)
    else:
        rise = 0.0
    return rise if t > 0.0 else (-rise if t < 0.0 else 0.0)


@exact
def _share(pixel, low, high):  # type: ignore[no-untyped-def]
    """How much of a pixel lies in the window."""
    half = type(low)(0.5)
    return max(min(pixel + half, high + half) - max(pixel - half, low - half), type(low)(0.0))


@exact
def _place(scale, shift, low, high, u):  # type: ignore[no-untyped-def]
    """(whether the map is finite here, the centre kept within half a pixel of the window, whether it was there before)."""
    half = type(scale)(0.5)
    centre = scale * type(scale)(u) + shift
    held = min(max(centre, low - half), high + half)
    finite = np.isfinite(scale) and np.isfinite(centre) and not (np.isnan(low) or np.isnan(high))
    return finite, held, (centre >= low - half) and (centre < high + half)


@exact
def _reach(centre, width, low, high, length, cubic):  # type: ignore[no-untyped-def]
    """The first pixel that counts, and how many do."""
    cast = type(centre)
    reach = width * cast(2.0) if cubic else width
    start = max(np.floor(max(centre - reach, low - cast(1.0))), cast(0.0))
    stop = min(np.ceil(min(centre + reach, high + cast(1.0))), cast(length - 1))
    if not start <= stop:
        return 0, 0
    first, last = np.int64(start), min(np.int64(stop), length - 1)
    while first <= last and _empty(first, centre, width, low, high, cubic):
        first += 1
    while first <= last and _empty(last, centre, width, low, high, cubic):
        last -= 1
    return first, last - first + 1


@exact
def _empty(pixel, centre, width, low, high, cubic):  # type: ignore[no-untyped-def]
    cast = type(centre)
    at = cast(pixel)
    # Not where the weight is 0: that of a cubic is 0 one pixel away, but its slope is not.
    return abs((at - centre) / width) >= (cast(2.0) if cubic else cast(1.0)) or _share(at, low, high) == 0


@exact.noinline
def spread(scale, shift, low, high, length, cubic, filled, sharp, first, count, weights, seen):  # type: ignore[no-untyped-def]
    """Fill the table of one axis.

    Args:
        scale, shift, low, high: the map and the window along this axis.
        length: of the input.
        filled: whether outputs outside the window see nothing.
        sharp: whether the kernel stays as wide as it is, however large the footprint.
        first, count: the first pixel of each output, and how many (0 where it sees nothing).
        weights: with room for as many taps as the widest output needs.
        seen: 1 where an output sees something, else 0.

    Returns:
        How many taps the table has.
    """
    cast = type(scale)
    outputs = len(first)
    width = cast(1.0) if sharp else max(abs(scale), cast(1.0))
    taps = np.int64(0)
    for u in range(outputs):
        finite, centre, inside = _place(scale, shift, low, high, u)
        first[u] = count[u] = 0
        seen[u] = cast(0.0)
        if finite and (inside or not filled):
            seen[u] = cast(1.0)
            first[u], count[u] = _reach(centre, width, low, high, length, cubic)
        taps = max(taps, count[u])
    taps = round_up(taps)
    for u in range(outputs):
        _, centre, _ = _place(scale, shift, low, high, u)
        total = cast(0.0)
        for k in range(taps):
            weight = cast(0.0)
            if k < count[u]:
                pixel = cast(first[u] + k)
                weight = _kernel((pixel - centre) / width, cubic) * _share(pixel, low, high)
            total += weight
            weights[k * outputs + u] = weight
        for k in range(count[u]):
            weights[k * outputs + u] = weights[k * outputs + u] / total if total > cast(0.0) else cast(0.0)
    return taps


@exact.noinline
def turn(first, count, weights, start, length, low, high, table):  # type: ignore[no-untyped-def]
    """Transpose a table: for each pixel of [start, start + length) the weights that outputs give it.

    Args:
        first, count, weights: of :func:`spread`.
        low, high: per pixel, the first and the last output that reads it; ``low`` is an answer, ``high`` scratch.
        table: where the weights go.

    Returns:
        How many taps it has; 0 where it does not fit, which is where most of it would be zeros.
    """
    outputs = len(first)
    for x in range(length):
        low[x], high[x] = outputs, 0
    for u in range(outputs):
        for k in range(count[u]):
            x = first[u] - start + k
            low[x], high[x] = min(low[x], u), max(high[x], u)
    taps = np.int64(0)
    for x in range(length):
        if low[x] > high[x]:
            low[x] = high[x] = 0
        taps = max(taps, high[x] - low[x] + 1)
    taps = round_up(taps)
    if taps * length > len(table):
        return np.int64(0)
    table[: taps * length] = table.dtype.type(0.0)
    for u in range(outputs):
        for k in range(count[u]):
            x = first[u] - start + k
            table[(u - low[x]) * length + x] = weights[k * outputs + u]
    return taps


@exact
def _before(x, y):  # type: ignore[no-untyped-def]
    """1 if x < y, 0 if x > y, and one half for a tie, as torch's minimum and maximum share gradients."""
    return 1.0 if x < y else (0.5 if x == y else 0.0)


@exact.noinline
def spread_backward(scale, shift, low, high, cubic, sharp, first, count, sums, to_map, to_window, axis):  # type: ignore[no-untyped-def]
    """Add one axis' gradients to the float64 rows of map and window; ``sums`` are the gradients of the weights, laid out alike."""
    outputs = len(first)
    size, a, b = 1.0 if sharp else max(abs(np.float64(scale)), 1.0), np.float64(low) - 0.5, np.float64(high) + 0.5
    for u in range(outputs):
        if count[u] == 0:
            continue
        unheld = np.float64(scale * type(scale)(u) + shift)
        _, held, _ = _place(scale, shift, low, high, u)
        centre = np.float64(held)
        total = mean = 0.0
        for k in range(count[u]):
            pixel = np.float64(first[u] + k)
            weight = _kernel((pixel - centre) / size, cubic) * _share(pixel, a + 0.5, b - 0.5)
            total += weight
            mean += weight * sums[k * outputs + u]
        if not total > 0.0:
            continue
        mean /= total
        to_centre = to_size = 0.0
        for k in range(count[u]):
            pixel = np.float64(first[u] + k)
            t, to_weight = (pixel - centre) / size, (sums[k * outputs + u] - mean) / total
            to_share = to_weight * _kernel(t, cubic)
            to_window[2 + axis] += to_share * _before(b, pixel + 0.5)
            to_window[axis] -= to_share * _before(pixel - 0.5, a)
            along = to_weight * _share(pixel, a + 0.5, b - 0.5) * _slope(t, cubic) / size
            to_centre -= along
            to_size -= along * t
        kept = _before(max(unheld, a), b)
        to_window[2 + axis] += (1.0 - kept) * to_centre
        to_centre *= kept
        kept = _before(a, unheld)
        to_window[axis] += (1.0 - kept) * to_centre
        to_centre *= kept
        to_map[2 + 3 * axis] += to_centre
        to_map[4 * axis] += to_centre * u
        if abs(scale) >= 1.0 and not sharp:
            to_map[4 * axis] += to_size if scale > 0.0 else -to_size


@exact.noinline
def spread_moved(  # type: ignore[no-untyped-def]
    scale, shift, low, high, by_scale, by_shift, by_low, by_high, cubic, sharp, first, count, taps, moved
):
    """Write the tangent of :func:`spread`'s table, from those of map and window along one axis: ``taps`` rows, laid out alike."""
    outputs = len(first)
    size, a, b = 1.0 if sharp else max(abs(np.float64(scale)), 1.0), np.float64(low) - 0.5, np.float64(high) + 0.5
    by_size = 0.0
    if abs(scale) >= 1.0 and not sharp:
        by_size = np.float64(by_scale) if scale > 0.0 else -np.float64(by_scale)
    moved[: taps * outputs] = moved.dtype.type(0.0)
    for u in range(outputs):
        unheld = np.float64(scale * type(scale)(u) + shift)
        _, held, _ = _place(scale, shift, low, high, u)
        centre, kept = np.float64(held), _before(a, unheld)
        by_centre = kept * (by_scale * u + by_shift) + (1.0 - kept) * by_low
        kept = _before(max(unheld, a), b)
        by_centre = kept * by_centre + (1.0 - kept) * by_high
        total = rise = 0.0
        for k in range(count[u]):
            pixel = np.float64(first[u] + k)
            t, share = (pixel - centre) / size, _share(pixel, a + 0.5, b - 0.5)
            by_share = by_high * _before(b, pixel + 0.5)
            by_share -= by_low * _before(pixel - 0.5, a)
            change = _kernel(t, cubic) * by_share - share * _slope(t, cubic) * (by_centre + t * by_size) / size
            total += _kernel(t, cubic) * share
            rise += change
            moved[k * outputs + u] = change
        for k in range(count[u]):
            weight = _kernel((first[u] + k - centre) / size, cubic) * _share(np.float64(first[u] + k), a + 0.5, b - 0.5) / total
            change = (moved[k * outputs + u] - weight * rise) / total
            moved[k * outputs + u] = change if total > 0.0 else 0.0

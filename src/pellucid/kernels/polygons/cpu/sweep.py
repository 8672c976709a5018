"""The compiled passes: coverage, row by row, and its gradient along the edges.

Owns: the walk of an edge through rows and columns, and what a thread may write.
Must not: allocate.
Read next: ``../reference.py`` one folder up.
"""

import numpy as np

from pellucid.kernels.jit import entry, fused

__all__ = ["cover", "to_corners"]

_ROUNDING = 1e-6  # the reference's


@fused
def _is_corner(corner):  # type: ignore[no-untyped-def]
    return np.isfinite(corner[0]) and np.isfinite(corner[1])


@fused
def _following(corners, k, first):  # type: ignore[no-untyped-def]
    """The corner after corner k of the ring that begins at corner ``first``."""
    return k + 1 if k + 1 < len(corners) and _is_corner(corners[k + 1]) else first


@fused
def _rows(low, high, height):  # type: ignore[no-untyped-def]
    """The first row that an edge from ``low`` to ``high`` lies in, and the one behind the last."""
    first = np.int64(np.floor(max(low, 0.0))) if low < height else height
    last = np.int64(np.ceil(min(high, np.float64(height)))) if high > 0.0 else 0
    return first, (max(last, min(first + 1, height)) if high >= 0.0 else 0)


@fused
def _add(row, left, right, fall):  # type: ignore[no-untyped-def]
    """Add the part of an edge in a row, from x ``left`` to ``right``, which falls by so much."""
    low, high = (left, right) if left < right else (right, left)
    width = len(row) - 1
    if high <= 0.0:
        row[0] += fall
        return
    if low >= width:
        return
    rate = fall / (high - low) if high > low else 0.0
    if low < 0.0:
        row[0] -= rate * low
        fall, low = fall + rate * low, 0.0
    if high > width:
        fall, high = fall - rate * (high - width), np.float64(width)
    first, last = np.int64(low), np.int64(high) if high < width else width - 1
    if first == last:
        share = fall * (0.5 * (low + high) - first)
        row[first] += fall - share
        row[first + 1] += share
        return
    for column in range(first, last + 1):
        begin, end = max(low, np.float64(column)), min(high, column + 1.0)
        here = rate * (end - begin)
        share = here * (0.5 * (begin + end) - column)
        row[column] += here - share
        row[column + 1] += share


@fused.noinline
def _wind_edge(x0, y0, x1, y1, sums):  # type: ignore[no-untyped-def]
    if y0 == y1:
        return
    height = len(sums)
    first, last = _rows(min(y0, y1), max(y0, y1), height)
    slope, begin = (x1 - x0) / (y1 - y0), x0
    down = y1 > y0
    for step in range(first, last):
        r = step if down else first + last - 1 - step
        above, below = max(min(y0, y1), np.float64(r)), min(max(y0, y1), r + 1.0)
        if below <= above:
            continue
        enter, leave = (above, below) if down else (below, above)
        begin = x0 if enter == y0 else x0 + (enter - y0) * slope
        end = x1 if leave == y1 else x0 + (leave - y0) * slope
        _add(sums[r], begin, end, leave - enter)


@fused.noinline
def _wind(corners, sums):  # type: ignore[no-untyped-def]
    """Write mean winding numbers, positive inside of parts; returns (first row, row behind the last, sign that was applied)."""
    height, width = len(sums), sums.shape[1] - 1
    low, high, area, first = np.inf, -np.inf, 0.0, 0
    for k in range(len(corners)):
        if not _is_corner(corners[k]):
            first = k + 1
            continue
        end = corners[_following(corners, k, first)]
        low, high = min(low, corners[k, 1]), max(high, corners[k, 1])
        area += (corners[k, 0] + end[0]) * (end[1] - corners[k, 1])
    top, bottom = _rows(low, high, height) if low <= high else (height, height)
    top = min(top, height)
    bottom = max(bottom, top)
    sums[top:bottom] = 0.0
    first = 0
    for k in range(len(corners)):
        if not _is_corner(corners[k]):
            first = k + 1
            continue
        end = corners[_following(corners, k, first)]
        _wind_edge(corners[k, 0], corners[k, 1], end[0], end[1], sums)
    way = -1.0 if area > 0.0 else 1.0
    for r in range(top, bottom):
        total = 0.0
        for u in range(width):
            total += sums[r, u]
            sums[r, u] = total * way
    return top, bottom, way


@entry
def cover(points, out, sums, start, stop):  # type: ignore[no-untyped-def]
    """Write the coverage of polygons start to stop."""
    cast = out.dtype.type
    for i in range(start, stop):
        plane = out[i]
        top, bottom, _ = _wind(points[i], sums)
        plane[:top] = cast(0.0)
        plane[bottom:] = cast(0.0)
        for r in range(top, bottom):
            for u in range(plane.shape[1]):
                wound = sums[r, u]
                wound = -wound if wound < -_ROUNDING else wound if wound > 0.0 else 0.0
                plane[r, u] = cast(min(wound, 1.0))


@fused
def _slope(wound):  # type: ignore[no-untyped-def]
    """The slope of coverage in the winding number."""
    if wound < -_ROUNDING:
        return -1.0 if wound >= -1.0 else 0.0
    return 1.0 if (wound >= 0.0) & (wound <= 1.0) else 0.0


@fused.noinline
def _moments(x0, y0, x1, y1, grad, sums):  # type: ignore[no-untyped-def]
    """Integrals along an edge of the gradient to windings, and of its product with the share of the edge's length."""
    height, width = grad.shape
    along, down = x1 - x0, y1 - y0
    whole, weighed = 0.0, 0.0
    first, last = _rows(min(y0, y1), max(y0, y1), height)
    for r in range(first, last):
        begin, end = 0.0, 1.0
        if down != 0.0:
            a, b = (r - y0) / down, (r + 1.0 - y0) / down
            begin, end = max(0.0, min(a, b)), min(1.0, max(a, b))
        if end <= begin:
            continue
        a, b = x0 + begin * along, x0 + end * along
        low, high = min(a, b), max(a, b)
        if high < 0.0 or low > width:
            continue
        left, right = np.int64(max(low, 0.0)), np.int64(min(high, np.float64(width)))
        left, right = min(left, width - 1), min(right, width - 1)
        for column in range(left, right + 1):
            enter, leave = begin, end
            if along != 0.0:
                a, b = (column - x0) / along, (column + 1.0 - x0) / along
                enter, leave = max(begin, min(a, b)), min(end, max(a, b))
            if leave > enter:
                here = np.float64(grad[r, column]) * _slope(sums[r, column]) * (leave - enter)
                whole += here
                weighed += here * 0.5 * (leave + enter)
    return whole, weighed


@entry
def to_corners(points, grad, into, sums, start, stop):  # type: ignore[no-untyped-def]
    """The gradients of polygons start to stop: along each edge, the incoming one times the way that the edge moves."""
    for i in range(start, stop):
        corners, found = points[i], into[i]
        found[:] = 0.0
        top, bottom, way = _wind(corners, sums)
        sums[:top] = 0.0
        sums[bottom:] = 0.0
        first = 0
        for k in range(len(corners)):
            if not _is_corner(corners[k]):
                first = k + 1
                continue
            j = _following(corners, k, first)
            x0, y0, x1, y1 = corners[k, 0], corners[k, 1], corners[j, 0], corners[j, 1]
            whole, weighed = _moments(x0, y0, x1, y1, grad[i], sums)
            down, across = (y1 - y0) * way, (x1 - x0) * way
            found[k, 0] -= down * (whole - weighed)
            found[k, 1] += across * (whole - weighed)
            found[j, 0] -= down * weighed
            found[j, 1] += across * weighed

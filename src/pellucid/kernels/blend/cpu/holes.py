"""Paint rectangles over planes, and compute their gradients; only the rows and columns that they touch are visited.

Owns: the mix of a pixel with what covers it, bit for bit the same in place and out of place.
Must not: know of tensors, or where a rectangle's shares come from.
Read next: ``paint.py``.
"""

import numpy as np

from pellucid.kernels.jit import entry, fused
from pellucid.kernels.narrow import steps
from pellucid.kernels.stages.sums import dot

__all__ = ["back", "paint"]


@fused
def _reach(columns):  # type: ignore[no-untyped-def]
    """The columns [low, high) that some rectangle (n, width) covers in part."""
    low, high, zero = columns.shape[1], 0, columns.dtype.type(0.0)
    for k in range(len(columns)):
        for u in range(columns.shape[1]):
            if columns[k, u] > zero:
                low, high = min(low, u), max(high, u + 1)
    return low, high


@fused.noinline
def _cover(rows, columns, y, low, mask):  # type: ignore[no-untyped-def]
    """Write to ``mask`` how much rectangles cover of row y's pixels from ``low`` on; returns whether they cover any."""
    zero = mask.dtype.type(0.0)
    covers = False
    for k in range(len(rows)):
        share = rows[k, y]
        if share > zero:
            column = columns[k, low : low + len(mask)]
            if not covers:
                mask[:] = zero
            covers = True
            for u in range(len(mask)):
                mask[u] += share * column[u]
    return covers


@fused
def _mixed(share, x, color):  # type: ignore[no-untyped-def]
    zero, one = type(share)(0.0), type(share)(1.0)
    mixed = color - (color - x) * (one - share)
    mixed = x if share <= zero else mixed
    return color if share >= one else mixed


@fused.noinline
def _mix(mask, value, step, unit, row):  # type: ignore[no-untyped-def]
    if step == 0:
        color = value[0]
        for u in range(len(row)):
            row[u] = _mixed(mask[u], row[u] * unit, color)
    else:
        for u in range(len(row)):
            row[u] = _mixed(mask[u], row[u] * unit, value[u])


@entry
def paint(down, across, values, step, channels, width, pitch, out, start, stop):  # type: ignore[no-untyped-def]
    """Paint over planes [start, stop) of (batch * channels, height * width), in place.

    Args:
        down, across: (b or 1, n, height) and (b or 1, n, width), each rectangle's share of a row and of a column.
        values: (b or 1, channels, 1, width or height * width); ``step`` is 0 for one value, else 1.
        pitch: step from a row's values to the next row's; 0 where all rows share them.
        out: of the others' dtype, or bytes, as fractions of 255.
    """
    unit = down.dtype.type(1.0 / 255.0) if out.itemsize == 1 else down.dtype.type(1.0)
    out = steps(out)
    scratch = np.empty(width, down.dtype)
    for s in range(start, stop):
        b = s // channels
        rows, columns, value = down[b % len(down)], across[b % len(across)], values[b % len(values), s - b * channels]
        low, high = _reach(columns)
        if low >= high:
            continue
        mask = scratch[: high - low]
        for y in range(rows.shape[1]):
            if _cover(rows, columns, y, low, mask):
                _mix(mask, value[step * (y * pitch + low) :], step, unit, out[s][y * width + low : y * width + high])


@fused.noinline
def _slopes(mask, value, step, x, g, to_mask):  # type: ignore[no-untyped-def]
    """The gradient to each pixel's sum of shares; 0 where the sum is 0, or 1 and more."""
    zero, one = g.dtype.type(0.0), g.dtype.type(1.0)
    for u in range(len(mask)):
        share = mask[u]
        to_mask[u] = g[u] * (value[step * u] - x[u]) if (share > zero) & (share < one) else zero


@fused.noinline
def _rest(mask, g):  # type: ignore[no-untyped-def]
    zero, one = g.dtype.type(0.0), g.dtype.type(1.0)
    for u in range(len(g)):
        share = mask[u]
        g[u] = zero if share >= one else g[u] * (one - share)
        mask[u] = one if share >= one else share


@entry
def back(  # type: ignore[no-untyped-def]
    grad, image, down, across, values, step, channels, width, to_image, to_down, to_across, to_values, needs, start, stop
):
    """Gradients of planes [start, stop): ``to_image`` holds the upstream gradient on entry.

    Args:
        to_down, to_across, to_values: (planes, n, height), (planes, n, width) and (planes, 1 or height * width), zeros; each is
            written where its place in ``needs`` (shares, values) asks for it.
    """
    room = np.empty((2, width), to_image.dtype)
    for s in range(start, stop):
        b = s // channels
        rows, columns, value = down[b % len(down)], across[b % len(across)], values[b % len(values), s - b * channels]
        low, high = _reach(columns)
        if low >= high:
            continue
        mask, slope = room[0, : high - low], room[1, : high - low]
        for y in range(rows.shape[1]):
            if not _cover(rows, columns, y, low, mask):
                continue
            at, end = y * width + low, y * width + high
            g = grad[s, at:end]
            if needs[0]:
                _slopes(mask, value[step * at :], step, image[s, at:end], g, slope)
                for k in range(len(rows)):
                    column, into = columns[k, low:high], to_across[s, k, low:high]
                    share = rows[k, y]
                    to_down[s, k, y] = dot(slope, column)
                    for u in range(len(into)):
                        into[u] += share * slope[u]
            _rest(mask, to_image[s, at:end])
            if needs[1] and step == 0:
                to_values[s, 0] += np.float64(dot(mask, g))
            elif needs[1]:
                into = to_values[s, at:end]
                for u in range(len(into)):
                    into[u] = mask[u] * g[u]

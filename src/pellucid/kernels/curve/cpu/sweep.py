"""Loops over planes: every curve on floats, forward and backward, and on bytes, by tables.

Owns: the curves as the reference computes them, bit for bit but for the power, and their declared slopes.
Must not: know of tensors; everything comes as contiguous arrays, a plane for each channel of a sample.
Read next: ``rows.py``.
"""

import numpy as np

from pellucid.kernels.curve.cpu import rows
from pellucid.kernels.curve.cpu.rows import bent, bent_backward
from pellucid.kernels.curve.layout import AMOUNT, AUTOCONTRAST, EQUALIZE, GATE
from pellucid.kernels.jit import entry, fused
from pellucid.kernels.narrow import steps
from pellucid.kernels.stages.sums import copy

__all__ = ["backward", "by_levels", "forward", "look_up", "toned"]


@fused.noinline
def _settle(kind, row, weights, scale, numbers, table, rise, room):  # type: ignore[no-untyped-def]
    """Compute what a curve depends on of its whole channel: two numbers, and for equalising a table with its slopes.

    Args:
        row: the plane.
        weights: how often each of its numbers counts, or None: once.
        room: scratch for histograms and counts; and the plane's grey levels, which stay there where equalising looks them up.
    """
    zero = row.dtype.type(0.0)
    if kind == AUTOCONTRAST:
        return rows.extremes(row, weights)
    if kind != EQUALIZE:
        return numbers[AMOUNT], zero
    parts, counts, levels = room
    rows.levels_of(row, scale, levels)
    if weights is None:
        rows.counted(levels, 0, 1, parts, counts)
    else:
        counts[:] = 0
        for u in range(len(levels)):
            counts[levels[u]] += weights[u]
    stays = rows.flattened(counts, parts[0], table, rise)
    return row.dtype.type(1.0 if stays else 0.0), zero


@fused
def _room(kind, length):  # type: ignore[no-untyped-def]
    return np.empty((4, 256), np.int64), np.empty(256, np.int64), np.empty(length if kind == EQUALIZE else 0, np.uint8)


@fused
def _spread(kind, x, a, b, scale, levels, table, y):  # type: ignore[no-untyped-def]
    """Apply autocontrast, with the extremes ``a`` and ``b``, or equalising, by its table; there ``a`` is 1 if the channel stays."""
    if kind == AUTOCONTRAST:
        rows.curved(kind, x, a, b, scale, y)
    elif a == type(scale)(1.0):
        copy(x, y)
    else:
        rows.looked_up(levels, table, y)


@fused.noinline
def _stretched_back(row, grad, a, b, gate, into):  # type: ignore[no-untyped-def]
    """The gradient of a stretched plane, through its extremes too."""
    cast = row.dtype.type
    rest, product, whole, darkest, brightest = cast(1.0) - gate, 0.0, 0.0, 0, 0
    if a == b:
        for u in range(len(row)):
            into[u] = grad[u] * (gate + rest)
        return
    for first in range(0, len(row), rows.STRIP):
        x, g = row[first : first + rows.STRIP], grad[first : first + rows.STRIP]
        found = rows.pulls(x, g, a, b)
        product, whole = product + found[0], whole + found[1]
        darkest, brightest = darkest + found[2], brightest + found[3]
    span = b - a
    product /= span
    down, up = cast(gate * (product - whole) / span / max(darkest, 1)), cast(-gate * product / span / max(brightest, 1))
    rows.pulled(row, grad, gate * (cast(1.0) / span) + rest, a, down, b, up, into)


@fused
def toned(kind, clip, scale, own, row, counts, scratch, out):  # type: ignore[no-untyped-def]
    """Apply a curve to a plane; ``counts``: how often each of its numbers counts for extremes or histogram; None: once."""
    cast, (table, rise, room) = row.dtype.type, scratch
    if own[GATE] == cast(0.0):
        copy(row, out)
        return
    a, b = _settle(kind, row, counts, scale, own, table, rise, room)
    for first in range(0, len(row), rows.STRIP):
        x, y = row[first : first + rows.STRIP], out[first : first + rows.STRIP]
        if kind in (AUTOCONTRAST, EQUALIZE):
            _spread(kind, x, a, b, scale, room[2][first : first + rows.STRIP], table, y)
            if own[GATE] != cast(1.0):
                rows.mixed(own[GATE], x, y)
        else:
            bent(kind, clip, scale, own, x, y)


@entry
def forward(planes, numbers, options, scale, channels, out, start, stop):  # type: ignore[no-untyped-def]
    """Apply their curves to planes [start, stop).

    Args:
        numbers: (samples or 1, 3), as ``layout.py`` has them.
        options: kind, slope, magnitude, whether to clip.
    """
    cast, kind = planes.dtype.type, options[0]
    scratch = np.empty(256, planes.dtype), np.empty(256, planes.dtype), _room(kind, planes.shape[1])
    for p in range(start, stop):
        toned(kind, options[3], cast(scale), numbers[(p // channels) % len(numbers)], planes[p], None, scratch, out[p])


@fused
def _turns(cells, levels, out):  # type: ignore[no-untyped-def]
    """Scratch for looking up interleaved channels."""
    return np.empty(len(cells) * rows.STRIP, levels.dtype), np.empty(len(cells) * rows.STRIP, out.dtype)


@entry
def look_up(planes, tables, cells, out, start, stop):  # type: ignore[no-untyped-def]
    """Fill planes [start, stop) from their tables (planes, cells, 256); a plane holds one channel, or all interleaved."""
    room = _turns(cells, planes, out)
    for p in range(start, stop):
        rows.looked_up_by_turns(planes[p], tables[p], cells, room, out[p])


@entry
def by_levels(planes, numbers, options, channels, cells, out, start, stop):  # type: ignore[no-untyped-def]
    """Apply their curves to planes [start, stop) of bytes, by tables of 256 levels; rounded if ``out`` has bytes.

    Args:
        channels: how many planes a sample has.
        cells: a tuple with an entry for each channel of a plane.
    """
    kind, unit, n = options[0], np.float32(1.0 / 255.0), len(cells)
    levels, made, tables = np.empty(256, np.float32), np.empty(256, np.float32), np.empty((n, 256), out.dtype)
    room = _turns(cells, planes, out)
    scratch = np.empty(256, np.float32), np.empty(256, np.float32), _room(kind, 256)
    parts, counts = np.empty((4, 256), np.int64), np.empty(256, np.int64)
    for k in range(256):
        levels[k] = np.float32(k) * unit
    for p in range(start, stop):
        own = numbers[(p // channels) % len(numbers)]
        for c in range(n):
            if kind in (AUTOCONTRAST, EQUALIZE) and own[GATE] != np.float32(0.0):
                rows.counted(planes[p], c, n, parts, counts)
            toned(kind, options[3], np.float32(255.0), own, levels, counts, scratch, made)
            copy(made, steps(tables[c]))
        rows.looked_up_by_turns(planes[p], tables, cells, room, out[p])


@entry
def backward(grad, planes, numbers, options, scale, h, channels, to_image, sums, wanted, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of planes [start, stop), and if ``wanted`` their sums (planes, 3) in float64 for the numbers of the sample."""
    cast = planes.dtype.type
    kind, slope, magnitude, clip = options
    table, rise, room = np.empty(256, planes.dtype), np.empty(256, planes.dtype), _room(kind, planes.shape[1])
    scratch = np.empty((4, rows.STRIP), planes.dtype)
    for p in range(start, stop):
        own, row, into = numbers[(p // channels) % len(numbers)], planes[p], to_image[p]
        gate, along = own[GATE], sums[p]
        along[:] = 0.0
        a, b = own[AMOUNT], cast(0.0)
        if kind == AUTOCONTRAST or (kind == EQUALIZE and (wanted or slope == 2)):
            a, b = _settle(kind, row, None, cast(scale), own, table, rise, room)
        if kind == AUTOCONTRAST:
            _stretched_back(row, grad[p], a, b, gate, into)
        for first in range(0, len(row), rows.STRIP):
            x, g, target = row[first : first + rows.STRIP], grad[p][first : first + rows.STRIP], into[first : first + rows.STRIP]
            n, levels = len(x), room[2][first : first + rows.STRIP]
            y, slopes = scratch[0][:n], scratch[1][:n]
            if kind not in (AUTOCONTRAST, EQUALIZE):
                bent_backward((kind, slope, magnitude, clip), cast(scale), cast(h), own, x, g, target, scratch, along, wanted)
                continue
            if wanted:
                _spread(kind, x, a, b, cast(scale), levels, table, y)
                along[GATE] += rows.sum_of_differences(g, y, x)
            if kind == EQUALIZE:
                if slope == 2 and a != cast(1.0):
                    rows.looked_up(levels, rise, slopes)
                else:
                    slopes[:] = cast(0.0) if slope == 0 else cast(1.0)
                rows.mixed_slope(gate, g, slopes, target)

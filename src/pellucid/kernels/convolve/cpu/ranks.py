"""Medians of neighbourhoods: strip by strip, all pixels of a strip compared at once.

Owns: `median`, `median_backward`.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``../network.py``.

A run of pixels is copied once for each place of the window, so that one comparison of the network compares two rows of numbers.
A run goes on from row to row of the strip, through the border between them: the longer it is, the less a comparison's call counts.
"""

import numpy as np

from pellucid.kernels.convolve.cpu.rows import strip_of
from pellucid.kernels.convolve.network import BOTH, LESSER
from pellucid.kernels.curve.cpu.rows import sum_of_differences
from pellucid.kernels.jit import entry, exact
from pellucid.kernels.stages.sums import copy

__all__ = ["median", "median_backward"]


@exact.noinline
def _pad(plane, first, rows, taps, out):  # type: ignore[no-untyped-def]
    """Copy rows first, first + 1, ... of a plane continued by its edges; returns whether one of the numbers is NaN."""
    height, width, reach = plane.shape[0], plane.shape[1], taps // 2
    nans = 0
    for r in range(rows):
        x, y = plane[min(max(first + r, 0), height - 1)], out[r]
        for u in range(width):
            y[reach + u] = x[u]
            nans += 1 if x[u] != x[u] else 0
        for u in range(reach):
            y[u], y[reach + width + u] = x[0], x[width - 1]
    return nans > 0


@exact.noinline
def _gather(padded, at, down, across, places):  # type: ignore[no-untyped-def]
    """Copy to row k of ``places`` what lies at place k of the windows of pixels from ``at`` on."""
    n, step, flat = places.shape[1], padded.shape[1], padded.reshape(padded.size)
    for i in range(down):
        for j in range(across):
            x, y = flat[at + i * step + j :], places[i * across + j]
            for u in range(n):
                y[u] = x[u]


@exact
def _both(x, y):  # type: ignore[no-untyped-def]
    for u in range(len(x)):
        a, b = x[u], y[u]
        x[u] = a if a < b else b
        y[u] = b if a < b else a


@exact
def _lesser(x, y):  # type: ignore[no-untyped-def]
    for u in range(len(x)):
        x[u] = x[u] if x[u] < y[u] else y[u]


@exact
def _greater(x, y):  # type: ignore[no-untyped-def]
    for u in range(len(x)):
        y[u] = y[u] if x[u] < y[u] else x[u]


@exact.noinline
def _select(padded, at, down, across, network, nans, places):  # type: ignore[no-untyped-def]
    """The medians of a run of pixels; NaN where the window holds one."""
    _gather(padded, at, down, across, places)
    middle = places[down * across // 2]
    for k in range(len(network)):
        x, y = places[network[k, 0]], places[network[k, 1]]
        if network[k, 2] == BOTH:
            _both(x, y)
        elif network[k, 2] == LESSER:
            _lesser(x, y)
        else:
            _greater(x, y)
    if nans:
        step, flat = padded.shape[1], padded.reshape(padded.size)
        for i in range(down):
            for j in range(across):
                x = flat[at + i * step + j :]
                for u in range(len(middle)):
                    middle[u] = x[u] if x[u] != x[u] else middle[u]
    return middle


@exact
def _mix(gate, x, y, whole, out):  # type: ignore[no-untyped-def]
    """Mix input x and result y by the gate; ``whole`` numbers are bytes, mixed as fractions."""
    one, most = type(gate)(1.0), type(gate)(255.0)
    unit = one / most if whole else one
    if gate == one:
        for u in range(len(out)):
            out[u] = y[u]
        return
    for u in range(len(out)):
        mixed = gate * (type(gate)(y[u]) * unit) + (one - gate) * (type(gate)(x[u]) * unit)
        out[u] = np.rint(mixed * most) if whole else mixed


@exact
def _share(gate, x, middle, left, into):  # type: ignore[no-untyped-def]
    """Give the gradient in ``left`` to a number that is the median, and leave 0, so that only the first gets it."""
    zero = type(gate)(0.0)
    for u in range(len(left)):
        chosen = (x[u] == middle[u]) | (x[u] != x[u])
        into[u] += gate * left[u] if chosen else zero
        left[u] = zero if chosen else left[u]


@exact
def _add(factor, x, into):  # type: ignore[no-untyped-def]
    for u in range(len(x)):
        into[u] += factor * x[u]


@entry
def median(planes, gates, channels, taps, network, rows, out, padded, room, start, stop):  # type: ignore[no-untyped-def]
    """Strips of ``rows`` rows. planes, out: (planes, h, w).

    Args:
        gates: (samples or 1,).
        taps: rows and columns of the window.
        padded: scratch for the rows that a strip reads.
        room: scratch for as many numbers at each place of the window as a close cache holds.
    """
    width, (down, across), whole = planes.shape[2], taps, out.itemsize == 1
    step, most = padded.shape[1], len(room) // (down * across)
    for s in range(start, stop):
        p, top, bottom = strip_of(s, planes.shape[1], rows)
        gate = gates[p // channels % len(gates)]
        nans = _pad(planes[p], top - down // 2, bottom - top + down - 1, across, padded)
        if gate == 0:
            for v in range(top, bottom):
                copy(planes[p, v], out[p, v])
            continue
        last = (bottom - top - 1) * step + width
        for at in range(0, last, most):
            n = min(most, last - at)
            middle = _select(padded, at, down, across, network, nans, room[: down * across * n].reshape(down * across, n))
            for v in range(at // step, (at + n - 1) // step + 1):  # places beyond a row's end belong to no pixel
                left, right = max(at, v * step), min(at + n, v * step + width)
                if left < right:
                    u, end = left - v * step, right - v * step
                    own = padded[v + down // 2, across // 2 + u : across // 2 + end]
                    _mix(gate, own, middle[left - at : right - at], whole, out[p, top + v, u:end])


@entry
def median_backward(grad, planes, gates, channels, taps, network, into, sums, padded, turned, room, start, stop):  # type: ignore[no-untyped-def]
    """Gradients of planes [start, stop), and of their gates (planes,); of several equal medians the first gets it.

    Args:
        padded, turned: scratch for a plane continued by its edges, and for its gradient.
        room: scratch as in `median`, and for one row more.
    """
    (_, height, width), (down, across), one = planes.shape, taps, planes.dtype.type(1.0)
    most = len(room) // (down * across + 1)
    for p in range(start, stop):
        gate, reach = gates[p // channels % len(gates)], across // 2
        nans = _pad(planes[p], -(down // 2), height + down - 1, across, padded)
        turned[:] = planes.dtype.type(0.0)
        sums[p] = 0.0
        for v in range(height):
            for first in range(0, width, most):
                n = min(most, width - first)
                places = room[: down * across * n].reshape(down * across, n)
                left = room[down * across * n :][:n]
                middle = _select(padded, v * padded.shape[1] + first, down, across, network, nans, places)
                g, own = grad[p, v, first : first + n], padded[v + down // 2, reach + first :][:n]
                sums[p] += sum_of_differences(g, middle, own)
                _add(one - gate, g, turned[v, reach + first :])
                for u in range(n):
                    left[u] = g[u]
                for i in range(down):
                    row = min(max(v + i - down // 2, 0), height - 1)
                    for j in range(across):
                        _share(gate, padded[v + i, first + j :], middle, left, turned[row, first + j :])
        for v in range(height):
            x, y = turned[v], into[p, v]
            for u in range(width):
                y[u] = x[reach + u]
            for u in range(reach):
                y[0] += x[u]
                y[width - 1] += x[reach + width + u]

"""Weighted sums of lines: rows of the image into one, pixels of a row into another, and their adjoints.

Owns: the loops that do the arithmetic of a resize; each is a run over contiguous memory or a gather within one short row.
Where a row of the image shrinks by more than two, its many neighbours are summed eight at a time.
Must not: know where weights come from.
Read next: ``sweep.py``.
"""

from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any

import numpy as np

from pellucid.kernels.jit import fused, summing
from pellucid.kernels.vectors import Array, Lanes, take, woven

__all__ = ["FEW", "across", "across_many", "add_row", "by_output", "combine", "correlate", "dot_row", "scatter"]


@woven(returns=1)
def _weighed(out: Array, lines: tuple[Array, ...], weights: tuple[Lanes, ...], x: Lanes) -> Lanes:
    """The weighted sum of the lines at x, in the dtype of ``out``."""
    del out
    return reduce(add, (weight * line.load(x).to(weight) for line, weight in zip(lines, weights, strict=True)))


@fused
def _set(lines, weights, out):  # type: ignore[no-untyped-def]
    for x in range(len(out)):
        out[x] = _weighed(out, lines, weights, x)


@fused
def _add(lines, weights, out):  # type: ignore[no-untyped-def]
    for x in range(len(out)):
        out[x] += _weighed(out, lines, weights, x)


@fused.noinline
def _fetch(img, base, step, pitch, out, width):  # type: ignore[no-untyped-def]
    """Copy lines of pixels that are not adjacent in memory, so that they are summed like any other, bit for bit."""
    cast = out.dtype.type
    for k in range(len(out) // width):
        row = out[k * width : (k + 1) * width]
        for x in range(width):
            row[x] = cast(img[np.uint64(base + k * pitch + x * step)])


@fused
def _sum(img, base, pitch, w, first, count, out):  # type: ignore[no-untyped-def]
    """Sum up to four lines; the first ones are written, later ones added. Fewer than four are always the first."""
    n = len(out)
    a = img[base : base + n]
    if count == 1:
        _set((a,), (w[0],), out)
        return
    b = img[base + pitch : base + pitch + n]
    if count == 2:
        _set((a, b), (w[0], w[1]), out)
        return
    c = img[base + 2 * pitch : base + 2 * pitch + n]
    if count == 3:
        _set((a, b, c), (w[0], w[1], w[2]), out)
        return
    lines, weights = (a, b, c, img[base + 3 * pitch : base + 3 * pitch + n]), (w[0], w[1], w[2], w[3])
    if first:
        _set(lines, weights, out)
    else:
        _add(lines, weights, out)


@fused.noinline
def combine(img, base, step, pitch, w, spare, out):  # type: ignore[no-untyped-def]
    """out[x] = sum over k of w[k] * img[base + k * pitch + x * step]; ``spare`` has room for four lines."""
    n, left = len(out), len(w)
    if left == 0 or n == 0:
        out[:] = out.dtype.type(0.0)
        return
    k, count = 0, (left - 1) % 4 + 1
    while k < left:
        at = base + k * pitch
        if step == 1:
            _sum(img, at, pitch, w[k:], k == 0, count, out)
        else:
            _fetch(img, at, step, pitch, spare[: count * n], n)
            _sum(spare, 0, n, w[k:], k == 0, count, out)
        k, count = k + count, 4


@woven()
def _near(
    lines: tuple[Array, ...], index: Array, step: Lanes, weights: tuple[Array, ...], u: Lanes, out: tuple[Array, ...]
) -> None:
    """Write to each of ``out`` the weighted sum of numbers of its line, ``step`` apart from index[u] on."""
    first, shares = index.load(u), [row.load(u) for row in weights]
    places = list(accumulate([first] + [step] * (len(shares) - 1), add))
    sums = [reduce(add, (share * line.load(at) for share, at in zip(shares, places, strict=True))) for line in lines]
    for into, found in zip(out, sums, strict=True):
        into.store(u, found)


@fused
def _across_few(lines, index, step, weights, out):  # type: ignore[no-untyped-def]
    for u in range(len(index)):
        _near(lines, index, step, weights, u, out)


@fused
def _across_more(a, index, step, weights, taps, out):  # type: ignore[no-untyped-def]
    n = len(out)
    out[:] = out.dtype.type(0.0)
    for k in range(0, taps - taps % 2, 2):
        p, q, near = weights[k * n : (k + 1) * n], weights[(k + 1) * n : (k + 2) * n], np.uint64(k) * step
        for u in range(n):
            i = index[u] + near
            out[u] += p[u] * a[i] + q[u] * a[i + step]
    if taps % 2:
        p, near = weights[(taps - 1) * n : taps * n], np.uint64(taps - 1) * step
        for u in range(n):
            out[u] += p[u] * a[index[u] + near]


@fused.noinline
def across(t, plane, step, index, weights, taps, channels, out, at):  # type: ignore[no-untyped-def]
    """out[c, at + u] = sum over k of weights[k, u] * t[c * plane + index[u] + k * step], for as many u as ``index`` has."""
    n = len(index)
    if channels == 3 and taps <= 4:
        lines, into = (t, t[plane:], t[2 * plane :]), (out[0][at : at + n], out[1][at : at + n], out[2][at : at + n])
        p, q = weights[:n], weights[n : 2 * n]
        if taps == 2:
            _across_few(lines, index, step, (p, q), into)
            return
        r = weights[2 * n : 3 * n]
        if taps == 3:
            _across_few(lines, index, step, (p, q, r), into)
        else:
            _across_few(lines, index, step, (p, q, r, weights[3 * n : 4 * n]), into)
        return
    for channel in range(channels):
        _across_more(t[channel * plane :], index, step, weights, taps, out[channel][at : at + n])


@fused.noinline
def scatter(g, first, count, start, weights, out):  # type: ignore[no-untyped-def]
    """The adjoint of ``across`` on one channel: out[first[u] - start + k] collects weights[k, u] * g[u]."""
    n = len(first)
    out[:] = out.dtype.type(0.0)
    for u in range(n):
        for k in range(count[u]):
            out[first[u] - start + k] += weights[k * n + u] * g[u]


@fused.noinline
def correlate(g, t, index, step, taps, sums):  # type: ignore[no-untyped-def]
    """Add the gradient of ``across``'s weights on one channel to the float64 sums, laid out like the weights."""
    n = len(index)
    for k in range(taps):
        row, near = sums[k * n : (k + 1) * n], np.uint64(k) * step
        for u in range(n):
            row[u] += g[u] * t[index[u] + near]


@fused.noinline
def add_row(weight, row, out):  # type: ignore[no-untyped-def]
    """Out += weight * row."""
    for x in range(len(out)):
        out[x] += weight * row[x]


@summing.noinline
def dot_row(img, base, step, row):  # type: ignore[no-untyped-def]
    """Sum over x of img[base + x * step] * row[x]."""
    cast = row.dtype.type
    total = cast(0.0)
    if step == 1:
        near = img[base : base + len(row)]
        for x in range(len(row)):
            total += cast(near[x]) * row[x]
        return total
    for x in range(len(row)):
        total += cast(img[np.uint64(base + x * step)]) * row[x]
    return total


FEW = 4
"""Up to so many taps are summed tap by tap, all outputs at once."""


def _products(pixels: Array, table: Array, at: Lanes, first: Lanes, eights: int) -> Lanes:
    """The sums, lane by lane, of 8 ``eights`` numbers times their weights; a number of weight 0 does not count, even if NaN."""
    parts = []
    for k in range(0, 8 * eights, 8):
        weight = table.load(first + k, 8)
        parts.append(weight * weight.is_not(0.0).choose(pixels.load(at + k, 8), weight.like(0.0)))
    return reduce(add, parts)


def _dot(eights: int) -> Any:
    """The sum of 8 ``eights`` numbers from ``at`` on, each times its weight."""

    @woven(returns=1)
    def dot(line: Array, at: Lanes, weights: Array, first: Lanes) -> Lanes:
        return _products(line, weights, at, first, eights).sums()

    return dot


def _dots(eights: int) -> Any:
    """Eight such sums at once, bit for bit: halves of two, then of four, then of eight vectors are added side by side."""

    @woven()
    def dots(line: Array, places: Array, u: Lanes, start: Lanes, weights: Array, first: Lanes, out: Array) -> None:
        totals = []
        for n in range(8):
            at = (places.load(u + n) - start).at_least(0)
            totals.append(_products(line, weights, at, first + 8 * eights * n, eights))
        for half in (4, 2, 1):
            lanes = [[n * 2 * half + side * half + k for n in range(8 // half) for k in range(half)] for side in (0, 1)]
            totals = [add(*(take(a, b, side) for side in lanes)) for a, b in zip(totals[::2], totals[1::2], strict=True)]
        out.store(u, totals[0])

    return dots


def _outputs(eights):  # type: ignore[no-untyped-def]
    """Make a function that computes `across_many` for so many eights of taps."""
    dot, dots, pitch = _dot(eights), _dots(eights), 8 * eights

    @fused
    def outputs(line, start, table, first, out):  # type: ignore[no-untyped-def]
        whole = len(out) // 8 * 8
        for u in range(0, whole, 8):
            dots(line, first, u, start, table, u * pitch, out)
        for u in range(whole, len(out)):
            out[u] = dot(line, np.uint64(max(first[u] - start, 0)), table, u * pitch)

    return outputs


_dot8 = _dot(1)
_of8, _of16, _of24 = map(_outputs, (1, 2, 3))


@fused.noinline
def by_output(weights, taps, table):  # type: ignore[no-untyped-def]
    """Reorder a table that lies tap by tap: each output's weights in a row, with zeros up to a multiple of eight."""
    pitch = (taps + 7) // 8 * 8
    outputs = len(table) // pitch
    for u in range(outputs):
        row = table[u * pitch : (u + 1) * pitch]
        for k in range(taps):
            row[k] = weights[k * outputs + u]
        row[taps:] = table.dtype.type(0.0)


@fused.noinline
def across_many(line, start, table, taps, first, out):  # type: ignore[no-untyped-def]
    """out[u] = sum over k of table[u, k] * line[first[u] - start + k]; the line has room for seven numbers more."""
    pitch = (taps + 7) // 8 * 8
    if pitch == 8:
        _of8(line, start, table, first, out)
    elif pitch == 16:
        _of16(line, start, table, first, out)
    elif pitch == 24:
        _of24(line, start, table, first, out)
    else:
        for u in range(len(out)):
            i, total = max(first[u] - start, 0), out.dtype.type(0.0)
            for k in range(0, pitch, 8):
                total += _dot8(line, np.uint64(i + k), table, u * pitch + k)
            out[u] = total

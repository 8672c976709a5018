"""Weighted sums of many neighbouring pixels, eight at a time: a row of the image where it shrinks by more than two.

Owns: the sum of one output pixel's vectors, and the table of weights laid out for it.
Must not: know where weights come from.
Read next: ``lines.py``.
"""

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.vectors import Array, Lanes, take, woven

__all__ = ["FEW", "across_many", "by_output"]

FEW = 4
"""Up to so many taps are summed tap by tap, all outputs at once."""


def _products(pixels: Array, table: Array, at: Lanes, first: Lanes, eights: int) -> Lanes:
    """The sums, lane by lane, of 8 ``eights`` numbers times their weights; where a weight is 0, a number does not count."""
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
    """A function: `across_many` of so many eights of taps."""
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
    """Turn a table that lies tap by tap: each output's weights in a row, and zeros up to the next eight."""
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

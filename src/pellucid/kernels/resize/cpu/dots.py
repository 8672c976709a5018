"""Weighted sums of many neighbouring pixels, eight at a time: a row of the image where it shrinks by more than two.

Owns: the sum of one output pixel's vectors, and the table of weights laid out for it.
Must not: know where weights come from.
Read next: ``lines.py``.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.warp.cpu.quads import Vectors, take

__all__ = ["FEW", "across_many", "by_output"]

FEW = 4
"""Up to so many taps are summed tap by tap, all outputs at once."""

_INT = ir.IntType(32)


def _products(builder: Any, pixels: Vectors, table: Vectors, at: Any, first: Any, eights: int) -> Any:
    """The sums, lane by lane, of 8 ``eights`` numbers times their weights; where a weight is 0, a number does not count."""
    zero = ir.Constant(pixels.type, None)
    parts: list[Any] = []
    for k in range(0, 8 * eights, 8):
        weight = table.load(first, k)
        counts = builder.fcmp_unordered("!=", weight, zero)
        parts.append(pixels.times(weight, builder.select(counts, pixels.load(at, k), zero)))
    return reduce(pixels.add, parts)


def _dot(eights: int) -> Any:
    """The sum of 8 ``eights`` numbers from ``at`` on, each times its weight."""

    @intrinsic
    def dot(context: Any, line: Any, at: Any, weights: Any, first: Any) -> Any:
        del context

        def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
            pixels, table = (Vectors(target, builder, signature.args[n], args[n], 8) for n in (0, 2))
            total = _products(builder, pixels, table, args[1], args[3], eights)
            while total.type.count > 1:
                half = total.type.count // 2
                lanes = (ir.Constant(ir.VectorType(_INT, half), [*range(n, n + half)]) for n in (0, half))
                total = pixels.add(*(builder.shuffle_vector(total, total, mask) for mask in lanes))
            return builder.extract_element(total, _INT(0))

        return line.dtype(line, at, weights, first), codegen

    return dot


def _dots(eights: int) -> Any:
    """Eight such sums at once, bit for bit: halves of two, then of four, then of eight vectors are added side by side."""

    @intrinsic
    def dots(context: Any, line: Any, places: Any, u: Any, start: Any, weights: Any, first: Any, out: Any) -> Any:
        del context

        def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
            pixels, table, into = (Vectors(target, builder, signature.args[n], args[n], 8) for n in (0, 4, 6))
            index = Vectors(target, builder, signature.args[1], args[1], 8)
            totals = []
            for n, place in enumerate(index.numbers(args[2])):
                at = builder.sub(place, args[3])
                at = builder.select(builder.icmp_signed(">", at, at.type(0)), at, at.type(0))
                row = builder.add(args[5], args[5].type(8 * eights * n))
                totals.append(_products(builder, pixels, table, at, row, eights))
            for half in (4, 2, 1):
                lanes = [[n * 2 * half + side * half + k for n in range(8 // half) for k in range(half)] for side in (0, 1)]
                pairs = zip(totals[::2], totals[1::2], strict=True)
                totals = [pixels.add(*(take(builder, a, b, mask) for mask in lanes)) for a, b in pairs]
            into.store(totals[0], args[2])
            return target.get_dummy_value()

        return types.void(line, places, u, start, weights, first, out), codegen

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


@fused
def by_output(weights, taps, table):  # type: ignore[no-untyped-def]
    """Turn a table that lies tap by tap: each output's weights in a row, and zeros up to the next eight."""
    noinline()
    pitch = (taps + 7) // 8 * 8
    outputs = len(table) // pitch
    for u in range(outputs):
        row = table[u * pitch : (u + 1) * pitch]
        for k in range(taps):
            row[k] = weights[k * outputs + u]
        row[taps:] = table.dtype.type(0.0)


@fused
def across_many(line, start, table, taps, first, out):  # type: ignore[no-untyped-def]
    """out[u] = sum over k of table[u, k] * line[first[u] - start + k]; the line has room for seven numbers more."""
    noinline()
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

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
from numba.extending import intrinsic

from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.warp.cpu.quads import Vectors

__all__ = ["FEW", "across_many", "by_output"]

FEW = 4
"""Up to so many taps are summed tap by tap, all outputs at once."""

_INT = ir.IntType(32)


def _dot(eights: int) -> Any:
    """The sum of 8 ``eights`` numbers from ``at`` on, each times its weight; where that is 0, a number does not count."""

    @intrinsic
    def dot(context: Any, line: Any, at: Any, weights: Any, first: Any) -> Any:
        del context

        def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
            pixels, table = (Vectors(target, builder, signature.args[n], args[n], 8) for n in (0, 2))
            zero = ir.Constant(pixels.type, None)
            parts: list[Any] = []
            for k in range(0, 8 * eights, 8):
                weight = table.load(args[3], k)
                counts = builder.fcmp_unordered("!=", weight, zero)
                parts.append(pixels.times(weight, builder.select(counts, pixels.load(args[1], k), zero)))
            total = reduce(pixels.add, parts)
            while total.type.count > 1:
                half = total.type.count // 2
                lanes = (ir.Constant(ir.VectorType(_INT, half), [*range(n, n + half)]) for n in (0, half))
                total = pixels.add(*(builder.shuffle_vector(total, total, mask) for mask in lanes))
            return builder.extract_element(total, _INT(0))

        return line.dtype(line, at, weights, first), codegen

    return dot


_one, _two, _three = _dot(1), _dot(2), _dot(3)


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
    eights = (taps + 7) // 8
    at, pitch = np.uint64(0), np.uint64(8 * eights)
    if eights == 1:
        for u in range(len(out)):
            out[u] = _one(line, np.uint64(max(first[u] - start, 0)), table, at)
            at += pitch
    elif eights == 2:
        for u in range(len(out)):
            out[u] = _two(line, np.uint64(max(first[u] - start, 0)), table, at)
            at += pitch
    elif eights == 3:
        for u in range(len(out)):
            out[u] = _three(line, np.uint64(max(first[u] - start, 0)), table, at)
            at += pitch
    else:
        for u in range(len(out)):
            i, total = np.uint64(max(first[u] - start, 0)), out.dtype.type(0.0)
            for k in range(0, 8 * eights, 8):
                total += _one(line, i + np.uint64(k), table, at + np.uint64(k))
            out[u] = total
            at += pitch

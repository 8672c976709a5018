"""Bytes through a table of 256, as many at a time as the processor's registers hold.

Owns: `through_registers`, in the instructions that x86 has for it; elsewhere it leaves everything to the caller's loop.
Must not: read past an array's end.
Read next: ``curve/cpu/rows.py``.
"""

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from pellucid.kernels.vectors import Array, Lanes, take

__all__ = ["through_registers"]

_BYTE, _INT = ir.IntType(8), ir.IntType(64)
_LEVELS = ("x86-64-v3", "x86-64-v4")  # processors that kernels are shipped for; they have AVX2, and name no features


def _lanes(target: Any) -> int:
    """How many bytes the processor that code is made for looks up at once; 0 where it cannot."""
    features = getattr(target.codegen(), "_tm_features", "").split(",")
    if "+avx512vbmi" in features and "+avx512bw" in features:
        return 64
    return 32 if "+avx2" in features or config.CPU_NAME in _LEVELS else 0


def _called(name: str, *given: Lanes) -> Lanes:
    """An instruction of the processor's, by LLVM's name for it, on vectors of one kind."""
    builder, values = given[0].builder, [lanes.value for lanes in given]
    kind = ir.FunctionType(values[0].type, [value.type for value in values])
    return Lanes(builder, builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}"), values))


def _of_128(level: Lanes, low: Lanes, high: Lanes) -> Lanes:
    """What two registers of 64 bytes hold for the lower seven bits of each level."""
    return _called("x86.avx512.vpermi2var.qi.512", low, level, high)


def _of_16(level: Lanes, table: Lanes, first: int) -> Lanes:
    """What 16 bytes, there twice, hold for the levels from ``first`` on, which is a multiple of 16; 0 for others."""
    builder = level.builder
    place = Lanes(builder, builder.xor(level.value, level.like(first).value))
    return _called("x86.avx2.pshuf.b", table, _called("uadd.sat.v32i8", place, level.like(0x70)))  # 0 from 128 on


def _by_bits(levels: Any, table: Any, out: Any, count: Any) -> Any:
    """The same of a table that only keeps some bits and turns some, as a negative or fewer levels do; 0 of others."""
    kept, turned = table[0] ^ table[255], table[0]
    for level in range(256):
        if table[level] != (np.uint8(level) & kept) ^ turned:
            return 0
    for u in range(count):
        out[u] = (levels[u] & kept) ^ turned
    return count


@intrinsic
def through_registers(context: Any, levels: Any, table: Any, out: Any, count: Any) -> Any:
    """Write what the table has for the first of so many levels, as many as fill registers: how many these are."""
    del context, count

    def codegen(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds = signature.args[:3]
        lanes = _lanes(target) if all(kind.dtype == types.uint8 for kind in kinds) else 0
        if not lanes:
            return _INT(0)
        x, t, y = (Array(target, builder, *each) for each in zip(kinds, args, strict=False))
        done = target.compile_internal(builder, _by_bits, signature, args)
        size = 64 if lanes == 64 else 16
        parts = [t.load(Lanes(builder, _INT(first)), size) for first in range(0, 256, size)]
        parts = parts if lanes == 64 else [take(part, part, [*range(16), *range(16)]) for part in parts]
        whole = builder.sdiv(builder.sub(args[3], done), _INT(lanes))
        with cgutils.for_range(builder, whole) as loop:
            at = Lanes(builder, builder.mul(loop.index, _INT(lanes)))
            level = x.load(at, lanes)
            if lanes == 64:
                above = Lanes(builder, builder.icmp_signed("<", level.value, level.like(0).value))
                found = above.choose(_of_128(level, *parts[2:]), _of_128(level, *parts[:2]))
            else:
                some = [_of_16(level, part, 16 * k).value for k, part in enumerate(parts)]
                found = Lanes(builder, reduce(builder.or_, some))
            y.store(at, found)
        return builder.add(done, builder.mul(whole, _INT(lanes)))

    return types.int64(levels, table, out, types.int64), codegen

"""Look bytes up in a table of 256, as many at a time as the processor's registers hold.

Owns: `through_registers`, in the instructions that x86 has for it; elsewhere it leaves everything to the caller's loop.
Must not: read past an array's end.
Read next: ``curve/cpu/rows.py``.
"""

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
    """Call a processor's instruction, by LLVM's name for it, on vectors of one type."""
    builder, values = given[0].builder, [lanes.value for lanes in given]
    kind = ir.FunctionType(values[0].type, [value.type for value in values])
    return Lanes(builder, builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}"), values))


def _of_128(level: Lanes, low: Lanes, high: Lanes) -> Lanes:
    """Look up the lower seven bits of each level in two registers of 64 bytes."""
    return _called("x86.avx512.vpermi2var.qi.512", low, level, high)


def _of_16s(level: Lanes, parts: list[Lanes]) -> list[Lanes]:
    """Look up the lower seven bits of each level in both halves of a table: 16 parts of 16 bytes, each of which comes twice.

    The instruction looks up an index by its lower four bits, and gives 0 for a negative one. So the index loses 16 from part to
    part, and each part adds its difference from the part before.
    """
    builder = level.builder
    place, halves = builder.and_(level.value, level.like(0x7F).value), [level.like(0).value, level.like(0).value]
    for k in range(8):
        for half, found in enumerate(halves):
            part = parts[8 * half + k]
            step = builder.xor(part.value, parts[8 * half + k - 1].value) if k else part.value
            looked = _called("x86.avx2.pshuf.b", Lanes(builder, step), Lanes(builder, place))
            halves[half] = builder.xor(found, looked.value)
        place = builder.sub(place, level.like(16).value)
    return [Lanes(builder, half) for half in halves]


def _by_bits(levels: Any, table: Any, out: Any, count: Any) -> Any:
    """Apply a table that only masks and flips bits, as inverting or posterising does: how many levels it did; 0 for others."""
    kept, turned = table[0] ^ table[255], table[0]
    for level in range(256):
        if table[level] != (np.uint8(level) & kept) ^ turned:
            return 0
    for u in range(count):
        out[u] = (levels[u] & kept) ^ turned
    return count


@intrinsic
def through_registers(context: Any, levels: Any, table: Any, out: Any, count: Any) -> Any:
    """Look up the first levels, as many as fill whole registers, and write them to ``out``: returns how many these are."""
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
            above = Lanes(builder, builder.icmp_signed("<", level.value, level.like(0).value))
            if lanes == 64:
                lower, upper = _of_128(level, *parts[:2]), _of_128(level, *parts[2:])
            else:
                lower, upper = _of_16s(level, parts)
            y.store(at, above.choose(upper, lower))
        return builder.add(done, builder.mul(whole, _INT(lanes)))

    return types.int64(levels, table, out, types.int64), codegen

"""The machine that plays a tape: a loop over instructions, a few samples at a time.

Owns: the instructions, which of them give torch's own bits everywhere, and their compiled interpreter.
Must not: contract multiply-adds: every instruction rounds once, as the tensor operation it stands for does.
Read next: ``rules.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum, auto
from functools import cache
from typing import Any

from pellucid.core.compilers import translated

__all__ = ["LANES", "ROUNDED", "Op", "player"]


class Op(IntEnum):
    """to = op(a, b, c) on float64 numbers; truth is 1 and 0."""

    ADD = 0
    SUB = auto()
    MUL = auto()
    DIV = auto()
    MIN = auto()
    MAX = auto()
    LT = auto()
    LE = auto()
    EQ = auto()
    NE = auto()
    AND = auto()
    OR = auto()
    NOT = auto()
    WHERE = auto()
    NEG = auto()
    ABS = auto()
    FLOOR = auto()
    CEIL = auto()
    TRUNC = auto()
    ROUND = auto()
    REMAINDER = auto()
    SINGLE = auto()
    SQRT = auto()
    COS = auto()
    SIN = auto()
    TAN = auto()
    EXP = auto()
    LOG = auto()
    POW = auto()


ROUNDED = frozenset({Op.SQRT, Op.COS, Op.SIN, Op.TAN, Op.EXP, Op.LOG, Op.POW})
"""Functions whose last bit depends on the library that computes them (torch's own square root is off by one now and then)."""


LANES = 8, 32
"""How many samples go through an instruction at once, of few and of many: registers stay in a close cache, and looking up what an
instruction is takes longer than eight samples."""

(ADD, SUB, MUL, DIV, MIN, MAX, LT, LE, EQ, NE, AND, OR, NOT, WHERE, NEG, ABS, FLOOR, CEIL, TRUNC, ROUND, REMAINDER, SINGLE, SQRT,
 COS, SIN, TAN, EXP, LOG, POW) = (int(op) for op in Op)  # fmt: skip


@cache
def player() -> Callable[..., None]:
    """Compile on first use; the result is cached on disk where that is possible."""
    import numpy as np

    few, many = LANES

    def play(inputs: Any, code: Any, constants: Any, outputs: Any, registers: Any, result: Any) -> None:
        given, lanes = inputs.shape[1], few if inputs.shape[0] <= 2 * few else many
        file = np.zeros((registers, lanes))
        for k in range(len(constants)):
            file[given + k] = constants[k]
        for start in range(0, inputs.shape[0], lanes):
            count = min(lanes, inputs.shape[0] - start)
            for k in range(given):
                for s in range(count):
                    file[k, s] = inputs[start + s, k]
            for i in range(code.shape[0]):
                op, to, a, b, c = code[i, 0], code[i, 1], code[i, 2], code[i, 3], code[i, 4]
                if op == MUL:
                    for s in range(lanes):
                        file[to, s] = file[a, s] * file[b, s]
                elif op == ADD:
                    for s in range(lanes):
                        file[to, s] = file[a, s] + file[b, s]
                elif op == SUB:
                    for s in range(lanes):
                        file[to, s] = file[a, s] - file[b, s]
                elif op == DIV:
                    for s in range(lanes):
                        file[to, s] = file[a, s] / file[b, s]
                elif op == LT:
                    for s in range(lanes):
                        file[to, s] = 1.0 if file[a, s] < file[b, s] else 0.0
                elif op == LE:
                    for s in range(lanes):
                        file[to, s] = 1.0 if file[a, s] <= file[b, s] else 0.0
                elif op == EQ:
                    for s in range(lanes):
                        file[to, s] = 1.0 if file[a, s] == file[b, s] else 0.0
                elif op == WHERE:
                    for s in range(lanes):
                        file[to, s] = file[b, s] if file[a, s] != 0.0 else file[c, s]
                else:
                    for s in range(count):
                        x, y = file[a, s], file[b, s]
                        if op == NEG:
                            z = -x
                        elif op == ABS:
                            z = abs(x)
                        elif op == FLOOR:
                            z = np.floor(x)
                        elif op == CEIL:
                            z = np.ceil(x)
                        elif op == TRUNC:
                            z = np.trunc(x)
                        elif op == ROUND:
                            z = np.rint(x)
                        elif op == SINGLE:
                            z = np.float64(np.float32(x))
                        elif op == SQRT:
                            z = np.sqrt(x)
                        elif op == COS:
                            z = math.cos(x)
                        elif op == SIN:
                            z = math.sin(x)
                        elif op == TAN:
                            z = math.tan(x)
                        elif op == EXP:
                            z = math.exp(x)
                        elif op == LOG:
                            z = np.log(x)
                        elif op == NOT:
                            z = 1.0 if x == 0.0 else 0.0
                        elif op == MIN:
                            z = x if (x < y or x != x) else y
                        elif op == MAX:
                            z = x if (x > y or x != x) else y
                        elif op == NE:
                            z = 1.0 if x != y else 0.0
                        elif op == AND:
                            z = 1.0 if (x != 0.0 and y != 0.0) else 0.0
                        elif op == OR:
                            z = 1.0 if (x != 0.0 or y != 0.0) else 0.0
                        elif op == POW:
                            z = np.power(x, y)
                        else:  # REMAINDER, with the sign of the divisor
                            z = np.fmod(x, y)
                            if z != 0.0 and (z < 0.0) != (y < 0.0):
                                z += y
                        file[to, s] = z
            for k in range(len(outputs)):
                register, first, width = outputs[k, 0], outputs[k, 1], outputs[k, 2]
                for s in range(count):
                    result[first * inputs.shape[0] + (start + s) * width + k - first] = file[register, s]

    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    signature = "void(float64[:, ::1], int64[:, ::1], float64[::1], int64[:, ::1], int64, float64[::1])"
    machine: Callable[..., None] = translated(play, signature, **options)
    return machine

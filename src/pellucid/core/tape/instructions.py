"""The instructions of a tape.

Owns: their numbers, and which of them are exact: the same bits as torch's, whatever the machine.
Must not: import Numba.
Read next: ``machine.py``.
"""

from __future__ import annotations

from enum import IntEnum, auto

__all__ = ["ROUNDED", "Op"]


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

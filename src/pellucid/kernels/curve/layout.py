"""The contract between torch and the compiled curves: the numbers that stand for names.

Owns: kinds, the row of numbers of a sample.
Must not: import a compiler.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

from pellucid.color.curves import CURVES, SLACK, SLOPES

__all__ = [
    "AMOUNT",
    "AUTOCONTRAST",
    "EQUALIZE",
    "GAIN",
    "GATE",
    "KINDS",
    "POSTERIZE",
    "POWER",
    "REACH",
    "SLACK",
    "SLOPES",
    "SOLARIZE",
]

POWER, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE = range(5)
KINDS = {name: kind for kind, name in enumerate((*CURVES, "autocontrast", "equalize"))}

AMOUNT, GAIN, GATE, REACH = range(4)
"""A sample's numbers; the amount of a power is its exponent. The reach is there where a curve is a stage of a pass."""

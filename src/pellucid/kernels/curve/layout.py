"""The contract between torch and the compiled curves: the numbers that stand for names.

Owns: kinds, slopes and secants, the row of numbers of a sample, the slack of 8-bit levels.
Must not: import a compiler.
Read next: ``cpu/sweep.py``.
"""

from __future__ import annotations

__all__ = ["AMOUNT", "AUTOCONTRAST", "EQUALIZE", "GAIN", "GATE", "KINDS", "POSTERIZE", "POWER", "SLACK", "SLOPES", "SOLARIZE"]

POWER, POSTERIZE, SOLARIZE, AUTOCONTRAST, EQUALIZE = range(5)
KINDS = {"power": POWER, "posterize": POSTERIZE, "solarize": SOLARIZE, "autocontrast": AUTOCONTRAST, "equalize": EQUALIZE}

SLOPES = {"none": 0, "straight_through": 1, "soft": 2, "secant": 2}
"""Of a staircase to the image, and to its amount."""

AMOUNT, GAIN, GATE = range(3)
"""A sample's numbers; the amount of a power is its exponent."""

SLACK = 1e-3
"""In 8-bit units: whole grey levels survive the division by 255 and back."""

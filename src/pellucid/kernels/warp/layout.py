"""The contract between torch and every compiled warp: flags, interpolation and border numbers, the row of colour parameters.

Owns: what is where; kernels, operators and packing import these names.
Must not: import a compiler.
Read next: ``packing.py``.
"""

from __future__ import annotations

from pellucid.color.curves import NUMBERS

__all__ = [
    "BENDS",
    "CANVASES",
    "CLIP",
    "CURVE",
    "CURVE_CLIP",
    "CURVE_CODE",
    "FIRST_MIX",
    "GROUND",
    "HUE",
    "LAST_MIX",
    "LEVELS",
    "LINK",
    "MATRIX",
    "MODES",
    "SECOND_MIX",
    "SHARP",
    "STAGES",
    "TAPS",
    "parameter_count",
]

MATRIX, FIRST_MIX, HUE, SECOND_MIX, CLIP, LAST_MIX, LEVELS, SHARP, GROUND, CURVE, CURVE_CLIP = (1 << k for k in range(11))
CURVE_CODE = 11
"""Which stages there are: out = last(clip(curve(clip(second(hue(first(sample))))))), where the outer clip is CURVE_CLIP, never
without CURVE; which curve it is stands in the bits from CURVE_CODE on, as `Curved.code`. FIRST_MIX without MATRIX
mixes offset and fill alone.
LEVELS is no stage: 8-bit pixels are read and written as levels from 0 to 255, not as fractions. Nor is SHARP: a resize
that does not stretch its kernel over the footprint. GROUND: canvases have fills, which show in what the first mix gives.

A sample's parameters, for those that are there, in this order: first mix (matrix if MATRIX, offset, fill), hue_shift, second mix
(matrix, offset, fill), the curve's numbers, last mix (matrix, offset, fill), the canvases' fills; the fills of the
later mixes are not used.
"""

STAGES = HUE | SECOND_MIX | CLIP | CURVE | CURVE_CLIP | LAST_MIX
"""What comes after the first mix."""

TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4, "bicubic_opencv": 4}
CANVASES = {"zeros": 0, "border": 1, "reflection": 2, "hard": 3, "bend": 4, "kink": 5}
"""What lies outside of a canvas; ``hard`` is filled without a ramp. `BENDS` are none but move points."""
BENDS = ("bend", "kink")
"""By cubic splines, and by linear ones."""
LINK = 13
"""How many numbers a canvas has: its map from the next, row by row, and its rectangle."""
MODES = {"zeros": 0, "constant": 0, "border": 1, "reflection": 2, "reflect_101": 3, "wrap": 4}


def parameter_count(flags: int, channels: int, out_channels: int) -> int:
    """How many numbers a sample's parameter row has; one unused number where there is no stage."""
    count = out_channels * channels if flags & MATRIX else 0
    count += 2 * out_channels if flags & FIRST_MIX else 0
    count += 1 if flags & HUE else 0
    count += NUMBERS if flags & CURVE else 0
    for flag in (SECOND_MIX, LAST_MIX):
        count += out_channels * (out_channels + 2) if flags & flag else 0
    return max(count, 1)

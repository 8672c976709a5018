"""The contract between torch and every compiled warp: interpolation, borders and canvases as numbers.

Owns: the numbers, whose names kernels, operators and packing import.
Must not: import a compiler.
Read next: ``packing.py``.
"""

__all__ = ["BENDS", "CANVASES", "LINK", "MODES", "TAPS"]

TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4, "bicubic_opencv": 4}
CANVASES = {"zeros": 0, "border": 1, "reflection": 2, "hard": 3, "bend": 4, "kink": 5}
"""What shows outside of a canvas; ``hard`` is filled without a ramp. `BENDS` are no canvases, but displace points."""
BENDS = ("bend", "kink")
"""By cubic splines, and by linear ones."""
LINK = 13
"""How many numbers a canvas has: its map from the next, row by row, and its rectangle."""
MODES = {"zeros": 0, "constant": 0, "border": 1, "reflection": 2, "reflect_101": 3, "wrap": 4}

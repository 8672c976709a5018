"""Tone curves: the power law, and the operations that jump or read the histogram.

Owns: the names `power`, `tone` and `KINDS`, and for bytes `Bend`, `bend_of`, `tone_of_bytes`, `tone_of_memory` and `tabled`.
Must not: mix channels.
Read next: ``reference.py``, ``surrogate.py``, ``steps.py``.
"""

from pellucid.kernels.curve.layout import KINDS
from pellucid.kernels.curve.steps import Bend, bend_of, power, tabled, tone, tone_of_bytes, tone_of_memory

__all__ = ["KINDS", "Bend", "bend_of", "power", "tabled", "tone", "tone_of_bytes", "tone_of_memory"]

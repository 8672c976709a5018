"""Tone curves: the power law, and the operations that jump or read the histogram.

Owns: the names `power`, `tone` and `tone_of_bytes`.
Must not: mix channels.
Read next: ``reference.py``, ``surrogate.py``, ``tables.py``.
"""

from pellucid.kernels.curve.reference import power
from pellucid.kernels.curve.surrogate import tone
from pellucid.kernels.curve.tables import TABLED, tone_of_bytes

__all__ = ["TABLED", "power", "tone", "tone_of_bytes"]

"""Tone curves: the power law, and the operations that jump or read the histogram.

Owns: the names `power`, `tone`, `tone_of_bytes` and `Curves`.
Must not: mix channels.
Read next: ``reference.py``, ``surrogate.py``, ``tables.py``.
"""

from pellucid.kernels.curve.reference import power
from pellucid.kernels.curve.surrogate import tone
from pellucid.kernels.curve.tables import TABLED, Curves, tone_of_bytes

__all__ = ["TABLED", "Curves", "power", "tone", "tone_of_bytes"]

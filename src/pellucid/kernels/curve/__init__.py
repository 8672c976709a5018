"""Tone curves: the power law, and the operations that jump or read the histogram.

Owns: the names `power` and `tone`.
Must not: mix channels.
Read next: ``reference.py``, ``surrogate.py``.
"""

from pellucid.kernels.curve.reference import power
from pellucid.kernels.curve.surrogate import tone

__all__ = ["power", "tone"]

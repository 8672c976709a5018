"""The contract between the torch side and the compiled side: the integers of a call.

Owns: how many there are; both sides import the name.
Must not: import Numba.
Read next: ``op.py``.
"""

from __future__ import annotations

from pellucid.kernels.sources import PICTURE

__all__ = ["META"]

META = PICTURE + 11
"""How many integers describe a call for a sample, those of its picture first; named in ``sweep.py`` in the order ``op.py`` writes
them.
"""

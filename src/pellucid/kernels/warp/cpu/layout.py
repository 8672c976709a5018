"""The contract between the torch side and the compiled side, beyond ``../layout.py``: the integers of a call.

Owns: how many there are; both sides import the name.
Must not: import Numba.
Read next: ``op.py``.
"""

from __future__ import annotations

__all__ = ["CAPACITY", "FRAME", "META"]

META = 23
"""How many integers describe a call; named in ``strips.py`` in the order ``op.py`` writes them."""

CAPACITY = 1 << 18
"""The most numbers that ``staged.py`` lays out at once: a megabyte of float32, the second cache."""

FRAME = 8
"""How many integers describe what is staged."""

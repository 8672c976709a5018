"""The contract between the torch side and the compiled side: the integers of a call.

Owns: how many there are; both sides import the name.
Must not: import Numba.
Read next: ``op.py``.
"""

from __future__ import annotations

__all__ = ["META"]

META = 17
"""How many integers describe a call; named in ``sweep.py`` in the order ``op.py`` writes them."""

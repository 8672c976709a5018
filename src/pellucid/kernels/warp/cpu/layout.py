"""The contract between the torch side and the compiled side: flags, integer options, parameter rows.

Owns: what is where; both sides import these names.
Must not: import Numba.
Read next: ``op.py``.
"""

from __future__ import annotations

__all__ = ["CLIP", "FIRST_MIX", "HUE", "LAST_MIX", "MATRIX", "META", "SECOND_MIX", "parameter_count"]

MATRIX, FIRST_MIX, HUE, SECOND_MIX, CLIP, LAST_MIX = 1, 2, 4, 8, 16, 32
"""Which stages there are: out = last(clip(second(hue(first(sample))))); FIRST_MIX without MATRIX mixes offset and fill alone.

A sample's parameters, for those that are there, in this order: first mix (matrix if MATRIX, offset, fill), turns, second mix
(matrix, offset, fill), last mix (matrix, offset, fill); the fills of the later mixes are not used.
"""

META = 19
"""How many integers describe a call; named in ``sweep.py`` in the order ``op.py`` writes them."""


def parameter_count(flags: int, channels: int, out_channels: int) -> int:
    """How many numbers a sample's parameter row has; one unused number where there is no stage."""
    count = out_channels * channels if flags & MATRIX else 0
    count += 2 * out_channels if flags & FIRST_MIX else 0
    count += 1 if flags & HUE else 0
    for flag in (SECOND_MIX, LAST_MIX):
        count += out_channels * (out_channels + 2) if flags & flag else 0
    return max(count, 1)

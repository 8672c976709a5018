"""Whether all samples of a batch only move by whole pixels.

Owns: the loop over samples.
Must not: look at pixels.
Read next: ``moves.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry
from pellucid.kernels.warp.cpu.copies import moves_whole_pixels

__all__ = ["whole_shifts"]


@entry
def whole_shifts(maps, windows, mode, pictures, height, width, found):  # type: ignore[no-untyped-def]
    """Whether every sample is a copy, all of its pixels whole; then ``found`` holds the maps as whole numbers.

    Args:
        maps, windows, pictures: a row for each sample, or one for all; windows may have no columns.
        height, width: of the result.
    """
    for b in range(max(len(maps), len(windows), len(pictures))):
        m, window, row = maps[min(b, len(maps) - 1)], windows[min(b, len(windows) - 1)], pictures[min(b, len(pictures) - 1)]
        if not moves_whole_pixels(m, len(m) == 9, mode, window, (row[7], row[8]), (height, width)):
            return False
        for k in range(6 if b < len(maps) else 0):
            found[b, k] = np.int64(m[k])
    return True

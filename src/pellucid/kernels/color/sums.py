"""The mean colour of 8-bit images, compiled: exact sums at the speed of reading.

Owns: adding up bytes per channel, for images whose rows are runs of bytes, planar or interleaved.
Must not: be needed: other images are averaged by torch.
Read next: ``../threads.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import borrow, entry

__all__ = ["channel_sums"]


@entry
def channel_sums(img, height, row, channels, stride_b, stride_y, partial, sums, start, stop):  # type: ignore[no-untyped-def]
    """Sums (samples, channels) over pictures of ``height`` rows of ``row`` bytes, in which channels take turns.

    Args:
        partial: (row,) scratch; a column's sum over 2^24 rows fits 32 bits.
    """
    img, partial, sums = borrow(img), borrow(partial), borrow(sums)
    for b in range(start, stop):
        partial[:] = 0
        for y in range(height):
            at = b * stride_b + y * stride_y
            line = img[at : at + row]
            for k in range(row):
                partial[k] += np.uint32(line[k])
        for c in range(channels):
            total = np.int64(0)
            for k in range(c, row, channels):
                total += np.int64(partial[k])
            sums[b, c] = total

"""Sums of each channel's pixels, compiled: exact for bytes, in float64 for floats, at the speed of reading.

Owns: adding up pixels per channel, for images whose rows are runs of elements, planar or interleaved.
Must not: be needed: other images are averaged by torch.
Read next: ``../threads.py``.
"""

from __future__ import annotations

from pellucid.kernels.jit import borrow, entry

__all__ = ["channel_sums"]


@entry
def channel_sums(img, height, row, channels, stride_b, stride_y, partial, sums, start, stop):  # type: ignore[no-untyped-def]
    """Sums (samples, channels) over pictures of ``height`` rows of ``row`` elements, in which channels take turns.

    Args:
        partial: (row,) scratch, the sum of each column; of bytes, 32 bits hold 2^24 rows.
    """
    img, partial, sums = borrow(img), borrow(partial), borrow(sums)
    cast, widen = partial.dtype.type, sums.dtype.type
    for b in range(start, stop):
        partial[:] = cast(0)
        for y in range(height):
            at = b * stride_b + y * stride_y
            line = img[at : at + row]
            for k in range(row):
                partial[k] += cast(line[k])
        for c in range(channels):
            total = widen(0)
            for k in range(c, row, channels):
                total += widen(partial[k])
            sums[b, c] = total

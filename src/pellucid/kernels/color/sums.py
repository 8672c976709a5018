"""Means of each channel's pixels, compiled: from exact sums of bytes, and sums in float64 of floats, at the speed of reading.

Owns: adding up pixels per channel, for images whose rows are runs of elements, planar or interleaved; and the way back.
Must not: be needed: other images are averaged by torch.
Read next: ``../threads.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, without_refcount
from pellucid.kernels.narrow import numbers

__all__ = ["add_shares", "channel_means"]


@entry
def channel_means(img, height, row, channels, stride_b, stride_y, partial, unit, means, start, stop):  # type: ignore[no-untyped-def]
    """Means (samples, channels) over pictures of ``height`` rows of ``row`` elements, in which channels take turns.

    Args:
        partial: (row,) scratch, the sum of each column; of bytes, 32 bits hold 2^24 rows.
        unit: what means are divided by.
    """
    img, partial, means = numbers(img), without_refcount(partial), without_refcount(means)
    cast = partial.dtype.type
    count = unit * np.float64(height * (row // channels))
    for b in range(start, stop):
        partial[:] = cast(0)
        for y in range(height):
            at = b * stride_b + y * stride_y
            line = img[at : at + row]
            for k in range(row):
                partial[k] += cast(line[k])
        for c in range(channels):
            total = np.float64(0.0)  # of integers below 2^53: exact
            for k in range(c, row, channels):
                total += np.float64(partial[k])
            means[b, c] = total / count


@entry
def add_shares(planes, shares, start, stop):  # type: ignore[no-untyped-def]
    """Add to every element of a plane (a row of ``planes``) its share."""
    planes, shares = without_refcount((planes, shares))
    for k in range(start, stop):
        row, share = planes[k], shares[k]
        for u in range(len(row)):
            row[u] += share

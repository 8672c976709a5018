"""Means of each channel's pixels, compiled: from exact sums of bytes, and sums in float64 of floats, at the speed of reading.

Owns: adding up pixels per channel, for images whose rows are runs of elements, planar or interleaved; adding the gradient back.
Must not: be the only way: torch averages other images.
Read next: ``../threads.py``.
"""

import numpy as np

from pellucid.kernels.jit import entry, summing
from pellucid.kernels.narrow import numbers

__all__ = ["add_shares", "channel_means", "wide_sum"]


@summing.noinline
def wide_sum(line):  # type: ignore[no-untyped-def]
    """Sum over a row, in float64."""
    total = np.float64(0.0)
    for k in range(len(line)):
        total += np.float64(line[k])
    return total


@entry
def channel_means(img, bounds, channels, stride_b, stride_y, unit, means, partial, start, stop):  # type: ignore[no-untyped-def]
    """Means (samples, channels) over rectangles of pictures with interleaved channels.

    Args:
        bounds: (samples, 4): first row, the row behind the last, the same of elements in each row; none is empty. A row may end
            with the last channel of its last pixel.
        unit: what means are divided by.
        partial: (row,) scratch, the sum of each column; of bytes, 32 bits hold 2^24 rows.
    """
    img = numbers(img)
    cast = partial.dtype.type
    for b in range(start, stop):
        top, bottom, first, row = bounds[b, 0], bounds[b, 1], bounds[b, 2], bounds[b, 3] - bounds[b, 2]
        count = unit * np.float64((bottom - top) * ((row + channels - 1) // channels))
        if channels == 1 and partial.itemsize == 8:  # floats: sums that stay in registers
            total = np.float64(0.0)
            for y in range(top, bottom):
                at = b * stride_b + y * stride_y + first
                total += wide_sum(img[at : at + row])
            means[b, 0] = total / count
            continue
        partial[:row] = cast(0)
        at, fours = b * stride_b + top * stride_y + first, (bottom - top) // 4
        for _ in range(fours):  # four rows at once, or the sums cost more than reading
            p, q = img[at : at + row], img[at + stride_y : at + stride_y + row]
            at += 2 * stride_y
            r, s = img[at : at + row], img[at + stride_y : at + stride_y + row]
            at += 2 * stride_y
            for k in range(row):
                partial[k] += (cast(p[k]) + cast(q[k])) + (cast(r[k]) + cast(s[k]))
        for _ in range(4 * fours, bottom - top):
            line = img[at : at + row]
            at += stride_y
            for k in range(row):
                partial[k] += cast(line[k])
        for c in range(channels):
            total = np.float64(0.0)  # of integers below 2^53: exact
            for k in range(c, row, channels):
                total += np.float64(partial[k])
            means[b, c] = total / count


@entry
def add_shares(planes, bounds, shares, start, stop):  # type: ignore[no-untyped-def]
    """Add to every element of a plane's rectangle (``planes`` n, h, w; ``bounds`` as above) its share."""
    for k in range(start, stop):
        plane, share = planes[k], shares[k]
        for y in range(bounds[k, 0], bounds[k, 1]):
            row = plane[y, bounds[k, 2] : bounds[k, 3]]
            for u in range(len(row)):
                row[u] += share

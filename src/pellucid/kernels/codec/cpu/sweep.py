"""The codec's loops, in 32-bit integers, one sample after the other.

Owns: `round_trip`: what ``reference.compress`` computes, for bytes.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``../reference.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.codec.tables import COSINES
from pellucid.kernels.jit import entry, exact, noinline, without_refcount

__all__ = ["round_trip"]

_BY_FREQUENCY = np.array(COSINES, np.int32)  # [frequency, place]
_BY_PLACE = np.ascontiguousarray(_BY_FREQUENCY.T)


@exact
def _product(a, b, bits, out):  # type: ignore[no-untyped-def]
    """A @ b for matrices of 8 x 8, shifted down with rounding; flat."""
    half = np.int32(1 << (bits - 1))
    for i in range(0, 64, 8):
        row = out[i : i + 8]
        for n in range(8):
            row[n] = half
        for j in range(8):
            weight, other = a[i + j], b[8 * j : 8 * j + 8]
            for n in range(8):
                row[n] += weight * other[n]
        for n in range(8):
            row[n] >>= bits


@exact
def _blocks(plane, height, width, steps, scratch):  # type: ignore[no-untyped-def]
    """Repeat the last row and column to whole blocks, and take each through its transform and back, in place."""
    noinline()
    rows, columns = (height + 7) // 8 * 8, (width + 7) // 8 * 8
    for y in range(rows):
        if y >= height:
            plane[y, :columns] = plane[height - 1, :columns]
        else:
            plane[y, width:columns] = plane[y, width - 1]
    first, second = scratch[:64], scratch[64:128]
    forward, back = _BY_FREQUENCY.reshape(64), _BY_PLACE.reshape(64)
    for y in range(0, rows, 8):
        for x in range(0, columns, 8):
            for v in range(8):
                for u in range(8):
                    first[8 * v + u] = plane[y + v, x + u] - 128
            _product(first, back, 11, second)
            _product(forward, second, 15, first)
            for k in range(64):
                step = steps[k]
                size = abs(first[k])
                # Exact: half a unit off every integer is far more than the reciprocal's rounding.
                level = np.int32((size + 4 * step + 0.5) * (0.125 / step))
                first[k] = (level if first[k] >= 0 else -level) * step
            _product(back, first, 11, second)
            _product(second, forward, 18, first)
            for v in range(8):
                for u in range(8):
                    plane[y + v, x + u] = min(max(first[8 * v + u] + 128, 0), 255)


@exact
def _to_ycc(image, planes):  # type: ignore[no-untyped-def]
    noinline()
    for y in range(image.shape[1]):
        red, green, blue = image[0, y], image[1, y], image[2, y]
        luma, cb, cr = planes[0, y], planes[1, y], planes[2, y]
        for x in range(len(red)):
            r, g, b = np.int32(red[x]), np.int32(green[x]), np.int32(blue[x])
            luma[x] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16
            cb[x] = (-11059 * r - 21709 * g + 32768 * b + 8421375) >> 16
            cr[x] = (32768 * r - 27439 * g - 5329 * b + 8421375) >> 16


@exact
def _to_rgb(planes, out):  # type: ignore[no-untyped-def]
    noinline()
    for y in range(out.shape[1]):
        luma, cb, cr = planes[0, y], planes[1, y], planes[2, y]
        red, green, blue = out[0, y], out[1, y], out[2, y]
        for x in range(len(red)):
            b, r = cb[x] - 128, cr[x] - 128
            red[x] = min(max(luma[x] + ((91881 * r + 32768) >> 16), 0), 255)
            green[x] = min(max(luma[x] + ((-22554 * b - 46802 * r + 32768) >> 16), 0), 255)
            blue[x] = min(max(luma[x] + ((116130 * b + 32768) >> 16), 0), 255)


@exact
def _halve(plane, height, width, down, into):  # type: ignore[no-untyped-def]
    """Means of pairs (or of two by two); the last row is its own partner, the last column repeats to whole blocks."""
    noinline()
    columns = (width + 15) // 16 * 8
    for y in range((height + down - 1) // down):
        upper = plane[y * down]
        lower = plane[min(y * down + 1, height - 1)]
        for x in range(columns):
            left, right = min(2 * x, width - 1), min(2 * x + 1, width - 1)
            bias = x % 2 + down - 1
            if down == 2:
                into[y, x] = (upper[left] + upper[right] + lower[left] + lower[right] + bias) >> 2
            else:
                into[y, x] = (upper[left] + upper[right] + bias) >> 1


@exact
def _enlarge(halves, height, width, down, plane, line):  # type: ignore[no-untyped-def]
    """Three parts of the nearest sample and one of the next nearest, per axis."""
    noinline()
    rows, columns = (height + down - 1) // down, (width + 1) // 2
    for y in range(height):
        near = halves[y // down]
        if columns <= 2:
            for x in range(width):
                plane[y, x] = near[x // 2]
            continue
        if down == 2:
            far = halves[max(y // 2 - 1, 0)] if y % 2 == 0 else halves[min(y // 2 + 1, rows - 1)]
            for x in range(columns):
                line[x] = 3 * near[x] + far[x]
            bits, even, odd = 4, 8, 7
        else:
            for x in range(columns):
                line[x] = near[x]
            bits, even, odd = 2, 1, 2
        for x in range(columns):
            plane[y, 2 * x] = (3 * line[x] + line[max(x - 1, 0)] + even) >> bits
            plane[y, 2 * x + 1] = (3 * line[x] + line[min(x + 1, columns - 1)] + odd) >> bits


@entry
def round_trip(image, steps, down, across, out, planes, scratch, start, stop):  # type: ignore[no-untyped-def]
    """Samples [start, stop).

    Args:
        image, out: (batch, channels, height, width) of bytes.
        steps: (batch or 1, 2, 64), of luma and of colour differences.
        down, across: pixels per colour difference.
        planes: (5, rows, columns) for this thread's use, both sizes rounded up to 16.
        scratch: at least 128 numbers, and a row.
    """
    image, steps, out, planes, scratch = without_refcount((image, steps, out, planes, scratch))
    channels, height, width = image.shape[1:]
    for b in range(start, stop):
        table = steps[b if len(steps) > 1 else 0]
        if channels == 1:
            planes[0, :height, :width] = image[b, 0]
            _blocks(planes[0], height, width, table[0], scratch)
            for y in range(height):
                for x in range(width):
                    out[b, 0, y, x] = planes[0, y, x]
            continue
        _to_ycc(image[b], planes)
        _blocks(planes[0], height, width, table[0], scratch)
        for c in range(1, 3):
            if across == 1:
                _blocks(planes[c], height, width, table[1], scratch)
            else:
                _halve(planes[c], height, width, down, planes[c + 2])
                _blocks(planes[c + 2], (height + down - 1) // down, (width + 15) // 16 * 8, table[1], scratch)
                _enlarge(planes[c + 2], height, width, down, planes[c], scratch)
        _to_rgb(planes, out[b])

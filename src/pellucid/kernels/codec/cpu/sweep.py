"""The codec's loops, in 32-bit integers, one sample after the other.

Owns: `round_trip`: what ``reference.compress`` computes; halving and enlarging, of floats too.
Must not: know of tensors; everything comes as contiguous arrays.
Read next: ``../reference.py``.
"""

import numpy as np

from pellucid.kernels.codec.cpu.blocks import LANES, transform, untransform
from pellucid.kernels.jit import entry, exact, fused

__all__ = ["HIGH", "LOW", "enlarge", "halve", "limited", "repeat_edges", "round_trip"]

LOW, HIGH = -128, 127
"""The range of samples, counted from its middle."""

_MIDDLE = np.int32(128)  # subtracted from all levels in planes


@exact.noinline
def repeat_edges(plane, height, width, rows, columns):  # type: ignore[no-untyped-def]
    """Repeat the last row and the last column up to so many."""
    for y in range(height):
        plane[y, width:columns] = plane[y, width - 1]
    for y in range(height, rows):
        plane[y, :columns] = plane[height - 1, :columns]


@exact
def _quantised(tile, steps):  # type: ignore[no-untyped-def]
    """Round coefficients, which come times 8, to whole numbers of steps."""
    for k in range(len(tile)):
        step, value = steps[k], tile[k]
        size = np.float32(abs(value)) + np.float32(4 * step) + np.float32(0.5)
        # Exact: half a unit off every integer is far more than what is rounded here, as sizes stay below 2 ** 21.
        stored = np.int32(size * (np.float32(0.125) / np.float32(step))) * step
        tile[k] = stored if value >= 0 else -stored


@exact.noinline
def _blocks(plane, height, width, steps, tile):  # type: ignore[no-untyped-def]
    """Repeat the last row and column to whole tiles, and transform, quantise and decode each in place."""
    rows, columns, pitch = (height + 7) // 8 * 8, (width + LANES - 1) // LANES * LANES, plane.shape[1]
    repeat_edges(plane, height, width, rows, columns)
    flat = plane.reshape(plane.size)
    for y in range(0, rows, 8):
        for x in range(0, columns, LANES):
            transform(flat, y * pitch + x, pitch, tile)
            _quantised(tile, steps)
            untransform(tile, flat, y * pitch + x, pitch)


@exact
def _level(row, x):  # type: ignore[no-untyped-def]
    """A byte, or a number of [0, 1] rounded to one."""
    value, cast = row[x], row.dtype.type
    if cast(0.5) > cast(0.0):  # floats, not bytes: decided while compiling
        value = min(max(np.floor(value * cast(255.0) + cast(0.5)), cast(0.0)), cast(255.0))
    return np.int32(value)


@exact
def _write(row, x, value):  # type: ignore[no-untyped-def]
    """The level of a number counted from the middle, as a byte or in [0, 1]."""
    level = np.int32(min(max(np.int32(value + _MIDDLE), np.int32(0)), np.int32(255)))
    cast = row.dtype.type
    if cast(0.5) > cast(0.0):
        row[x] = cast(level) / cast(255.0)
    else:
        row[x] = level


@exact.noinline
def _to_ycc(image, planes):  # type: ignore[no-untyped-def]
    for y in range(image.shape[1]):
        red, green, blue = image[0, y], image[1, y], image[2, y]
        luma, cb, cr = planes[0, y], planes[1, y], planes[2, y]
        for x in range(len(red)):
            r, g, b = _level(red, x), _level(green, x), _level(blue, x)
            luma[x] = (np.int32(19595 * r + 38470 * g + 7471 * b + 32768) >> 16) - _MIDDLE
            cb[x] = np.int32(-11059 * r - 21709 * g + 32768 * b + 32767) >> 16
            cr[x] = np.int32(32768 * r - 27439 * g - 5329 * b + 32767) >> 16


@exact.noinline
def _to_rgb(planes, out):  # type: ignore[no-untyped-def]
    for y in range(out.shape[1]):
        luma, cb, cr = planes[0, y], planes[1, y], planes[2, y]
        red, green, blue = out[0, y], out[1, y], out[2, y]
        for x in range(len(red)):
            b, r = cb[x], cr[x]
            _write(red, x, luma[x] + (np.int32(91881 * r + 32768) >> 16))
            _write(green, x, luma[x] + (np.int32(-22554 * b - 46802 * r + 32768) >> 16))
            _write(blue, x, luma[x] + (np.int32(116130 * b + 32768) >> 16))


@fused
def _rounds(plane):  # type: ignore[no-untyped-def]
    """Whether a plane's numbers are whole and rounded as libjpeg rounds, not floats: decided while compiling."""
    return plane.dtype.type(0.5) == plane.dtype.type(0.0)


@fused.noinline
def halve(plane, height, width, down, into):  # type: ignore[no-untyped-def]
    """Means of pairs (or of two by two); the last row is its own partner, the last column repeats to whole blocks."""
    columns, two, share = (width + 15) // 16 * 8, np.int32(down), plane.dtype.type(0.5 / down)
    repeat_edges(plane, height, width, height, 2 * columns)
    for y in range((height + down - 1) // down):
        upper, lower, means = plane[y * down], plane[min(y * down + 1, height - 1)], into[y]
        for x in range(columns):
            total = upper[2 * x] + upper[2 * x + 1]
            if down == 2:
                total += lower[2 * x] + lower[2 * x + 1]
            if _rounds(plane):
                means[x] = np.int32(np.int32(total) + (np.int32(x) & np.int32(1)) + two - np.int32(1)) >> two
            else:
                means[x] = share * total


@fused
def limited(x):  # type: ignore[no-untyped-def]
    """A decoded sample, counted from the middle of its range, within it; whole ones are so already."""
    return min(max(x, type(x)(LOW)), type(x)(HIGH)) if type(x)(0.5) > type(x)(0.0) else x


@fused.noinline
def enlarge(halves, height, width, down, plane, line):  # type: ignore[no-untyped-def]
    """Three parts of the nearest sample and one of the next nearest, per axis."""
    cast, rows, columns = plane.dtype.type, (height + down - 1) // down, (width + 1) // 2
    bits, even, odd = (np.int32(4), np.int32(8), np.int32(7)) if down == 2 else (np.int32(2), np.int32(1), np.int32(2))
    three, part = cast(3.0), cast(0.0625 if down == 2 else 0.25)
    for y in range(height):
        near, row = halves[y // down], plane[y]
        if columns <= 2:
            for x in range(width):
                row[x] = limited(near[x // 2])
            continue
        if down == 2:
            far = halves[max(y // 2 - 1, 0)] if y % 2 == 0 else halves[min(y // 2 + 1, rows - 1)]
            for x in range(columns):
                line[x + 1] = three * limited(near[x]) + limited(far[x])
        else:
            for x in range(columns):
                line[x + 1] = limited(near[x])
        line[0], line[columns + 1] = line[1], line[columns]
        for x in range(columns):
            if _rounds(plane):
                row[2 * x] = np.int32(3 * line[x + 1] + line[x] + even) >> bits
                row[2 * x + 1] = np.int32(3 * line[x + 1] + line[x + 2] + odd) >> bits
            else:
                row[2 * x] = part * (three * line[x + 1] + line[x])
                row[2 * x + 1] = part * (three * line[x + 1] + line[x + 2])


@entry
def round_trip(image, steps, down, across, out, planes, tile, line, start, stop):  # type: ignore[no-untyped-def]
    """Encode and decode samples [start, stop).

    Args:
        image, out: (batch, channels, height, width), of bytes or of numbers in [0, 1].
        steps: (batch or 1, 2, 128), of luma and of colour differences, for two blocks side by side.
        down, across: pixels per colour difference.
        planes: scratch (5, rows, columns), both sizes rounded up to 16.
        tile: scratch, 128 numbers.
        line: scratch, a row and two numbers.
    """
    channels, height, width = image.shape[1:]
    for b in range(start, stop):
        table = steps[b if len(steps) > 1 else 0]
        if channels == 1:
            for y in range(height):
                for x in range(width):
                    planes[0, y, x] = _level(image[b, 0, y], x) - _MIDDLE
            _blocks(planes[0], height, width, table[0], tile)
            for y in range(height):
                for x in range(width):
                    _write(out[b, 0, y], x, planes[0, y, x])
            continue
        _to_ycc(image[b], planes)
        _blocks(planes[0], height, width, table[0], tile)
        for c in range(1, 3):
            if across == 1:
                _blocks(planes[c], height, width, table[1], tile)
            else:
                halve(planes[c], height, width, down, planes[c + 2])
                _blocks(planes[c + 2], (height + down - 1) // down, (width + 15) // 16 * 8, table[1], tile)
                enlarge(planes[c + 2], height, width, down, planes[c], line)
        _to_rgb(planes, out[b])

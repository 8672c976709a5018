"""Flatten histograms tile by tile, compiled.

Owns: the curves of a channel's tiles, and their interpolation between tiles' centres.
Must not: know of tensors; everything comes as contiguous arrays, a plane for each channel of a sample.
Read next: ``../clahe.py``.
"""

import numpy as np

from pellucid.kernels.curve.cpu.rows import levels_of
from pellucid.kernels.jit import entry, exact

__all__ = ["clahe"]


@exact.noinline
def _count(levels, row, tile, counts):  # type: ignore[no-untyped-def]
    """Add a row of levels to the histograms of its tiles (tiles, 256); columns beyond the picture are the mirrored ones."""
    width = levels.shape[1]
    period = max(2 * (width - 1), 1)
    for t in range(len(counts)):
        first = t * tile
        for u in range(first, min(first + tile, width)):
            counts[t, levels[row, u]] += 1
        for u in range(max(first, width), first + tile):
            x = u % period
            counts[t, levels[row, x if x < width else period - x]] += 1


@exact.noinline
def _curve(counts, most, scale, table):  # type: ignore[no-untyped-def]
    """The curve of a tile: counts beyond ``most`` are spread over all levels, and the sums are stretched to 255."""
    spare = np.int64(0)
    for k in range(256):
        spare += max(counts[k] - most, 0)
    each, rest = spare // 256, spare % 256
    step, total = 256 // rest if rest > 0 else 256, np.int64(0)
    for k in range(256):
        total += min(counts[k], most) + each + (1 if k % step == 0 and k // step < rest else 0)
        level = np.rint(np.float32(total) * scale)
        table[k] = min(max(level, np.float32(0.0)), np.float32(255.0))


@exact
def _slopes(table, rise):  # type: ignore[no-untyped-def]
    for k in range(256):
        rise[k] = table[min(k + 1, 255)] - table[max(k - 1, 0)]


@exact.noinline
def _between(tables, levels, row, across, left, right, out):  # type: ignore[no-untyped-def]
    """Interpolate a row's levels between the curves (tiles, 256) to the left and to the right of each pixel."""
    one = np.float32(1.0)
    for u in range(len(out)):
        level = levels[row, u]
        out[u] = tables[left[u], level] * (one - across[u]) + tables[right[u], level] * across[u]


@exact
def _toned(top, bottom, down, y):  # type: ignore[no-untyped-def]
    one = np.float32(1.0)
    for u in range(len(y)):
        y[u] = y.dtype.type(np.rint(top[u] * (one - down) + bottom[u] * down) / np.float32(255.0))


@exact
def _sloped(top, bottom, down, y):  # type: ignore[no-untyped-def]
    one = np.float32(1.0)
    for u in range(len(y)):
        y[u] = y.dtype.type((top[u] * (one - down) + bottom[u] * down) / np.float32(2.0))


@entry
def clahe(planes, limits, channels, size, tiles, steps, out, slopes, start, stop):  # type: ignore[no-untyped-def]
    """Flatten the histograms of planes [start, stop) of (planes, h, w).

    Args:
        limits: (samples or 1,), float64.
        size: rows and columns with the mirrored border, which make whole tiles.
        tiles: how many along y and x.
        steps: along y and x, for every pixel: the tile before, the tile after, and the fraction of the way.
        slopes: of the curves at each pixel; has no planes if they are not wanted.
    """
    (above, below, down), (left, right, across) = steps
    (_, height, width), (tall, wide) = planes.shape, (size[0] // tiles[0], size[1] // tiles[1])
    levels, counts, rows = (
        np.empty((height, width), np.uint8),
        np.empty((tiles[1], 256), np.int64),
        np.empty((2, width), np.float32),
    )
    tables, rises = np.empty((*tiles, 256), np.float32), np.empty((*tiles, 256), np.float32)
    area, period = tall * wide, max(2 * (height - 1), 1)
    scale = np.float32(255.0) / np.float32(area)
    for p in range(start, stop):
        for v in range(height):
            levels_of(planes[p, v], planes.dtype.type(255.0), levels[v])
        most = max(np.int64(np.floor(limits[p // channels % len(limits)] * area / 256.0)), 1)
        for row in range(tiles[0]):
            counts[:] = 0
            for v in range(row * tall, (row + 1) * tall):
                y = v % period
                _count(levels, y if y < height else period - y, wide, counts)
            for column in range(tiles[1]):
                _curve(counts[column], most, scale, tables[row, column])
                _slopes(tables[row, column], rises[row, column])
        for v in range(height):
            _between(tables[above[v]], levels, v, across, left, right, rows[0])
            _between(tables[below[v]], levels, v, across, left, right, rows[1])
            _toned(rows[0], rows[1], down[v], out[p, v])
            if len(slopes) > 0:
                _between(rises[above[v]], levels, v, across, left, right, rows[0])
                _between(rises[below[v]], levels, v, across, left, right, rows[1])
                _sloped(rows[0], rows[1], down[v], slopes[p, v])

"""Pictures that a pass only moves by whole pixels: flips, quarter turns, crops and pads, and their gradients.

Owns: the loop that copies elements of any kind, plane by plane, and the one over samples that tells whether all are such.
Must not: look at what an element means; a batch that is not all moved, or has colours, is ``copies.py``'s.
Read next: ``shifts.py``.
"""

from typing import Any

import numpy as np

from pellucid.kernels.jit import entry, fused
from pellucid.kernels.vectors import Array, Lanes, woven
from pellucid.kernels.warp.cpu.copies import moves_whole_pixels

__all__ = ["move", "whole_shifts"]

_VECTOR = 32  # bytes that are reversed at once
_TILE = 64  # columns and rows of a turned plane that go together: a line of the cache each


@woven()
def _follow(source: Array, at: Lanes, target: Array, place: Lanes, count: Lanes) -> None:
    """Copy elements that follow one another."""
    target.copy(place, source, at, count)


@woven()
def _mirror(source: Array, at: Lanes, target: Array, place: Lanes, cells: tuple[Any, ...]) -> None:
    """Copy the pixels of some vectors, the last one first."""
    n = len(cells)
    count = _VECTOR // source.size * n
    target.store(place, source.load(at, count)[[count - n - u + 2 * (u % n) for u in range(count)]])


@woven()
def _hop(source: Array, at: Lanes, target: Array, place: Lanes, cells: tuple[Any, ...]) -> None:
    """Copy a pixel; one of three numbers with the number behind it, which the copy of the next pixel overwrites."""
    target.store(place, source.load(at, len(cells) + len(cells) % 2))


@fused
def _line(img, at, step, out, place, n, cells):  # type: ignore[no-untyped-def]
    """Copy n pixels of the image, ``step`` elements apart from the one ``at`` on."""
    c = len(cells)
    lanes = np.int64(_VECTOR // img.itemsize)
    if step == c:
        _follow(img, at, out, place, n * c)
    elif step == -c and n >= lanes:
        for u in range(0, n - lanes, lanes):
            _mirror(img, at - (u + lanes - 1) * c, out, place + u * c, cells)
        _mirror(img, at - (n - 1) * c, out, place + (n - lanes) * c, cells)
    else:
        for u in range(n):
            for k in range(c):
                out[place + u * c + k] = img[at + u * step + k]


@fused
def _seen(first, step, length, count):  # type: ignore[no-untyped-def]
    """Which [low, high) of ``count`` places, ``step`` (1 or -1) apart from the first on, lie in [0, length)."""
    low, high = (-first, length - first) if step > 0 else (first - length + 1, first + 1)
    low = min(max(low, 0), count)
    return low, max(min(high, count), low)


@fused.noinline
def _straight(img, base, strides, shape, m, width, cells, out):  # type: ignore[no-untyped-def]
    c = len(cells)
    row = width * c
    height, (sy, sx) = len(out) // row, strides
    left, right = _seen(m[2], m[0], shape[1], width)
    top, bottom = _seen(m[5], m[4], shape[0], height)
    at, down, step = base + m[2] * sx + m[5] * sy, m[4] * sy, m[0] * sx
    out[: top * row] = 0
    out[bottom * row :] = 0
    if left == 0 and right == width and step == c and down == row:
        _follow(img, at + top * down, out, top * row, (bottom - top) * row)
        return
    for v in range(top, bottom):
        out[v * row : v * row + left * c] = 0
        _line(img, at + v * down + left * step, step, out, v * row + left * c, right - left, cells)
        out[v * row + right * c : (v + 1) * row] = 0


@fused.noinline
def _turned(img, base, strides, shape, m, width, cells, out):  # type: ignore[no-untyped-def]
    c = len(cells)
    height, (sy, sx) = len(out) // (width * c), strides
    left, right = _seen(m[5], m[3], shape[0], width)
    top, bottom = _seen(m[2], m[1], shape[1], height)
    at, down, step = base + m[2] * sx + m[5] * sy, m[1] * sx, m[3] * sy
    if right - left < width or bottom - top < height:
        out[:] = 0
    for v in range(top, bottom, _TILE):
        for u in range(left, right, _TILE):
            for y in range(v, min(v + _TILE, bottom)):
                n = min(_TILE, right - u)
                row, first = out[(y * width + u) * c : (y * width + u + n) * c], at + y * down + u * step
                safe = n - 1 if c > 1 and first + max(step * (n - 1), 0) + c < len(img) else 0
                for x in range(safe):
                    _hop(img, first + x * step, row, x * c, cells)
                for x in range(safe, n):
                    for k in range(c):
                        row[np.uint64(x * c + k)] = img[np.uint64(first + x * step + k)]  # signed indices are tested for their sign


@entry
def move(img, pictures, channels, maps, width, cells, out, start, stop):  # type: ignore[no-untyped-def]
    """Planes [start, stop) of ``out``: every pixel one of the image, or 0 outside of it.

    Args:
        img: flat; ``pictures`` says where samples lie in it, as ``../../sources.py`` describes it.
        channels: how many planes a sample has.
        maps: (batch or 1, 6), the affine maps as whole numbers.
        cells: a tuple with an entry for each number of a plane's pixel: one, or all channels where these are interleaved.
        out: (batch * channels, height * width * cells).
    """
    for p in range(start, stop):
        b = p // channels
        row, m = pictures[b if len(pictures) > 1 else 0], maps[b if len(maps) > 1 else 0]
        base, strides, shape = row[0] + b * row[1] + (p - b * channels) * row[4], (row[5], row[6]), (row[7], row[8])
        if m[0] != 0:
            _straight(img, base, strides, shape, m, width, cells, out[p])
        else:
            _turned(img, base, strides, shape, m, width, cells, out[p])


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

"""Pictures that a pass only moves by whole pixels: flips, quarter turns, crops and pads, and their gradients.

Owns: the loop that copies elements of any kind, plane by plane, and the one over samples that tells whether all are such.
Must not: look at what an element means; a batch that is not all moved, or has colours, is ``copies.py``'s.
Read next: ``shifts.py``.
"""

import numpy as np

from pellucid.kernels.jit import entry, fused
from pellucid.kernels.vectors import Array, Lanes, woven
from pellucid.kernels.warp.cpu.copies import moves_whole_pixels

__all__ = ["move", "whole_shifts"]

_VECTOR = 32  # bytes that are turned round at once
_TILE = 64  # columns and rows of a turned plane that go together: a line of the cache each


@woven()
def _follow(source: Array, at: Lanes, target: Array, place: Lanes, count: Lanes) -> None:
    """Copy elements that follow one another."""
    target.copy(place, source, at, count)


@woven()
def _mirror(source: Array, at: Lanes, target: Array, place: Lanes) -> None:
    """Copy the elements of a vector, the last one first."""
    target.store(place, source.load(at, _VECTOR // source.size)[::-1])


@fused
def _line(img, at, step, out, place, n):  # type: ignore[no-untyped-def]
    """Copy n elements of the image, ``step`` apart from the one ``at`` on."""
    lanes = np.int64(_VECTOR // img.itemsize)
    if step == 1:
        _follow(img, at, out, place, n)
    elif step == -1 and n >= lanes:
        for u in range(0, n - lanes, lanes):
            _mirror(img, at - u - lanes + 1, out, place + u)
        _mirror(img, at - n + 1, out, place + n - lanes)
    else:
        for u in range(n):
            out[place + u] = img[at + u * step]


@fused
def _seen(first, step, length, count):  # type: ignore[no-untyped-def]
    """Which [low, high) of ``count`` places, ``step`` (1 or -1) apart from the first on, lie in [0, length)."""
    low, high = (-first, length - first) if step > 0 else (first - length + 1, first + 1)
    low = min(max(low, 0), count)
    return low, max(min(high, count), low)


@fused.noinline
def _straight(img, base, strides, shape, m, width, out):  # type: ignore[no-untyped-def]
    height, (sy, sx) = len(out) // width, strides
    left, right = _seen(m[2], m[0], shape[1], width)
    top, bottom = _seen(m[5], m[4], shape[0], height)
    at, down, step = base + m[2] * sx + m[5] * sy, m[4] * sy, m[0] * sx
    out[: top * width] = 0
    out[bottom * width :] = 0
    if left == 0 and right == width and step == 1 and down == width:
        _follow(img, at + top * down, out, top * width, (bottom - top) * width)
        return
    for v in range(top, bottom):
        out[v * width : v * width + left] = 0
        _line(img, at + v * down + left * step, step, out, v * width + left, right - left)
        out[v * width + right : (v + 1) * width] = 0


@fused.noinline
def _turned(img, base, strides, shape, m, width, out):  # type: ignore[no-untyped-def]
    height, (sy, sx) = len(out) // width, strides
    left, right = _seen(m[5], m[3], shape[0], width)
    top, bottom = _seen(m[2], m[1], shape[1], height)
    at, down, step = base + m[2] * sx + m[5] * sy, m[1] * sx, m[3] * sy
    if right - left < width or bottom - top < height:
        out[:] = 0
    for v in range(top, bottom, _TILE):
        for u in range(left, right, _TILE):
            for y in range(v, min(v + _TILE, bottom)):
                n = min(_TILE, right - u)
                row, first = out[y * width + u : y * width + u + n], at + y * down + u * step
                for x in range(n):
                    row[x] = img[np.uint64(first + x * step)]  # unsigned, or each index is asked for its sign


@entry
def move(img, pictures, channels, maps, width, out, start, stop):  # type: ignore[no-untyped-def]
    """Planes [start, stop) of ``out`` (batch * channels, height * width): every pixel one of the image, or 0 outside of it.

    Args:
        img: flat; ``pictures`` says where samples lie in it, as ``../../sources.py`` describes it.
        maps: (batch or 1, 6), the affine maps as whole numbers.
    """
    for p in range(start, stop):
        b = p // channels
        row, m = pictures[b if len(pictures) > 1 else 0], maps[b if len(maps) > 1 else 0]
        base, strides, shape = row[0] + b * row[1] + (p - b * channels) * row[4], (row[5], row[6]), (row[7], row[8])
        if m[0] != 0:
            _straight(img, base, strides, shape, m, width, out[p])
        else:
            _turned(img, base, strides, shape, m, width, out[p])


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

"""Samples that only move by whole pixels: flips, quarter turns, crops, pads, and colour alone. They are copied, row by row.

Owns: recognising such a map by its numbers, copying a strip, and adding a strip's gradient back.
Must not: interpolate: every bit arrives as it was, and NaN stays in its own pixel.
Read next: ``sweep.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.warp.cpu.coordinates import FILLED

__all__ = ["add_strip", "copy_strip", "moves_whole_pixels"]

_FAR = float(1 << 22)  # as in taps.py; sums of whole numbers below are exact in float32


@fused.noinline
def moves_whole_pixels(m, projective, mode, window, shape, size):  # type: ignore[no-untyped-def]
    """Whether each output pixel is exactly one pixel of the image, or (where outside is fill) none.

    Args:
        m: the map's numbers, as in ``locate``.
        shape, size: (height, width) of the image and of the result.
    """
    zero, one, far = m.dtype.type(0.0), m.dtype.type(1.0), m.dtype.type(_FAR)
    if projective and not (m[6] == zero and m[7] == zero and m[8] == one):
        return False
    a, b, c, d, e, f = m[0], m[1], m[2], m[3], m[4], m[5]
    straight = b == zero and d == zero and abs(a) == one and abs(e) == one
    turned = a == zero and e == zero and abs(b) == one and abs(d) == one
    if not ((straight or turned) and abs(c) < far and abs(f) < far and c == np.floor(c) and f == np.floor(f)):
        return False
    if mode == FILLED and len(window) == 0:
        return True
    low_x, low_y, high_x, high_y = zero, zero, m.dtype.type(shape[1] - 1), m.dtype.type(shape[0] - 1)
    if len(window) == 4:
        low_x, low_y = max(low_x, window[0]), max(low_y, window[1])
        high_x, high_y = min(high_x, window[2]), min(high_y, window[3])
    x, y = c, f
    for _ in range(2):  # two opposite corners
        if not (x >= low_x and x <= high_x and y >= low_y and y <= high_y):
            return False
        x, y = c + a * (size[1] - 1) + b * (size[0] - 1), f + d * (size[1] - 1) + e * (size[0] - 1)
    return True


@fused
def _line(m, v, start, shape, width):  # type: ignore[no-untyped-def]
    """Where ``width`` pixels of the result's row v read, from column ``start`` on: x and y of the first, their steps, and which
    pixels [low, high) of them see the image.
    """
    a, b, d, e = np.int64(m[0]), np.int64(m[1]), np.int64(m[3]), np.int64(m[4])
    x, y = np.int64(m[2]) + a * start + b * v, np.int64(m[5]) + d * start + e * v
    height = shape[0]
    across = a != 0
    place, length, step = (x, shape[1], a) if across else (y, height, d)
    seen = (y >= 0 and y < height) if across else (x >= 0 and x < shape[1])
    low, high = (-place, length - place) if step > 0 else (place - length + 1, place + 1)
    low = min(max(low, 0), width)
    high = max(min(high, width), low)
    return x, y, a, d, low, (high if seen else low)


@fused
def _copy(img, at, step, unit, cast, out):  # type: ignore[no-untyped-def]
    n = len(out)
    if n == 0:
        return
    if step == 1:
        line = img[at : at + n]
        for u in range(n):
            out[u] = cast(line[u]) * unit
    elif step == -1:
        line = img[at - n + 1 : at + 1]
        for u in range(n):
            out[u] = cast(line[np.uint64(n - 1 - u)]) * unit
    else:
        for u in range(n):
            out[u] = cast(img[np.uint64(at + u * step)]) * unit  # unsigned: signed indices would be tested for their sign


@fused
def _add(gradient, at, step, g):  # type: ignore[no-untyped-def]
    n = len(g)
    if n == 0:
        return
    if step == 1:
        line = gradient[at : at + n]
        for u in range(n):
            line[u] += g[u]
    elif step == -1:
        line = gradient[at - n + 1 : at + 1]
        for u in range(n):
            line[np.uint64(n - 1 - u)] += g[u]
    else:
        for u in range(n):
            gradient[np.uint64(at + u * step)] += g[u]


@fused.noinline
def copy_strip(img, call, m, spot, lines, out, place, cover):  # type: ignore[no-untyped-def]
    """Copy so many ``lines``, from a strip's first on.

    Args:
        place: where they go: (the first channel's row of ``out``, the first pixel's place in it, step from line to line).
        cover: for their coverage, a number per pixel, or empty.
    """
    cast, shape, sy, sx = m.dtype.type, (call.height, call.width), call.stride_y, call.stride_x
    zero, one = cast(0.0), cast(1.0)
    _, v, start, width = spot
    top, into, across = place
    if len(cover) > 0:
        for k in range(lines):
            _, _, _, _, low, high = _line(m, v + k, start, shape, width)
            seen = cover[k * width : (k + 1) * width]
            for u in range(width):
                seen[u] = one if (u >= low) & (u < high) else zero
    for c in range(call.channels):
        plane = out[top + c]
        for k in range(lines):
            x, y, right, down, low, high = _line(m, v + k, start, shape, width)
            at, step = call.base + y * sy + x * sx, right * sx + down * sy
            row = plane[into + k * across : into + k * across + width]
            for u in range(low):
                row[u] = zero
            _copy(img, at + c * call.stride_c + low * step, step, call.unit, cast, row[low:high])
            for u in range(high, width):
                row[u] = zero


@fused.noinline
def add_strip(gradient, call, m, spot, g):  # type: ignore[no-untyped-def]
    """Add a strip's gradient to that of the pixels it showed; ``gradient`` is contiguous."""
    shape, plane, (_, v, start, width) = (call.height, call.width), call.height * call.width, spot
    for first in range(0, len(g[0]), width):
        x, y, right, down, low, high = _line(m, v + first // width, start, shape, width)
        at, step = call.own + y * shape[1] + x, right + down * shape[1]
        for c in range(call.channels):
            _add(gradient, at + c * plane + low * step, step, g[c][first + low : first + high])

"""Pixels that lie too far apart to be staged together: those around each output pixel's point are copied to a patch of their own.

Owns: a strip's patches, ``taps`` x ``taps`` pixels each, one after the other and in the stage's layout, so that the stage's readers
read them with the same bits; and the adjoint.
Must not: interpolate, or know colours.
Read next: ``gather.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.warp.cpu.coordinates import BORDER, FILLED, boxes, fold, half_up, nearer, rule_of
from pellucid.kernels.warp.cpu.layout import X, Y
from pellucid.kernels.warp.cpu.quads import lift, meet, soon_read

__all__ = ["add_apart", "lay_apart"]

_AHEAD = 48  # points whose pixels are prefetched before it is their turn


@fused
def _before(taps, shape, cast):  # type: ignore[no-untyped-def]
    """(what is added to x, to y, before they are rounded down, how many pixels a patch's first one lies further back)."""
    if taps == 1:
        return half_up(shape[1], cast), half_up(shape[0], cast), np.int64(0)
    return cast(0.0), cast(0.0), np.int64(taps // 2 - 1)


@fused
def _first(x, length, mode, low, high, half):  # type: ignore[no-untyped-def]
    if mode > BORDER:
        x = nearer(x, length, mode)
    return np.int64(np.floor(min(max(x, low), high) + half))


@fused
def _seen(i, j, shape, mode):  # type: ignore[no-untyped-def]
    """Whether a pixel, which may lie outside of the image, shows one of the image's."""
    return mode != FILLED or ((i >= 0) & (i < shape[1]) & (j >= 0) & (j < shape[0]))


@fused
def _row(img, a, b, c, step, taps, unit, quad, to):  # type: ignore[no-untyped-def]
    """A row of a patch, written out, or the loop costs more than the pixels."""
    lift(img, a, b, c, unit, quad, to)
    if taps > 1:
        lift(img, a + step, b + step, c + step, unit, quad, to + np.uint64(4))
    if taps > 2:
        twice = step + step
        lift(img, a + twice, b + twice, c + twice, unit, quad, to + np.uint64(8))
        lift(img, a + twice + step, b + twice + step, c + twice + step, unit, quad, to + np.uint64(12))


@fused
def _announce(img, a, b, c, strides, taps, x, y, last_x, last_y):  # type: ignore[no-untyped-def]
    """Prefetch the rows of a patch of three channels, roughly; wherever a point lies, this is the picture's memory."""
    zero = last_x * 0
    i, j = np.uint64(np.int64(min(max(x, zero), last_x))), np.uint64(np.int64(min(max(y, zero), last_y)))
    p = j * strides[0] + i * strides[1]
    for _ in range(taps):
        soon_read(img, a + p)
        soon_read(img, b + p)
        soon_read(img, c + p)
        p += strides[0]


@fused.noinline
def lay_apart(img, call, k, window, strip):  # type: ignore[no-untyped-def]
    """Fill the stage with a patch of channels 3 k to 3 k + 2 and the coverage for each point that sees any."""
    x, y, seen, quad, taps, unit = strip.rows[X], strip.rows[Y], strip.seen, strip.quad, call.taps, call.unit
    height, width, shape, count = call.height, call.width, (call.height, call.width), min(call.channels - 3 * k, 3)
    cast, mode = quad.dtype.type, rule_of(call, window)
    (_, (low_x, high_x, low_y, high_y)), (half_x, half_y, back) = boxes(call, window, cast), _before(taps, shape, cast)
    zero, sc, sy, sx = cast(0.0), np.uint64(call.stride_c), np.uint64(call.stride_y), np.uint64(call.stride_x)
    at = np.uint64(call.base) + np.uint64(3 * k * call.stride_c)
    second, third = at + np.uint64(min(count - 1, 1)) * sc, at + np.uint64(min(count - 1, 2)) * sc
    size, last_x, last_y = 4 * taps * taps, cast(width - taps), cast(height - taps)
    for u in range(len(seen)):
        if u + _AHEAD < len(seen):
            _announce(img, at, second, third, (sy, sx), taps, x[u + _AHEAD], y[u + _AHEAD], last_x, last_y)
        to = np.uint64(u * size)
        if seen[u] == 0:
            quad[u * size : (u + 1) * size] = zero
            continue
        i, j = _first(x[u], width, mode, low_x, high_x, half_x) - back, _first(y[u], height, mode, low_y, high_y, half_y) - back
        inside = (i >= 0) & (i + taps <= width) & (j >= 0) & (j + taps <= height)
        if inside:
            p = np.uint64(j) * sy + np.uint64(i) * sx
            a, b, c, row = at + p, second + p, third + p, np.uint64(4 * taps)
            _row(img, a, b, c, sx, taps, unit, quad, to)
            if taps > 1:
                _row(img, a + sy, b + sy, c + sy, sx, taps, unit, quad, to + row)
            if taps > 2:
                twice = sy + sy
                _row(img, a + twice, b + twice, c + twice, sx, taps, unit, quad, to + row + row)
                twice += sy
                _row(img, a + twice, b + twice, c + twice, sx, taps, unit, quad, to + row + row + row)
            continue
        for down in range(taps):
            row = np.uint64(fold(j + down, height, mode)) * sy
            for across in range(taps):
                if _seen(i + across, j + down, shape, mode):
                    p = row + np.uint64(fold(i + across, width, mode)) * sx
                    lift(img, at + p, second + p, third + p, unit, quad, to)
                else:
                    quad[to] = quad[to + np.uint64(1)] = quad[to + np.uint64(2)] = quad[to + np.uint64(3)] = zero
                to += np.uint64(4)


@fused.noinline
def add_apart(call, k, window, strip, quads, gradient):  # type: ignore[no-untyped-def]
    """Add the patches' gradients of channels 3 k to 3 k + 2, laid out as ``unstage`` expects them, to ``gradient``."""
    x, y, seen, pairs, taps, mode = strip.rows[X], strip.rows[Y], strip.seen, strip.into, call.taps, rule_of(call, window)
    height, width, shape, count = call.height, call.width, (call.height, call.width), min(call.channels - 3 * k, 3)
    at = call.own + 3 * k * height * width
    cast = quads.dtype.type
    (_, (low_x, high_x, low_y, high_y)), (half_x, half_y, back) = boxes(call, window, cast), _before(taps, shape, cast)
    for u in range(len(seen)):
        if seen[u] == 0:
            continue
        i, j = _first(x[u], width, mode, low_x, high_x, half_x) - back, _first(y[u], height, mode, low_y, high_y, half_y) - back
        for tap in range(taps * taps):
            column, row = i + tap % taps, j + tap // taps
            if _seen(column, row, shape, mode):
                meet(pairs, 8 + 8 * (u * taps * taps + tap), quads, 0)
                to = at + fold(row, height, mode) * width + fold(column, width, mode)
                for lane in range(count):
                    gradient[to + lane * height * width] += quads[lane]

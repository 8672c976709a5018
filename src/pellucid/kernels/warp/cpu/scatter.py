"""The adjoint of the gather: what each output pixel's gradient means for its coordinates and for the pixels it read.

Owns: a strip's gradients of x and y, and adding to an image gradient that this thread alone owns, staged or not.
Must not: need atomics; the order is always row by row, pixel by pixel.
Read next: ``../../color/cpu/paint.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import fused, noinline
from pellucid.kernels.warp.cpu.blocks import BLOCK, slopes_of
from pellucid.kernels.warp.cpu.coordinates import FILLED, cover_of, resolve
from pellucid.kernels.warp.cpu.layout import X, Y
from pellucid.kernels.warp.cpu.quads import cubic_slopes, cubic_spread, drop, slopes, spread

__all__ = ["scatter_edge", "scatter_staged"]


@fused
def _join_all(a, b, c, cover, quads):  # type: ignore[no-untyped-def]
    """Put channels and coverage together into pixels."""
    for u in range(len(a)):
        quads[4 * u], quads[4 * u + 1], quads[4 * u + 2], quads[4 * u + 3] = a[u], b[u], c[u], cover[u]


@fused
def _join(a, lane, quads):  # type: ignore[no-untyped-def]
    for u in range(len(a)):
        quads[4 * u + lane] = a[u]


@fused
def scatter_staged(  # type: ignore[no-untyped-def]
    pixels, into, columns, taps, needs, index, tx, ty, cubics, g, to_cover, quads, along_x, along_y
):
    """For pixels that were laid out, of up to three channels: add to along_x and along_y if ``needs[1]``, shares to ``into`` if
    ``needs[0]``.

    Args:
        cubics: weights of cubic interpolation, which has four taps; None: it is not compiled.
        g, to_cover: gradients of the channels and of the coverage; the latter counts only for coordinates.
        quads: scratch, four numbers per pixel.
    """
    noinline()
    row, count, n = np.uint64(4 * columns), np.uint64(len(index)), len(index)
    whole = n - n % BLOCK if taps == 2 and len(g) == 3 else 0  # so many have their slopes taken in blocks, the others one by one
    if len(g) == 3:
        _join_all(g[0], g[1], g[2], to_cover, quads)
    else:
        quads[:] = tx.dtype.type(0.0)
        for c in range(len(g)):
            _join(g[c], c, quads)
        _join(to_cover, 3, quads)
    if cubics is not None and taps == 4:
        if needs[1]:
            for u in range(len(index)):
                at = np.uint64(4 * u)
                across, down = cubic_slopes(pixels, np.uint64(index[u]), row, cubics, count, np.uint64(u), quads, at)
                along_x[u] += across
                along_y[u] += down
        if needs[0]:
            for u in range(len(index)):
                cubic_spread(into, np.uint64(index[u]), row, cubics, count, np.uint64(u), quads, np.uint64(4 * u))
    elif taps == 1:
        if needs[0]:
            for u in range(len(index)):
                drop(into, np.uint64(index[u]), quads, np.uint64(4 * u))
    else:
        if needs[1]:
            for u in range(0, whole, BLOCK):
                slopes_of(pixels, row, index, tx, ty, np.uint64(u), g[0], g[1], g[2], to_cover, along_x, along_y)
            for u in range(whole, n):
                i = np.uint64(index[u])
                across, down = slopes(pixels, i, i + row, tx[u], ty[u], quads, np.uint64(4 * u))
                along_x[u] += across
                along_y[u] += down
        if needs[0]:
            for u in range(len(index)):
                i = np.uint64(index[u])
                spread(into, i, i + row, tx[u], ty[u], quads, np.uint64(4 * u))


@fused
def scatter_edge(img, call, needs, window, strip, edge, g, to_cover, gradient, along):  # type: ignore[no-untyped-def]
    """Any interpolation and border rule, pixel by pixel, for pixels of kind 1; ``gradient``: of the image, contiguous."""
    noinline()
    (tap_index, weight, slope), x, y, taps, mode = edge, strip.rows[X], strip.rows[Y], call.taps, call.mode
    cast, shape, base, at = weight.dtype.type, (call.height, call.width), np.uint64(call.base), np.uint64(call.own)
    zero, sc, sy, sx = cast(0.0), np.uint64(call.stride_c), np.uint64(call.stride_y), np.uint64(call.stride_x)
    channels, width, along_x, along_y = call.channels, np.uint64(call.width), along[0], along[1]
    plane = np.uint64(call.height) * width
    for u in range(len(x)):
        if strip.kind[u] != 1 or not resolve(x[u], y[u], shape, taps, call.cubic, mode, window, tap_index, weight, slope):
            continue
        if needs[1]:
            total_x = total_y = zero
            for c in range(channels):
                step_x = step_y = zero
                for j in range(taps):
                    line = base + np.uint64(c) * sc + np.uint64(tap_index[1, j]) * sy
                    across = across_slope = zero
                    for i in range(taps):
                        value = cast(img[line + np.uint64(tap_index[0, i]) * sx])
                        across += weight[0, i] * value
                        across_slope += slope[0, i] * value
                    step_x += weight[1, j] * across_slope
                    step_y += slope[1, j] * across
                total_x += g[c, u] * step_x
                total_y += g[c, u] * step_y
            total_x, total_y = total_x * call.unit, total_y * call.unit
            if mode == FILLED and len(window) == 0:
                _, cover_x, cover_y = cover_of(weight, slope, taps)
                total_x += to_cover[u] * cover_x
                total_y += to_cover[u] * cover_y
            along_x[u], along_y[u] = total_x, total_y
        if needs[0]:
            for c in range(channels):
                start = at + np.uint64(c) * plane
                for j in range(taps):
                    line = start + np.uint64(tap_index[1, j]) * width
                    share = weight[1, j] * g[c, u]
                    for i in range(taps):
                        gradient[line + np.uint64(tap_index[0, i])] += weight[0, i] * share

"""The adjoint of the gather: what each output pixel's gradient means for its coordinates and for the pixels it read.

Owns: a strip's gradients of x and y, and adding to an image gradient that this thread alone owns, staged or not.
Must not: need atomics; the order is always row by row, pixel by pixel.
Read next: ``../../color/cpu/paint.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.warp.cpu.blocks import BLOCK, slopes_of
from pellucid.kernels.warp.cpu.quads import cubic_slopes, cubic_spread, drop, slopes, spread

__all__ = ["scatter_staged"]


@fused
def _join_all(a, b, c, cover, quads):  # type: ignore[no-untyped-def]
    """Put channels and coverage together into pixels."""
    for u in range(len(a)):
        quads[4 * u], quads[4 * u + 1], quads[4 * u + 2], quads[4 * u + 3] = a[u], b[u], c[u], cover[u]


@fused
def _join(a, lane, quads):  # type: ignore[no-untyped-def]
    for u in range(len(a)):
        quads[4 * u + lane] = a[u]


@fused.noinline
def scatter_staged(stage, taps, needs, shares, cubics, g, to_cover, quads, along):  # type: ignore[no-untyped-def]
    """For pixels that were laid out, of up to three channels: add to ``along`` (x, y) if ``needs[1]``, and their shares to the
    pixels' gradients if ``needs[0]``.

    Args:
        stage: pixels, their gradients, columns, and which pixel is the first that each reads.
        shares: where between it and the next, along x and y.
        cubics: weights of cubic interpolation, which has four taps; None: it is not compiled.
        g, to_cover: gradients of the channels and of the coverage; the latter counts only for coordinates.
        quads: scratch, four numbers per pixel.
    """
    (pixels, into, columns, index), (tx, ty), along_x, along_y = stage, shares, along[0], along[1]
    row, count, n = np.uint64(4 * columns), np.uint64(len(index)), len(index)
    whole = n - n % BLOCK if taps == 2 and len(g) == 3 else 0  # so many have their slopes taken in blocks, the others one by one
    if len(g) == 3:
        _join_all(g[0], g[1], g[2], to_cover, quads)
    else:
        quads[:] = tx.dtype.type(0.0)
        for c in range(len(g)):
            _join(g[c], c, quads)
        _join(to_cover, 3, quads)
    if cubics is not None:
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
                slopes_of(pixels, row, index, tx, ty, np.uint64(u), (g[0], g[1], g[2], to_cover), along_x, along_y)
            for u in range(whole, n):
                i = np.uint64(index[u])
                across, down = slopes(pixels, i, i + row, tx[u], ty[u], quads, np.uint64(4 * u))
                along_x[u] += across
                along_y[u] += down
        if needs[0]:
            for u in range(len(index)):
                i = np.uint64(index[u])
                spread(into, i, i + row, tx[u], ty[u], quads, np.uint64(4 * u))

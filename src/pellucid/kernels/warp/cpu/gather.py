"""Read a strip of output pixels: interpolated colours and coverage, and the adjoint.

Owns: the gather of one strip into buffers, from staged pixels; its gradients to coordinates and to pixels.
Must not: apply colour, or need atomics; the order is always row by row, pixel by pixel.
Read next: ``../../color/cpu/paint.py``.
"""

import numpy as np

from pellucid.kernels.jit import fused
from pellucid.kernels.warp.cpu.quads import (
    BLOCK,
    cubic,
    cubic_moved,
    cubic_slopes,
    cubic_spread,
    drop,
    lerp,
    lerps,
    moved,
    pick,
    slopes,
    slopes_of,
    soon_written,
    spread,
)

__all__ = ["LINE", "gather_moved", "gather_staged", "scatter_staged", "weigh"]

LINE = 64  # bytes of a cache line


@fused
def _part_all(quads, a, b, c, cover):  # type: ignore[no-untyped-def]
    """Take pixels apart into channels and coverage."""
    for u in range(len(a)):
        a[u], b[u], c[u], cover[u] = quads[4 * u], quads[4 * u + 1], quads[4 * u + 2], quads[4 * u + 3]


@fused
def _part(quads, lane, a):  # type: ignore[no-untyped-def]
    for u in range(len(a)):
        a[u] = quads[4 * u + lane]


@fused
def _take_apart(quads, out, cover):  # type: ignore[no-untyped-def]
    if len(out) == 3:
        _part_all(quads, out[0], out[1], out[2], cover)
        return
    for c in range(len(out)):
        _part(quads, c, out[c])
    _part(quads, 3, cover)


@fused
def _lerp_all(pixels, row, index, tx, ty, a, b, c, cover, soon):  # type: ignore[no-untyped-def]
    """Interpolate linearly, a block at a time. The last one may overlap the one before.

    The rows of missing channels may be that of the last channel, which is laid out in their place.
    """
    last = len(index) - BLOCK
    if soon is not None:
        target, top, place, width, step, rows = soon
        first, second, third = target[top], target[top + min(1, max(rows - 1, 0))], target[top + max(rows - 1, 0)]
        column, often = np.int64(0), LINE // target.itemsize
    for u in range(0, last, BLOCK):
        if soon is not None:
            if rows > 0 and u % often == 0:
                soon_written(first, np.uint64(place))
                soon_written(second, np.uint64(place))
                soon_written(third, np.uint64(place))
            place, column = place + BLOCK, column + BLOCK
            if column >= width:
                place, column = place + step - width, column - width
        lerps(pixels, row, index, tx, ty, np.uint64(u), a, b, c, cover)
    lerps(pixels, row, index, tx, ty, np.uint64(last), a, b, c, cover)


@fused.noinline
def weigh(tx, ty, parameter, cubics):  # type: ignore[no-untyped-def]
    """Cubic weights along x and y (rows 0 to 3, 4 to 7) and their slopes (8 to 11, 12 to 15) at positions between pixels; flat."""
    weights = cubics[: 16 * len(tx)].reshape(16, len(tx))
    cast = tx.dtype.type
    one, two, three, a = cast(1.0), cast(2.0), cast(3.0), cast(parameter)
    for k, row in ((0, tx), (4, ty)):
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        s0, s1, s2, s3 = weights[k + 8], weights[k + 9], weights[k + 10], weights[k + 11]
        for u in range(len(row)):
            t = row[u]
            s = one - t
            w0[u], w3[u] = a * t * s * s, a * s * t * t
            w1[u] = one + t * t * ((a + two) * t - (a + three))
            w2[u] = one + s * s * ((a + two) * s - (a + three))
            s0[u], s3[u] = a * s * (s - two * t), a * t * (two * s - t)
            s1[u] = t * (three * (a + two) * t - two * (a + three))
            s2[u] = -s * (three * (a + two) * s - two * (a + three))


@fused.noinline
def gather_staged(pixels, columns, taps, index, tx, ty, cubics, quads, out, cover, soon):  # type: ignore[no-untyped-def]
    """Interpolate staged pixels of up to three channels into the rows of ``out``. Pixels that see nothing become zeros.

    Args:
        cubics: weights of cubic interpolation, which has four taps; None: it is not compiled.
        quads: scratch, four numbers per pixel.
        soon: (array, its first row, place, width, from line to line, rows, up to three): memory that will be written, which
            linear interpolation prefetches while it computes; None: there is none, and it is not compiled.
    """
    row, count = np.uint64(4 * columns), np.uint64(len(index))
    if cubics is not None:
        for u in range(len(index)):
            cubic(pixels, np.uint64(index[u]), row, cubics, count, np.uint64(u), quads, np.uint64(4 * u))
    elif taps == 1:
        for u in range(len(index)):
            pick(pixels, np.uint64(index[u]), quads, np.uint64(4 * u))
    elif len(index) < BLOCK:
        for u in range(len(index)):
            i = np.uint64(index[u])
            lerp(pixels, i, i + row, tx[u], ty[u], quads, np.uint64(4 * u))
    else:
        _lerp_all(pixels, row, index, tx, ty, out[0], out[min(1, len(out) - 1)], out[len(out) - 1], cover, soon)
        return
    _take_apart(quads, out, cover)


@fused.noinline
def gather_moved(pixels, columns, index, tx, ty, dx, dy, cubics, quads, out, cover):  # type: ignore[no-untyped-def]
    """The tangent of :func:`gather_staged` while its points move by (dx, dy); not for the nearest pixel."""
    row, count = np.uint64(4 * columns), np.uint64(len(index))
    if cubics is not None:
        for u in range(len(index)):
            i, at = np.uint64(index[u]), np.uint64(4 * u)
            cubic_moved(pixels, i, row, cubics, count, np.uint64(u), (dx[u], dy[u]), quads, at)
    else:
        for u in range(len(index)):
            i = np.uint64(index[u])
            moved(pixels, i, i + row, tx[u], ty[u], (dx[u], dy[u]), quads, np.uint64(4 * u))
    _take_apart(quads, out, cover)


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
    """The adjoint of :func:`gather_staged`: add the coordinates' gradients to ``along`` (x, y) if ``needs[1]``, and the staged
    pixels' if ``needs[0]``.

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

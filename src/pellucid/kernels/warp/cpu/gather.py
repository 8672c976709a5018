"""Reading a strip of the image: the interpolated colour, its slopes along x and y, and the coverage.

Owns: the gather of one strip of output pixels into buffers, in the image's own units.
Must not: apply colour or write to an image.
Read next: ``scatter.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import apart, fused
from pellucid.kernels.warp.cpu.coordinates import FILLED, resolve

__all__ = ["gather_edge", "gather_faded", "gather_interior", "only_interior", "scale_rows"]


@fused
def _span(kind, a, b):  # type: ignore[no-untyped-def]
    """Trim pixels of other kinds than 2 off both ends."""
    while a < b and kind[a] != 2:
        a += 1
    while b > a and kind[b - 1] != 2:
        b -= 1
    return a, b


@fused
def _one(img, sx, sy, width, kind, index, tx, ty, out):  # type: ignore[no-untyped-def]
    cast = out.dtype.type
    for row in range(0, len(out), width):
        a, b = _span(kind, row, row + width)
        for u in range(a, b):
            i = index[u]
            j = i + sy
            p, q, r, s = cast(img[i]), cast(img[i + sx]), cast(img[j]), cast(img[j + sx])
            top = p + tx[u] * (q - p)
            bottom = r + tx[u] * (s - r)
            out[u] = top + ty[u] * (bottom - top)


@fused
def _three(img0, img1, img2, sx, sy, width, kind, index, tx, ty, out0, out1, out2):  # type: ignore[no-untyped-def]
    cast = out0.dtype.type
    for row in range(0, len(out0), width):
        a, b = _span(kind, row, row + width)
        for u in range(a, b):
            i = index[u]
            j = i + sy
            x, y = tx[u], ty[u]
            p, q, r, s = cast(img0[i]), cast(img0[i + sx]), cast(img0[j]), cast(img0[j + sx])
            top = p + x * (q - p)
            out0[u] = top + y * (r + x * (s - r) - top)
            p, q, r, s = cast(img1[i]), cast(img1[i + sx]), cast(img1[j]), cast(img1[j + sx])
            top = p + x * (q - p)
            out1[u] = top + y * (r + x * (s - r) - top)
            p, q, r, s = cast(img2[i]), cast(img2[i + sx]), cast(img2[j]), cast(img2[j + sx])
            top = p + x * (q - p)
            out2[u] = top + y * (r + x * (s - r) - top)


@fused
def _one_with_slopes(img, sx, sy, width, kind, index, tx, ty, out, along_x, along_y):  # type: ignore[no-untyped-def]
    cast = out.dtype.type
    for row in range(0, len(out), width):
        a, b = _span(kind, row, row + width)
        for u in range(a, b):
            i = index[u]
            j = i + sy
            p, q, r, s = cast(img[i]), cast(img[i + sx]), cast(img[j]), cast(img[j + sx])
            upper, lower = q - p, s - r
            top = p + tx[u] * upper
            down = r + tx[u] * lower - top
            out[u] = top + ty[u] * down
            along_x[u] = upper + ty[u] * (lower - upper)
            along_y[u] = down


@fused
def gather_interior(img, at, channels, sc, sx, sy, width, kind, index, tx, ty, out, slopes):  # type: ignore[no-untyped-def]
    """Bilinear, for the pixels of kind 2 of a strip (and some between them); row c of ``out`` is a channel.

    ``slopes`` is empty or (2 * channels + 2, n): along x, then along y.
    """
    apart()
    one = np.uint64(1)
    c = 0
    if len(slopes) > 0:
        while c < channels:
            plane = img[at + np.uint64(c) * sc :]
            _one_with_slopes(plane, sx, sy, width, kind, index, tx, ty, out[c], slopes[c], slopes[channels + c])
            c += 1
        return
    while c + 3 <= channels:
        start = at + np.uint64(c) * sc
        p, q, r = img[start:], img[start + sc :], img[start + sc + sc :]
        if sx == one:  # the usual case, with its addresses folded
            _three(p, q, r, one, sy, width, kind, index, tx, ty, out[c], out[c + 1], out[c + 2])
        else:
            _three(p, q, r, sx, sy, width, kind, index, tx, ty, out[c], out[c + 1], out[c + 2])
        c += 3
    while c < channels:
        _one(img[at + np.uint64(c) * sc :], sx, sy, width, kind, index, tx, ty, out[c])
        c += 1


@fused
def scale_rows(out, channels, unit):  # type: ignore[no-untyped-def]
    """Multiply rows by a number."""
    apart()
    for k in range(channels):
        row = out[k]
        for u in range(len(row)):
            row[u] *= unit


@fused
def only_interior(kind, whole, cover, out, channels, slopes):  # type: ignore[no-untyped-def]
    """Keep what was read of pixels of kind 2, whose coverage is full; zeros elsewhere. ``whole`` says that there are no others."""
    apart()
    zero, one = cover.dtype.type(0.0), cover.dtype.type(1.0)
    for u in range(len(kind)):
        cover[u] = one if kind[u] == 2 else zero
    if not whole:
        for c in range(channels):
            row = out[c]
            for u in range(len(kind)):
                row[u] = row[u] if kind[u] == 2 else zero
    for c in range(len(slopes)):
        row = slopes[c]
        for u in range(len(kind)):
            row[u] = row[u] if (c < 2 * channels) & (kind[u] == 2) else zero


@fused
def gather_faded(img, at, channels, shape, sc, sx, sy, x, y, kind, out, cover):  # type: ignore[no-untyped-def]
    """The commonest edge, pixels of kind 1 that are bilinear and fade into what lies outside; as :func:`gather_edge` does it."""
    apart()
    cast = cover.dtype.type
    zero, one = cast(0.0), cast(1.0)
    height, width = shape
    for u in range(len(kind)):
        if kind[u] != 1:
            continue
        column, row = np.floor(x[u]), np.floor(y[u])
        i, j = np.int64(column), np.int64(row)
        tx, ty = x[u] - column, y[u] - row
        left, right = (one - tx if i >= 0 else zero), (tx if i + 1 < width else zero)
        upper, lower = (one - ty if j >= 0 else zero), (ty if j + 1 < height else zero)
        i0, i1 = np.uint64(i if i > 0 else 0) * sx, np.uint64(i + 1 if i + 1 < width else i) * sx
        j0, j1 = at + np.uint64(j if j > 0 else 0) * sy, at + np.uint64(j + 1 if j + 1 < height else j) * sy
        for c in range(channels):
            plane = np.uint64(c) * sc
            top = left * cast(img[plane + j0 + i0]) + right * cast(img[plane + j0 + i1])
            bottom = left * cast(img[plane + j1 + i0]) + right * cast(img[plane + j1 + i1])
            out[c, u] = upper * top + lower * bottom
        cover[u] = (left + right) * (upper + lower)


@fused
def gather_edge(  # type: ignore[no-untyped-def]
    img, at, channels, shape, sc, sx, sy, taps, cubic, mode, window, x, y, kind, tap_index, weight, slope, out, cover, slopes
):
    """Any interpolation and border rule, pixel by pixel, for pixels of kind 1; also writes the coverage.

    With ``slopes`` non-empty, its rows 2 * channels and 2 * channels + 1 take the coverage's slopes.
    """
    apart()
    cast = weight.dtype.type
    zero = cast(0.0)
    sloped = len(slopes) > 0
    for u in range(len(kind)):
        if kind[u] != 1:
            continue
        if not resolve(x[u], y[u], shape, taps, cubic, mode, window, tap_index, weight, slope):
            continue
        for c in range(channels):
            total = along_x = along_y = zero
            plane = at + np.uint64(c) * sc
            for j in range(taps):
                line = plane + np.uint64(tap_index[1, j]) * sy
                across = across_slope = zero
                for i in range(taps):
                    value = cast(img[line + np.uint64(tap_index[0, i]) * sx])
                    across += weight[0, i] * value
                    across_slope += slope[0, i] * value
                total += weight[1, j] * across
                along_x += weight[1, j] * across_slope
                along_y += slope[1, j] * across
            out[c, u] = total
            if sloped:
                slopes[c, u], slopes[channels + c, u] = along_x, along_y
        cover_x = cover_y = cast(1.0)
        cover_x_slope = cover_y_slope = zero
        if mode == FILLED and len(window) == 0:
            cover_x = cover_y = zero
            for k in range(taps):
                cover_x += weight[0, k]
                cover_y += weight[1, k]
                cover_x_slope += slope[0, k]
                cover_y_slope += slope[1, k]
        cover[u] = cover_x * cover_y
        if sloped:
            slopes[2 * channels, u], slopes[2 * channels + 1, u] = cover_x_slope * cover_y, cover_x * cover_y_slope

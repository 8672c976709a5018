"""Reading a row of the image: the interpolated colour, its slopes along x and y, and the coverage.

Owns: the gather of one output row into row buffers.
Must not: apply colour or write to an image.
Read next: ``scatter.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import apart, fused
from pellucid.kernels.warp.cpu.coordinates import FILLED, resolve

__all__ = ["gather_edge", "gather_interior"]


@fused
def _one(img, at, sx, sy, index, tx, ty, unit, out):  # type: ignore[no-untyped-def]
    for u in range(len(out)):
        i = index[u] + at
        j = i + sy
        p, q, r, s = unit * img[i], unit * img[i + sx], unit * img[j], unit * img[j + sx]
        top = p + tx[u] * (q - p)
        bottom = r + tx[u] * (s - r)
        out[u] = top + ty[u] * (bottom - top)


@fused
def _three(img, at, sc, sx, sy, index, tx, ty, unit, out0, out1, out2):  # type: ignore[no-untyped-def]
    for u in range(len(out0)):
        i = index[u] + at
        j = i + sy
        x, y = tx[u], ty[u]
        p, q, r, s = unit * img[i], unit * img[i + sx], unit * img[j], unit * img[j + sx]
        top = p + x * (q - p)
        out0[u] = top + y * (r + x * (s - r) - top)
        i += sc
        j += sc
        p, q, r, s = unit * img[i], unit * img[i + sx], unit * img[j], unit * img[j + sx]
        top = p + x * (q - p)
        out1[u] = top + y * (r + x * (s - r) - top)
        i += sc
        j += sc
        p, q, r, s = unit * img[i], unit * img[i + sx], unit * img[j], unit * img[j + sx]
        top = p + x * (q - p)
        out2[u] = top + y * (r + x * (s - r) - top)


@fused
def _one_with_slopes(img, at, sx, sy, index, tx, ty, unit, out, along_x, along_y):  # type: ignore[no-untyped-def]
    for u in range(len(out)):
        i = index[u] + at
        j = i + sy
        p, q, r, s = unit * img[i], unit * img[i + sx], unit * img[j], unit * img[j + sx]
        upper, lower = q - p, s - r
        top = p + tx[u] * upper
        down = r + tx[u] * lower - top
        out[u] = top + ty[u] * down
        along_x[u] = upper + ty[u] * (lower - upper)
        along_y[u] = down


@fused
def gather_interior(img, at, channels, sc, sx, sy, index, tx, ty, unit, out, first, step, slopes, a, b):  # type: ignore[no-untyped-def]
    """Bilinear, all four taps inside, for the span [a, b). Row c of the result is ``out[first + c * step]``.

    ``unit`` converts the image's elements (1, or 1/255). ``slopes`` is empty or (2 * channels, n): along x, then along y.
    """
    apart()
    index, tx, ty = index[a:b], tx[a:b], ty[a:b]
    c = 0
    if len(slopes) > 0:
        while c < channels:
            _one_with_slopes(
                img,
                at + np.uint64(c) * sc,
                sx,
                sy,
                index,
                tx,
                ty,
                unit,
                out[first + c * step][a:b],
                slopes[c][a:b],
                slopes[channels + c][a:b],
            )
            c += 1
        return
    while c + 3 <= channels:
        rows = out[first + c * step][a:b], out[first + (c + 1) * step][a:b], out[first + (c + 2) * step][a:b]
        _three(img, at + np.uint64(c) * sc, sc, sx, sy, index, tx, ty, unit, rows[0], rows[1], rows[2])
        c += 3
    while c < channels:
        _one(img, at + np.uint64(c) * sc, sx, sy, index, tx, ty, unit, out[first + c * step][a:b])
        c += 1


@fused
def gather_edge(  # type: ignore[no-untyped-def]
    img,
    at,
    channels,
    shape,
    sc,
    sx,
    sy,
    taps,
    cubic,
    mode,
    window,
    x,
    y,
    tap_index,
    weight,
    slope,
    unit,
    out,
    first,
    step,
    cover,
    slopes,
    a,
    b,
):
    """Any interpolation and border rule, pixel by pixel, for the span [a, b); also writes the coverage.

    With ``slopes`` non-empty, its rows 2 * channels and 2 * channels + 1 take the coverage's slopes.
    """
    apart()
    cast = weight.dtype.type
    zero = cast(0.0)
    sloped = len(slopes) > 0
    for u in range(a, b):
        if not resolve(x[u], y[u], shape, taps, cubic, mode, window, tap_index, weight, slope):
            cover[u] = zero
            for c in range(channels):
                out[first + c * step, u] = zero
            if sloped:
                slopes[:, u] = zero
            continue
        for c in range(channels):
            total = along_x = along_y = zero
            plane = at + np.uint64(c) * sc
            for j in range(taps):
                line = plane + np.uint64(tap_index[1, j]) * sy
                across = across_slope = zero
                for i in range(taps):
                    value = unit * img[line + np.uint64(tap_index[0, i]) * sx]
                    across += weight[0, i] * value
                    across_slope += slope[0, i] * value
                total += weight[1, j] * across
                along_x += weight[1, j] * across_slope
                along_y += slope[1, j] * across
            out[first + c * step, u] = total
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

"""The adjoint of the gather: each output pixel gives its gradient back to its taps.

Owns: adding one row into an image gradient that this thread alone owns.
Must not: need atomics; the order is always row by row, pixel by pixel.
Read next: ``stages.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import apart, fused
from pellucid.kernels.warp.cpu.coordinates import fractions, resolve

__all__ = ["scatter_edge", "scatter_interior"]


@fused
def _one(gradient, at, width, index, tx, ty, g):  # type: ignore[no-untyped-def]
    for u in range(len(g)):
        i = index[u] + at
        j = i + width
        lower = ty[u] * g[u]
        upper = g[u] - lower
        right, lower_right = tx[u] * upper, tx[u] * lower
        gradient[i] += upper - right
        gradient[i + np.uint64(1)] += right
        gradient[j] += lower - lower_right
        gradient[j + np.uint64(1)] += lower_right


@fused
def _three(gradient, at, plane, width, index, tx, ty, g0, g1, g2):  # type: ignore[no-untyped-def]
    """Three channels at once: neighbouring pixels add to the same element, and three such chains overlap in time."""
    one = np.uint64(1)
    for u in range(len(g0)):
        i = index[u] + at
        j = i + width
        x, y = tx[u], ty[u]
        for g in (g0[u], g1[u], g2[u]):
            lower = y * g
            upper = g - lower
            right, lower_right = x * upper, x * lower
            gradient[i] += upper - right
            gradient[i + one] += right
            gradient[j] += lower - lower_right
            gradient[j + one] += lower_right
            i += plane
            j += plane


@fused
def scatter_interior(gradient, at, channels, plane, width, index, tx, ty, g, a, b, stride_x, stride_y, x, y):  # type: ignore[no-untyped-def]
    """Bilinear, all four taps inside, for the span [a, b); the gradient is contiguous, whatever strides the image has."""
    apart()
    if stride_x != 1 or stride_y != width:
        fractions(x[a:b], y[a:b], 1, np.int64(width), index[a:b], tx[a:b], ty[a:b])
    index, tx, ty = index[a:b], tx[a:b], ty[a:b]
    c = 0
    while c + 3 <= channels:
        _three(gradient, at + np.uint64(c) * plane, plane, width, index, tx, ty, g[c][a:b], g[c + 1][a:b], g[c + 2][a:b])
        c += 3
    while c < channels:
        _one(gradient, at + np.uint64(c) * plane, width, index, tx, ty, g[c][a:b])
        c += 1


@fused
def scatter_edge(  # type: ignore[no-untyped-def]
    gradient, at, channels, shape, taps, cubic, mode, window, x, y, tap_index, weight, slope, g, a, b
):
    """Any interpolation and border rule, pixel by pixel, for the span [a, b)."""
    apart()
    width = np.uint64(shape[1])
    plane = np.uint64(shape[0]) * width
    for u in range(a, b):
        if not resolve(x[u], y[u], shape, taps, cubic, mode, window, tap_index, weight, slope):
            continue
        for c in range(channels):
            start = at + np.uint64(c) * plane
            for j in range(taps):
                line = start + np.uint64(tap_index[1, j]) * width
                share = weight[1, j] * g[c, u]
                for i in range(taps):
                    gradient[line + np.uint64(tap_index[0, i])] += weight[0, i] * share

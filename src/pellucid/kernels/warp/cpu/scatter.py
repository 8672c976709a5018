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
def scatter_interior(gradient, at, channels, plane, width, index, tx, ty, g, a, b, stride_x, stride_y, x, y):  # type: ignore[no-untyped-def]
    """Bilinear, all four taps inside, for the span [a, b); the gradient is contiguous, whatever strides the image has."""
    apart()
    if stride_x != 1 or stride_y != width:
        fractions(x[a:b], y[a:b], 1, np.int64(width), index[a:b], tx[a:b], ty[a:b])
    for c in range(channels):
        _one(gradient, at + np.uint64(c) * plane, width, index[a:b], tx[a:b], ty[a:b], g[c][a:b])


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

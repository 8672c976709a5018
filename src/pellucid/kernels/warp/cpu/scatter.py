"""The adjoint of the gather: each output pixel gives its gradient back to its taps.

Owns: adding one strip into an image gradient that this thread alone owns.
Must not: need atomics; the order is always row by row, pixel by pixel.
Read next: ``stages.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import apart, fused
from pellucid.kernels.warp.cpu.coordinates import resolve

__all__ = ["scatter_edge", "scatter_interior"]


@fused
def _one(gradient, at, width, kind, index, tx, ty, g):  # type: ignore[no-untyped-def]
    for u in range(len(g)):
        if kind[u] != 2:
            continue
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
def _three(gradient, at, plane, width, kind, index, tx, ty, g0, g1, g2):  # type: ignore[no-untyped-def]
    """Three channels at once: neighbouring pixels add to the same element, and three such chains overlap in time."""
    one = np.uint64(1)
    for u in range(len(g0)):
        if kind[u] != 2:
            continue
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
def scatter_interior(gradient, at, channels, plane, width, kind, index, tx, ty, g):  # type: ignore[no-untyped-def]
    """Bilinear, for the pixels of kind 2; ``index`` counts elements of the gradient, which is contiguous."""
    apart()
    c = 0
    while c + 3 <= channels:
        _three(gradient, at + np.uint64(c) * plane, plane, width, kind, index, tx, ty, g[c], g[c + 1], g[c + 2])
        c += 3
    while c < channels:
        _one(gradient, at + np.uint64(c) * plane, width, kind, index, tx, ty, g[c])
        c += 1


@fused
def scatter_edge(  # type: ignore[no-untyped-def]
    gradient, at, channels, shape, taps, cubic, mode, window, x, y, kind, tap_index, weight, slope, g
):
    """Any interpolation and border rule, pixel by pixel, for the pixels of kind 1."""
    apart()
    width = np.uint64(shape[1])
    plane = np.uint64(shape[0]) * width
    for u in range(len(kind)):
        if kind[u] != 1:
            continue
        if not resolve(x[u], y[u], shape, taps, cubic, mode, window, tap_index, weight, slope):
            continue
        for c in range(channels):
            start = at + np.uint64(c) * plane
            for j in range(taps):
                line = start + np.uint64(tap_index[1, j]) * width
                share = weight[1, j] * g[c, u]
                for i in range(taps):
                    gradient[line + np.uint64(tap_index[0, i])] += weight[0, i] * share

"""Integer images: every output pixel is a copy of its nearest input pixel, or the fill.

Owns: the compiled loop for masks; integers of one width share it, whatever their sign.
Must not: interpolate.
Read next: ``op.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, fused, noinline, without_refcount
from pellucid.kernels.warp.cpu.coordinates import BORDER, displace, half_up, locate, resolve

__all__ = ["copy_labels"]


@fused
def _nearest(x, y, last_x, last_y, held, stride_x, stride_y, index):  # type: ignore[no-untyped-def]
    """The offset of the pixel nearest to each coordinate, or -1: outside the image where ``held`` is false, never where it is true
    and the coordinate is a number.
    """
    noinline()
    cast = x.dtype.type
    zero, far = cast(0.0), cast(np.inf)
    half_x, half_y = half_up(last_x + 1, cast), half_up(last_y + 1, cast)
    for u in range(len(x)):
        finite = (abs(x[u]) < far) & (abs(y[u]) < far)
        column, row = np.floor(x[u] + half_x), np.floor(y[u] + half_y)
        inside = (column >= zero) & (column <= last_x) & (row >= zero) & (row <= last_y)
        seen = finite & (inside | held)
        column, row = min(max(column, zero), last_x), min(max(row, zero), last_y)
        at = np.int64(row if seen else zero) * stride_y + np.int64(column if seen else zero) * stride_x
        index[u] = at if seen else np.int64(-1)


@fused
def _copy(img, base, index, fill, out):  # type: ignore[no-untyped-def]
    noinline()
    for u in range(len(index)):
        out[u] = img[base + np.uint64(index[u])] if index[u] >= 0 else fill


@entry
def copy_labels(  # type: ignore[no-untyped-def]
    img, meta, maps, windows, fills, fields, out, floats, index, tap_index, weight, slope, start, stop
):
    """Compute the output rows start <= b * height + v < stop; ``meta`` begins as in ``strips.py``."""
    img, maps, windows, fills, out, floats = (
        without_refcount(img),
        without_refcount(maps),
        without_refcount(windows),
        without_refcount(fills),
        without_refcount(out),
        without_refcount(floats),
    )
    index, tap_index, weight, slope = (
        without_refcount(index),
        without_refcount(tap_index),
        without_refcount(weight),
        without_refcount(slope),
    )
    channels, height, mode = meta[1], meta[5], meta[12]
    shape = (meta[2], meta[3])
    width = meta[6]
    rows = floats[: 5 * width].reshape(5, width)
    ramp, zeros, x, y, w = rows[0], rows[1], rows[2], rows[3], rows[4]
    last_x, last_y = floats.dtype.type(shape[1] - 1), floats.dtype.type(shape[0] - 1)
    for u in range(width):
        ramp[u], zeros[u] = u, 0
    for r in range(start, stop):
        b = r // height
        v = r - b * height
        window, fill = windows[b * meta[16]], fills[b * meta[17]]
        locate(maps[b * meta[15]], v, meta[13], ramp, zeros, x, y, w)
        if fields is not None and fields.size > 0:
            displace(fields, 2 * b * meta[21], v * width, width, width, x, y)
        if len(window) == 0 and mode <= BORDER:
            _nearest(x, y, last_x, last_y, mode == BORDER, meta[10], meta[9], index)
        else:
            for u in range(len(ramp)):
                seen = resolve(x[u], y[u], shape, 1, 0.0, mode, window, tap_index, weight, slope)
                seen = seen and weight[0, 0] * weight[1, 0] > 0
                index[u] = tap_index[1, 0] * meta[9] + tap_index[0, 0] * meta[10] if seen else -1
        for c in range(channels):
            _copy(img, np.uint64(b * meta[7] + c * meta[8]), index, fill[c], out[(b * channels + c) * height + v])

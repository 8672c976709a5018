"""Integer images: every output pixel is a copy of its nearest input pixel, or the fill.

Owns: the compiled loop for masks; integers of one width share it, whatever their sign.
Must not: interpolate.
Read next: ``op.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import borrow, entry
from pellucid.kernels.warp.cpu.coordinates import displace, locate, resolve

__all__ = ["copy_labels"]


@entry
def copy_labels(img, meta, maps, windows, fills, fields, out, floats, tap_index, tables, start, stop):  # type: ignore[no-untyped-def]
    """Compute the output rows start <= b * height + v < stop; ``meta`` begins as in ``sweep.py``."""
    img, maps, windows, fills, out, floats = borrow(img), borrow(maps), borrow(windows), borrow(fills), borrow(out), borrow(floats)
    tap_index, weight, slope = borrow(tap_index), borrow(tables)[0], borrow(tables)[1]
    fields = borrow(fields)
    channels, height = meta[1], meta[5]
    shape = (meta[2], meta[3])
    width = meta[6]
    rows = floats[: 5 * width].reshape(5, width)
    ramp, zeros, x, y, w = rows[0], rows[1], rows[2], rows[3], rows[4]
    for u in range(width):
        ramp[u], zeros[u] = u, 0
    for r in range(start, stop):
        b = r // height
        v = r - b * height
        window, fill = windows[b * meta[16]], fills[b * meta[17]]
        locate(maps[b * meta[15]], v, meta[13], ramp, zeros, x, y, w)
        if fields.size > 0:
            displace(fields, 2 * b * meta[19], v * width, x, y)
        for u in range(len(ramp)):
            seen = resolve(x[u], y[u], shape, 1, 0.0, meta[12], window, tap_index, weight, slope)
            seen = seen and weight[0, 0] * weight[1, 0] > 0
            at = np.uint64(b * meta[7])
            if seen:
                at += np.uint64(tap_index[1, 0] * meta[9] + tap_index[0, 0] * meta[10])
            for c in range(channels):
                out[(b * channels + c) * height + v, u] = img[at + np.uint64(c * meta[8])] if seen else fill[c]

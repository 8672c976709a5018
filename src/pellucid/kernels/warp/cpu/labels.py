"""Integer images: every output pixel is a copy of its nearest input pixel, or the fill.

Owns: the compiled loop for masks; integers of one width share it, whatever their sign.
Must not: interpolate.
Read next: ``op.py``.
"""

from __future__ import annotations

import numpy as np

from pellucid.kernels.jit import entry, fused, noinline, without_refcount
from pellucid.kernels.warp.cpu.coordinates import BORDER, displace, half_up, locate, resolve
from pellucid.kernels.warp.cpu.links import follow

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
def copy_labels(img, call, rows, fields, chain, out, floats, index, cells, taps, start, stop):  # type: ignore[no-untyped-def]
    """Compute the output rows start <= b * height + v < stop; the parameters are the fills: the image's, then the canvases'."""
    img, out, floats, index = without_refcount(img), without_refcount(out), without_refcount(floats), without_refcount(index)
    maps, windows, fills = without_refcount(rows.maps), without_refcount(rows.windows), without_refcount(rows.params)
    tap_index, weight, slope = without_refcount(taps[0]), without_refcount(taps[1]), without_refcount(taps[2])
    channels, height, mode = call.channels, call.out_height, call.mode
    shape = (call.height, call.width)
    width = call.out_width
    lines, pairs, cells = floats[: 8 * width].reshape(8, width), floats[8 * width :], without_refcount(cells)
    ramp, zeros, x, y, w = lines[0], lines[1], lines[2], lines[3], lines[4]
    last_x, last_y = floats.dtype.type(shape[1] - 1), floats.dtype.type(shape[0] - 1)
    for u in range(width):
        ramp[u], zeros[u] = u, 0
    numbers = np.zeros(0 if chain is None else len(chain.kinds), floats.dtype)
    for k in range(len(numbers)):
        numbers[k] = k + 1
    for r in range(start, stop):
        b = r // height
        v = r - b * height
        window, fill = windows[b * call.window_step], fills[b * call.param_step]
        m, cut = maps[b * call.map_step], False
        if chain is None:
            locate(m, v, call.projective, ramp, zeros, x, y, w)
            if fields is not None and fields.size > 0:
                displace(fields, 2 * b * call.field_step, v * width, width, width, x, y)
        else:  # whose ground says which canvas ends here: edges are hard
            cut = follow(chain, m, b, v, (height, width), numbers, 1, ramp, zeros, x, y, w, cells, pairs, lines[5:])
        if len(window) == 0 and mode <= BORDER:
            _nearest(x, y, last_x, last_y, mode == BORDER, call.stride_x, call.stride_y, index)
        else:
            for u in range(len(ramp)):
                seen = resolve(x[u], y[u], shape, 1, 0.0, mode, window, tap_index, weight, slope)
                seen = seen and weight[0, 0] * weight[1, 0] > 0
                index[u] = tap_index[1, 0] * call.stride_y + tap_index[0, 0] * call.stride_x if seen else -1
        for c in range(channels):
            row = out[(b * channels + c) * height + v]
            _copy(img, np.uint64(b * call.stride_b + c * call.stride_c), index, fill[c], row)
            if cut:
                for u in range(width):
                    if lines[7, u] > 0:
                        row[u] = fill[np.int64(lines[7, u]) * channels + c]
